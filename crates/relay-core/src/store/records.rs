//! What a store holds, as the engine sees it.

use std::sync::{Arc, OnceLock};

use relay_protocol::agent::{AgentIdentity, AgentType, Metadata};
use relay_protocol::api::messages::{DeliverySummary, Notice};
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority, Surfaced};
use relay_protocol::event::TokenKind;
use relay_protocol::ids::{
    AgentId, ChannelId, ConversationId, DeliveryId, MessageId, SessionId, TokenId, WorkspaceId,
};
use relay_protocol::link::{LinkKind, WebhookLink};
use relay_protocol::message::{
    AgentTarget, Attachment, AttachmentKind, ChannelTarget, ConversationTarget, MessageAuthor,
    RelayMessage, RelayMessageChannelRef, RelayMessageTarget,
};
use relay_protocol::policy::Policy;
use relay_protocol::problem::Problem;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::position::{Position, id_at};
use crate::delivery::lane::Ask;
use crate::delivery::pace::Brake;

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

/// The author of a message who has no mailbox.
#[must_use]
pub fn system_author(name: &str) -> MessageAuthor {
    MessageAuthor {
        id: None,
        name: Some(name.to_owned()),
        handle: None,
        agent_type: Some(AgentType::System),
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
    fn target(&self) -> RelayMessageTarget {
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

    fn channel_ref(&self) -> Option<RelayMessageChannelRef> {
        (self.kind == RoomKind::Channel).then(|| RelayMessageChannelRef {
            id: Some(ChannelId::from_uuid(self.id)),
            name: Some(self.name.clone()),
        })
    }
}

/// The parts of a message that most messages do not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra {
    /// Content beside the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Names that the text addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// For programs to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl Extra {
    /// Whether there is an image among the content.
    #[must_use]
    pub fn has_image(&self) -> bool {
        let mut kinds = self.attachments.iter().map(|attachment| attachment.kind);
        kinds.any(|kind| kind == AttachmentKind::Image)
    }
}

/// What a stored message consists of.
pub struct MessageParts<'a> {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// Its place.
    pub position: Position,
    /// When it was sent.
    pub at: Timestamp,
    /// The author.
    pub author: MessageAuthor,
    /// Where it is.
    pub room: &'a RoomRow,
    /// Place and time of the message it answers.
    pub parent: Option<(Position, Timestamp)>,
    /// What is said.
    pub text: String,
    /// What else it has.
    pub extra: Extra,
    /// 1 as sent.
    pub version: u32,
    /// When it was edited.
    pub updated_at: Option<Timestamp>,
}

impl MessageParts<'_> {
    /// Puts the parts together.
    #[must_use]
    pub fn message(self) -> RelayMessage {
        let id: MessageId = id_at(self.workspace, self.position, self.at);
        RelayMessage {
            id,
            message_id: id,
            from: self.author,
            to: self.room.target(),
            channel: self.room.channel_ref(),
            parent: self
                .parent
                .map(|(position, at)| id_at(self.workspace, position, at)),
            text: self.text,
            attachments: self.extra.attachments,
            mentions: self.extra.mentions,
            created_at: self.at,
            updated_at: self.updated_at,
            version: self.version,
            metadata: self.extra.metadata,
        }
    }
}

/// Somebody who gets a message.
#[derive(Clone, Debug)]
pub struct Recipient {
    /// Who.
    pub agent: Arc<AgentRow>,
    /// Why it reaches the agent.
    pub reason: DeliveryReason,
    /// Why the delivery failed at once, if it did.
    pub problem: Option<Box<Problem>>,
    /// What holds the delivery back, if something does.
    pub brake: Option<Brake>,
}

impl Recipient {
    /// Where the delivery stands when the send is stored.
    #[must_use]
    pub const fn state(&self) -> DeliveryState {
        match (&self.problem, &self.brake) {
            (Some(_), _) => DeliveryState::Failed,
            (None, Some(_)) => DeliveryState::Deferred,
            (None, None) => DeliveryState::Pending,
        }
    }
}

/// The author of a send.
pub enum Sender {
    /// An agent.
    Agent(Arc<AgentRow>),
    /// Somebody without a mailbox, or known from a stored message.
    Other(MessageAuthor),
}

impl Sender {
    fn author(&self) -> MessageAuthor {
        match self {
            Self::Agent(agent) => agent.author(),
            Self::Other(author) => author.clone(),
        }
    }
}

