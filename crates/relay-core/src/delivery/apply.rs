//! What a step makes of a delivery: the one place where a delivery changes.
//!
//! The store calls [`apply`] inside the transaction that writes its result: the new row, the event and
//! the entries of the explanation. Offers are not stored while they are out (see `docs/delivery.md`):
//! a step that settles one brings it along, and the row itself still says `pending`.
//!
//! What a user asks for and can't have is refused. What Relay does by itself and comes too late, such
//! as a deadline of a delivery that has just ended, is nothing.

mod change;
mod ends;
mod receipts;
mod waits;

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{DeliveryMode, MessageReceipt, Surfaced};
use relay_protocol::delivery_state::IllegalDeliveryTransition;
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::policy::Policy;
use relay_protocol::problem::Problem;
use relay_protocol::time::Timestamp;

use self::change::Change;
use super::history::{Entry, Offer};
use crate::store::{DeliveryRow, Reading, SessionNo};

/// The reason when a session stays silent.
pub const NO_RECEIPT: &str = "no_receipt";
/// The reason when the deadline has passed.
pub const DEADLINE_EXCEEDED: &str = "deadline_exceeded";
/// The reason when a session puts a delivery off beyond its deadline.
pub const DEFERRED_PAST_DEADLINE: &str = "deferred_past_deadline";
/// The reason when the agent is gone.
pub const AGENT_RELEASED: &str = "agent_released";
/// The reason in a receipt when it was called back.
pub const CANCELLED: &str = "cancelled";
/// What comes before the last reason when no attempt is left.
pub const ATTEMPTS_EXHAUSTED: &str = "attempts_exhausted";

/// Something that happens to a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A session answers.
    Receipt {
        /// The session that speaks, where that is known.
        session: Option<SessionNo>,
        /// The offer that it answers, if that is still out.
        offer: Option<Box<Offer>>,
        /// The offer that it says it answers.
        epoch: Option<u64>,
        /// What it says.
        receipt: MessageReceipt,
    },
    /// A session answers an offer that was settled without it, or is about to be, because its link was lost or
    /// because it took too long.
    BelatedReceipt {
        /// The session that speaks, where that is known.
        session: Option<SessionNo>,
        /// The offer, if the step that settles it may still be on its way.
        offer: Option<Box<Offer>>,
        /// The offer that it says it answers.
        epoch: Option<u64>,
        /// What it says.
        receipt: MessageReceipt,
    },
    /// A session has not answered in time.
    NoReceipt {
        /// The offer.
        offer: Box<Offer>,
    },
    /// A session can no longer answer for it.
    Returned {
        /// The offer, or nothing when the session had accepted it.
        offer: Option<Box<Offer>>,
        /// The session.
        session: SessionNo,
        /// Why it can't.
        cause: ReturnCause,
    },
    /// The session can't take what is asked of it.
    Mismatch {
        /// The session that was looked at.
        session: SessionId,
        /// What it can't.
        problem: Box<Problem>,
    },
    /// The deadline has passed.
    Expired {
        /// What the session that had it said about that.
        recall: Recall,
    },
    /// Somebody calls it back.
    Cancelled {
        /// Why.
        reason: Option<String>,
        /// What the session that had it said about that.
        recall: Recall,
    },
    /// The time until which it waits has come.
    Woken,
    /// The agent has read the message without a session.
    Read(Reading),
    /// Somebody wants another try.
    Retried,
    /// Somebody lets it go at any moment.
    Flushed,
    /// The agent is gone.
    AgentReleased {
        /// What is known of the session that had it: it could not be asked.
        recall: Recall,
    },
}

/// Why a session can no longer answer for a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnCause {
    /// The link broke before it had answered.
    LinkLost,
    /// It accepted, and its link was gone for too long.
    LeaseExpired,
    /// It was released.
    SessionReleased,
    /// It failed.
    SessionFailed,
}

impl ReturnCause {
    /// The reason in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LinkLost => "link_lost",
            Self::LeaseExpired => "lease_expired",
            Self::SessionReleased => "session_released",
            Self::SessionFailed => "session_failed",
        }
    }

    /// Whether the session comes back no more.
    const fn is_final(self) -> bool {
        matches!(self, Self::SessionReleased | Self::SessionFailed)
    }

    /// The same in words.
    const fn words(self) -> &'static str {
        match self {
            Self::LinkLost => "the link was lost before an answer came",
            Self::LeaseExpired => "the session that held it was away for too long",
            Self::SessionReleased => "its session was released",
            Self::SessionFailed => "its session failed",
        }
    }
}

