//! How prompts and deliveries get into the agent: at once, into the turn that runs, or when that has ended.

use std::time::Duration;

use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use relay_protocol::render::AttachmentAccess;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;
use relay_sdk::{ControlError, failed, failed_for_now};
use serde_json::json;
use tokio::time::Instant;

use super::{Driver, Order, Sent, UserPrompt};
use crate::acp::content::PromptContent;
use crate::acp::host::{HostError, Steered};
use crate::acp::session::parcel::{Delivery, Reply, STEER_DOOR};
use crate::acp::session::watch::Seen;
use crate::acp::session::way::{NextPrompt, PromptStage, Way, decide_way, is_command, next_prompt};
use crate::surfacing::surface;

/// How long evidence is waited for before a delivery is accepted; an offer counts as failed after 30 s.
const EVIDENCE_WAIT: Duration = Duration::from_secs(15);

/// Most deliveries that are put into one turn.
const PER_TURN: usize = 20;

/// Most deliveries that wait for the end of a turn.
const MAX_HELD: usize = 256;

impl Driver {
    pub(super) async fn receive(
        &mut self,
        message: &RelayMessage,
        context: &MessageContext,
        reply: Reply,
    ) {
        let access = match self.facts.has_relay_tools {
            true => AttachmentAccess::McpResource,
            false => AttachmentAccess::Http,
        };
        let surfaced = match surface(message, context, access) {
            Ok(surfaced) => surfaced,
            Err(reason) => {
                let _ = reply.send(failed(reason));
                return;
            }
        };
        self.watch.see(|| Seen::Message {
            message: Box::new(message.clone()),
            context: Box::new(context.clone()),
        });
        let delivery = Delivery::new(message, context, surfaced, reply);
        if self.waits_for_user() || self.receives_due {
            return self.hold(delivery, false);
        }
        let steering = self.session.host().handshake().extensions.steering;
        let in_turn = self.turns > 0 || self.session.is_busy();
        match decide_way(context.mode, in_turn, steering, self.facts) {
            Way::Prompt => self.prompt(vec![delivery]).await,
            Way::Behind => self.prompt_behind(delivery).await,
            Way::Steer => self.steer(delivery),
            Way::Interrupt => {
                self.hold(delivery, true);
                self.session.cancel();
            }
            Way::Hold => self.hold(delivery, false),
        }
    }

    /// Prompts with what waits, when no turn runs: the user's words first, together with what is due before them.
    pub(super) async fn next_turn(&mut self) {
        // What the agent does not take is followed by the next.
        while self.turns == 0 && !self.receives_due {
            let count = self.held.len().min(PER_TURN);
            let next = match self.user.front() {
                Some(prompt) => next_prompt(prompt.stage, is_command(&prompt.content), count > 0),
                None if count == 0 || self.waits_for_user() => return,
                None => NextPrompt::Held,
            };
            match next {
                NextPrompt::ReceiveDue => self.receive_due(),
                NextPrompt::Held => {
                    if let Some(prompt) = self.user.front_mut() {
                        prompt.stage = PromptStage::Preceded;
                    }
                    let deliveries = self.held.drain(..count).collect();
                    self.prompt(deliveries).await;
                }
                NextPrompt::User => self.prompt_as_user(0).await,
                NextPrompt::UserWithHeld => self.prompt_as_user(count).await,
            }
        }
    }

    /// Where a prompt of the user begins. That of a conversation goes in as it is, whatever waits for the agent.
    pub(super) const fn first_stage(&self) -> PromptStage {
        match self.talk {
            Some(_) => PromptStage::Preceded,
            None => PromptStage::New,
        }
    }

    /// Asks for what is due before the user's prompt. In a task of its own, because what comes is received here.
    fn receive_due(&mut self) {
        self.receives_due = true;
        let (attached, orders) = (self.attached.clone(), self.orders.clone());
        tokio::spawn(async move {
            // Without a link nothing is due.
            let _ = attached.receive_due(BoundaryKind::NextMessage).await;
            let _ = orders.send(Order::DueReceived).await;
        });
    }

    pub(super) async fn due_received(&mut self) {
        self.receives_due = false;
        if let Some(prompt) = self.user.front_mut() {
            prompt.stage = PromptStage::Received;
        }
        self.next_turn().await;
        if self.session.alive().is_ok() {
            self.rest();
        }
    }

