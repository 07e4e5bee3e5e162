//! `send`: a message to another agent or a channel, for models that are on the relay.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::agent::Metadata;
use relay_protocol::ids::SessionId;
use relay_protocol::message::SENT_IN_SESSION;
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
    session: Option<SessionId>,
}

impl SendTool {
    /// Sends as this agent. Answers go back to the session, where it is one of several conversations.
    #[must_use]
    pub const fn new(agent: AgentClient, session: Option<SessionId>) -> Self {
        Self { agent, session }
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
            let mut sending = self.agent.send_message(&to, text);
            if let Some(session) = self.session {
                let name = session.to_string().into();
                let metadata = Metadata::from_iter([(SENT_IN_SESSION.to_owned(), name)]);
                sending = sending.metadata(metadata);
            }
            let sent = sending.await.map_err(|error| error.to_string())?;
            Ok(ToolOutput {
                context: format!("sent to {to}"),
                result: json!({ "messageId": sent.message_id }),
            })
        }
        .boxed()
    }
}
