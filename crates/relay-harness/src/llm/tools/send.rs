//! `send`: a message to another agent or a channel, for models that are on the relay.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::ToolParams;
use relay_sdk::AgentClient;
use serde::Deserialize;
use serde_json::json;

use super::{Tool, ToolContext, ToolOutput, params};
use crate::llm::provider::ToolSpec;

/// Sends messages as an agent.
#[derive(Clone)]
pub struct SendTool {
    agent: AgentClient,
}

impl SendTool {
    /// Sends as this agent.
    #[must_use]
    pub const fn new(agent: AgentClient) -> Self {
        Self { agent }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    to: String,
    text: String,
}

impl Tool for SendTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "send".to_owned(),
            description: "Sends a message to another agent (`@name`) or a channel (`#name`)."
                .to_owned(),
            schema: json!({
                "type": "object",
                "properties": { "to": { "type": "string" }, "text": { "type": "string" } },
                "required": ["to", "text"],
                "additionalProperties": false,
            }),
        }
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
            let Params { to, text } = params(&given)?;
            let sent = self.agent.send_message(&to, text).await;
            let sent = sent.map_err(|error| error.to_string())?;
            Ok(ToolOutput {
                context: format!("sent to {to}"),
                result: json!({ "messageId": sent.message_id }),
            })
        }
        .boxed()
    }
}
