//! The body of `POST /chat`, read strictly: what is wrong is said before a stream begins.

use std::time::Duration;

use relay_protocol::limits::CHAT_HOLD_MAX_S;
use relay_protocol::permission::Permissions;
use relay_protocol::wire::decode_value;
use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// A chat that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// Who answers.
    pub with: With,
    /// What was said so far, as the client wrote it; a list.
    pub messages: Value,
    /// The rules of its calls.
    pub permissions: Option<Permissions>,
    /// What becomes of it when nobody looks.
    pub on_disconnect: OnDisconnect,
}

/// Who answers in a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum With {
    /// A model, in the loop of ours.
    Model(String),
    /// A coding agent.
    Agent(String),
}

/// What becomes of a chat when nobody looks at it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It is cancelled at once.
    #[default]
    Cancel,
    /// It goes on for so long, and is cancelled then.
    Hold(Duration),
}

impl ChatRequest {
    /// Reads a body. `default_model` is taken when none is named.
    pub fn read(body: &[u8], default_model: Option<&str>) -> Result<Self, Refusal> {
        let body: Value = serde_json::from_slice(body).map_err(|_| Refusal::no_json())?;
        let Value::Object(mut body) = body else {
            return Err(Refusal::shape("the body", "an object"));
        };
        let with = with(&body, default_model)?;
        known(&body)?;
        let messages = body.remove("messages").filter(|it| !it.is_null());
        let (Some(with), Some(messages)) = (with, messages) else {
            return Err(Refusal::model_and_messages());
        };
        if !messages.is_array() {
            return Err(Refusal::shape("messages", "a list"));
        }
        Ok(Self {
            with,
            messages,
            permissions: permissions(body.remove("permissions"))?,
            on_disconnect: on_disconnect(body.get("onDisconnect"))?,
        })
    }
}

fn with(body: &Map<String, Value>, default_model: Option<&str>) -> Result<Option<With>, Refusal> {
    let model = name(body, "model")?;
    match (name(body, "agent")?, model) {
        (Some(_), Some(_)) => Err(Refusal::shape("agent", "a model or an agent, not both")),
        (Some(agent), None) => Ok(Some(With::Agent(agent))),
        (None, Some(model)) => Ok(Some(With::Model(model))),
        (None, None) => Ok(default_model.map(|model| With::Model(model.to_owned()))),
    }
}

/// Fields of other modes of the contract's first implementation; they have no meaning here.
const OF_OTHER_MODES: &[&str] = &["context", "maxIterations", "maxDepth", "execCwd"];

/// A misspelt field would be a wish that nobody hears.
fn known(body: &Map<String, Value>) -> Result<(), Refusal> {
    const FIELDS: &[&str] = &[
        "model",
        "agent",
        "messages",
        "permissions",
        "onDisconnect",
        "mode",
    ];
    let is_known = |field: &str| FIELDS.contains(&field) || OF_OTHER_MODES.contains(&field);
    if let Some(field) = body.keys().find(|field| !is_known(field)) {
        return Err(Refusal::shape(
            field,
            &format!("one of {}", FIELDS.join(", ")),
        ));
    }
    match body.get("mode") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(mode)) if mode == "agent" => Ok(()),
        Some(_) => Err(Refusal::shape("mode", "\"agent\", the only one there is")),
    }
}

/// A name; an empty one is none.
fn name(body: &Map<String, Value>, field: &str) -> Result<Option<String>, Refusal> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(name)) if name.is_empty() => Ok(None),
        Some(Value::String(name)) => Ok(Some(name.clone())),
        Some(_) => Err(Refusal::shape(field, "a string")),
    }
}

fn permissions(found: Option<Value>) -> Result<Option<Permissions>, Refusal> {
    match found {
        None | Some(Value::Null) => Ok(None),
        Some(found) => match decode_value(found) {
            Ok(permissions) => Ok(Some(permissions)),
            Err(error) => Err(Refusal::decoding("permissions", &error)),
        },
    }
}

