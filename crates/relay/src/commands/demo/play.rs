//! What every scene does: send, wait for what becomes of it, say so; and in the end the explanations.

use std::time::Duration;

use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::ids::DeliveryId;
use relay_sdk::{AgentClient, Relay, Timestamp};

use super::cast::Cast;
use super::narrator::{Narrator, Told};
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::moment::span;
use crate::throwaway::{DeliveryWatch, Noted, Stage, Step};

/// How long anything in the demo may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The demo while it is played.
pub(super) struct Play<'a> {
    pub(super) cast: Cast,
    pub(super) relay: Relay,
    pub(super) narrator: &'a Narrator<'a>,
    watch: DeliveryWatch,
    scenes: usize,
    sent: Vec<Sent>,
}

/// A message that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) delivery: DeliveryId,
    pub(super) problem: Option<String>,
    at: Timestamp,
    from: String,
    to: String,
}

/// What to send.
pub(super) struct Letter<'a> {
    pub(super) from: &'a AgentClient,
    pub(super) to: &'a str,
    pub(super) mode: Option<DeliveryMode>,
    pub(super) text: &'a str,
}

impl<'a> Play<'a> {
    pub(super) async fn begin(
        stage: &Stage,
        cast: Cast,
        narrator: &'a Narrator<'a>,
    ) -> Outcome<Self> {
        Ok(Self {
            cast,
            relay: stage.relay().clone(),
            narrator,
            watch: DeliveryWatch::begin(stage.relay()).await?,
            scenes: 0,
            sent: Vec::new(),
        })
    }

    pub(super) async fn scene(&mut self, title: &str) -> Outcome {
        self.scenes += 1;
        let number = self.scenes;
        self.narrator.tell(&Told::Scene { number, title }).await
    }

    /// Explains something, below the title of its scene.
    pub(super) async fn say(&self, text: &str) -> Outcome {
        self.narrator.remark(text).await
    }

    /// Sends a message to one agent.
    pub(super) async fn send(&mut self, letter: Letter<'_>) -> Outcome<Sent> {
        let Letter {
            from,
            to,
            mode,
            text,
        } = letter;
        let mut sending = from.send_message(to, text);
        if let Some(mode) = mode {
            sending = sending.mode(mode);
        }
        let answer = sending.await?;
        let Some(delivery) = answer.deliveries.first() else {
            return Err(unplanned(&format!("no delivery was made for {to}")));
        };
        let sent = Sent {
            delivery: delivery.delivery_id,
            problem: delivery.error.as_ref().map(|error| error.detail.clone()),
            at: answer.message.created_at,
            from: from.identity().handle.clone(),
            to: to.to_owned(),
        };
        let told = Told::Sent {
            from: &sent.from,
            to,
            mode,
            text,
            delivery_id: sent.delivery,
        };
        self.narrator.tell(&told).await?;
        self.sent.push(sent.clone());
        Ok(sent)
    }

    /// Says what Relay does with it for now.
    pub(super) async fn waits(&self, sent: &Sent, why: &str) -> Outcome {
        let delivery = self.relay.delivery(sent.delivery).await?;
        if delivery.state != DeliveryState::Pending {
            return Err(unplanned(&format!(
                "{} does not wait: {}",
                sent.delivery, delivery.state
            )));
        }
        let text = format!("pending: {why}");
        self.happened(sent, DeliveryState::Pending, &text).await
    }

    /// Says what became of it by now.
    pub(super) async fn happened(&self, sent: &Sent, state: DeliveryState, text: &str) -> Outcome {
        let told = Told::Happened {
            delivery_id: sent.delivery,
            state,
            text,
        };
        self.narrator.tell(&told).await
    }

    /// Waits for a step of a delivery.
    pub(super) async fn until(&self, sent: &Sent, is_wanted: fn(&Step) -> bool) -> Outcome<Noted> {
        let step = self.watch.until(sent.delivery, is_wanted);
        match tokio::time::timeout(PATIENCE, step).await {
            Ok(noted) => noted,
            Err(_) => {
                let story = self.relay.delivery(sent.delivery).await?.story;
                Err(unplanned(&story.unwrap_or_default()))
            }
        }
    }

    /// Waits until a message was surfaced, and says so.
    pub(super) async fn delivered(&self, sent: &Sent, why: &str) -> Outcome {
        let noted = self.until(sent, Step::is_end).await?;
        let took = span(noted.at.as_millis() - sent.at.as_millis());
        match noted.step {
            Step::Delivered => {
                let text = format!("delivered after {took}: {why}");
                self.happened(sent, DeliveryState::Delivered, &text).await
            }
            step => Err(unplanned(&format!("expected a delivery, found {step:?}"))),
        }
    }

    /// Ends with what the server tells about each delivery.
    pub(super) async fn explain(&self) -> Outcome {
        self.narrator
            .begin(
                "What became of each delivery, as `relay delivery show ID` tells it at any time:",
            )
            .await?;
        let (mut delivered, mut failed) = (0, 0);
        for (index, sent) in self.sent.iter().enumerate() {
            let delivery = self.relay.delivery(sent.delivery).await?;
            match delivery.state {
                DeliveryState::Delivered => delivered += 1,
                DeliveryState::Failed => failed += 1,
                state => return Err(unplanned(&format!("{} is {state}", sent.delivery))),
            }
            let told = Told::Delivery {
                number: index + 1,
                delivery_id: sent.delivery,
                from: &sent.from,
                to: &sent.to,
                state: delivery.state,
                mode: delivery.mode,
                attempt: delivery.attempt,
                story: delivery.story.as_deref().unwrap_or_default(),
            };
            self.narrator.tell(&told).await?;
        }
        self.narrator.tell(&Told::End { delivered, failed }).await?;
        self.narrator
            .hint("Now with agents of your own:", &hints::command("up"))
            .await
    }
}

/// The demo went another way than it was written.
fn unplanned(what: &str) -> Failure {
    Failure::new(
        Exit::Failed,
        "unplanned",
        format!("the demo did not go as it should: {what}"),
    )
    .next(format!(
        "`{}` finds out which layer broke",
        hints::command("doctor")
    ))
}
