//! What sessions say, and what Relay says for those that can't.

use relay_protocol::delivery::{
    AcceptedReceipt, DeferredReceipt, DeliveredReceipt, DeliveryState, FailedReceipt,
    MessageReceipt, Surfaced,
};
use relay_protocol::delivery_record::{
    DecisionOutcome, DeliveryDecision, ReceiptSource, StoredReceipt,
};
use relay_protocol::delivery_state::DeliveryCause;
use relay_protocol::ids::SessionId;

use super::change::{Change, Charge, Counted, millis};
use super::{
    ATTEMPTS_EXHAUSTED, Applied, DEFERRED_PAST_DEADLINE, Fact, FactKind, LapsedOffer, Moved,
    NO_RECEIPT, ReturnCause,
};
use crate::delivery::backoff::backoff_ms;
use crate::delivery::history::{Entry, Offer};
use crate::store::{DeliveryRow, Holder, SessionNo};

/// An answer for a delivery: who gives it for whom, and what it says.
#[derive(Clone, Copy)]
struct Answer<'a> {
    charge: Charge<'a>,
    by: ReceiptSource,
    receipt: &'a MessageReceipt,
}

/// What an answer leads to.
struct Outcome {
    row: DeliveryRow,
    what: FactKind,
    counted: Counted,
    /// What Relay makes of the answer, beyond what it says.
    decision: Option<DeliveryDecision>,
}