    /// Prompts with the user's words, and before them with so many deliveries.
    async fn prompt_as_user(&mut self, count: usize) {
        let Some(UserPrompt { content, reply, .. }) = self.user.pop_front() else {
            return;
        };
        let deliveries: Vec<Delivery> = self.held.drain(..count).collect();
        let contents = deliveries.iter().map(|delivery| &delivery.content);
        let content = contents.chain([&content]).flatten().cloned();
        let sent = self.session.prompt(content.collect::<Vec<_>>()).await;
        let sent = match sent {
            Ok(turn) => {
                self.began(turn.detach(), deliveries);
                Ok(())
            }
            Err(error) => {
                // It may be the user's words that the agent does not take.
                deliveries
                    .into_iter()
                    .rev()
                    .for_each(|delivery| self.held.push_front(delivery));
                Err(error)
            }
        };
        // Whoever has prompted may be gone.
        let _ = reply.send(sent);
    }

    /// A conversation begins with its user's words.
    fn waits_for_user(&self) -> bool {
        self.talk.as_ref().is_some_and(|talk| talk.begun() == 0)
    }

    async fn prompt(&mut self, deliveries: Vec<Delivery>) {
        let content = deliveries
            .iter()
            .flat_map(|delivery| delivery.content.clone());
        let content: Vec<PromptContent> = content.collect();
        match self.session.prompt(content).await {
            Ok(turn) => self.began(turn.detach(), deliveries),
            Err(error) => self.refuse(deliveries, &error),
        }
    }

    async fn prompt_behind(&mut self, delivery: Delivery) {
        match self.session.prompt_behind(delivery.content.clone()).await {
            Ok(turn) => self.began(turn.detach(), vec![delivery]),
            // The turn was cancelled meanwhile: it goes into the next one.
            Err(HostError::Busy) => self.hold(delivery, false),
            Err(error) => self.refuse(vec![delivery], &error),
        }
    }

    fn began(&mut self, turn: u64, deliveries: Vec<Delivery>) {
        self.turns += 1;
        if let Some(talk) = &mut self.talk {
            talk.began();
        }
        let report = self.reporter.status(AgentStatus::Active, None);
        self.report(report);
        for delivery in &deliveries {
            self.watch.see(|| delivery.entered());
        }
        if !deliveries.is_empty() {
            let accept_at = Instant::now() + EVIDENCE_WAIT;
            self.sent.push(Sent {
                turn,
                deliveries,
                accept_at,
            });
        }
    }

    /// In a task of its own: some agents take seconds.
    fn steer(&mut self, delivery: Delivery) {
        self.steering += 1;
        let (session, orders) = (self.session.clone(), self.orders.clone());
        tokio::spawn(async move {
            let result = session.steer(delivery.content.clone()).await;
            let delivery = Box::new(delivery);
            // Without the task of the session nobody waits for it.
            let _ = orders.send(Order::Steered { delivery, result }).await;
        });
    }

    pub(super) async fn steered(&mut self, delivery: Delivery, result: Result<Steered, HostError>) {
        self.steering -= 1;
        match result {
            Ok(steered @ (Steered::Injected | Steered::StartedTurn)) => {
                let outcome = match steered {
                    Steered::StartedTurn => "startedNewTurn",
                    _ => "injected",
                };
                let evidence = json!({"sessionId": self.session.id(), "outcome": outcome});
                self.watch.see(|| delivery.entered());
                self.delivered(delivery, STEER_DOOR, evidence);
            }
            // What did not work now is the next prompt.
            Ok(Steered::Failed | Steered::NoTurn)
            | Err(HostError::Refused { .. } | HostError::Malformed { .. }) => {
                self.hold(delivery, true);
                self.next_turn().await;
            }
            Err(error) => self.refuse(vec![delivery], &error),
        }
        if self.talk.is_some() && self.turns == 0 {
            // The turn has ended meanwhile, and the conversation has waited for this.
            self.at_boundary();
        }
    }

    /// Keeps a delivery for the next turn.
    fn hold(&mut self, mut delivery: Delivery, first: bool) {
        if self.held.len() >= MAX_HELD {
            let receipt = failed_for_now("too many messages wait for the end of the turn");
            self.settle(delivery, receipt);
            return;
        }
        delivery.accept();
        match first {
            true => self.held.push_front(delivery),
            false => self.held.push_back(delivery),
        }
    }

    pub(super) fn give_back(&mut self, id: DeliveryId) -> Result<(), ControlError> {
        let place = self.held.iter().position(|delivery| delivery.id == id);
        match place.and_then(|place| self.held.remove(place)) {
            Some(_) => Ok(()),
            None => Err(ControlError::Failed(
                "the agent has the message already".to_owned(),
            )),
        }
    }
}
