//! Follows deliveries by the events that everybody can listen to.

use std::collections::HashMap;

use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::ids::DeliveryId;
use relay_sdk::{Relay, Timestamp};
use tokio::sync::watch;

use crate::failure::{Exit, Failure, Outcome};

/// A step of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Accepted,
    Delivered,
    Deferred {
        until: Timestamp,
        reason: String,
    },
    AttemptFailed {
        reason: String,
        again_at: Option<Timestamp>,
    },
    Failed {
        reason: String,
    },
    Cancelled,
}

impl Step {
    /// Whether nothing follows.
    pub(crate) const fn is_end(&self) -> bool {
        matches!(
            self,
            Self::Delivered | Self::Failed { .. } | Self::Cancelled
        )
    }
}

/// A step, and when it was logged.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) step: Step,
    pub(crate) at: Timestamp,
}

/// Knows all steps since it began to listen.
pub(crate) struct DeliveryWatch {
    steps: watch::Receiver<HashMap<DeliveryId, Vec<Noted>>>,
}

impl DeliveryWatch {
    pub(crate) async fn begin(relay: &Relay) -> Outcome<Self> {
        let (note, steps) = watch::channel(HashMap::<_, Vec<Noted>>::new());
        relay
            .add_listener("delivery.*", move |event| {
                if let Some((id, noted)) = noted(&event) {
                    note.send_modify(|steps| steps.entry(id).or_default().push(noted));
                }
                async {}
            })
            .await?;
        Ok(Self { steps })
    }

    /// Waits until a delivery has come to a step that is wanted.
    pub(crate) async fn until(
        &self,
        delivery: DeliveryId,
        is_wanted: impl Fn(&Step) -> bool,
    ) -> Outcome<Noted> {
        let mut steps = self.steps.clone();
        let find = |steps: &HashMap<DeliveryId, Vec<Noted>>| {
            let mut known = steps.get(&delivery)?.iter();
            known.find(|noted| is_wanted(&noted.step)).cloned()
        };
        let known = steps.wait_for(|steps| find(steps).is_some()).await;
        known.ok().and_then(|steps| find(&steps)).ok_or_else(|| {
            Failure::new(
                Exit::Failed,
                "failed",
                "the server ended the stream of events",
            )
        })
    }
}

fn noted(logged: &LoggedEvent) -> Option<(DeliveryId, Noted)> {
    let (id, step) = match logged.event.as_ref()? {
        RelayEvent::DeliveryAccepted(event) => (event.delivery_id, Step::Accepted),
        RelayEvent::DeliveryDelivered(event) => (event.delivery_id, Step::Delivered),
        RelayEvent::DeliveryDeferred(event) => {
            let step = Step::Deferred {
                until: event.available_at,
                reason: event.reason.clone().unwrap_or_default(),
            };
            (event.delivery_id, step)
        }
        RelayEvent::DeliveryFailed(event) => {
            let reason = event.reason.clone();
            let step = match event.terminal {
                Some(true) => Step::Failed { reason },
                _ => Step::AttemptFailed {
                    reason,
                    again_at: event.next_attempt_at,
                },
            };
            (event.delivery_id, step)
        }
        RelayEvent::DeliveryCancelled(event) => (event.delivery_id, Step::Cancelled),
        _ => return None,
    };
    Some((
        id,
        Noted {
            step,
            at: logged.at,
        },
    ))
}