/// What came of asking a session to give a delivery back.
#[derive(Clone, Debug, PartialEq)]
pub enum Recall {
    /// No session had it.
    NotNeeded,
    /// The session gave it back.
    Confirmed(Option<Box<Offer>>),
    /// The session said nothing, or could not be asked.
    Unanswered(Option<Box<Offer>>),
}

impl Recall {
    fn offer(&self) -> Option<&Offer> {
        match self {
            Self::NotNeeded => None,
            Self::Confirmed(offer) | Self::Unanswered(offer) => offer.as_deref(),
        }
    }
}

/// What the step is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The workspace's policy.
    pub policy: &'a Policy,
    /// The time.
    pub now: Timestamp,
    /// Any number, for the spread of waits.
    pub jitter: u64,
    /// The delivery's id.
    pub id: DeliveryId,
    /// The id of the session that holds it, when one does.
    pub holder: Option<SessionId>,
    /// The newest of its offers that is settled; only for [`Step::BelatedReceipt`].
    pub last_offer: Option<LapsedOffer>,
}

/// An offer that was settled without the session's word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LapsedOffer {
    /// Which offer.
    pub epoch: u64,
    /// The generation of the delivery.
    pub generation: u32,
    /// The session.
    pub session: SessionNo,
    /// Its id.
    pub session_id: SessionId,
    /// The mode in which it was offered.
    pub mode: DeliveryMode,
}

/// What a step makes of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// The delivery is as the row says now.
    Moved(Box<Moved>),
    /// The step came too late and is only noted.
    Noted {
        /// What is noted.
        entry: Box<Entry>,
        /// What is told.
        fact: Option<Box<Fact>>,
    },
    /// Nothing is to be done.
    Nothing,
    /// The step is not legal.
    Refused(IllegalDeliveryTransition),
}

/// A change of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// The row from now on.
    pub row: DeliveryRow,
    /// What is told.
    pub fact: Option<Fact>,
    /// What the explanation gains.
    pub history: Vec<Entry>,
    /// The offer that this settles.
    pub settles: Option<u64>,
    /// What it means for somebody who waits for a receipt.
    pub receipt: Option<MessageReceipt>,
}

/// What an event says about a delivery, beside whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The session it is about.
    pub session: Option<SessionId>,
    /// What happened.
    pub what: FactKind,
}

/// What happened to a delivery.
#[derive(Clone, Debug, PartialEq)]
pub enum FactKind {
    /// A session has taken it over.
    Accepted {
        /// The door and the evidence.
        metadata: Option<Metadata>,
    },
    /// A session has seen it.
    Delivered {
        /// The door and the evidence.
        metadata: Option<Metadata>,
    },
    /// It waits until this time.
    Deferred {
        /// When it is tried again.
        available_at: Timestamp,
        /// Why.
        reason: Option<String>,
    },
    /// An attempt failed, and another follows.
    AttemptFailed {
        /// Why.
        reason: String,
        /// Which one it was.
        attempt: u32,
        /// When the next one is.
        next_attempt_at: Timestamp,
    },
    /// It will not be seen.
    Failed {
        /// Why.
        reason: String,
        /// How many attempts were used up.
        attempt: Option<u32>,
        /// Whether it may have been seen all the same.
        surfaced: Surfaced,
        /// The structured problem behind the reason.
        error: Option<Box<Problem>>,
    },
    /// It was called back.
    Cancelled {
        /// Why.
        reason: Option<String>,
        /// Whether it may have been seen all the same.
        surfaced: Surfaced,
    },
    /// A receipt came after the end, or one says that the message was seen and does not count.
    LateReceipt {
        /// What it said.
        receipt: MessageReceipt,
    },
}

/// Decides what a step makes of a delivery.
#[must_use]
pub fn apply(row: &DeliveryRow, step: &Step, given: &Circumstances<'_>) -> Applied {
    let change = Change { row, given };
    match step {
        Step::Receipt {
            session,
            offer,
            epoch,
            receipt,
        } => change.receipt(*session, offer.as_deref(), *epoch, receipt),
        Step::BelatedReceipt {
            session,
            offer,
            epoch,
            receipt,
        } => change.belated_receipt(*session, offer.as_deref(), *epoch, receipt),
        Step::NoReceipt { offer } => change.no_receipt(offer),
        Step::Returned {
            offer,
            session,
            cause,
        } => change.returned(offer.as_deref(), *session, *cause),
        Step::Mismatch { session, problem } => change.mismatch(*session, problem),
        Step::Expired { recall } => change.expired(recall),
        Step::Cancelled { reason, recall } => change.cancelled(reason.clone(), recall),
        Step::Woken => change.woken(),
        Step::Read(reading) => change.read(reading),
        Step::Retried => change.retried(),
        Step::Flushed => change.flushed(),
        Step::AgentReleased { recall } => change.agent_released(recall),
    }
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