/// `{"hold": seconds}`, or `"cancel"`, which is what happens anyway.
fn on_disconnect(found: Option<&Value>) -> Result<OnDisconnect, Refusal> {
    let expected = format!("\"cancel\", or {{\"hold\": seconds}} with 1 to {CHAT_HOLD_MAX_S}");
    let wrong = || Refusal::shape("onDisconnect", &expected);
    let hold = match found {
        None | Some(Value::Null) => return Ok(OnDisconnect::Cancel),
        Some(Value::String(word)) if word == "cancel" => return Ok(OnDisconnect::Cancel),
        Some(Value::Object(fields)) if fields.len() == 1 => fields.get("hold"),
        Some(_) => None,
    };
    let seconds = hold.and_then(Value::as_u64).ok_or_else(wrong)?;
    match (1..=CHAT_HOLD_MAX_S).contains(&seconds) {
        true => Ok(OnDisconnect::Hold(Duration::from_secs(seconds))),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Result<ChatRequest, Refusal> {
        ChatRequest::read(body.to_string().as_bytes(), None)
    }

    #[test]
    fn who_answers() {
        let with = |body: Value, default: Option<&str>| {
            let body = body.to_string();
            ChatRequest::read(body.as_bytes(), default).map(|request| request.with)
        };
        let model = |name: &str| Ok(With::Model(name.to_owned()));
        let required = || Err(Refusal::model_and_messages());
        let table = [
            (json!({ "model": "m", "messages": [] }), None, model("m")),
            (
                json!({ "model": "m", "messages": [] }),
                Some("d"),
                model("m"),
            ),
            (json!({ "messages": [] }), Some("d"), model("d")),
            (
                json!({ "model": "", "messages": [] }),
                Some("d"),
                model("d"),
            ),
            (json!({ "model": null, "messages": [] }), None, required()),
            (json!({ "messages": [] }), None, required()),
            (json!({ "model": "m" }), None, required()),
            (json!({ "model": "m", "messages": null }), None, required()),
            (json!({}), Some("d"), required()),
            (
                json!({ "agent": "claude", "messages": [] }),
                Some("d"),
                Ok(With::Agent("claude".to_owned())),
            ),
        ];
        for (body, default, expected) in table {
            assert_eq!(with(body.clone(), default), expected, "{body}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for body in ["", "not json", "{", "\u{feff}{}"] {
            let refused = ChatRequest::read(body.as_bytes(), None).unwrap_err();
            assert_eq!(
                (refused.status, refused.body),
                (400, json!({ "error": "Invalid JSON body" }))
            );
        }
        let with = |field: &str, value: Value| {
            let mut body = json!({ "model": "m", "messages": [] });
            body[field] = value;
            body
        };
        let table = [
            (json!(null), "the body: expected an object"),
            (json!([]), "the body: expected an object"),
            (with("model", json!(5)), "model: expected a string"),
            (with("messages", json!({})), "messages: expected a list"),
            (with("messages", json!("hi")), "messages: expected a list"),
            (
                with("agent", json!("claude")),
                "agent: expected a model or an agent, not both",
            ),
        ];
        for (body, expected) in table {
            let refused = read(&body).unwrap_err();
            assert_eq!(
                (refused.status, refused.to_string().as_str()),
                (400, expected),
                "{body}"
            );
        }
        for (field, value) in [
            ("permisions", json!({})),
            ("mode", json!("rlm")),
            ("permissions", json!([])),
            ("permissions", json!({ "allowlist": {} })),
            ("permissions", json!({ "allowlists": [] })),
            ("onDisconnect", json!("hold")),
            ("onDisconnect", json!({ "hold": "60" })),
            ("onDisconnect", json!({ "hold": 0 })),
            ("onDisconnect", json!({ "hold": CHAT_HOLD_MAX_S + 1 })),
            ("onDisconnect", json!({ "hold": 1, "more": true })),
            ("onDisconnect", json!(false)),
        ] {
            let refused = read(&with(field, value.clone())).unwrap_err();
            assert_eq!(refused.status, 400);
            assert!(refused.to_string().starts_with(field), "{value}: {refused}");
        }
    }

    #[test]
    fn what_becomes_of_it() {
        let of = |value: Value| {
            let body = json!({ "model": "m", "messages": [], "onDisconnect": value });
            read(&body).unwrap().on_disconnect
        };
        assert_eq!(of(json!(null)), OnDisconnect::Cancel);
        assert_eq!(of(json!("cancel")), OnDisconnect::Cancel);
        assert_eq!(
            of(json!({ "hold": 60 })),
            OnDisconnect::Hold(Duration::from_secs(60))
        );
    }
}
