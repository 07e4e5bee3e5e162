//! Refusals: every error leaves the server as an RFC 9457 problem.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{Response, StatusCode};
use relay_core::Error;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::wire::DecodeError;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request is not done.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Box<Problem>);

impl Refusal {
    /// A refusal with its own sentence.
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(code, detail)))
    }

    /// A field with something that can't be there.
    pub(crate) fn invalid(path: &str, expected: impl Into<String>, found: &str) -> Self {
        let expected = expected.into();
        let mut problem = Problem::new(
            ErrorCode::InvalidRequest,
            format!("{path}: expected {expected}, found {found:?}"),
        );
        problem.path = Some(path.to_owned());
        problem.expected = Some(expected);
        problem.found = Some(found.to_owned());
        Self(Box::new(problem))
    }

    /// JSON that is not of the expected shape.
    pub(crate) fn decoding(error: &DecodeError) -> Self {
        let mut problem = Problem::new(ErrorCode::InvalidRequest, error.to_string());
        problem.path = (!error.path.is_empty()).then(|| error.path.clone());
        Self(Box::new(problem))
    }

    /// Too much in too short a time.
    pub(crate) fn rate_limited(detail: &str, wait: std::time::Duration) -> Self {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        Self(Box::new(Problem {
            retry_after_ms: Some(millis),
            ..Problem::new(ErrorCode::RateLimited, detail)
        }))
    }

    /// The answer.
    pub(crate) fn into_response(self) -> Response<Body> {
        let problem = *self.0;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = %problem.code, "a request failed: {}", problem.title);
        }
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if problem.code == ErrorCode::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(millis) = problem.retry_after_ms {
            headers.insert(RETRY_AFTER, millis.div_ceil(1_000).into());
        }
        response
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(Box::new(error.problem()))
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Box<Problem>> for Refusal {
    fn from(problem: Box<Problem>) -> Self {
        Self(problem)
    }
}
