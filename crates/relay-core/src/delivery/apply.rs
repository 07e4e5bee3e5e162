//! What a step makes of a delivery: the one place where a delivery changes.
//!
//! The store calls [`apply`] inside the transaction that writes its result: the new row, the event and
//! the entries of the explanation. Offers are not stored while they are out (see `docs/delivery.md`):
//! a step that settles one brings it along, and the row itself still says `pending`.

use std::borrow::Cow;

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{
    DeliveredReceipt, DeliveryState, FailedReceipt, MessageReceipt, Surfaced,
};
use relay_protocol::delivery_record::{
    DecisionOutcome, DeliveryAttempt, DeliveryDecision, ReceiptSource, StoredReceipt,
};
use relay_protocol::delivery_state::{DeliveryCause, IllegalDeliveryTransition};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::policy::Policy;
use relay_protocol::problem::Problem;
use relay_protocol::time::Timestamp;

use super::backoff::backoff_ms;
use super::history::{Entry, Offer, SettledOffer};
use crate::store::{DeliveryRow, Holder, SessionNo};

/// The reason when a session stays silent.
pub const NO_RECEIPT: &str = "no_receipt";
/// The reason when the deadline has passed.
pub const DEADLINE_EXCEEDED: &str = "deadline_exceeded";
/// The reason when a session puts a delivery off beyond its deadline.
pub const DEFERRED_PAST_DEADLINE: &str = "deferred_past_deadline";
/// The reason when the agent is gone.
pub const AGENT_RELEASED: &str = "agent_released";
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
    /// The agent has read the message in its inbox.
    Read,
    /// Somebody wants another try.
    Retried,
    /// Somebody lets it go at any moment.
    Flushed,
    /// The agent is gone.
    AgentReleased,
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
    /// A receipt came after the end.
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
        Step::Read => change.read(),
        Step::Retried => change.retried(),
        Step::Flushed => change.flushed(),
        Step::AgentReleased => change.agent_released(),
    }
}

/// A row on its way to the next one.
struct Change<'a> {
    row: &'a DeliveryRow,
    given: &'a Circumstances<'a>,
}

/// Who answers for a delivery at the moment.
enum Charge<'a> {
    /// A session that it was offered to.
    Offered(&'a Offer),
    /// A session that has accepted it.
    Held(Holder),
}

