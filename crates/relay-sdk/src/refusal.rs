//! What a refusal says, in the two forms that the server has.

use http::StatusCode;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::wire;
use serde::Deserialize;

/// Reads a refusal.
pub(crate) type ReadRefusal = fn(StatusCode, &[u8]) -> Box<Problem>;

/// The type of a problem that nobody but the status tells of.
pub(crate) const NOT_FROM_RELAY: &str = "about:blank";

/// A refusal in the form of the routes about chats.
#[derive(Deserialize)]
struct ChatRefusal {
    error: String,
    #[serde(default)]
    code: serde_json::Value,
}

impl ChatRefusal {
    fn problem(self, status: StatusCode) -> Problem {
        let named = serde_json::from_value(self.code).ok();
        let code = named.unwrap_or(match status {
            StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
            StatusCode::FORBIDDEN => ErrorCode::Forbidden,
            StatusCode::NOT_FOUND => ErrorCode::UnknownSession,
            status if status.is_server_error() => ErrorCode::Overloaded,
            _ => ErrorCode::InvalidRequest,
        });
        Problem {
            status: status.as_u16(),
            ..Problem::new(code, self.error)
        }
    }
}

/// The problem in an answer, or one that says that there is none.
pub(crate) fn problem(status: StatusCode, body: &[u8]) -> Box<Problem> {
    wire::decode_lenient(body).unwrap_or_else(|_| {
        let detail = format!("the answer {status} does not come from Relay");
        let code = match status {
            StatusCode::UNAUTHORIZED => ErrorCode::Unauthorized,
            status if status.is_server_error() => ErrorCode::Overloaded,
            _ => ErrorCode::InvalidRequest,
        };
        Box::new(Problem {
            problem_type: NOT_FROM_RELAY.to_owned(),
            status: status.as_u16(),
            ..Problem::new(code, detail)
        })
    })
}

/// The problem in an answer of a route about chats.
pub(crate) fn chat_problem(status: StatusCode, body: &[u8]) -> Box<Problem> {
    match serde_json::from_slice::<ChatRefusal>(body) {
        Ok(refusal) => Box::new(refusal.problem(status)),
        Err(_) => problem(status, body),
    }
}
