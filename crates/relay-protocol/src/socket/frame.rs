//! The outside of a frame: `ref`, and the rest as what its `type` says.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{ClientRequest, ServerMessage};
use crate::wire;

/// What a client chose to recognise the answer by: a string or a number, echoed as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FrameRef {
    /// A number.
    Number(u64),
    /// A string.
    Text(String),
}

/// A frame from a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientFrame {
    /// How the client recognises the answer.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<FrameRef>,
    /// What it wants.
    #[serde(flatten)]
    pub request: ClientRequest,
}

/// A frame from the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerFrame {
    /// What the client frame carried that this one answers.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<FrameRef>,
    /// What the server says.
    #[serde(flatten)]
    pub message: ServerMessage,
}

impl<'de> Deserialize<'de> for ClientFrame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (reference, request) = take_reference(deserializer)?;
        Ok(Self { reference, request })
    }
}

impl<'de> Deserialize<'de> for ServerFrame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (reference, message) = take_reference(deserializer)?;
        Ok(Self { reference, message })
    }
}

/// Reads `ref`, then the rest as what it is.
fn take_reference<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<(Option<FrameRef>, T), D::Error> {
    let mut members = Map::deserialize(deserializer)?;
    let reference = members.remove("ref").unwrap_or(Value::Null);
    let rest = wire::variant(Value::Object(members))?;
    Ok((wire::variant_at("ref", reference)?, rest))
}

impl JsonSchema for ClientFrame {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ClientFrame".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        with_reference(ClientRequest::json_schema(generator), generator)
    }
}

impl JsonSchema for ServerFrame {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ServerFrame".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        with_reference(ServerMessage::json_schema(generator), generator)
    }
}

/// Adds `ref` to every form of a frame.
fn with_reference(mut schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    let reference = generator.subschema_for::<Option<FrameRef>>().to_value();
    let forms = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    for form in forms.into_iter().flatten() {
        if let Some(properties) = form.get_mut("properties") {
            properties["ref"] = reference.clone();
        }
    }
    schema
}

impl ClientFrame {
    /// A frame whose answer nobody looks for.
    #[must_use]
    pub const fn of(request: ClientRequest) -> Self {
        Self {
            reference: None,
            request,
        }
    }
}

impl ServerFrame {
    /// A frame that answers nothing.
    #[must_use]
    pub const fn of(message: ServerMessage) -> Self {
        Self {
            reference: None,
            message,
        }
    }
}
