//! Messages as they are put together from what is stored, and sends as they were just stored.

use std::sync::{Arc, OnceLock};

use relay_protocol::agent::{AgentType, Metadata};
use relay_protocol::api::messages::{DeliverySummary, Notice};
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority, Surfaced};
use relay_protocol::ids::{MessageId, WorkspaceId};
use relay_protocol::message::{Attachment, AttachmentKind, MessageAuthor, RelayMessage};
use relay_protocol::problem::Problem;
use relay_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::position::{Position, id_at};
use super::records::{AgentRow, DeliveryRow, RoomKind, RoomRow, SessionNo};
use crate::delivery::pace::Brake;
use crate::delivery::waiting::LastChange;

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
    /// The sender's own key, which sessions are told.
    #[serde(
        rename = "idempotencyKey",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub idempotency_key: Option<String>,
}

/// What a session is given of a delivery, but for what the offer itself says.
#[derive(Clone, Debug)]
pub struct DeliveryContent {
    /// The message as it is now.
    pub message: Arc<RelayMessage>,
    /// The key of whoever made the delivery, or else of the message's sender.
    pub idempotency_key: Option<String>,
    /// What the caller that made the delivery gave for the harness to read.
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
    /// The only session that may get it, if there is such a one.
    pub only: Option<SessionNo>,
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

    /// What sessions are given of its deliveries.
    #[must_use]
    pub fn content(&self) -> DeliveryContent {
        DeliveryContent {
            message: self.message().clone(),
            idempotency_key: self.extra.idempotency_key.clone(),
            metadata: None,
        }
    }

    /// The place of its first delivery.
    #[must_use]
    pub fn first_delivery(&self) -> Position {
        let before = events_before_deliveries(&self.room, self.parent.is_some());
        self.position.plus(before)
    }

    /// How the deliveries stood when the send was stored, but for what they waited for: the runner knows that.
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
                waiting: None,
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

    /// All deliveries as they were stored, each with what happened to it when it was made.
    pub fn all_rows(&self) -> impl Iterator<Item = (DeliveryRow, LastChange)> {
        let first = self.first_delivery();
        (0..).zip(&self.recipients).map(move |(at, recipient)| {
            let change = LastChange {
                at: self.at,
                deferred: recipient.brake.map(|brake| brake.reason.to_owned()),
            };
            (self.row(first.plus(at), recipient), change)
        })
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
            only_session: recipient.only,
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
