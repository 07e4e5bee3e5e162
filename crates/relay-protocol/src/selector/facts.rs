//! What an event says about agents, channels, actions and status, so that filters need not know its
//! shape.

use super::KnownAgent;
use crate::agent::AgentIdentity;
use crate::event::{ActionEvent, ActionOffered, AgentStatusEvent, RelayEvent};
use crate::ids::{AgentId, ChannelId};
use crate::message::{RelayMessage, RelayMessageChannelRef, RelayMessageTarget};
use crate::status::AgentStatus;

/// A condition that a filter can put on an event's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Agent,
    Status,
    Action,
    CalledBy,
    InChannel,
    From,
    Mentions,
}

impl Condition {
    /// The filter's field.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Status => "status",
            Self::Action => "action",
            Self::CalledBy => "calledBy",
            Self::InChannel => "inChannel",
            Self::From => "from",
            Self::Mentions => "mentions",
        }
    }

    /// The events for which it can hold.
    pub(super) fn event_types(self) -> impl Iterator<Item = &'static str> {
        RelayEvent::TAGS
            .iter()
            .copied()
            .filter(move |name| self.can_hold_for(name))
    }

    /// Whether events of this name have what it asks about.
    pub(super) fn can_hold_for(self, event_type: &str) -> bool {
        let carries_message = matches!(
            event_type,
            "message.created"
                | "message.updated"
                | "thread.reply"
                | "dm.received"
                | "group_dm.received"
                | "delivery.created"
                | "delivery.failed"
        );
        let family = event_type.split('.').next().unwrap_or_default();
        match self {
            Self::Agent => match family {
                "message" => matches!(
                    event_type,
                    "message.read" | "message.reacted" | "message.received" | "message.sent"
                ),
                "channel" => event_type.starts_with("channel.member_"),
                "thread" | "dm" | "group_dm" | "webhook" | "workspace" | "audit" => false,
                _ => true,
            },
            Self::Status => event_type.starts_with("agent.status."),
            Self::Action => family == "action",
            Self::CalledBy => {
                family == "action" && !matches!(event_type, "action.registered" | "action.removed")
            }
            Self::InChannel => carries_message || family == "channel",
            Self::From | Self::Mentions => carries_message,
        }
    }
}

/// What filters can ask of one event.
#[derive(Default)]
pub(super) struct Facts<'a> {
    agent: Option<Who<'a>>,
    pub(super) status: Option<AgentStatus>,
    pub(super) action: Option<&'a str>,
    caller: Option<Who<'a>>,
    channel: Option<Place<'a>>,
    from: Option<Who<'a>>,
    mentions: &'a [String],
}

/// An agent, by what the event says about it.
#[derive(Clone, Copy)]
struct Who<'a> {
    id: Option<AgentId>,
    name: Option<&'a str>,
}

/// A channel, by what the event says about it.
#[derive(Clone, Copy)]
struct Place<'a> {
    id: Option<ChannelId>,
    name: Option<&'a str>,
}

impl Facts<'_> {
    pub(super) fn agent_is(&self, wanted: &str, agents: &[KnownAgent]) -> bool {
        self.agent.is_some_and(|who| who.is(wanted, agents))
    }

    pub(super) fn called_by(&self, wanted: &str, agents: &[KnownAgent]) -> bool {
        self.caller.is_some_and(|who| who.is(wanted, agents))
    }

    pub(super) fn is_from(&self, wanted: &str, agents: &[KnownAgent]) -> bool {
        self.from.is_some_and(|who| who.is(wanted, agents))
    }

    pub(super) fn mentions(&self, wanted: &str, agents: &[KnownAgent]) -> bool {
        self.mentions.iter().any(|name| {
            let who = Who {
                id: None,
                name: Some(name),
            };
            who.is(wanted, agents)
        })
    }

    pub(super) fn in_channel(&self, wanted: &str) -> bool {
        self.channel.is_some_and(|place| {
            same_name(place.name, wanted, '#') || same_id(place.id.map(ChannelId::uuid), wanted)
        })
    }
}