impl Change<'_> {
    pub(super) fn receipt(
        &self,
        session: Option<SessionNo>,
        offer: Option<&Offer>,
        epoch: Option<u64>,
        receipt: &MessageReceipt,
    ) -> Applied {
        let Some(charge) = self.charge(session, offer, epoch) else {
            return self.late(self.speaker(session, offer), epoch, receipt);
        };
        let answer = Answer {
            charge,
            by: ReceiptSource::Session,
            receipt,
        };
        match (receipt, charge) {
            (MessageReceipt::Accepted(accepted), Charge::Offered(offer)) => {
                self.accepted(answer, offer, accepted)
            }
            (MessageReceipt::Accepted(_), _) => {
                // It says so once more; nothing changes.
                self.late(self.session_of(charge), Some(charge.epoch()), receipt)
            }
            (MessageReceipt::Delivered(delivered), _) => self.delivered(answer, delivered),
            (MessageReceipt::Deferred(deferred), _) => self.deferred(answer, deferred),
            (MessageReceipt::Failed(failed), _) => self.attempt_failed(answer, failed),
        }
    }

    /// A message that was shown is delivered, also if its offer was settled before the session could say so,
    /// unless it was offered anew since.
    pub(super) fn belated_receipt(
        &self,
        session: Option<SessionNo>,
        offer: Option<&Offer>,
        epoch: Option<u64>,
        receipt: &MessageReceipt,
    ) -> Applied {
        match (receipt, self.lapsed_offer(session, epoch)) {
            (MessageReceipt::Delivered(delivered), Some(offer)) => {
                let answer = Answer {
                    charge: Charge::Lapsed(offer),
                    by: ReceiptSource::Session,
                    receipt,
                };
                self.delivered(answer, delivered)
            }
            _ => {
                let last = self.given.last_offer.map(|last| last.epoch);
                let unsettled = offer.filter(|offer| last < Some(offer.epoch));
                self.receipt(session, unsettled, epoch, receipt)
            }
        }
    }

    /// The newest offer, if a receipt is meant for it. One that does not name its offer has to come from the
    /// session that the offer was made to.
    fn lapsed_offer(&self, session: Option<SessionNo>, epoch: Option<u64>) -> Option<LapsedOffer> {
        let last = self
            .given
            .last_offer
            .filter(|last| self.waits() && last.generation == self.row.generation)?;
        let is_meant = match (session, epoch) {
            (Some(session), _) if session != last.session => false,
            (_, Some(epoch)) => epoch == last.epoch,
            (session, None) => session.is_some(),
        };
        is_meant.then_some(last)
    }

    /// Whether a receipt comes from whoever answers for the delivery now.
    fn charge<'o>(
        &self,
        session: Option<SessionNo>,
        offer: Option<&'o Offer>,
        epoch: Option<u64>,
    ) -> Option<Charge<'o>> {
        let meant = |by: SessionNo, of: u64| {
            session.is_none_or(|session| session == by) && epoch.is_none_or(|epoch| epoch == of)
        };
        match self.row.holder {
            Some(holder) if self.row.state == DeliveryState::Accepted => {
                meant(holder.session, holder.epoch).then_some(Charge::Held(holder))
            }
            _ => offer
                .filter(|offer| self.is_out(offer) && meant(offer.session, offer.epoch))
                .map(Charge::Offered),
        }
    }

    /// The id of the session that speaks, as far as the step tells.
    fn speaker(&self, session: Option<SessionNo>, offer: Option<&Offer>) -> Option<SessionId> {
        let session = session?;
        match (offer, self.row.holder) {
            (Some(offer), _) if offer.session == session => Some(offer.session_id),
            (_, Some(holder)) if holder.session == session => self.given.holder,
            _ => None,
        }
    }

    fn accepted(&self, answer: Answer<'_>, offer: &Offer, accepted: &AcceptedReceipt) -> Applied {
        let row = DeliveryRow {
            state: DeliveryState::Accepted,
            holder: Some(Holder {
                session: offer.session,
                epoch: offer.epoch,
                retryable: accepted.retryable != Some(false),
            }),
            ..self.settled(answer.charge)
        };
        let what = FactKind::Accepted {
            metadata: accepted.metadata.clone(),
        };
        self.answered(answer, Outcome::plain(row, what))
    }

    fn delivered(&self, answer: Answer<'_>, delivered: &DeliveredReceipt) -> Applied {
        let row = DeliveryRow {
            state: DeliveryState::Delivered,
            ..self.settled(answer.charge)
        };
        let what = FactKind::Delivered {
            metadata: delivered.metadata.clone(),
        };
        self.answered(answer, Outcome::plain(row, what))
    }

    fn deferred(&self, answer: Answer<'_>, deferred: &DeferredReceipt) -> Applied {
        let now = self.given.now;
        let available_at = if deferred.available_at <= now {
            now.plus_millis(millis(self.given.policy.retry.min_ms))
        } else {
            deferred.available_at
        };
        if available_at >= self.row.deadline {
            let reason = DEFERRED_PAST_DEADLINE.to_owned();
            let why = "the session put it off beyond its deadline";
            let outcome = self.given_up(answer.charge, reason, self.surfaced(), why);
            return self.answered(answer, outcome);
        }
        let row = DeliveryRow {
            state: DeliveryState::Deferred,
            not_before: Some(available_at),
            ..self.settled(answer.charge)
        };
        let what = FactKind::Deferred {
            available_at,
            reason: deferred.reason.clone(),
        };
        let decision = self.defer(available_at, "the session put it off");
        let outcome = Outcome {
            decision: Some(decision),
            ..Outcome::plain(row, what)
        };
        self.answered(answer, outcome)
    }

    /// A session said that it could not; or Relay says so for one that stayed silent.
    fn attempt_failed(&self, answer: Answer<'_>, failed: &FailedReceipt) -> Applied {
        let counted = self.counts(answer.charge);
        let attempts = self.row.attempts + u32::from(counted == Counted::Yes);
        let outcome = match failed.retryable {
            Some(true) if attempts < self.given.policy.retry.attempts => {
                self.another_try(answer.charge, &failed.reason, attempts)
            }
            Some(true) => self.exhausted(answer.charge, &failed.reason, attempts),
            _ => {
                let outcome = self.failed(answer.charge, failed.reason.clone(), self.surfaced());
                with_attempts(outcome, attempts)
            }
        };
        self.answered(answer, Outcome { counted, ..outcome })
    }

    fn another_try(&self, charge: Charge<'_>, reason: &str, attempts: u32) -> Outcome {
        let policy = &self.given.policy.retry;
        let wait = backoff_ms(policy, attempts, self.given.jitter);
        let next_attempt_at = self.given.now.plus_millis(millis(wait));
        let row = DeliveryRow {
            state: DeliveryState::Pending,
            attempts,
            not_before: Some(next_attempt_at),
            ..self.settled(charge)
        };
        let what = FactKind::AttemptFailed {
            reason: reason.to_owned(),
            attempt: attempts,
            next_attempt_at,
        };
        let used = format!("{attempts} of {} attempts are used up", policy.attempts);
        Outcome {
            decision: Some(self.defer(next_attempt_at, used)),
            ..Outcome::plain(row, what)
        }
    }

    fn exhausted(&self, charge: Charge<'_>, reason: &str, attempts: u32) -> Outcome {
        let reason = format!("{ATTEMPTS_EXHAUSTED}: {reason}");
        let why = format!("all {attempts} attempts are used up");
        let outcome = self.given_up(charge, reason, self.surfaced(), why);
        with_attempts(outcome, attempts)
    }

    /// It ends because Relay draws that from the answer.
    fn given_up(
        &self,
        charge: Charge<'_>,
        reason: String,
        surfaced: Surfaced,
        why: impl Into<String>,
    ) -> Outcome {
        Outcome {
            decision: Some(self.decision(DecisionOutcome::Fail, why)),
            ..self.failed(charge, reason, surfaced)
        }
    }

    /// It ends because the answer says so.
    fn failed(&self, charge: Charge<'_>, reason: String, surfaced: Surfaced) -> Outcome {
        let row = DeliveryRow {
            state: DeliveryState::Failed,
            surfaced: Some(surfaced),
            ..self.settled(charge)
        };
        let what = FactKind::Failed {
            reason,
            attempt: None,
            surfaced,
            error: None,
        };
        Outcome::plain(row, what)
    }

    pub(super) fn no_receipt(&self, offer: &Offer) -> Applied {
        if !self.is_out(offer) {
            return Applied::Nothing;
        }
        let silent = DeliveryRow {
            redelivered: true,
            ..self.row.clone()
        };
        let change = Change {
            row: &silent,
            given: self.given,
        };
        let failed = self.failed_receipt(NO_RECEIPT, true);
        let answer = Answer {
            charge: Charge::Offered(offer),
            by: ReceiptSource::Relay,
            receipt: &MessageReceipt::Failed(failed.clone()),
        };
        change.attempt_failed(answer, &failed)
    }

    pub(super) fn returned(
        &self,
        offer: Option<&Offer>,
        session: SessionNo,
        cause: ReturnCause,
    ) -> Applied {
        let gone_for_good = self.row.only_session == Some(session) && cause.is_final();
        let charge = match (offer, self.row.holder) {
            (Some(offer), _) if self.is_out(offer) && offer.session == session => {
                Charge::Offered(offer)
            }
            // Without a link it still holds what it accepted, until its lease ends.
            (None, Some(_)) if cause == ReturnCause::LinkLost => return Applied::Nothing,
            (None, Some(holder)) if holder.session == session => Charge::Held(holder),
            (None, None) if gone_for_good => return self.left_alone(cause),
            _ => return Applied::Nothing,
        };
        let one_chance = matches!(charge, Charge::Held(holder) if !holder.retryable);
        let again = !gone_for_good && !one_chance;
        let outcome = if again {
            self.taken_back(charge, cause)
        } else {
            let reason = cause.as_str().to_owned();
            let why = match one_chance {
                true => "; it was not to be offered again",
                false => "; no other may have it",
            };
            let why = format!("{}{why}", cause.words());
            self.given_up(charge, reason, Surfaced::Unknown, why)
        };
        let answer = Answer {
            charge,
            by: ReceiptSource::Relay,
            receipt: &MessageReceipt::Failed(self.failed_receipt(cause.as_str(), again)),
        };
        self.answered(answer, outcome)
    }

    /// It waits for the current session again.
    fn taken_back(&self, charge: Charge<'_>, cause: ReturnCause) -> Outcome {
        let row = DeliveryRow {
            state: DeliveryState::Pending,
            redelivered: true,
            after_accept: self.row.after_accept || matches!(charge, Charge::Held(_)),
            ..self.settled(charge)
        };
        let what = FactKind::Deferred {
            available_at: self.given.now,
            reason: Some(cause.as_str().to_owned()),
        };
        Outcome {
            decision: Some(self.decision(DecisionOutcome::Reopen, cause.words())),
            ..Outcome::plain(row, what)
        }
    }

    fn failed_receipt(&self, reason: &str, retryable: bool) -> FailedReceipt {
        FailedReceipt {
            delivery_id: Some(self.given.id),
            reason: reason.to_owned(),
            retryable: Some(retryable),
            metadata: None,
        }
    }

    /// Puts a change together that an answer brings about.
    fn answered(&self, answer: Answer<'_>, outcome: Outcome) -> Applied {
        let Answer {
            charge,
            by,
            receipt,
        } = answer;
        let to = outcome.row.state;
        let legal = charge.state().check_transition(to, DeliveryCause::Progress);
        if let Err(refused) = legal {
            return Applied::Refused(refused);
        }
        let mut history = Vec::new();
        if let Charge::Offered(offer) = charge {
            let how = match receipt {
                MessageReceipt::Failed(failed) => failed.reason.as_str(),
                other => other.tag(),
            };
            history.push(self.settled_offer(offer, how, outcome.counted));
        }
        history.push(Entry::Receipt(self.receipt_entry(charge, by, receipt)));
        let ended_by_us = to == DeliveryState::Failed && outcome.decision.is_some();
        let told = match ended_by_us {
            true => self.receipt_for(&outcome.what),
            false => receipt.clone(),
        };
        history.extend(outcome.decision.map(Entry::Decision));
        Applied::Moved(Box::new(Moved {
            row: outcome.row,
            fact: Some(Fact {
                session: self.session_of(charge),
                what: outcome.what,
            }),
            history,
            settles: charge.offer().map(|offer| offer.epoch),
            receipt: Some(told),
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
        let was_shown = matches!(receipt, MessageReceipt::Delivered(_));
        let fact = (was_shown || self.row.state.is_terminal()).then(|| {
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
}

impl Outcome {
    /// What an answer leads to by itself, and which uses up no attempt.
    const fn plain(row: DeliveryRow, what: FactKind) -> Self {
        Self {
            row,
            what,
            counted: Counted::No,
            decision: None,
        }
    }
}

/// Says how many attempts were used up until the end.
fn with_attempts(mut outcome: Outcome, attempts: u32) -> Outcome {
    outcome.row.attempts = attempts;
    if let FactKind::Failed { attempt, .. } = &mut outcome.what {
        *attempt = Some(attempts);
    }
    outcome
}
