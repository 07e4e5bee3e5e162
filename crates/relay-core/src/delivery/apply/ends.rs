//! Ends that no session brings about: a mismatch, the deadline, a cancellation, an agent that is gone.

use relay_protocol::delivery::{DeliveryState, FailedReceipt, MessageReceipt, Surfaced};
use relay_protocol::delivery_record::{DecisionOutcome, DeliveryDecision, ReceiptSource};
use relay_protocol::delivery_state::DeliveryCause;
use relay_protocol::ids::SessionId;
use relay_protocol::problem::Problem;

use super::change::{Change, Charge, Counted};
use super::{
    AGENT_RELEASED, Applied, CANCELLED, DEADLINE_EXCEEDED, Fact, FactKind, Moved, Recall,
    ReturnCause,
};
use crate::delivery::history::{Entry, Offer};
use crate::store::DeliveryRow;

/// An end that Relay decides.
struct End<'a> {
    row: DeliveryRow,
    what: FactKind,
    decision: DeliveryDecision,
    /// The offer that was out.
    offer: Option<&'a Offer>,
}

impl Change<'_> {
    pub(super) fn mismatch(&self, session: SessionId, problem: &Problem) -> Applied {
        if !self.waits() {
            return Applied::Nothing;
        }
        let decision = DeliveryDecision {
            session_id: Some(session),
            ..self.decision(DecisionOutcome::Fail, problem.detail.clone())
        };
        let error = Some(Box::new(problem.clone()));
        self.fail(&Recall::NotNeeded, problem.code.as_str(), error, decision)
    }

    pub(super) fn expired(&self, recall: &Recall) -> Applied {
        if self.given.now < self.row.deadline {
            return Applied::Nothing;
        }
        let why = format!("its deadline {} has passed", self.row.deadline);
        let decision = self.decision(DecisionOutcome::Fail, why);
        self.fail(recall, DEADLINE_EXCEEDED, None, decision)
    }

    pub(super) fn agent_released(&self, recall: &Recall) -> Applied {
        let decision = self.decision(DecisionOutcome::Fail, "its agent was released");
        self.fail(recall, AGENT_RELEASED, None, decision)
    }

    /// The only session that could have had it has ended, and did not have it.
    pub(super) fn left_alone(&self, cause: ReturnCause) -> Applied {
        let why = format!("{}; no other may have it", cause.words());
        let decision = self.decision(DecisionOutcome::Fail, why);
        self.fail(&Recall::NotNeeded, cause.as_str(), None, decision)
    }

    /// Ends it as failed without a receipt, unless it has ended.
    fn fail(
        &self,
        recall: &Recall,
        reason: &str,
        error: Option<Box<Problem>>,
        decision: DeliveryDecision,
    ) -> Applied {
        if self.row.state.is_terminal() {
            return Applied::Nothing;
        }
        let surfaced = self.surfaced_after(recall);
        self.finish(End {
            row: DeliveryRow {
                error: error.clone(),
                ..self.ended(DeliveryState::Failed, surfaced, recall)
            },
            what: FactKind::Failed {
                reason: reason.to_owned(),
                attempt: None,
                surfaced,
                error,
            },
            decision,
            offer: self.out(recall),
        })
    }

    pub(super) fn cancelled(&self, reason: Option<String>, recall: &Recall) -> Applied {
        let surfaced = self.surfaced_after(recall);
        let why = reason.clone().unwrap_or_else(|| "called back".to_owned());
        self.finish(End {
            row: self.ended(DeliveryState::Cancelled, surfaced, recall),
            what: FactKind::Cancelled { reason, surfaced },
            decision: self.decision(DecisionOutcome::Cancel, why),
            offer: self.out(recall),
        })
    }

    /// The offer that is out, if there is one.
    fn out<'r>(&self, recall: &'r Recall) -> Option<&'r Offer> {
        recall.offer().filter(|offer| self.is_out(offer))
    }

    /// The row after an end that no session brought about.
    fn ended(&self, state: DeliveryState, surfaced: Surfaced, recall: &Recall) -> DeliveryRow {
        let mode = self.out(recall).map(|offer| offer.mode);
        DeliveryRow {
            state,
            surfaced: Some(surfaced),
            holder: None,
            not_before: None,
            used_mode: mode.or(self.row.used_mode),
            ..self.row.clone()
        }
    }

    /// Whether it may have been seen: a session that had it and was not heard may have shown it.
    fn surfaced_after(&self, recall: &Recall) -> Surfaced {
        match recall {
            Recall::Unanswered(_) => Surfaced::Unknown,
            Recall::NotNeeded if self.row.holder.is_some() => Surfaced::Unknown,
            Recall::NotNeeded | Recall::Confirmed(_) => self.surfaced(),
        }
    }

    /// Puts an end together. An offer that was out is settled with it, by a receipt of ours.
    fn finish(&self, end: End<'_>) -> Applied {
        let End {
            row,
            what,
            decision,
            offer,
        } = end;
        let from = offer.map_or(self.row.state, |_| DeliveryState::Offered);
        if let Err(refused) = from.check_transition(row.state, DeliveryCause::Progress) {
            return Applied::Refused(refused);
        }
        let receipt = self.receipt_for(&what);
        let mut history = Vec::new();
        if let Some(offer) = offer {
            let charge = Charge::Offered(offer);
            let stored = self.receipt_entry(charge, ReceiptSource::Relay, &receipt);
            history.push(self.settled_offer(offer, reason_of(&what), Counted::No));
            history.push(Entry::Receipt(stored));
        }
        let session = offer.map(|offer| offer.session_id);
        let session = session.or(self.given.holder).or(decision.session_id);
        history.push(Entry::Decision(decision));
        Applied::Moved(Box::new(Moved {
            row,
            fact: Some(Fact { session, what }),
            history,
            settles: offer.map(|offer| offer.epoch),
            receipt: Some(receipt),
        }))
    }

    /// What an end that no session brought about means for somebody who waits for a receipt.
    pub(super) fn receipt_for(&self, what: &FactKind) -> MessageReceipt {
        MessageReceipt::Failed(FailedReceipt {
            delivery_id: Some(self.given.id),
            reason: reason_of(what).to_owned(),
            retryable: Some(false),
            metadata: None,
        })
    }
}

fn reason_of(what: &FactKind) -> &str {
    match what {
        FactKind::Failed { reason, .. } => reason,
        _ => CANCELLED,
    }
}
