//! Session events as sessions send them: the spec's union, and its short forms of status.
//!
//! The spec lists `status.idle` and its kin among the event types but gives them no shape. As input
//! they are read as `status.changed` to that status; nothing else in Relay ever sees them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::session_event::AgentSessionEvent;
use crate::status::AgentStatus;
use crate::wire;

/// A session's report on its way in.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SessionEventInput(pub AgentSessionEvent);

impl<'de> Deserialize<'de> for SessionEventInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Map::deserialize(deserializer)?;
        normalise(&mut members);
        wire::variant(Value::Object(members)).map(Self)
    }
}

/// Turns `{type: "status.idle"}` into `{type: "status.changed", status: "idle"}`.
///
/// When a `status` beside it says otherwise, nothing is changed and reading refuses the type.
fn normalise(members: &mut Map<String, Value>) {
    let Some(status) = members
        .get("type")
        .and_then(Value::as_str)
        .and_then(AgentStatus::of_session_event)
    else {
        return;
    };
    let agrees = members
        .get("status")
        .is_none_or(|given| given == status.as_str());
    if agrees {
        members.insert("type".to_owned(), "status.changed".into());
        members.insert("status".to_owned(), status.as_str().into());
    }
}

impl JsonSchema for SessionEventInput {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SessionEventInput".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let short: Vec<Value> = AgentStatus::ALL
            .iter()
            .filter_map(|status| short_form(*status, generator))
            .collect();
        let mut forms = vec![generator.subschema_for::<AgentSessionEvent>().to_value()];
        forms.extend(short);
        json_schema!({
            "description": "A session's report; `status.idle` and its kin stand for `status.changed`.",
            "anyOf": forms,
        })
    }
}

fn short_form(status: AgentStatus, generator: &mut SchemaGenerator) -> Option<Value> {
    let event = status.session_event()?;
    let schema = json_schema!({
        "type": "object",
        "properties": {
            "type": { "const": event.as_str() },
            "status": { "const": status.as_str() },
            "previousStatus": generator.subschema_for::<AgentStatus>(),
            "reason": { "type": "string" },
        },
        "required": ["type"],
        "additionalProperties": false,
    });
    Some(schema.to_value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Value, String> {
        let input: SessionEventInput =
            wire::decode_value(value).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(input).unwrap())
    }

    #[test]
    fn short_forms_become_status_changed() {
        for status in ["idle", "active", "blocked", "waiting", "offline"] {
            let event_type = format!("status.{status}");
            let expected = json!({ "type": "status.changed", "status": status, "reason": "r" });
            for given in [
                json!({ "type": event_type, "reason": "r" }),
                json!({ "type": event_type, "status": status, "reason": "r" }),
                expected.clone(),
            ] {
                assert_eq!(read(given), Ok(expected.clone()));
            }
        }
    }

    #[test]
    fn other_events_pass_through() {
        let log = json!({ "type": "log", "level": "info", "message": "m" });
        assert_eq!(read(log.clone()), Ok(log));
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |value| read(value).unwrap_err();
        assert!(
            refused(json!({ "type": "status.idle", "status": "active" })).starts_with("type: ")
        );
        assert!(refused(json!({ "type": "status.paused" })).starts_with("type: "));
        assert!(refused(json!({ "type": "status.idle", "x": 1 })).starts_with("x: unknown field"));
        assert!(refused(json!({ "status": "idle" })).contains("missing field `type`"));
    }
}
