//! A delivery as it is stored and explained, and the bodies of its routes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Metadata;
use crate::delivery::{
    DeliveryMode, DeliveryReason, DeliveryState, MessageReceipt, Priority, Surfaced,
};
use crate::ids::{DeliveryId, MessageId, SessionId};
use crate::problem::Problem;
use crate::time::Timestamp;
use crate::wire::literals;

/// One message on its way to one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delivery {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    pub message_id: MessageId,
    /// The recipient's name.
    pub agent: String,
    /// Where it stands.
    pub state: DeliveryState,
    /// Why it reaches the agent.
    pub reason: DeliveryReason,
    /// What comes first.
    pub priority: Priority,
    /// Whether another boundary, or a line instead of an image, will do.
    pub allow_downgrade: bool,
    /// The mode that was asked for; absent: the first safe boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_mode: Option<DeliveryMode>,
    /// The mode that is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// Why the two differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode_reason: Option<String>,
    /// The session it is offered to or held by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// How many attempts were used up.
    pub attempt: u32,
    /// One more for each explicit retry.
    pub generation: u32,
    /// When it is of no use any more.
    pub deadline: Timestamp,
    /// When the next attempt is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// What it waits for; present while it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitReason>,
    /// Whether it may have been seen although it did not end as delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surfaced: Option<Surfaced>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<Problem>>,
    /// Every decision about it, oldest first; only when one delivery is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Vec<DeliveryDecision>>,
    /// Every offer of it, oldest first; only when one delivery is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<DeliveryAttempt>>,
    /// Every receipt for it, oldest first; only when one delivery is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts: Option<Vec<StoredReceipt>>,
    /// All of it in plain words; only when one delivery is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub story: Option<String>,
}

literals! {
    /// What a delivery that has not ended waits for.
    pub enum WaitCode {
        /// Nothing: it goes to the session next.
        Due = "due",
        /// The session was offered it and has not answered yet.
        Offered = "offered",
        /// The session has accepted it and surfaces it later.
        Accepted = "accepted",
        /// The session that has accepted it has no link; it waits for the session or for the end of its lease.
        AcceptedUnreachable = "accepted_unreachable",
        /// No session of the agent is connected; it waits in the inbox.
        NoSession = "no_session",
        /// The one session that it is for is not connected.
        SessionAbsent = "session_absent",
        /// The session is starting.
        SessionStarting = "session_starting",
        /// The session is paused.
        SessionPaused = "session_paused",
        /// The session is ending, has ended, or is offline.
        SessionUnavailable = "session_unavailable",
        /// The session has lost its link and may be back in a moment.
        NoLink = "no_link",
        /// The session has not reached a boundary at which it may be surfaced.
        Boundary = "boundary",
        /// It is to be flushed.
        Manual = "manual",
        /// The session has none of the boundaries at which it may be surfaced.
        CapabilityMissing = "capability_missing",
        /// As many offers as the session may have at a time are unanswered.
        WindowFull = "window_full",
        /// What waited while the agent was away comes in shares; this is of a later one.
        Backlog = "backlog",
        /// An attempt failed; the next one comes later.
        RetryBackoff = "retry_backoff",
        /// The session has put it off.
        Deferred = "deferred",
        /// The sender sends faster than the policy allows.
        SenderRate = "sender_rate",
        /// Two agents answer each other without end.
        RunawayGuard = "runaway_guard",
    }
}

/// What a delivery that has not ended waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitReason {
    /// The reason in words.
    pub why: String,
    /// The reason for programs.
    pub code: WaitCode,
    /// The mode whose boundary it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<DeliveryMode>,
    /// Since when nothing has happened to it: it was made, offered, accepted, put off or taken back then.
    pub since: Timestamp,
    /// The time it waits for, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

literals! {
    /// What was decided about a delivery.
    pub enum DecisionOutcome {
        /// It is offered to a session.
        Offer = "offer",
        /// It waits for a boundary, a session or its turn.
        Hold = "hold",
        /// It waits until a given time.
        Defer = "defer",
        /// It waits again: its time came, it was taken back, flushed or retried.
        Reopen = "reopen",
        /// It ends as failed.
        Fail = "fail",
        /// It ends as cancelled.
        Cancel = "cancel",
    }
}

/// One decision about a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDecision {
    /// When.
    pub at: Timestamp,
    /// What was decided.
    pub outcome: DecisionOutcome,
    /// Why.
    pub reason: String,
    /// The session that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The mode that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<DeliveryMode>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// One offer of a delivery to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryAttempt {
    /// Which offer; later ones are greater.
    pub epoch: u64,
    /// The generation it belongs to.
    pub generation: u32,
    /// The session.
    pub session_id: SessionId,
    /// The mode in which it was offered.
    pub mode: DeliveryMode,
    /// When it was offered.
    pub offered_at: Timestamp,
    /// When it was settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// How it was settled, such as `delivered` or `no_receipt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Whether it used up an attempt.
    pub counted: bool,
}

literals! {
    /// Who wrote a receipt.
    pub enum ReceiptSource {
        /// The session.
        Session = "session",
        /// Relay, because the session stayed silent or was not needed.
        Relay = "relay",
    }
}

/// A receipt as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredReceipt {
    /// When it was stored.
    pub at: Timestamp,
    /// Who wrote it.
    pub by: ReceiptSource,
    /// The offer it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Whether it came after the end or for an older offer, and changed nothing.
    pub late: bool,
    /// What it says.
    pub receipt: MessageReceipt,
}

/// The body of `POST /v1/deliveries`: delivers a stored message to an agent or a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliverMessage {
    /// The message.
    pub message_id: MessageId,
    /// The agent; its current session is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A session of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// How the session should treat it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<DeliverContext>,
}

/// What a caller may say about a delivery; Relay fills in the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct DeliverContext {
    /// The delivery that is meant, where the message has one for this target. Ids are made by Relay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<DeliveryId>,
    /// The mode; absent: the first safe boundary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// Why it reaches the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DeliveryReason>,
    /// What comes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// When it is of no use any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Makes a repeated call harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Allows another boundary where the session can't do the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_downgrade: Option<bool>,
    /// For the harness to read, beside what Relay says there; see [`crate::delivery::RELAY_KEYS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// The body of `POST /v1/deliveries/{id}/receipt`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostReceipt {
    /// What happened.
    pub receipt: MessageReceipt,
    /// The offer it answers; absent: the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// The body of `POST /v1/deliveries/{id}/retry`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct RetryDelivery {}

/// The body of `POST /v1/deliveries/{id}/cancel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct CancelDelivery {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `POST /v1/agents/{name}/flush`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct Flush {
    /// Only what waits in this mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// Only this delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
}

/// The answer of a flush: one receipt for each delivery that was due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flushed {
    /// The receipts.
    pub receipts: Vec<MessageReceipt>,
}
