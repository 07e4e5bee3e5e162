//! What an event is about, as far as it matters to who may see it.

use relay_protocol::action::AvailableTo;
use relay_protocol::agent::AgentIdentity;
use relay_protocol::event::{LoggedEvent, RelayEvent, SessionReport};
use relay_protocol::ids::{AgentId, InvocationId, MessageId};
use relay_protocol::message::{RelayMessage, RelayMessageTarget};
use relay_protocol::session_event::AgentSessionEvent;
use uuid::Uuid;

use super::Oracle;
use crate::error::Result;

/// What an event is about.
#[derive(Debug, PartialEq)]
pub(super) enum Subject {
    /// A message.
    Message(Whereabouts),
    /// A message that is only named.
    MessageId(MessageId),
    /// A message on its way to somebody.
    Delivery {
        recipient: AgentId,
        message: Carried,
    },
    /// A channel, and a member of it.
    Channel {
        id: Option<Uuid>,
        name: Option<String>,
        member: Option<AgentId>,
    },
    /// How a session is.
    Status,
    /// Something in a session.
    Session { agent: AgentId, content: Content },
    /// The call of an action.
    Action {
        caller: Option<AgentId>,
        call: Option<InvocationId>,
    },
    /// An action that came or went: whose it is, and for whom.
    Offer {
        owner: Option<AgentId>,
        available_to: Option<Vec<AvailableTo>>,
    },
    /// A tool call that waits for a decision.
    Permission { agent: Option<AgentId> },
    /// An agent as such.
    Agent(AgentId),
    /// What only the workspace's key is concerned with.
    Workspace,
    /// Nobody knows any more.
    Erased,
}

/// Where a message is and who wrote it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Whereabouts {
    pub(super) room: Option<Uuid>,
    pub(super) channel: Option<String>,
    pub(super) author: Option<AgentId>,
}

/// The message of a delivery, as far as the event tells.
#[derive(Debug, PartialEq)]
pub(super) enum Carried {
    Known(Whereabouts),
    Named(Option<MessageId>),
}

impl Carried {
    pub(super) fn resolve(self, oracle: &mut dyn Oracle) -> Result<Option<Whereabouts>> {
        match self {
            Self::Known(place) => Ok(Some(place)),
            Self::Named(Some(id)) => oracle.whereabouts(id),
            Self::Named(None) => Ok(None),
        }
    }
}

/// What a session's report holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// What happened.
    Facts,
    /// What was said.
    Transcript,
    /// What happened, and beside it what a tool was called with or answered.
    FactsAndTranscript,
    /// What a terminal shows.
    Terminal,
}

impl Subject {
    /// The name of the channel in which it happened.
    pub(super) fn channel(self, oracle: &mut dyn Oracle) -> Result<Option<String>> {
        let place = match self {
            Self::Message(place) => Some(place),
            Self::MessageId(id) => oracle.whereabouts(id)?,
            Self::Delivery { message, .. } => message.resolve(oracle)?,
            Self::Channel { name, .. } => return Ok(name),
            _ => None,
        };
        Ok(place.and_then(|place| place.channel))
    }
}

/// Where a message is.
pub(super) fn whereabouts(message: &RelayMessage) -> Whereabouts {
    let room = match &message.to {
        RelayMessageTarget::Channel(channel) => channel.channel_id.map(|id| id.uuid()),
        RelayMessageTarget::Dm(place) | RelayMessageTarget::GroupDm(place) => {
            Some(place.conversation_id.uuid())
        }
        // What an agent is told by somebody without a mailbox is in a room that has the agent's id.
        RelayMessageTarget::Agent(agent) => agent.agent_id.map(|id| id.uuid()),
    };
    Whereabouts {
        room,
        channel: message.channel.as_ref().and_then(|it| it.name.clone()),
        author: message.from.id,
    }
}

