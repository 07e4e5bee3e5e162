//! The words of delivery: when a message is surfaced, why, and what became of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Metadata;
use crate::ids::DeliveryId;
use crate::time::Timestamp;
use crate::wire::{literals, tagged_union};

literals! {
    /// When a message is to be surfaced to a session.
    pub enum DeliveryMode {
        /// Now, even if that interrupts the session.
        Immediate = "immediate",
        /// When the harness is about to send the next user-level message.
        NextMessage = "next-message",
        /// Before the next tool call.
        NextToolCall = "next-tool-call",
        /// When the session reports one of its safe states.
        OnIdle = "on-idle",
        /// When somebody flushes.
        Manual = "manual",
    }
}

literals! {
    /// Why a message reaches a session.
    pub enum DeliveryReason {
        /// A post in a channel.
        Message = "message",
        /// The text names the agent.
        Mention = "mention",
        /// A direct message, also in a group.
        Dm = "dm",
        /// A reply in a thread the agent takes part in.
        ThreadReply = "thread-reply",
        /// The outcome of an action the agent invoked.
        ActionResult = "action-result",
        /// Relay itself has something to say.
        Notification = "notification",
    }
}

literals! {
    /// What comes first among deliveries that are due.
    pub enum Priority {
        /// In order.
        Normal = "normal",
        /// Before normal ones. It opens no boundary.
        Urgent = "urgent",
    }
}

/// Why a message exists and how the harness should treat it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageContext {
    /// The delivery id. Harnesses make duplicates of it idempotent.
    pub id: DeliveryId,
    /// The mode in which it is surfaced.
    pub mode: DeliveryMode,
    /// Why it reaches this session.
    pub reason: DeliveryReason,
    /// What comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// When it is of no use any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The sender's own key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// What the caller of `deliver` gave for the harness to read, and Relay's own [`RELAY_KEYS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Key of [`MessageContext::metadata`]: which offer of the delivery this is.
pub const EPOCH: &str = "epoch";
/// Key of [`MessageContext::metadata`]: how many messages still wait behind this one.
pub const WAITING: &str = "waiting";
/// Key of [`MessageContext::metadata`]: true when the session may have seen the message before.
pub const REDELIVERED: &str = "redelivered";
/// Key of [`MessageContext::metadata`]: by how much the message comes late, in milliseconds.
pub const LATE_MS: &str = "lateMs";
/// Keys of [`MessageContext::metadata`] that only Relay writes.
pub const RELAY_KEYS: [&str; 5] = [
    EPOCH,
    WAITING,
    REDELIVERED,
    LATE_MS,
    crate::render::ATTACHMENTS_AS_TEXT,
];

impl MessageContext {
    /// Which offer of the delivery this is.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        self.number(EPOCH)
    }

    /// How many messages still wait behind this one.
    #[must_use]
    pub fn waiting(&self) -> Option<u64> {
        self.number(WAITING)
    }

    /// By how many milliseconds the message comes late.
    #[must_use]
    pub fn late_ms(&self) -> Option<u64> {
        self.number(LATE_MS)
    }

    /// Whether the session may have seen the message before.
    #[must_use]
    pub fn is_redelivered(&self) -> bool {
        let metadata = self.metadata.as_ref();
        metadata.is_some_and(|metadata| metadata.get(REDELIVERED) == Some(&true.into()))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.metadata.as_ref()?.get(key)?.as_u64()
    }
}

tagged_union! {
    /// The harness telling Relay what happened.
    pub enum MessageReceipt by "status" {
        /// Taken over, but not surfaced yet.
        "accepted" => Accepted(AcceptedReceipt),
        /// Injected, displayed, or otherwise made available at the session boundary.
        "delivered" => Delivered(DeliveredReceipt),
        /// Understood, but not possible yet.
        "deferred" => Deferred(DeferredReceipt),
        /// Not possible, or not wanted.
        "failed" => Failed(FailedReceipt),
    }
}

impl MessageReceipt {
    /// The door and the evidence.
    pub const fn metadata_mut(&mut self) -> &mut Option<Metadata> {
        match self {
            Self::Accepted(receipt) => &mut receipt.metadata,
            Self::Delivered(receipt) => &mut receipt.metadata,
            Self::Deferred(receipt) => &mut receipt.metadata,
            Self::Failed(receipt) => &mut receipt.metadata,
        }
    }
}

/// Key of a receipt's metadata: the way by which the message reached the session.
pub const DOOR: &str = "door";

/// The harness has queued the message and answers for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptedReceipt {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// False: do not offer it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The door and the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// The session has seen the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveredReceipt {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The door and the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// The session cannot take it yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeferredReceipt {
    /// The delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
    /// When to try again.
    pub available_at: Timestamp,
    /// Why not now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The door and the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// The session cannot or will not take it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedReceipt {
    /// The delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
    /// Why.
    pub reason: String,
    /// True: try again later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// The door and the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

literals! {
    /// Where a delivery stands.
    pub enum DeliveryState {
        /// Waiting for its boundary, its agent or its turn.
        Pending = "pending",
        /// On its way to a session that has not answered.
        Offered = "offered",
        /// Held by the session, not surfaced yet.
        Accepted = "accepted",
        /// Waiting until a given time.
        Deferred = "deferred",
        /// Seen by the session. Terminal.
        Delivered = "delivered",
        /// Will not be seen. Terminal.
        Failed = "failed",
        /// Called back. Terminal.
        Cancelled = "cancelled",
    }
}

literals! {
    /// Whether a delivery that ended without `delivered` may have been seen all the same.
    pub enum Surfaced {
        /// It was not seen.
        No = "no",
        /// Nobody can tell.
        Unknown = "unknown",
    }
}
