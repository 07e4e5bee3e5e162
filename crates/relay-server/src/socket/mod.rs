//! stub
use crate::table::{Described, Route};
use axum::http::StatusCode;
pub(crate) fn route() -> Route {
    Route::special(
        "/v1/ws",
        "The live door.",
        &[],
        |_| Described {
            path: vec![],
            query: None,
            body: None,
            answer: (StatusCode::SWITCHING_PROTOCOLS, serde_json::Value::Null),
        },
        |_, _| async { crate::refusal::Refusal::unsupported("ws", "x").into_response() },
    )
}
