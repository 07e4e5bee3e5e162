//! The body of `POST /chat/relay/{relayId}`, checked in the order of the contract: JSON, required fields, types. A boolean is a boolean:
//! a string `"false"` approves nothing.

use relay_protocol::permission::{PermissionResponse, ResolvePermission};
use relay_protocol::wire::decode_value;
use serde_json::Value;

use crate::refusal::Refusal;

/// The door by which such a decision comes, for the record.
const VIA: &str = "chat";

/// A decision, and the chat it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayAnswer {
    /// The chat, as the client calls it.
    pub session_id: String,
    /// The decision.
    pub decision: ResolvePermission,
}

impl RelayAnswer {
    /// Reads a body.
    pub fn read(body: &[u8]) -> Result<Self, Refusal> {
        let body: Value = serde_json::from_slice(body).map_err(|_| Refusal::no_json())?;
        let Value::Object(mut body) = body else {
            return Err(Refusal::shape("the body", "an object"));
        };
        let session_id = body.remove("sessionId").filter(|id| !is_falsy(id));
        let response = body.remove("response").filter(|it| !it.is_null());
        let (Some(session_id), Some(response)) = (session_id, response) else {
            return Err(Refusal::session_and_response());
        };
        let Value::String(session_id) = session_id else {
            return Err(Refusal::shape("sessionId", "a string"));
        };
        let response: PermissionResponse =
            decode_value(response).map_err(|error| Refusal::decoding("response", &error))?;
        let response_id = match body.remove("responseId") {
            None | Some(Value::Null) => None,
            Some(Value::String(id)) => Some(id),
            Some(_) => return Err(Refusal::shape("responseId", "a string")),
        };
        Ok(Self {
            session_id,
            decision: decision(response, response_id),
        })
    }
}

/// What counts as missing.
fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        _ => false,
    }
}

fn decision(response: PermissionResponse, response_id: Option<String>) -> ResolvePermission {
    ResolvePermission {
        // On a refusal it means nothing.
        always: response.always.filter(|_| response.approved),
        via: Some(VIA.to_owned()),
        response_id,
        ..response.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<RelayAnswer, Refusal> {
        RelayAnswer::read(body.to_string().as_bytes())
    }

    #[test]
    fn in_the_order_of_the_contract() {
        for body in ["", "{", "yes"] {
            let refused = RelayAnswer::read(body.as_bytes()).unwrap_err();
            assert_eq!(
                (refused.status, refused.body),
                (400, json!({ "error": "Invalid JSON body" }))
            );
        }
        let missing = json!({ "error": "sessionId and response are required" });
        for body in [
            json!({}),
            json!({ "sessionId": "s" }),
            json!({ "response": { "approved": true } }),
            json!({ "sessionId": "", "response": { "approved": true } }),
            json!({ "sessionId": null, "response": 5 }),
            json!({ "sessionId": "s", "response": null }),
        ] {
            let refused = read(&body).unwrap_err();
            assert_eq!((refused.status, &refused.body), (400, &missing), "{body}");
        }
        for body in [
            json!(null),
            json!("yes"),
            json!({ "sessionId": 5, "response": { "approved": true } }),
            json!({ "sessionId": "s", "response": {} }),
            json!({ "sessionId": "s", "response": [] }),
            json!({ "sessionId": "s", "response": "yes" }),
            json!({ "sessionId": "s", "response": true }),
            json!({ "sessionId": "s", "response": { "approved": "false" } }),
            json!({ "sessionId": "s", "response": { "approved": 1 } }),
            json!({ "sessionId": "s", "response": { "approved": true, "allways": true } }),
            json!({ "sessionId": "s", "response": { "approved": true }, "responseId": 5 }),
        ] {
            let refused = read(&body).unwrap_err();
            assert_eq!(refused.status, 400, "{body}");
            assert_eq!(refused.body["code"], "invalid_body", "{body}");
        }
    }

    #[test]
    fn what_a_decision_says() {
        let answer = read(&json!({
            "sessionId": "s",
            "response": { "approved": false, "always": true, "reason": "no", "stop": true },
            "responseId": "r",
        }));
        let RelayAnswer {
            session_id,
            decision,
        } = answer.unwrap();
        assert_eq!(session_id, "s");
        assert!(!decision.approved);
        assert_eq!(decision.always, None);
        assert_eq!(decision.stop, Some(true));
        assert_eq!(decision.reason.as_deref(), Some("no"));
        assert_eq!(decision.via.as_deref(), Some("chat"));
        assert_eq!(decision.response_id.as_deref(), Some("r"));
    }
}
