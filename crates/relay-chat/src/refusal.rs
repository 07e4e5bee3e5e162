//! What is answered when something can't be: a status, and a body with `error`. Texts that the contract has are answered byte for byte;
//! others have a `code` beside them.

use std::fmt;

use relay_protocol::permission::PermissionOutcome;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::wire::DecodeError;
use serde_json::{Value, json};

/// Why something was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: u16,
    /// Its body.
    pub body: Value,
}

impl Refusal {
    /// A refusal in the words of the contract.
    fn plain(status: u16, error: &str) -> Self {
        let body = json!({ "error": error });
        Self { status, body }
    }

    fn coded(status: u16, code: &str, error: impl Into<String>) -> Self {
        let body = json!({ "error": error.into(), "code": code });
        Self { status, body }
    }

    pub(crate) fn no_json() -> Self {
        Self::plain(400, "Invalid JSON body")
    }

    pub(crate) fn model_and_messages() -> Self {
        Self::plain(400, "model and messages are required")
    }

    pub(crate) fn session_and_response() -> Self {
        Self::plain(400, "sessionId and response are required")
    }

    pub(crate) fn no_session() -> Self {
        Self::plain(404, "Session not found")
    }

    pub(crate) fn no_relay() -> Self {
        Self::plain(404, "Relay not found")
    }

    /// The body has another shape than it should.
    #[must_use]
    pub fn shape(place: &str, expected: &str) -> Self {
        Self::coded(400, "invalid_body", format!("{place}: expected {expected}"))
    }

    pub(crate) fn decoding(under: &str, error: &DecodeError) -> Self {
        let place = match error.path.as_str() {
            "" => under.to_owned(),
            inside => format!("{under}.{inside}"),
        };
        Self::coded(400, "invalid_body", format!("{place}: {}", error.message))
    }

    /// No such agent.
    pub(crate) fn unknown_agent(error: &impl fmt::Display) -> Self {
        Self::coded(400, "unknown_agent", error.to_string())
    }

    /// There is no more room.
    #[must_use]
    pub fn too_many(what: &str, most: usize) -> Self {
        let error = format!("there are {most} {what} already; try again when one has ended");
        let mut refusal = Self::coded(429, "limit_exceeded", error);
        refusal.body["retryable"] = json!(true);
        refusal
    }

    /// The server ends.
    #[must_use]
    pub fn stopping() -> Self {
        Self::coded(503, "overloaded", "the server is about to stop")
    }

    pub(crate) fn no_random_bits() -> Self {
        let error = "the system gives no random bits for the name of a chat; try again";
        Self::coded(500, "internal", error)
    }

    /// A decision that came too late: to a client that knows nothing else the request is not there.
    fn too_late(outcome: Option<&PermissionOutcome>) -> Self {
        let mut refusal = Self::coded(404, "relay_already_resolved", "Relay not found");
        if let Some(outcome) = outcome {
            refusal.body["decision"] = json!(outcome.decision);
            refusal.body["by"] = json!(outcome.by);
            refusal.body["at"] = json!(outcome.at);
        }
        refusal
    }

    /// What the relay says, in the words of this contract.
    #[must_use]
    pub fn of(problem: &Problem) -> Self {
        match problem.code {
            ErrorCode::UnknownPermission => Self::no_relay(),
            ErrorCode::PermissionResolved => Self::too_late(problem.outcome.as_deref()),
            code => {
                let mut refusal =
                    Self::coded(problem.status, code.as_str(), problem.detail.clone());
                if problem.retryable {
                    refusal.body["retryable"] = json!(true);
                }
                refusal
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.body["error"].as_str().unwrap_or_default())
    }
}