/// What an event is about.
pub(super) fn of(event: &LoggedEvent) -> Subject {
    let Some(event) = &event.event else {
        return Subject::Erased;
    };
    match event {
        RelayEvent::MessageCreated(e)
        | RelayEvent::MessageUpdated(e)
        | RelayEvent::ThreadReply(e)
        | RelayEvent::DmReceived(e)
        | RelayEvent::GroupDmReceived(e) => Subject::Message(whereabouts(&e.message)),
        RelayEvent::MessageRead(e) => Subject::MessageId(e.message_id),
        RelayEvent::MessageReacted(e) => Subject::MessageId(e.message_id),

        RelayEvent::ActionInvoked(e)
        | RelayEvent::ActionCompleted(e)
        | RelayEvent::ActionFailed(e)
        | RelayEvent::ActionDenied(e) => Subject::Action {
            caller: e.agent.id,
            call: e.invocation_id,
        },
        RelayEvent::ActionRegistered(e) | RelayEvent::ActionRemoved(e) => Subject::Offer {
            owner: e.agent.as_ref().and_then(|owner| owner.id),
            available_to: e.available_to.clone(),
        },

        RelayEvent::AgentStatusChanged(_)
        | RelayEvent::AgentStatusIdle(_)
        | RelayEvent::AgentStatusActive(_)
        | RelayEvent::AgentStatusBlocked(_)
        | RelayEvent::AgentStatusWaiting(_)
        | RelayEvent::AgentStatusOffline(_) => Subject::Status,

        RelayEvent::DeliveryCreated(e) => carrying(&e.agent, &e.message),
        RelayEvent::DeliveryFailed(e) => carrying(&e.agent, &e.message),
        RelayEvent::DeliveryAccepted(e) => naming(&e.agent, e.message_id),
        RelayEvent::DeliveryDelivered(e) => naming(&e.agent, e.message_id),
        RelayEvent::DeliveryDeferred(e) => naming(&e.agent, e.message_id),
        RelayEvent::DeliveryCancelled(e) => naming(&e.agent, e.message_id),
        RelayEvent::DeliveryLateReceipt(e) => naming(&e.agent, e.message_id),

        RelayEvent::ChannelCreated(e) | RelayEvent::ChannelUpdated(e) => Subject::Channel {
            id: Some(e.channel.id.uuid()),
            name: Some(e.channel.name.clone()),
            member: None,
        },
        RelayEvent::ChannelMemberJoined(e) | RelayEvent::ChannelMemberLeft(e) => Subject::Channel {
            id: e.channel.id.map(|id| id.uuid()),
            name: e.channel.name.clone(),
            member: Some(e.agent_id),
        },

        RelayEvent::AgentRegistered(e) | RelayEvent::AgentReleased(e) => Subject::Agent(e.agent.id),

        RelayEvent::PermissionRequested(e) => Subject::Permission {
            agent: e.permission.agent_id,
        },
        RelayEvent::PermissionResolved(e)
        | RelayEvent::PermissionExpired(e)
        | RelayEvent::PermissionCancelled(e) => Subject::Permission { agent: e.agent_id },
        RelayEvent::PermissionSeen(e) | RelayEvent::PermissionRefused(e) => {
            Subject::Permission { agent: e.agent_id }
        }
        RelayEvent::PermissionStarted(e) | RelayEvent::PermissionFinished(e) => {
            Subject::Permission { agent: e.agent_id }
        }
        RelayEvent::GrantCreated(e) | RelayEvent::GrantRevoked(e) => {
            Subject::Permission { agent: e.agent_id }
        }

        RelayEvent::WebhookFailed(_)
        | RelayEvent::WebhookDisabled(_)
        | RelayEvent::TokenCreated(_)
        | RelayEvent::TokenRotated(_)
        | RelayEvent::TokenRevoked(_)
        | RelayEvent::WorkspaceUpdated(_)
        | RelayEvent::AuditErased(_) => Subject::Workspace,

        RelayEvent::SessionStarted(e)
        | RelayEvent::SessionReleased(e)
        | RelayEvent::SessionResumed(e)
        | RelayEvent::SessionForked(e) => Subject::Session {
            agent: e.agent_id,
            content: Content::Facts,
        },

        RelayEvent::MessageReceived(e) | RelayEvent::MessageSent(e) => about_message(e),
        RelayEvent::UsageUpdated(e) | RelayEvent::Log(e) | RelayEvent::Error(e) => {
            report(e, Content::Facts)
        }
        RelayEvent::ToolCalled(e)
        | RelayEvent::ToolCompleted(e)
        | RelayEvent::ToolFailed(e)
        | RelayEvent::FileChanged(e) => report(e, Content::FactsAndTranscript),
        RelayEvent::ToolOutput(e) | RelayEvent::TranscriptChunk(e) => {
            report(e, Content::Transcript)
        }
        RelayEvent::CommandStarted(e)
        | RelayEvent::CommandCompleted(e)
        | RelayEvent::CommandFailed(e)
        | RelayEvent::TerminalOutput(e)
        | RelayEvent::TerminalScreen(e) => report(e, Content::Terminal),
    }
}

const fn report(report: &SessionReport, content: Content) -> Subject {
    Subject::Session {
        agent: report.agent_id,
        content,
    }
}

/// A report about a message is for those who see the message.
const fn about_message(report: &SessionReport) -> Subject {
    match &report.event {
        AgentSessionEvent::MessageReceived(received) => Subject::MessageId(received.message_id),
        AgentSessionEvent::MessageSent(sent) => Subject::MessageId(sent.message_id),
        _ => self::report(report, Content::Facts),
    }
}

fn carrying(agent: &AgentIdentity, message: &RelayMessage) -> Subject {
    Subject::Delivery {
        recipient: agent.id,
        message: Carried::Known(whereabouts(message)),
    }
}

const fn naming(agent: &AgentIdentity, message: Option<MessageId>) -> Subject {
    Subject::Delivery {
        recipient: agent.id,
        message: Carried::Named(message),
    }
}
