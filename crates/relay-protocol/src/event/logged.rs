//! Events with their place in the log: `seq, id, at, workspaceId` beside the event's own fields.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::RelayEvent;
use crate::ids::{EventId, WorkspaceId};
use crate::link::NoOptions;
use crate::time::Timestamp;
use crate::wire::{True, variant, variant_at};

/// An event with its place in the workspace's log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEvent {
    /// Its number in the workspace, without gaps, counted from 1.
    pub seq: u64,
    /// Its id.
    pub id: EventId,
    /// When it was written.
    pub at: Timestamp,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// What happened; `None` once the payload was erased.
    pub event: Option<RelayEvent>,
    /// The event's name, which outlives its payload.
    pub event_type: String,
}

/// The part of a logged event that comes before its payload.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    seq: u64,
    id: EventId,
    at: Timestamp,
    workspace_id: WorkspaceId,
    #[serde(flatten)]
    body: Body<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Event(&'a RelayEvent),
    Erased {
        #[serde(rename = "type")]
        event_type: &'a str,
        erased: bool,
    },
}

impl Serialize for LoggedEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let body = match &self.event {
            Some(event) => Body::Event(event),
            None => Body::Erased {
                event_type: &self.event_type,
                erased: true,
            },
        };
        let Self {
            seq,
            id,
            at,
            workspace_id,
            ..
        } = *self;
        let header = Header {
            seq,
            id,
            at,
            workspace_id,
            body,
        };
        if self.event.as_ref().is_some_and(carries_own_time) {
            // One `at` only: the event's own, which is the same moment.
            let mut value = serde_json::to_value(&header).map_err(S::Error::custom)?;
            value["at"] = Value::String(at.to_string());
            return value.serialize(serializer);
        }
        header.serialize(serializer)
    }
}

const fn carries_own_time(event: &RelayEvent) -> bool {
    matches!(
        event,
        RelayEvent::ActionInvoked(_)
            | RelayEvent::ActionCompleted(_)
            | RelayEvent::ActionFailed(_)
            | RelayEvent::ActionDenied(_)
            | RelayEvent::ActionRegistered(_)
            | RelayEvent::ActionRemoved(_)
    )
}

impl<'de> Deserialize<'de> for LoggedEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Map::deserialize(deserializer)?;
        let event_type = match members.get("type") {
            Some(Value::String(name)) => name.clone(),
            _ => return Err(D::Error::missing_field("type")),
        };
        let at = take(&mut members, "at")?;
        if event_type.starts_with("action.") {
            members.insert("at".to_owned(), serde_json::json!(at));
        }
        let (seq, id, workspace_id) = (
            take(&mut members, "seq")?,
            take(&mut members, "id")?,
            take(&mut members, "workspaceId")?,
        );
        let event = match members.remove("erased") {
            None => Some(variant(Value::Object(members))?),
            Some(erased) => {
                variant_at::<True, _>("erased", erased)?;
                members.remove("type");
                variant::<NoOptions, _>(Value::Object(members))?;
                None
            }
        };
        Ok(Self {
            seq,
            id,
            at,
            workspace_id,
            event,
            event_type,
        })
    }
}

fn take<T: serde::de::DeserializeOwned, E: serde::de::Error>(
    members: &mut Map<String, Value>,
    name: &'static str,
) -> Result<T, E> {
    let value = members.remove(name).ok_or_else(|| E::missing_field(name))?;
    variant_at(name, value)
}

impl LoggedEvent {
    /// The event's JSON, for sharing one serialisation among all who read it.
    ///
    /// # Panics
    ///
    /// Never: every event serialises.
    #[must_use]
    pub fn to_json(&self) -> Box<RawValue> {
        #[expect(
            clippy::unwrap_used,
            reason = "plain data without non-string keys serialises"
        )]
        serde_json::value::to_raw_value(self).unwrap()
    }
}

impl JsonSchema for LoggedEvent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LoggedEvent".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let header = [
            ("seq", json!({ "type": "integer", "minimum": 1 })),
            ("id", generator.subschema_for::<EventId>().to_value()),
            ("at", generator.subschema_for::<Timestamp>().to_value()),
            (
                "workspaceId",
                generator.subschema_for::<WorkspaceId>().to_value(),
            ),
        ];
        let mut schema = RelayEvent::json_schema(generator);
        if let Some(forms) = schema.get_mut("oneOf").and_then(Value::as_array_mut) {
            forms.push(erased_schema());
            for form in forms {
                add_header(form, &header);
            }
        }
        schema.insert(
            "description".to_owned(),
            "An event with its place in the log.".into(),
        );
        schema
    }
}

/// The form of an event whose payload is gone.
fn erased_schema() -> Value {
    let schema = json_schema!({
        "type": "object",
        "properties": { "type": { "type": "string" }, "erased": { "const": true } },
        "required": ["type", "erased"],
        "additionalProperties": false,
    });
    schema.to_value()
}

fn add_header(form: &mut Value, header: &[(&str, Value)]) {
    for (name, schema) in header {
        form["properties"][*name] = schema.clone();
        if let Some(required) = form["required"].as_array_mut()
            && !required.contains(&json!(name))
        {
            required.push(json!(name));
        }
    }
}
