//! What an agent can do, as the capabilities of its session on the relay.

use relay_protocol::capability::{
    ActionCapabilities, AgentSessionCapabilities, DeliveryCapabilities, EventCapabilities,
    LifecycleCapabilities, MessagingCapabilities,
};
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::message::AttachmentKind;
use relay_protocol::session_event::AgentSessionEventType;
use relay_protocol::status::AgentStatus;
use relay_protocol::wire::True;

use super::Handshake;
use crate::acp::catalogue::MidTurn;

/// The states in which a session takes a prompt: not while a tool runs or a permission is open.
pub const SAFE_STATES: &[AgentStatus] = &[AgentStatus::Idle];

/// What the handshake does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionFacts {
    /// How the agent takes a message during a turn, where it has no steering.
    pub mid_turn: MidTurn,
    /// Whether a turn may be cancelled for a message.
    pub may_interrupt: bool,
    /// Whether the agent has started the relay's own MCP server.
    pub has_relay_tools: bool,
}

/// The capabilities of a session. No status is `paused`, and nothing is written down: an agent can do neither.
#[must_use]
pub fn session_capabilities(
    handshake: &Handshake,
    facts: SessionFacts,
) -> AgentSessionCapabilities {
    let mut attachments = vec![AttachmentKind::Text];
    if handshake.capabilities.prompt.image {
        attachments.push(AttachmentKind::Image);
    }
    let only = |is: bool| is.then_some(true);
    AgentSessionCapabilities {
        messaging: MessagingCapabilities {
            receive: True,
            send: only(facts.has_relay_tools),
            attachments,
        },
        delivery: DeliveryCapabilities {
            modes: modes(handshake, facts),
            queue: None,
        },
        events: EventCapabilities {
            emits: EMITS.to_vec(),
        },
        actions: facts.has_relay_tools.then_some(ActionCapabilities {
            invoke: Some(true),
            expose: None,
        }),
        lifecycle: LifecycleCapabilities {
            fork: only(handshake.capabilities.fork_session),
            ..LifecycleCapabilities::default()
        },
    }
}

/// What an agent's updates become.
const EMITS: &[AgentSessionEventType] = &[
    AgentSessionEventType::StatusChanged,
    AgentSessionEventType::ToolCalled,
    AgentSessionEventType::ToolCompleted,
    AgentSessionEventType::ToolFailed,
    AgentSessionEventType::TranscriptChunk,
    AgentSessionEventType::FileChanged,
    AgentSessionEventType::UsageUpdated,
    AgentSessionEventType::Log,
    AgentSessionEventType::Error,
];

/// Turns give two boundaries to every agent. A running turn is reached by steering, which the model sees after its next
/// tool call, or by what the agent is known to do with a second prompt.
fn modes(handshake: &Handshake, facts: SessionFacts) -> Vec<DeliveryMode> {
    let steering = handshake.extensions.steering;
    let reaches_turns = match facts.mid_turn {
        MidTurn::Queue => !handshake.answers_anything,
        MidTurn::CancelAndPrompt => facts.may_interrupt,
        MidTurn::Steer | MidTurn::None => false,
    };
    let mut modes = Vec::new();
    if steering || reaches_turns {
        modes.push(DeliveryMode::Immediate);
    }
    modes.push(DeliveryMode::NextMessage);
    if steering {
        modes.push(DeliveryMode::NextToolCall);
    }
    modes.push(DeliveryMode::OnIdle);
    modes
}
