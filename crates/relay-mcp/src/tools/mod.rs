//! The tools: three of our own, and one for each action.
//!
//! To add a tool: a module with its name, `tool()` and `call()`; a line in [`built_in`] and in `call` below. Mind the tokens:
//! `docs/mcp.md` publishes what the list costs, and a test holds it to that.

pub(crate) mod actions;
pub(crate) mod check;
pub(crate) mod people;
pub(crate) mod send;

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::words::{self, Refusal};

/// The names that no action's tool may have.
pub(crate) const BUILT_IN: [&str; 3] = [send::NAME, check::NAME, people::NAME];

/// Our own tools.
pub(crate) fn built_in() -> Vec<Tool> {
    vec![send::tool(), check::tool(), people::tool()]
}

/// A tool whose input has these properties, none of which has to be there.
fn tool(name: &'static str, description: &'static str, properties: Value) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    Tool::new(name, description, Arc::new(schema))
}

/// The input of one of our own tools.
fn input<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Refusal> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Refusal::Input(format!("the input does not fit: {error}")))
}

/// A result that the model reads.
pub(crate) fn result(answer: Result<String, Refusal>) -> CallToolResult {
    match answer {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(refusal) => refused(&refusal),
    }
}

/// A result that the model reads, with what it sees: media types, and content as base64.
pub(crate) fn result_with_images(text: String, images: Vec<(String, String)>) -> CallToolResult {
    let images = images.into_iter();
    let images = images.map(|(media_type, data)| ContentBlock::image(data, media_type));
    let content = std::iter::once(ContentBlock::text(text)).chain(images);
    CallToolResult::success(content.collect())
}

/// A result that tells the model what is wrong.
pub(crate) fn refused(refusal: &Refusal) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words::refusal(refusal))])
}
