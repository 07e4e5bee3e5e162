//! What people who refuse a call want to be done instead.
//!
//! The relay sends it to the agent. An agent with several conversations at a time has one mailbox for all of them, so it could come to
//! the wrong one: such a conversation fetches what is meant for it with the decision, and the message is no news to any of them.

use relay_protocol::agent::AgentType;
use relay_protocol::message::RelayMessage;
use relay_protocol::permission::PermissionOutcome;
use relay_sdk::Client;

/// Whether a message says it. Agents write no such messages, whatever they put into them.
pub(crate) fn is_guidance(message: &RelayMessage) -> bool {
    let about = message.metadata.as_ref();
    let by_people = matches!(
        message.from.agent_type,
        Some(AgentType::Human | AgentType::System)
    );
    by_people && about.is_some_and(|about| about.contains_key("permissionId"))
}

/// Fetches what came with a decision.
pub(crate) async fn fetch(agent: &Client, outcome: Option<&PermissionOutcome>) -> Option<String> {
    let message = outcome?.guidance_message_id?;
    match agent.message(message).await {
        Ok(view) => Some(view.message.text),
        Err(error) => {
            tracing::warn!(message.id = %message, %error, "guidance could not be read");
            None
        }
    }
}
