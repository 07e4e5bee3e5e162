//! The outside of a frame: `ref`, and the rest as what its `type` says.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{ClientRequest, ServerMessage};
use crate::wire;

/// The member of a frame that does not belong to what it says.
const REFERENCE: &str = "ref";

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
        let (request, reference) = wire::tagged_beside(deserializer, REFERENCE)?;
        Ok(Self { reference, request })
    }
}

impl<'de> Deserialize<'de> for ServerFrame {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (message, reference) = wire::tagged_beside(deserializer, REFERENCE)?;
        Ok(Self { reference, message })
    }
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
