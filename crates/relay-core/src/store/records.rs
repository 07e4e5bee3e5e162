//! What a store holds, as the engine sees it.

use std::sync::Arc;

use relay_protocol::agent::{AgentIdentity, AgentType, Metadata};
use relay_protocol::api::workspace::ObserverScope;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority, Surfaced};
use relay_protocol::event::TokenKind;
use relay_protocol::ids::{
    AgentId, ChannelId, ConversationId, DeliveryId, SessionId, TokenId, WorkspaceId,
};
use relay_protocol::link::{LinkKind, WebhookLink};
use relay_protocol::message::{
    AgentTarget, AttachmentKind, ChannelTarget, ConversationTarget, MessageAuthor,
    RelayMessageChannelRef, RelayMessageTarget,
};
use relay_protocol::policy::Policy;
use relay_protocol::problem::Problem;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::position::{Position, id_at};
use super::webhook_requests::InboundRow;
use crate::delivery::lane::Ask;

/// An agent's number in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentNo(pub i64);

/// A channel's or conversation's number in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomNo(pub i64);

/// A workspace.
#[derive(Clone, Debug)]
pub struct WorkspaceRow {
    /// Its number in the database.
    pub no: u32,
    /// Its id.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// How it delivers.
    pub policy: Policy,
    /// When it was created.
    pub created_at: Timestamp,
}

/// An agent.
#[derive(Clone, Debug)]
pub struct AgentRow {
    /// Its number in the database.
    pub no: AgentNo,
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// What kind of participant it is.
    pub agent_type: AgentType,
    /// What others may know about it.
    pub metadata: Option<Metadata>,
    /// When it was released.
    pub released_at: Option<Timestamp>,
}

impl AgentRow {
    /// The agent as others see it.
    #[must_use]
    pub fn identity(&self) -> AgentIdentity {
        AgentIdentity {
            metadata: self.metadata.clone(),
            ..self.lasting_identity()
        }
    }

    /// Whether it stands for a person, who may decide about permissions.
    #[must_use]
    pub const fn is_human(&self) -> bool {
        matches!(self.agent_type, AgentType::Human)
    }

    /// The part of the identity that never changes, which is what events carry.
    #[must_use]
    pub fn lasting_identity(&self) -> AgentIdentity {
        AgentIdentity {
            id: self.id,
            name: self.name.clone(),
            handle: format!("@{}", self.name),
            agent_type: self.agent_type,
            metadata: None,
        }
    }

    /// The agent as the author of a message.
    #[must_use]
    pub fn author(&self) -> MessageAuthor {
        MessageAuthor {
            id: Some(self.id),
            name: Some(self.name.clone()),
            handle: Some(format!("@{}", self.name)),
            agent_type: Some(self.agent_type),
        }
    }
}

/// What kind of place messages are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomKind {
    /// A channel.
    Channel = 0,
    /// A conversation of two agents.
    Dm = 1,
    /// A conversation of more than two.
    Group = 2,
    /// What an agent is told by somebody without a mailbox.
    Notice = 3,
}

impl RoomKind {
    /// The kind with this number.
    #[must_use]
    pub const fn from_code(code: i64) -> Self {
        match code {
            0 => Self::Channel,
            1 => Self::Dm,
            2 => Self::Group,
            _ => Self::Notice,
        }
    }
}

/// A channel or conversation.
#[derive(Clone, Debug)]
pub struct RoomRow {
    /// Its number in the database.
    pub no: RoomNo,
    /// Its kind.
    pub kind: RoomKind,
    /// Its id.
    pub id: Uuid,
    /// A channel's name; the agent's name for [`RoomKind::Notice`]; empty otherwise.
    pub name: String,
    /// When it was archived.
    pub archived_at: Option<Timestamp>,
}

impl RoomRow {
    /// What people call it.
    #[must_use]
    pub fn label(&self) -> String {
        match self.kind {
            RoomKind::Channel => format!("#{}", self.name),
            _ => format!("conversation {}", self.id),
        }
    }

    /// The place as a message's target. `agent_id` is of the one agent that a notice is for.
    pub(super) fn target(&self) -> RelayMessageTarget {
        let conversation_id = ConversationId::from_uuid(self.id);
        match self.kind {
            RoomKind::Channel => RelayMessageTarget::Channel(ChannelTarget {
                channel_name: self.name.clone(),
                channel_id: Some(ChannelId::from_uuid(self.id)),
            }),
            RoomKind::Dm => RelayMessageTarget::Dm(ConversationTarget { conversation_id }),
            RoomKind::Group => RelayMessageTarget::GroupDm(ConversationTarget { conversation_id }),
            // A notice's room has the id of the agent that it is for.
            RoomKind::Notice => RelayMessageTarget::Agent(AgentTarget {
                agent_name: self.name.clone(),
                agent_id: Some(AgentId::from_uuid(self.id)),
            }),
        }
    }

    pub(super) fn channel_ref(&self) -> Option<RelayMessageChannelRef> {
        (self.kind == RoomKind::Channel).then(|| RelayMessageChannelRef {
            id: Some(ChannelId::from_uuid(self.id)),
            name: Some(self.name.clone()),
        })
    }
}