impl Change<'_> {
    fn receipt(
        &self,
        session: Option<SessionNo>,
        offer: Option<&Offer>,
        epoch: Option<u64>,
        receipt: &MessageReceipt,
    ) -> Applied {
        let Some(charge) = self.charge(session, offer, epoch) else {
            return self.late(offer.map(|offer| offer.session_id), epoch, receipt);
        };
        match receipt {
            MessageReceipt::Accepted(accepted) => match charge {
                Charge::Offered(offer) => self.accepted(offer, accepted.retryable, receipt),
                // It says so once more; nothing changes.
                Charge::Held(_) => Applied::Noted {
                    entry: Box::new(self.receipt_entry(&charge, receipt, true)),
                    fact: None,
                },
            },
            MessageReceipt::Delivered(delivered) => {
                let what = FactKind::Delivered {
                    metadata: delivered.metadata.clone(),
                };
                self.end(&charge, receipt, DeliveryState::Delivered, what)
            }
            MessageReceipt::Deferred(deferred) => self.deferred(&charge, deferred, receipt),
            MessageReceipt::Failed(failed) => self.attempt_failed(&charge, failed, receipt),
        }
    }

    /// Whether a receipt comes from whoever answers for the delivery now.
    fn charge<'o>(
        &self,
        session: Option<SessionNo>,
        offer: Option<&'o Offer>,
        epoch: Option<u64>,
    ) -> Option<Charge<'o>> {
        if self.row.state.is_terminal() {
            return None;
        }
        match (self.row.state, self.row.holder) {
            (DeliveryState::Accepted, Some(holder)) => {
                let speaks = session.is_none_or(|session| session == holder.session);
                let meant = epoch.is_none_or(|epoch| epoch == holder.epoch);
                (speaks && meant).then_some(Charge::Held(holder))
            }
            _ => offer
                .filter(|offer| offer.generation == self.row.generation)
                .map(Charge::Offered),
        }
    }

    fn accepted(
        &self,
        offer: &Offer,
        retryable: Option<bool>,
        receipt: &MessageReceipt,
    ) -> Applied {
        let charge = Charge::Offered(offer);
        let row = DeliveryRow {
            state: DeliveryState::Accepted,
            holder: Some(Holder {
                session: offer.session,
                epoch: offer.epoch,
                retryable: retryable != Some(false),
            }),
            not_before: None,
            after_accept: false,
            ..self.settled(&charge)
        };
        let MessageReceipt::Accepted(accepted) = receipt else {
            return Applied::Nothing;
        };
        let what = FactKind::Accepted {
            metadata: accepted.metadata.clone(),
        };
        self.answered(&charge, receipt, row, what, Counted::No)
    }

    /// A receipt that ends the delivery.
    fn end(
        &self,
        charge: &Charge<'_>,
        receipt: &MessageReceipt,
        state: DeliveryState,
        what: FactKind,
    ) -> Applied {
        let row = DeliveryRow {
            state,
            ..self.ended(charge)
        };
        self.answered(charge, receipt, row, what, Counted::No)
    }

    fn deferred(
        &self,
        charge: &Charge<'_>,
        deferred: &relay_protocol::delivery::DeferredReceipt,
        receipt: &MessageReceipt,
    ) -> Applied {
        let now = self.given.now;
        let available_at = if deferred.available_at <= now {
            now.plus_millis(millis(self.given.policy.retry.min_ms))
        } else {
            deferred.available_at
        };
        if available_at >= self.row.deadline {
            let surfaced = self.surfaced();
            let row = DeliveryRow {
                state: DeliveryState::Failed,
                surfaced: Some(surfaced),
                ..self.ended(charge)
            };
            let what = FactKind::Failed {
                reason: DEFERRED_PAST_DEADLINE.to_owned(),
                attempt: None,
                surfaced,
                error: None,
            };
            return self.answered(charge, receipt, row, what, Counted::No);
        }
        let row = DeliveryRow {
            state: DeliveryState::Deferred,
            not_before: Some(available_at),
            holder: None,
            ..self.settled(charge)
        };
        let what = FactKind::Deferred {
            available_at,
            reason: deferred.reason.clone(),
        };
        self.answered(charge, receipt, row, what, Counted::No)
    }

    /// A session said that it could not; or Relay says so for one that stayed silent.
    fn attempt_failed(
        &self,
        charge: &Charge<'_>,
        failed: &FailedReceipt,
        receipt: &MessageReceipt,
    ) -> Applied {
        let counted = self.counts(charge);
        let attempts = self.row.attempts + u32::from(counted == Counted::Yes);
        let policy = &self.given.policy.retry;
        let again = failed.retryable == Some(true);
        if again && attempts < policy.attempts {
            let wait = backoff_ms(policy, attempts, self.given.jitter);
            let next_attempt_at = self.given.now.plus_millis(millis(wait));
            let row = DeliveryRow {
                state: DeliveryState::Pending,
                attempts,
                not_before: Some(next_attempt_at),
                holder: None,
                ..self.settled(charge)
            };
            let what = FactKind::AttemptFailed {
                reason: failed.reason.clone(),
                attempt: attempts,
                next_attempt_at,
            };
            return self.answered(charge, receipt, row, what, counted);
        }
        let surfaced = self.surfaced();
        let row = DeliveryRow {
            state: DeliveryState::Failed,
            attempts,
            surfaced: Some(surfaced),
            ..self.ended(charge)
        };
        let reason = if again {
            format!("{ATTEMPTS_EXHAUSTED}: {}", failed.reason)
        } else {
            failed.reason.clone()
        };
        let what = FactKind::Failed {
            reason,
            attempt: Some(attempts),
            surfaced,
            error: None,
        };
        self.answered(charge, receipt, row, what, counted)
    }

    fn no_receipt(&self, offer: &Offer) -> Applied {
        if !self.is_out(offer) {
            return Applied::Nothing;
        }
        let silent = DeliveryRow {
            redelivered: true,
            ..self.row.clone()
        };
        let failed = FailedReceipt {
            delivery_id: Some(self.given.id),
            reason: NO_RECEIPT.to_owned(),
            retryable: Some(true),
            metadata: None,
        };
        let receipt = MessageReceipt::Failed(failed.clone());
        let change = Change {
            row: &silent,
            given: self.given,
        };
        let mut applied = change.attempt_failed(&Charge::Offered(offer), &failed, &receipt);
        mark_as_ours(&mut applied);
        applied
    }

    fn returned(&self, offer: Option<&Offer>, session: SessionNo, cause: ReturnCause) -> Applied {
        let charge = match (offer, self.row.holder) {
            (Some(offer), _) if self.is_out(offer) => Charge::Offered(offer),
            (None, Some(holder)) if holder.session == session => Charge::Held(holder),
            _ => return Applied::Nothing,
        };
        let gone_for_good = self.row.only_session == Some(session) && cause.is_final();
        let one_chance = matches!(charge, Charge::Held(holder) if !holder.retryable);
        let failed = FailedReceipt {
            delivery_id: Some(self.given.id),
            reason: cause.as_str().to_owned(),
            retryable: Some(!gone_for_good && !one_chance),
            metadata: None,
        };
        let receipt = MessageReceipt::Failed(failed);
        let mut applied = if gone_for_good || one_chance {
            let row = DeliveryRow {
                state: DeliveryState::Failed,
                surfaced: Some(Surfaced::Unknown),
                ..self.ended(&charge)
            };
            let what = FactKind::Failed {
                reason: cause.as_str().to_owned(),
                attempt: None,
                surfaced: Surfaced::Unknown,
                error: None,
            };
            self.answered(&charge, &receipt, row, what, Counted::No)
        } else {
            let row = DeliveryRow {
                state: DeliveryState::Pending,
                holder: None,
                redelivered: true,
                after_accept: self.row.after_accept || matches!(charge, Charge::Held(_)),
                ..self.settled(&charge)
            };
            let what = FactKind::Deferred {
                available_at: self.given.now,
                reason: Some(cause.as_str().to_owned()),
            };
            self.answered(&charge, &receipt, row, what, Counted::No)
        };
        mark_as_ours(&mut applied);
        applied
    }

    fn mismatch(&self, session: SessionId, problem: &Problem) -> Applied {
        let reason = problem.code.to_string();
        let decision = self.decision(DecisionOutcome::Fail, problem.detail.clone());
        self.fail(
            None,
            reason,
            Some(Box::new(problem.clone())),
            DeliveryDecision {
                session_id: Some(session),
                ..decision
            },
        )
    }

    fn expired(&self, recall: &Recall) -> Applied {
        if self.given.now < self.row.deadline {
            return Applied::Nothing;
        }
        let why = format!("its deadline {} has passed", self.row.deadline);
        let decision = self.decision(DecisionOutcome::Fail, why);
        self.fail(Some(recall), DEADLINE_EXCEEDED.to_owned(), None, decision)
    }

    fn agent_released(&self) -> Applied {
        let decision = self.decision(DecisionOutcome::Fail, "its agent was released");
        self.fail(None, AGENT_RELEASED.to_owned(), None, decision)
    }

    /// Ends it as failed without a receipt.
    fn fail(
        &self,
        recall: Option<&Recall>,
        reason: String,
        error: Option<Box<Problem>>,
        decision: DeliveryDecision,
    ) -> Applied {
        let surfaced = self.surfaced_after(recall);
        let what = FactKind::Failed {
            reason,
            attempt: None,
            surfaced,
            error: error.clone(),
        };
        self.finish(
            recall,
            DeliveryState::Failed,
            surfaced,
            error,
            what,
            decision,
        )
    }

    fn cancelled(&self, reason: Option<String>, recall: &Recall) -> Applied {
        let surfaced = self.surfaced_after(Some(recall));
        let why = reason.clone().unwrap_or_else(|| "called back".to_owned());
        let decision = self.decision(DecisionOutcome::Cancel, why);
        let what = FactKind::Cancelled { reason, surfaced };
        self.finish(
            Some(recall),
            DeliveryState::Cancelled,
            surfaced,
            None,
            what,
            decision,
        )
    }

    /// Ends it by a decision of ours. An offer that was out is settled with it.
    fn finish(
        &self,
        recall: Option<&Recall>,
        state: DeliveryState,
        surfaced: Surfaced,
        error: Option<Box<Problem>>,
        what: FactKind,
        decision: DeliveryDecision,
    ) -> Applied {
        let offer = recall
            .and_then(Recall::offer)
            .filter(|offer| self.is_out(offer));
        let from = match offer {
            Some(_) => DeliveryState::Offered,
            None => self.row.state,
        };
        if let Err(refused) = from.check_transition(state, DeliveryCause::Progress) {
            return Applied::Refused(refused);
        }
        let row = DeliveryRow {
            state,
            surfaced: Some(surfaced),
            error,
            holder: None,
            not_before: None,
            used_mode: offer.map(|offer| offer.mode).or(self.row.used_mode),
            ..self.row.clone()
        };
        let session = offer.map(|offer| offer.session_id).or(self.given.holder);
        let mut history = Vec::new();
        history.extend(offer.map(|offer| self.settled_offer(offer, state.as_str(), Counted::No)));
        history.push(Entry::Decision(decision));
        Applied::Moved(Box::new(Moved {
            row,
            receipt: Some(self.receipt_for(&what)),
            fact: Some(Fact { session, what }),
            history,
            settles: offer.map(|offer| offer.epoch),
        }))
    }

    fn woken(&self) -> Applied {
        let due = self
            .row
            .not_before
            .is_some_and(|until| until <= self.given.now);
        if self.row.state.is_terminal() || !due {
            return Applied::Nothing;
        }
        self.reopened("its time has come", None, |row| row.not_before = None)
    }

    fn flushed(&self) -> Applied {
        if self.row.flushed && self.row.not_before.is_none() {
            return Applied::Nothing;
        }
        match self.row.state {
            DeliveryState::Pending | DeliveryState::Deferred => {
                let fact = (self.row.state == DeliveryState::Deferred).then_some("flushed");
                self.reopened("somebody flushed it", fact, |row| {
                    row.not_before = None;
                    row.flushed = true;
                })
            }
            _ => Applied::Nothing,
        }
    }

    fn retried(&self) -> Applied {
        let legal = self
            .row
            .state
            .check_transition(DeliveryState::Pending, DeliveryCause::Retry);
        if let Err(refused) = legal {
            return Applied::Refused(refused);
        }
        let lifetime = millis(self.given.policy.default_deadline_ms);
        let why = format!("retried, generation {}", self.row.generation + 1);
        self.reopened(why, Some("retry"), |row| {
            row.generation += 1;
            row.attempts = 0;
            row.not_before = None;
            row.surfaced = None;
            row.error = None;
            row.after_accept = false;
            if row.deadline <= self.given.now {
                row.deadline = self.given.now.plus_millis(lifetime);
            }
        })
    }

    fn read(&self) -> Applied {
        let to = DeliveryState::Delivered;
        if let Err(refused) = self
            .row
            .state
            .check_transition(to, DeliveryCause::InboxRead)
        {
            return Applied::Refused(refused);
        }
        let mut metadata = Metadata::new();
        metadata.insert("door".to_owned(), "inbox".into());
        let receipt = MessageReceipt::Delivered(DeliveredReceipt {
            delivery_id: self.given.id,
            metadata: Some(metadata.clone()),
        });
        let stored = StoredReceipt {
            at: self.given.now,
            by: ReceiptSource::Relay,
            epoch: None,
            session_id: None,
            late: false,
            receipt: receipt.clone(),
        };
        Applied::Moved(Box::new(Moved {
            row: DeliveryRow {
                state: to,
                not_before: None,
                ..self.row.clone()
            },
            fact: Some(Fact {
                session: None,
                what: FactKind::Delivered {
                    metadata: Some(metadata),
                },
            }),
            history: vec![Entry::Receipt(stored)],
            settles: None,
            receipt: Some(receipt),
        }))
    }

    /// It waits for its boundary again.
    fn reopened(
        &self,
        why: impl Into<String>,
        told: Option<&str>,
        change: impl FnOnce(&mut DeliveryRow),
    ) -> Applied {
        let mut row = DeliveryRow {
            state: DeliveryState::Pending,
            ..self.row.clone()
        };
        change(&mut row);
        let fact = told.map(|reason| Fact {
            session: None,
            what: FactKind::Deferred {
                available_at: self.given.now,
                reason: Some(reason.to_owned()),
            },
        });
        let decision = self.decision(DecisionOutcome::Reopen, why.into());
        Applied::Moved(Box::new(Moved {
            row,
            fact,
            history: vec![Entry::Decision(decision)],
            settles: None,
            receipt: None,
        }))
    }

    /// Puts a change together that a receipt brings about.
    fn answered(
        &self,
        charge: &Charge<'_>,
        receipt: &MessageReceipt,
        row: DeliveryRow,
        what: FactKind,
        counted: Counted,
    ) -> Applied {
        let from = match charge {
            Charge::Offered(_) => DeliveryState::Offered,
            Charge::Held(_) => DeliveryState::Accepted,
        };
        if let Err(refused) = from.check_transition(row.state, DeliveryCause::Progress) {
            return Applied::Refused(refused);
        }
        let mut history = Vec::new();
        if let Charge::Offered(offer) = charge {
            let outcome = match receipt {
                MessageReceipt::Failed(failed) => failed.reason.as_str(),
                other => other.tag(),
            };
            history.push(self.settled_offer(offer, outcome, counted));
        }
        history.push(self.receipt_entry(charge, receipt, false));
        Applied::Moved(Box::new(Moved {
            row,
            fact: Some(Fact {
                session: self.session_of(charge),
                what,
            }),
            history,
            settles: match charge {
                Charge::Offered(offer) => Some(offer.epoch),
                Charge::Held(_) => None,
            },
            receipt: Some(receipt.clone()),
        }))
    }

    fn late(
        &self,
        session: Option<SessionId>,
        epoch: Option<u64>,
        receipt: &MessageReceipt,
    ) -> Applied {
        let entry = Entry::Receipt(StoredReceipt {
            at: self.given.now,
            by: ReceiptSource::Session,
            epoch,
            session_id: session,
            late: true,
            receipt: receipt.clone(),
        });
        let fact = self.row.state.is_terminal().then(|| {
            Box::new(Fact {
                session,
                what: FactKind::LateReceipt {
                    receipt: receipt.clone(),
                },
            })
        });
        Applied::Noted {
            entry: Box::new(entry),
            fact,
        }
    }

    /// The row once an offer is settled and the delivery goes on.
    fn settled(&self, charge: &Charge<'_>) -> DeliveryRow {
        DeliveryRow {
            used_mode: self.mode_of(charge),
            after_accept: false,
            ..self.row.clone()
        }
    }

    /// The row once the delivery has ended.
    fn ended(&self, charge: &Charge<'_>) -> DeliveryRow {
        DeliveryRow {
            holder: None,
            not_before: None,
            ..self.settled(charge)
        }
    }

    fn mode_of(&self, charge: &Charge<'_>) -> Option<relay_protocol::delivery::DeliveryMode> {
        match charge {
            Charge::Offered(offer) => Some(offer.mode),
            Charge::Held(_) => self.row.used_mode,
        }
    }

    fn session_of(&self, charge: &Charge<'_>) -> Option<SessionId> {
        match charge {
            Charge::Offered(offer) => Some(offer.session_id),
            Charge::Held(_) => self.given.holder,
        }
    }

    /// Whether an offer is one that the row still waits for.
    fn is_out(&self, offer: &Offer) -> bool {
        offer.generation == self.row.generation
            && matches!(
                self.row.state,
                DeliveryState::Pending | DeliveryState::Deferred
            )
    }

    /// Only an offer over a live link uses up an attempt, and not when it repeats what was accepted.
    fn counts(&self, charge: &Charge<'_>) -> Counted {
        match charge {
            Charge::Offered(offer) if !offer.live || self.row.after_accept => Counted::No,
            _ => Counted::Yes,
        }
    }

    fn surfaced(&self) -> Surfaced {
        if self.row.redelivered {
            Surfaced::Unknown
        } else {
            Surfaced::No
        }
    }

    fn surfaced_after(&self, recall: Option<&Recall>) -> Surfaced {
        match recall {
            Some(Recall::Unanswered(_)) => Surfaced::Unknown,
            _ => self.surfaced(),
        }
    }

    fn decision(&self, outcome: DecisionOutcome, reason: impl Into<String>) -> DeliveryDecision {
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

    fn settled_offer(&self, offer: &Offer, outcome: &str, counted: Counted) -> Entry {
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

    fn receipt_entry(&self, charge: &Charge<'_>, receipt: &MessageReceipt, late: bool) -> Entry {
        let epoch = match charge {
            Charge::Offered(offer) => offer.epoch,
            Charge::Held(holder) => holder.epoch,
        };
        Entry::Receipt(StoredReceipt {
            at: self.given.now,
            by: ReceiptSource::Session,
            epoch: Some(epoch),
            session_id: self.session_of(charge),
            late,
            receipt: receipt.clone(),
        })
    }

    /// What an end that no session brought about means for somebody who waits for a receipt.
    fn receipt_for(&self, what: &FactKind) -> MessageReceipt {
        let reason = match what {
            FactKind::Failed { reason, .. } => reason.clone(),
            _ => "cancelled".to_owned(),
        };
        MessageReceipt::Failed(FailedReceipt {
            delivery_id: Some(self.given.id),
            reason,
            retryable: Some(false),
            metadata: None,
        })
    }
}

/// Whether an offer used up an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
}

/// Says that Relay wrote the receipt, not the session.
fn mark_as_ours(applied: &mut Applied) {
    let Applied::Moved(moved) = applied else {
        return;
    };
    for entry in &mut moved.history {
        if let Entry::Receipt(stored) = entry {
            stored.by = ReceiptSource::Relay;
        }
    }
}

fn millis(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod fixtures;
