//! Steps after which a delivery waits for its boundary again; and the one that needs no session.

use relay_protocol::agent::Metadata;
use relay_protocol::delivery::{DOOR, DeliveredReceipt, DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{DecisionOutcome, ReceiptSource, StoredReceipt};
use relay_protocol::delivery_state::DeliveryCause;
use relay_protocol::render::NOT_SURFACED;

use super::change::{Change, millis};
use super::{Applied, Fact, FactKind, Moved};
use crate::delivery::history::Entry;
use crate::store::{DeliveryRow, Reading};

impl Change<'_> {
    pub(super) fn woken(&self) -> Applied {
        let due = self
            .row
            .not_before
            .is_some_and(|until| until <= self.given.now);
        if !self.waits() || !due {
            return Applied::Nothing;
        }
        self.reopened("its time has come", None, |row| row.not_before = None)
    }

    pub(super) fn flushed(&self) -> Applied {
        let is_due = self.row.flushed && self.row.not_before.is_none();
        if !self.waits() || is_due {
            return Applied::Nothing;
        }
        let told = (self.row.state == DeliveryState::Deferred).then_some("flushed");
        self.reopened("somebody flushed it", told, |row| {
            row.not_before = None;
            row.flushed = true;
        })
    }

    pub(super) fn retried(&self) -> Applied {
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
        let decision = self.decision(DecisionOutcome::Reopen, why);
        Applied::Moved(Box::new(Moved {
            row,
            fact,
            history: vec![Entry::Decision(decision)],
            settles: None,
            receipt: None,
        }))
    }

    pub(super) fn read(&self, reading: &Reading) -> Applied {
        let to = DeliveryState::Delivered;
        if let Err(refused) = self
            .row
            .state
            .check_transition(to, DeliveryCause::InboxRead)
        {
            return Applied::Refused(refused);
        }
        let mut metadata = Metadata::new();
        metadata.insert(DOOR.to_owned(), reading.door.as_str().into());
        if !reading.unsurfaced.is_empty() {
            // Plain data, which can always be written.
            let list = serde_json::to_value(&reading.unsurfaced).unwrap_or_default();
            metadata.insert(NOT_SURFACED.to_owned(), list);
        }
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
}
