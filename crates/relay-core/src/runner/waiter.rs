//! Callers that wait for what a session says about a delivery.

use std::collections::HashMap;

use relay_protocol::delivery::{DeliveryMode, MessageReceipt};
use relay_protocol::delivery_record::{WaitCode, WaitReason};
use relay_protocol::time::Timestamp;
use tokio::sync::oneshot;

use crate::delivery::waiting::NO_SESSION;
use crate::store::{DeliveryRow, Position};

/// What a caller is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    /// A receipt.
    Receipt(MessageReceipt),
    /// Relay holds the delivery.
    Held {
        /// The boundary it waits for.
        waits_for: Option<DeliveryMode>,
        /// Why.
        why: String,
        /// Why, for programs.
        code: WaitCode,
        /// The time it waits for, where that is known.
        until: Option<Timestamp>,
    },
    /// Nothing came in time.
    Nothing,
}

impl Heard {
    /// Relay holds it because nobody could take it.
    pub(super) fn no_session() -> Self {
        Self::Held {
            waits_for: None,
            why: NO_SESSION.to_owned(),
            code: WaitCode::NoSession,
            until: None,
        }
    }
}

impl From<WaitReason> for Heard {
    fn from(waiting: WaitReason) -> Self {
        Self::Held {
            waits_for: waiting.waits_for,
            why: waiting.why,
            code: waiting.code,
            until: waiting.until,
        }
    }
}

/// Callers by delivery.
#[derive(Default)]
pub(super) struct Waiters {
    by_delivery: HashMap<Position, Vec<u64>>,
    callers: HashMap<u64, Caller>,
    last: u64,
}

struct Caller {
    position: Position,
    answer: oneshot::Sender<Heard>,
}

impl Waiters {
    /// Adds a caller; says under which number it expires.
    pub(super) fn add(&mut self, position: Position, answer: oneshot::Sender<Heard>) -> u64 {
        self.last += 1;
        self.callers.insert(self.last, Caller { position, answer });
        self.by_delivery
            .entry(position)
            .or_default()
            .push(self.last);
        self.last
    }

    pub(super) fn is_awaited(&self, position: Position) -> bool {
        self.by_delivery.contains_key(&position)
    }

    /// A receipt came.
    pub(super) fn receipt(
        &mut self,
        position: Position,
        receipt: &MessageReceipt,
        _: &DeliveryRow,
    ) {
        self.tell(position, &Heard::Receipt(receipt.clone()));
    }

    /// It was decided that Relay holds the delivery for now.
    pub(super) fn tell(&mut self, position: Position, heard: &Heard) {
        for id in self.by_delivery.remove(&position).unwrap_or_default() {
            if let Some(caller) = self.callers.remove(&id) {
                let _ = caller.answer.send(heard.clone());
            }
        }
    }

    /// A caller has waited long enough.
    pub(super) fn expire(&mut self, id: u64) {
        let Some(caller) = self.callers.remove(&id) else {
            return;
        };
        let _ = caller.answer.send(Heard::Nothing);
        if let Some(ids) = self.by_delivery.get_mut(&caller.position) {
            ids.retain(|known| *known != id);
            if ids.is_empty() {
                self.by_delivery.remove(&caller.position);
            }
        }
    }
}
