//! What became of deliveries: what shows that the agent has one, and how that is told.

use std::time::Duration;

use relay_protocol::delivery::MessageReceipt;
use relay_sdk::{failed, failed_for_now};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Driver;
use crate::acp::event::{Event, StopReason};
use crate::acp::host::HostError;
use crate::acp::session::parcel::{self, Delivery, PROMPT_DOOR};

/// How long the last receipts of a session are waited for.
const RECEIPT_WAIT: Duration = Duration::from_secs(5);

impl Driver {
    /// A turn has shown something: what is in it has arrived, unless it failed before it began.
    pub(super) fn evidence(&mut self, turn: u64, event: &Event) {
        let Some(place) = self.sent.iter().position(|sent| sent.turn == turn) else {
            return;
        };
        let failed = matches!(event, Event::TurnFailed { .. });
        if failed && self.session.alive().is_err() {
            // The agent is gone: that is told after this.
            return;
        }
        let sent = self.sent.swap_remove(place);
        if let Event::TurnFailed { error } = event {
            for delivery in sent.deliveries {
                self.settle(delivery, failed_for_now(error.clone()));
            }
            return;
        }
        let by = match event {
            Event::TurnEnded {
                stop_reason: StopReason::Cancelled,
                ..
            } => "cancelled",
            Event::TurnEnded { .. } => "answer",
            _ => "update",
        };
        for delivery in sent.deliveries {
            let evidence = json!({"sessionId": self.session.id(), "turn": turn, "by": by});
            self.delivered(delivery, PROMPT_DOOR, evidence);
        }
    }

    pub(super) fn delivered(&self, delivery: Delivery, door: &str, evidence: Value) {
        let receipt = parcel::delivered(delivery.id, door, evidence, &delivery.unsurfaced);
        self.settle(delivery, receipt);
    }

    pub(super) fn refuse(&self, deliveries: Vec<Delivery>, error: &HostError) {
        for delivery in deliveries {
            let receipt = match error {
                HostError::Capability(_) | HostError::Invalid(_) => failed(error.to_string()),
                error => failed_for_now(error.to_string()),
            };
            self.settle(delivery, receipt);
        }
    }

    /// Says what became of a delivery: to whoever offered it, or later by itself.
    pub(super) fn settle(&self, delivery: Delivery, receipt: MessageReceipt) {
        let receipt = parcel::with_id(receipt, delivery.id);
        let unheard = match delivery.reply {
            Some(reply) => reply.send(receipt).err(),
            None => Some(receipt),
        };
        let Some(receipt) = unheard else { return };
        let attached = self.attached.clone();
        tokio::spawn(async move {
            if let Err(error) = attached.receipt(receipt).await {
                tracing::warn!(%error, "a receipt was not stored");
            }
        });
    }

    /// Gives everything back that the agent has not shown to have, and waits until that is stored.
    pub(super) async fn abandon(&mut self, why: &str) {
        self.user.clear();
        let sent = std::mem::take(&mut self.sent);
        let sent = sent.into_iter().flat_map(|sent| sent.deliveries);
        let held = std::mem::take(&mut self.held);
        let mut storing = JoinSet::new();
        for delivery in sent.chain(held) {
            let receipt = parcel::with_id(failed_for_now(why), delivery.id);
            let attached = self.attached.clone();
            storing.spawn(async move {
                if let Err(error) = attached.receipt(receipt).await {
                    tracing::warn!(%error, delivery.id = %delivery.id, "a receipt was not stored");
                }
                // Until now nobody else answers whoever offered it.
                drop(delivery);
            });
        }
        // Without a link nothing is stored, and nothing more is said either.
        let _ = timeout(RECEIPT_WAIT, storing.join_all()).await;
    }
}
