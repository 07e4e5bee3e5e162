//! Messages: what a line is, and lines to be written.

use serde::Serialize;
use serde_json::{Value, json};

/// The parameters of a call are not what it needs.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// There is no such method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// Something went wrong inside.
pub(crate) const INTERNAL_ERROR: i64 = -32603;
/// The caller took its call back.
pub(crate) const REQUEST_CANCELLED: i64 = -32800;

/// An answer that says no.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    fn read(error: Value) -> Self {
        Self {
            code: error["code"].as_i64().unwrap_or(INTERNAL_ERROR),
            message: match &error["message"] {
                Value::String(message) => message.clone(),
                _ => "an error without a message".to_owned(),
            },
            data: error.get("data").cloned(),
        }
    }
}

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A call that wants an answer under this id, whatever that is.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// A call that wants none.
    Notification { method: String, params: Value },
    /// The answer to one of ours.
    Response {
        id: Value,
        result: Result<Value, RpcError>,
    },
}

impl Message {
    /// Reads a line; nothing when it is no message.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
            return None;
        };
        let id = message.remove("id");
        match (message.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Some(Self::Request {
                id,
                method,
                params: message.remove("params").unwrap_or_default(),
            }),
            (Some(Value::String(method)), None) => Some(Self::Notification {
                method,
                params: message.remove("params").unwrap_or_default(),
            }),
            (None, Some(id)) => {
                let error = message.remove("error").filter(|error| !error.is_null());
                let result = match (error, message.remove("result")) {
                    (Some(error), _) => Err(RpcError::read(error)),
                    (None, Some(result)) => Ok(result),
                    (None, None) => return None,
                };
                Some(Self::Response { id, result })
            }
            _ => None,
        }
    }
}

/// A call, as a line.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// A call that wants no answer, as a line.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// An answer, as a line.
pub(crate) fn response(id: &Value, result: &Result<Value, RpcError>) -> Vec<u8> {
    match result {
        Ok(result) => line(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Err(RpcError {
            code,
            message,
            data,
        }) => {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data.clone();
            }
            line(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
        }
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // A JSON value always has a text.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_what_they_are() {
        let table = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}"#,
                "request 1 a",
            ),
            (r#"{"id":"x","method":"a"}"#, "request \"x\" a"),
            (r#"{"id":null,"method":"a"}"#, "request null a"),
            (r#"{"method":"a"}"#, "notification a"),
            (r#"{"id":1,"result":null}"#, "ok 1 null"),
            (r#"{"id":1,"result":2,"error":null}"#, "ok 1 2"),
            (
                r#"{"id":1,"error":{"code":-32000,"message":"m"}}"#,
                "error 1 -32000 m",
            ),
            (
                r#"{"id":1,"error":"odd"}"#,
                "error 1 -32603 an error without a message",
            ),
            (r#"{"id":1}"#, "none"),
            (r#"{"method":3,"id":1}"#, "none"),
            ("[]", "none"),
            (r#"[{"id":1,"result":1}]"#, "none"),
            ("3", "none"),
            ("plain words", "none"),
            ("", "none"),
            ("{\"id\":1,\"result\":\"\u{0}\"}", "none"),
        ];
        for (text, expected) in table {
            let said = match Message::read(text.as_bytes()) {
                Some(Message::Request { id, method, .. }) => format!("request {id} {method}"),
                Some(Message::Notification { method, .. }) => format!("notification {method}"),
                Some(Message::Response {
                    id,
                    result: Ok(result),
                }) => format!("ok {id} {result}"),
                Some(Message::Response {
                    id,
                    result: Err(error),
                }) => {
                    format!("error {id} {} {}", error.code, error.message)
                }
                None => "none".to_owned(),
            };
            assert_eq!(said, expected, "{text}");
        }
        assert_eq!(Message::read(b"{\"id\":1,\"result\":\"\xff\"}"), None);
    }
}
