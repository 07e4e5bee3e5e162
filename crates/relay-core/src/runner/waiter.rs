//! Callers that wait for what a session says about a delivery.

use std::collections::HashMap;

use relay_protocol::delivery::{DeliveryMode, MessageReceipt};
use tokio::sync::oneshot;

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
    },
    /// Nothing came in time.
    Nothing,
}

impl Heard {
    /// Relay holds it because nobody could take it.
    pub(super) fn no_session() -> Self {
        Self::Held {
            waits_for: None,
            why: "the agent has no session; it waits in the inbox".to_owned(),
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
