//! A delivery on its way from one row to the next.

use std::borrow::Cow;

use relay_protocol::delivery::{DeliveryMode, DeliveryState, MessageReceipt, Surfaced};
use relay_protocol::delivery_record::{
    DecisionOutcome, DeliveryAttempt, DeliveryDecision, ReceiptSource, StoredReceipt,
};
use relay_protocol::ids::SessionId;
use relay_protocol::time::Timestamp;

use super::{Circumstances, LapsedOffer};
use crate::delivery::history::{Entry, Offer, SettledOffer};
use crate::store::{DeliveryRow, Holder};

/// A row and what it is judged by.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) row: &'a DeliveryRow,
    pub(super) given: &'a Circumstances<'a>,
}

/// Who answers for a delivery at the moment.
#[derive(Clone, Copy)]
pub(super) enum Charge<'a> {
    /// A session that it was offered to.
    Offered(&'a Offer),
    /// A session that has accepted it.
    Held(Holder),
    /// A session that its newest offer was made to, which was settled without that session's word.
    Lapsed(LapsedOffer),
}

impl Charge<'_> {
    pub(super) const fn state(self) -> DeliveryState {
        match self {
            Self::Offered(_) | Self::Lapsed(_) => DeliveryState::Offered,
            Self::Held(_) => DeliveryState::Accepted,
        }
    }

    pub(super) const fn epoch(self) -> u64 {
        match self {
            Self::Offered(offer) => offer.epoch,
            Self::Held(holder) => holder.epoch,
            Self::Lapsed(offer) => offer.epoch,
        }
    }

    /// The offer that its answer settles.
    pub(super) const fn offer(&self) -> Option<&Offer> {
        match self {
            Self::Offered(offer) => Some(offer),
            Self::Held(_) | Self::Lapsed(_) => None,
        }
    }
}

/// Whether an offer used up an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Yes,
    No,
}

impl Change<'_> {
    /// The row once an offer is settled and the delivery goes on.
    pub(super) fn settled(&self, charge: Charge<'_>) -> DeliveryRow {
        DeliveryRow {
            used_mode: self.mode_of(charge),
            holder: None,
            not_before: None,
            after_accept: false,
            ..self.row.clone()
        }
    }

    fn mode_of(&self, charge: Charge<'_>) -> Option<DeliveryMode> {
        match charge {
            Charge::Offered(offer) => Some(offer.mode),
            Charge::Held(_) => self.row.used_mode,
            Charge::Lapsed(offer) => Some(offer.mode),
        }
    }

    pub(super) fn session_of(&self, charge: Charge<'_>) -> Option<SessionId> {
        match charge {
            Charge::Offered(offer) => Some(offer.session_id),
            Charge::Held(_) => self.given.holder,
            Charge::Lapsed(offer) => Some(offer.session_id),
        }
    }

    /// Whether it is neither held by a session nor ended.
    pub(super) const fn waits(&self) -> bool {
        matches!(
            self.row.state,
            DeliveryState::Pending | DeliveryState::Deferred
        )
    }

    /// Whether an offer is one that the row still waits for.
    pub(super) const fn is_out(&self, offer: &Offer) -> bool {
        offer.generation == self.row.generation && self.waits()
    }

    /// Only an offer over a live link uses up an attempt, and not when it repeats what was accepted.
    pub(super) fn counts(&self, charge: Charge<'_>) -> Counted {
        match charge {
            Charge::Offered(offer) if !offer.live || self.row.after_accept => Counted::No,
            _ => Counted::Yes,
        }
    }

    /// Whether it may have been seen, if the session that had it last says that it was not.
    pub(super) const fn surfaced(&self) -> Surfaced {
        if self.row.redelivered {
            Surfaced::Unknown
        } else {
            Surfaced::No
        }
    }

    pub(super) fn decision(
        &self,
        outcome: DecisionOutcome,
        reason: impl Into<String>,
    ) -> DeliveryDecision {
        DeliveryDecision {
            at: self.given.now,
            outcome,
            reason: reason.into(),
            session_id: None,
            mode: None,
            waits_for: None,
            until: None,
        }
    }

    /// The decision to let it wait until a time.
    pub(super) fn defer(&self, until: Timestamp, reason: impl Into<String>) -> DeliveryDecision {
        DeliveryDecision {
            until: Some(until),
            ..self.decision(DecisionOutcome::Defer, reason)
        }
    }

    pub(super) fn settled_offer(&self, offer: &Offer, outcome: &str, counted: Counted) -> Entry {
        Entry::Offer(SettledOffer {
            attempt: DeliveryAttempt {
                epoch: offer.epoch,
                generation: offer.generation,
                session_id: offer.session_id,
                mode: offer.mode,
                offered_at: offer.offered_at,
                settled_at: Some(self.given.now),
                outcome: Some(outcome.to_owned()),
                counted: counted == Counted::Yes,
            },
            why: Cow::clone(&offer.why),
        })
    }

    pub(super) fn receipt_entry(
        &self,
        charge: Charge<'_>,
        by: ReceiptSource,
        receipt: &MessageReceipt,
    ) -> StoredReceipt {
        StoredReceipt {
            at: self.given.now,
            by,
            epoch: Some(charge.epoch()),
            session_id: self.session_of(charge),
            late: false,
            receipt: receipt.clone(),
        }
    }
}

/// Milliseconds of a policy as those of a time.
pub(super) fn millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