/// A send that is on disk: what its answer and its events are made of.
pub struct SendRecord {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The place of `message.created`.
    pub position: Position,
    /// When.
    pub at: Timestamp,
    /// The author.
    pub author: Sender,
    /// Where it is.
    pub room: Arc<RoomRow>,
    /// Place and time of the message it answers.
    pub parent: Option<(Position, Timestamp)>,
    /// What is said.
    pub text: String,
    /// What else it has.
    pub extra: Extra,
    /// The mode that was asked for.
    pub mode: Option<DeliveryMode>,
    /// Whether another boundary will do.
    pub allow_downgrade: bool,
    /// What comes first.
    pub priority: Priority,
    /// When it is of no use any more.
    pub deadline: Timestamp,
    /// The recipients, in the order of their deliveries.
    pub recipients: Vec<Recipient>,
    /// What the sender should know.
    pub notices: Vec<Notice>,
    /// The message, put together when first asked for.
    pub message: OnceLock<Arc<RelayMessage>>,
    /// The first answer, when this one is a repetition.
    pub replayed: Option<Vec<DeliverySummary>>,
}

impl SendRecord {
    /// The message.
    pub fn message(&self) -> &Arc<RelayMessage> {
        self.message.get_or_init(|| {
            let parts = MessageParts {
                workspace: self.workspace,
                position: self.position,
                at: self.at,
                author: self.author.author(),
                room: &self.room,
                parent: self.parent,
                text: self.text.clone(),
                extra: self.extra.clone(),
                version: 1,
                updated_at: None,
            };
            Arc::new(parts.message())
        })
    }

    /// The place of its first delivery.
    #[must_use]
    pub fn first_delivery(&self) -> Position {
        let before = events_before_deliveries(&self.room, self.parent.is_some());
        self.position.plus(before)
    }

    /// How the deliveries stood when the send was stored.
    #[must_use]
    pub fn deliveries(&self) -> Vec<DeliverySummary> {
        if let Some(first) = &self.replayed {
            return first.clone();
        }
        let first = self.first_delivery();
        (0..)
            .zip(&self.recipients)
            .map(|(at, recipient)| DeliverySummary {
                delivery_id: id_at(self.workspace, first.plus(at), self.at),
                agent: recipient.agent.name.clone(),
                state: recipient.state(),
                mode: self.mode,
                error: recipient.problem.clone(),
            })
            .collect()
    }

    /// The deliveries that are not finished, as they were stored.
    pub fn rows(&self) -> impl Iterator<Item = DeliveryRow> {
        let first = self.first_delivery();
        (0..)
            .zip(&self.recipients)
            .filter(|(_, recipient)| recipient.problem.is_none())
            .map(move |(at, recipient)| self.row(first.plus(at), recipient))
    }

    /// A recipient's delivery.
    pub(super) fn row(&self, position: Position, recipient: &Recipient) -> DeliveryRow {
        DeliveryRow {
            position,
            at: self.at,
            message: self.position,
            agent: recipient.agent.no,
            state: recipient.state(),
            mode: self.mode,
            used_mode: None,
            allow_downgrade: self.allow_downgrade,
            image: self.extra.has_image(),
            flushed: false,
            redelivered: false,
            after_accept: false,
            priority: self.priority,
            reason: recipient.reason,
            deadline: self.deadline,
            generation: 1,
            attempts: 0,
            not_before: recipient.brake.map(|brake| brake.until),
            only_session: None,
            holder: None,
            surfaced: recipient.problem.as_ref().map(|_| Surfaced::No),
            error: recipient.problem.clone(),
        }
    }
}

/// How many events of a send come before the first `delivery.created`.
#[must_use]
pub const fn events_before_deliveries(room: &RoomRow, is_reply: bool) -> u64 {
    1 + is_reply as u64 + matches!(room.kind, RoomKind::Dm | RoomKind::Group) as u64
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
    /// The number of its last stored event.
    pub acked: u64,
    /// When it attached.
    pub created_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl SessionRow {
    /// Whether it can be its agent's current session: the newest such one is.
    #[must_use]
    pub fn can_be_current(&self) -> bool {
        !self.addressed_only
            && !self.status.is_terminal()
            && !matches!(self.status, AgentStatus::Offline | AgentStatus::Releasing)
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