/// A delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    /// Its place.
    pub position: Position,
    /// When it was created, which its id says, too.
    pub at: Timestamp,
    /// The place of the message it carries.
    pub message: Position,
    /// For whom.
    pub agent: AgentNo,
    /// Where it stands.
    pub state: DeliveryState,
    /// The mode that was asked for.
    pub mode: Option<DeliveryMode>,
    /// The mode of the last offer.
    pub used_mode: Option<DeliveryMode>,
    /// Whether another boundary will do.
    pub allow_downgrade: bool,
    /// Whether the message has an image.
    pub image: bool,
    /// Whether somebody has let it go at any moment.
    pub flushed: bool,
    /// Whether a session may have seen it although it said nothing.
    pub redelivered: bool,
    /// Whether it was taken back from a session that had accepted it, and not settled since.
    pub after_accept: bool,
    /// What comes first.
    pub priority: Priority,
    /// Why it reaches the agent.
    pub reason: DeliveryReason,
    /// When it is of no use any more.
    pub deadline: Timestamp,
    /// One more for each explicit retry.
    pub generation: u32,
    /// Attempts that were used up in this generation.
    pub attempts: u32,
    /// Until when it waits: deferred, or between two attempts.
    pub not_before: Option<Timestamp>,
    /// The only session that may get it.
    pub only_session: Option<SessionNo>,
    /// Who holds it, while it is accepted.
    pub holder: Option<Holder>,
    /// Whether it may have been seen although it did not end as delivered.
    pub surfaced: Option<Surfaced>,
    /// Why it failed.
    pub error: Option<Box<Problem>>,
}

impl DeliveryRow {
    /// What it asks of a session.
    #[must_use]
    pub const fn ask(&self) -> Ask {
        Ask {
            mode: self.mode,
            allow_downgrade: self.allow_downgrade,
            image: self.image,
            flushed: self.flushed,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self, workspace: WorkspaceId) -> DeliveryId {
        id_at(workspace, self.position, self.at)
    }
}

/// A session that has accepted a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: SessionNo,
    /// The offer it accepted.
    pub epoch: u64,
    /// False when it said that the delivery is not to be offered again.
    pub retryable: bool,
}

/// A session's number in the database; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNo(pub i64);

/// A session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRow {
    /// Its number in the database.
    pub no: SessionNo,
    /// The workspace.
    pub workspace_no: u32,
    /// Its id.
    pub id: SessionId,
    /// The agent it is a body of.
    pub agent: AgentNo,
    /// What made it.
    pub harness: String,
    /// How the server reaches it.
    pub link: LinkKind,
    /// What a webhook link needs.
    pub webhook: Option<WebhookLink>,
    /// What it can do.
    pub capabilities: AgentSessionCapabilities,
    /// The states in which `on-idle` is open.
    pub safe_states: Vec<AgentStatus>,
    /// What it is doing.
    pub status: AgentStatus,
    /// What it was doing before it was paused or went offline.
    pub status_before: Option<AgentStatus>,
    /// Why.
    pub reason: Option<String>,
    /// The session it was forked from.
    pub parent: Option<SessionId>,
    /// Whether it gets only what is addressed to it, as a fork does that has no agent of its own.
    pub addressed_only: bool,
    /// Whether it is one conversation among several of its agent: what comes while it is the newest is for it alone.
    pub keeps_messages: bool,
    /// The number of its last stored event.
    pub acked: u64,
    /// When it attached.
    pub created_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Since when it has its status.
    pub status_at: Timestamp,
}

impl SessionRow {
    /// Whether it can be its agent's current session: the newest such one is.
    #[must_use]
    pub fn can_be_current(&self) -> bool {
        !self.addressed_only
            && !self.status.is_terminal()
            && !matches!(self.status, AgentStatus::Offline | AgentStatus::Releasing)
    }

    /// Whether messages to its agent are addressed to it: the newest such session gets them.
    #[must_use]
    pub const fn can_be_addressed(&self) -> bool {
        self.keeps_messages && self.ended_at.is_none()
    }
}

/// What a credential may do.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The credential.
    pub id: TokenId,
    /// Its kind.
    pub kind: TokenKind,
    /// The workspace it is for.
    pub workspace: Option<Arc<WorkspaceRow>>,
    /// The agent it acts as.
    pub agent: Option<Arc<AgentRow>>,
    /// What it may see, for an observer.
    pub scope: Option<Arc<ObserverScope>>,
    /// Where it posts, for a webhook.
    pub inbound: Option<Arc<InboundRow>>,
    /// When it ends.
    pub valid_until: Option<Timestamp>,
}

/// Stored content.
#[derive(Clone, Debug, PartialEq)]
pub struct AttachmentContent {
    /// What kind of content it is.
    pub kind: AttachmentKind,
    /// Its media type.
    pub media_type: String,
    /// A file name.
    pub name: Option<String>,
    /// The content.
    pub data: Vec<u8>,
}

/// The end of a workspace's chain, to be kept elsewhere as an anchor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainHead {
    /// The last sequence number; 0 for an empty log.
    pub seq: u64,
    /// The hash up to there, in hexadecimal.
    pub hash: String,
}

/// What a check of the chain found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// Rows that were checked.
    pub rows: u64,
    /// Events they stand for.
    pub events: u64,
    /// The first sequence number that is still there.
    pub from_seq: u64,
    /// The last.
    pub to_seq: u64,
    /// Sequence numbers whose content is not what was written.
    pub changed: Vec<u64>,
    /// First and last sequence number of each gap.
    pub missing: Vec<(u64, u64)>,
    /// How many payloads were erased, which is allowed.
    pub erased: u64,
    /// The hash at the end, in hexadecimal.
    pub head: String,
}

impl AuditReport {
    /// True when nothing was changed and nothing is missing.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.changed.is_empty() && self.missing.is_empty()
    }
}