impl Who<'_> {
    fn is(self, wanted: &str, agents: &[KnownAgent]) -> bool {
        same_name(self.name, wanted, '@')
            || same_id(self.id.map(AgentId::uuid), wanted)
            || agents.iter().any(|agent| {
                agent.written == wanted
                    && (self.id == Some(agent.id) || same_name(self.name, &agent.name, '@'))
            })
    }
}

fn same_name(name: Option<&str>, wanted: &str, sigil: char) -> bool {
    let wanted = wanted.strip_prefix(sigil).unwrap_or(wanted);
    name.is_some_and(|name| {
        name.strip_prefix(sigil)
            .unwrap_or(name)
            .eq_ignore_ascii_case(wanted)
    })
}

fn same_id(id: Option<uuid::Uuid>, wanted: &str) -> bool {
    // Only the hyphenated form is an id on the wire; most names are shorter and need no parsing.
    wanted.len() == 36 && id.is_some_and(|id| wanted.parse() == Ok(id))
}

/// Reads the facts off an event.
pub(super) fn of(event: &RelayEvent) -> Facts<'_> {
    match event {
        RelayEvent::MessageCreated(e)
        | RelayEvent::MessageUpdated(e)
        | RelayEvent::ThreadReply(e)
        | RelayEvent::DmReceived(e)
        | RelayEvent::GroupDmReceived(e) => of_message(&e.message),
        RelayEvent::MessageRead(e) => about(None, Some(&e.agent_name)),
        RelayEvent::MessageReacted(e) => about(None, Some(&e.agent_name)),

        RelayEvent::ActionInvoked(e)
        | RelayEvent::ActionCompleted(e)
        | RelayEvent::ActionFailed(e)
        | RelayEvent::ActionDenied(e) => of_action(e),
        RelayEvent::ActionRegistered(e) | RelayEvent::ActionRemoved(e) => of_offer(e),

        RelayEvent::AgentStatusChanged(e) => of_status(e, None),
        RelayEvent::AgentStatusIdle(e) => of_status(e, Some(AgentStatus::Idle)),
        RelayEvent::AgentStatusActive(e) => of_status(e, Some(AgentStatus::Active)),
        RelayEvent::AgentStatusBlocked(e) => of_status(e, Some(AgentStatus::Blocked)),
        RelayEvent::AgentStatusWaiting(e) => of_status(e, Some(AgentStatus::Waiting)),
        RelayEvent::AgentStatusOffline(e) => of_status(e, Some(AgentStatus::Offline)),

        RelayEvent::DeliveryCreated(e) => of_delivery(&e.agent, Some(&e.message)),
        RelayEvent::DeliveryFailed(e) => of_delivery(&e.agent, Some(&e.message)),
        RelayEvent::DeliveryAccepted(e) => of_delivery(&e.agent, None),
        RelayEvent::DeliveryDelivered(e) => of_delivery(&e.agent, None),
        RelayEvent::DeliveryDeferred(e) => of_delivery(&e.agent, None),
        RelayEvent::DeliveryCancelled(e) => of_delivery(&e.agent, None),
        RelayEvent::DeliveryLateReceipt(e) => of_delivery(&e.agent, None),

        RelayEvent::ChannelCreated(e) | RelayEvent::ChannelUpdated(e) => Facts {
            channel: Some(Place {
                id: Some(e.channel.id),
                name: Some(&e.channel.name),
            }),
            ..Facts::default()
        },
        RelayEvent::ChannelMemberJoined(e) | RelayEvent::ChannelMemberLeft(e) => Facts {
            channel: Some(place(&e.channel)),
            ..about(Some(e.agent_id), Some(&e.agent_name))
        },

        RelayEvent::AgentRegistered(e) | RelayEvent::AgentReleased(e) => {
            about(Some(e.agent.id), Some(&e.agent.name))
        }
        RelayEvent::PermissionRequested(e) => {
            about(e.permission.agent_id, e.permission.agent_name.as_deref())
        }
        RelayEvent::PermissionResolved(e)
        | RelayEvent::PermissionExpired(e)
        | RelayEvent::PermissionCancelled(e) => about(e.agent_id, None),
        RelayEvent::PermissionSeen(e) | RelayEvent::PermissionRefused(e) => about(e.agent_id, None),
        RelayEvent::PermissionStarted(e) | RelayEvent::PermissionFinished(e) => {
            about(e.agent_id, None)
        }
        RelayEvent::GrantCreated(e) | RelayEvent::GrantRevoked(e) => {
            about(e.agent_id, e.grant.agent_name.as_deref())
        }
        RelayEvent::TokenCreated(e) | RelayEvent::TokenRotated(e) | RelayEvent::TokenRevoked(e) => {
            about(None, e.agent_name.as_deref())
        }

        RelayEvent::SessionStarted(e)
        | RelayEvent::SessionReleased(e)
        | RelayEvent::SessionResumed(e)
        | RelayEvent::SessionForked(e) => about(Some(e.agent_id), e.agent_name.as_deref()),
        RelayEvent::MessageReceived(e)
        | RelayEvent::MessageSent(e)
        | RelayEvent::ToolCalled(e)
        | RelayEvent::ToolCompleted(e)
        | RelayEvent::ToolFailed(e)
        | RelayEvent::ToolOutput(e)
        | RelayEvent::TranscriptChunk(e)
        | RelayEvent::FileChanged(e)
        | RelayEvent::CommandStarted(e)
        | RelayEvent::CommandCompleted(e)
        | RelayEvent::CommandFailed(e)
        | RelayEvent::TerminalOutput(e)
        | RelayEvent::TerminalScreen(e)
        | RelayEvent::UsageUpdated(e)
        | RelayEvent::Log(e)
        | RelayEvent::Error(e) => about(Some(e.agent_id), None),

        RelayEvent::WebhookFailed(_)
        | RelayEvent::WebhookDisabled(_)
        | RelayEvent::WorkspaceUpdated(_)
        | RelayEvent::AuditErased(_) => Facts::default(),
    }
}

