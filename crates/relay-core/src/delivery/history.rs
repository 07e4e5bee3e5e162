//! What is kept of a delivery's way, for its explanation.

use std::borrow::Cow;

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::delivery_record::{
    DecisionOutcome, DeliveryAttempt, DeliveryDecision, StoredReceipt,
};
use relay_protocol::ids::SessionId;
use relay_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::{DeliveryRow, SessionNo};

/// One entry, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// Something was decided.
    #[serde(rename = "d")]
    Decision(DeliveryDecision),
    /// It was offered, and how that ended.
    #[serde(rename = "o")]
    Offer(SettledOffer),
    /// A receipt came, or was written for a session that stayed silent.
    #[serde(rename = "r")]
    Receipt(StoredReceipt),
    /// What the caller that made the delivery gave for the session; the first entry, if there is one.
    #[serde(rename = "c")]
    Context(GivenContext),
}

/// What a caller gives for the session that a delivery goes to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GivenContext {
    /// The caller's own key.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// For the harness to read.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// An offer that a session has not answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Which offer; later ones are greater.
    pub epoch: u64,
    /// The generation of the delivery.
    pub generation: u32,
    /// The session.
    pub session: SessionNo,
    /// Its id.
    pub session_id: SessionId,
    /// The mode in which it is offered.
    pub mode: DeliveryMode,
    /// Why now, and why in this mode.
    pub why: Cow<'static, str>,
    /// When.
    pub offered_at: Timestamp,
    /// Whether it went over a live link: only then silence uses up an attempt.
    pub live: bool,
}

impl Offer {
    /// Whether a delivery still waits for the answer to this offer.
    #[must_use]
    pub const fn is_out_for(&self, row: &DeliveryRow) -> bool {
        !row.state.is_terminal() && row.holder.is_none() && self.generation == row.generation
    }
}

/// An offer with its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettledOffer {
    /// The offer and its end, as users see them.
    #[serde(flatten)]
    pub attempt: DeliveryAttempt,
    /// Why it was made.
    pub why: Cow<'static, str>,
}

impl SettledOffer {
    /// The decision to make the offer.
    #[must_use]
    pub fn decision(&self) -> DeliveryDecision {
        DeliveryDecision {
            at: self.attempt.offered_at,
            outcome: DecisionOutcome::Offer,
            reason: self.why.to_string(),
            session_id: Some(self.attempt.session_id),
            mode: Some(self.attempt.mode),
            waits_for: None,
            until: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use relay_protocol::delivery::{DeliveredReceipt, MessageReceipt};
    use relay_protocol::delivery_record::ReceiptSource;

    use super::*;
    use crate::delivery::apply::fixtures::{SESSION, at, delivery_id, session_id};

    fn settled() -> SettledOffer {
        SettledOffer {
            attempt: DeliveryAttempt {
                epoch: 7,
                generation: 1,
                session_id: session_id(SESSION),
                mode: DeliveryMode::OnIdle,
                offered_at: at(1_000),
                settled_at: Some(at(2_000)),
                outcome: Some("delivered".to_owned()),
                counted: false,
            },
            why: "the session is idle".into(),
        }
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let receipt = MessageReceipt::Delivered(DeliveredReceipt {
            delivery_id: delivery_id(),
            metadata: None,
        });
        let entries = vec![
            Entry::Decision(settled().decision()),
            Entry::Offer(settled()),
            Entry::Receipt(StoredReceipt {
                at: at(2_000),
                by: ReceiptSource::Session,
                epoch: Some(7),
                session_id: None,
                late: false,
                receipt,
            }),
        ];
        let written = serde_json::to_string(&entries).unwrap();
        let read: Vec<Entry> = serde_json::from_str(&written).unwrap();
        assert_eq!(read, entries);
    }

    #[test]
    fn an_offer_was_decided_when_it_was_made() {
        let decision = settled().decision();
        assert_eq!(decision.at, at(1_000));
        assert_eq!(decision.outcome, DecisionOutcome::Offer);
        assert_eq!(decision.reason, "the session is idle");
        assert_eq!(decision.mode, Some(DeliveryMode::OnIdle));
        assert_eq!(decision.session_id, Some(session_id(SESSION)));
    }
}
