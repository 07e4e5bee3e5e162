//! `read_attachment`: the text of an attachment beyond what its message showed, for models that are on the relay.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::ids::AttachmentId;
use relay_protocol::permission::ToolParams;
use relay_protocol::render::clean;
use relay_sdk::AgentClient;
use serde::Deserialize;
use serde_json::json;

use super::{Sharing, Tool, ToolContext, ToolOutput, params};
use crate::llm::provider::ToolSpec;

/// Most bytes that one call gives.
const READ_BYTES: usize = 64 * 1024;

/// Reads attachments as an agent. It reaches nothing that was not sent to the agent, so nobody is asked.
#[derive(Clone)]
pub struct ReadAttachmentTool {
    agent: AgentClient,
}

impl ReadAttachmentTool {
    /// Reads as this agent.
    #[must_use]
    pub const fn new(agent: AgentClient) -> Self {
        Self { agent }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    id: AttachmentId,
    #[serde(default)]
    offset: usize,
}

impl Tool for ReadAttachmentTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_attachment".to_owned(),
            description: "Reads a text attachment of a message, from a byte on.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "id": { "type": "string" },
                    "offset": { "type": "integer", "minimum": 0 },
                },
                "required": ["id"],
                "additionalProperties": false,
            }),
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Shared
    }

    fn needs_permission(&self) -> bool {
        false
    }

    fn check(&self, given: &ToolParams) -> Result<(), String> {
        params::<Params>(given).map(drop)
    }

    fn run(
        &self,
        given: ToolParams,
        _context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            let Params { id, offset } = params(&given)?;
            let found = self.agent.attachment(id).await;
            let found = found.map_err(|error| error.to_string())?;
            let text = std::str::from_utf8(&found.data)
                .map_err(|_| format!("expected a text attachment, found {}", found.media_type))?;
            Ok(page(text, offset))
        }
        .boxed()
    }
}

/// The part of a text that begins at a byte, and where the next one does.
fn page(text: &str, offset: usize) -> ToolOutput {
    let from = text.floor_char_boundary(offset);
    let to = text.floor_char_boundary(from.saturating_add(READ_BYTES));
    let (part, size) = (clean(&text[from..to]), text.len());
    let next = (to < size).then_some(to);
    let context = match next {
        Some(next) => format!("{part}\n[bytes {from} to {to} of {size}; go on with offset {next}]"),
        None => part.clone(),
    };
    let result = json!({ "text": part, "offset": from, "size": size, "nextOffset": next });
    ToolOutput { context, result }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_read_in_parts() {
        let text = format!("{}é{}", "a".repeat(READ_BYTES - 1), "b".repeat(10));
        let first = page(&text, 0);
        assert_eq!(first.result["nextOffset"], READ_BYTES - 1);
        assert!(first.context.ends_with("go on with offset 65535]"));
        let second = page(&text, READ_BYTES - 1);
        assert_eq!(second.context, format!("é{}", "b".repeat(10)));
        assert_eq!(second.result["nextOffset"], serde_json::Value::Null);
        assert_eq!(page(&text, usize::MAX).context, "");
    }
}