fn about(id: Option<AgentId>, name: Option<&str>) -> Facts<'_> {
    Facts {
        agent: Some(Who { id, name }),
        ..Facts::default()
    }
}

fn of_message(message: &RelayMessage) -> Facts<'_> {
    let target = match &message.to {
        RelayMessageTarget::Channel(target) => Some(Place {
            id: target.channel_id,
            name: Some(&target.channel_name),
        }),
        _ => None,
    };
    Facts {
        channel: message.channel.as_ref().map(place).or(target),
        from: Some(Who {
            id: message.from.id,
            name: message.from.name.as_deref(),
        }),
        mentions: &message.mentions,
        ..Facts::default()
    }
}

fn of_action(event: &ActionEvent) -> Facts<'_> {
    let facts = about(event.agent.id, Some(&event.agent.name));
    Facts {
        action: Some(&event.action),
        caller: facts.agent,
        ..facts
    }
}

fn of_offer(event: &ActionOffered) -> Facts<'_> {
    let owner = event.agent.as_ref();
    Facts {
        action: Some(&event.action),
        ..about(
            owner.and_then(|owner| owner.id),
            owner.map(|owner| owner.name.as_str()),
        )
    }
}

fn of_status(event: &AgentStatusEvent, implied: Option<AgentStatus>) -> Facts<'_> {
    Facts {
        status: event.status.or(implied),
        ..about(Some(event.agent_id), event.agent_name.as_deref())
    }
}

fn of_delivery<'a>(agent: &'a AgentIdentity, message: Option<&'a RelayMessage>) -> Facts<'a> {
    Facts {
        agent: about(Some(agent.id), Some(&agent.name)).agent,
        ..message.map(of_message).unwrap_or_default()
    }
}

fn place(channel: &RelayMessageChannelRef) -> Place<'_> {
    Place {
        id: channel.id,
        name: channel.name.as_deref(),
    }
}
