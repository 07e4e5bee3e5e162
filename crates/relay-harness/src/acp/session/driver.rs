//! The task of a session on the relay: it reads what happens, puts messages in, and says what became of them.
//!
//! A prompt is not acknowledged by the protocol. What shows that the agent has it is the first update of its turn, or the answer
//! to it; until then nothing is called delivered. What takes longer than an offer may is accepted first. Whatever waits
//! for the end of a turn is put into the next one together.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use relay_protocol::delivery::{MessageContext, MessageReceipt};
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use relay_protocol::session::BoundaryKind;
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use relay_sdk::{AttachedSession, ControlError, EventHandler, failed, failed_for_now};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::broker::Registered;
use super::parcel::{self, Delivery, PROMPT_DOOR, Reply, STEER_DOOR};
use super::reporter::Reporter;
use super::watch::{Seen, Watch};
use super::way::{Way, decide_way};
use crate::acp::capabilities::SessionFacts;
use crate::acp::content::PromptContent;
use crate::acp::event::{Event, SessionEvent, StopReason};
use crate::acp::host::{HostError, Session, Steered};

/// How long evidence is waited for before a delivery is accepted; an offer counts as failed after 30 s.
const EVIDENCE_WAIT: Duration = Duration::from_secs(15);

/// How long pieces of text are put together before they are reported.
const TEXT_WAIT: Duration = Duration::from_millis(200);

/// How long the last receipts of a session are waited for.
const RECEIPT_WAIT: Duration = Duration::from_secs(5);

/// Most deliveries that are put into one turn.
const PER_TURN: usize = 20;

/// Most deliveries that wait for the end of a turn.
const MAX_HELD: usize = 256;

/// What the task is asked to do.
pub(super) enum Order {
    /// Surface a message.
    Receive {
        message: Box<RelayMessage>,
        context: Box<MessageContext>,
        reply: Reply,
    },
    /// Prompt as the agent's user.
    Prompt {
        content: Vec<PromptContent>,
        reply: oneshot::Sender<Result<(), HostError>>,
    },
    /// Give back a delivery that was not surfaced.
    GiveBack {
        id: DeliveryId,
        reply: oneshot::Sender<Result<(), ControlError>>,
    },
    /// Text that was put into a turn, and what became of it.
    Steered {
        delivery: Box<Delivery>,
        result: Result<Steered, HostError>,
    },
    /// Cancel the turn that runs.
    Cancel,
    /// End the session.
    Release { reply: oneshot::Sender<()> },
}

/// A prompt of the agent's user.
type UserPrompt = (Vec<PromptContent>, oneshot::Sender<Result<(), HostError>>);

/// Deliveries that are in a prompt whose turn has shown nothing yet.
struct Sent {
    turn: u64,
    deliveries: Vec<Delivery>,
    accept_at: Instant,
}

pub(super) struct Driver {
    session: Session,
    facts: SessionFacts,
    attached: Arc<AttachedSession>,
    events: Arc<OnceLock<EventHandler>>,
    orders: mpsc::Sender<Order>,
    /// While this is there, the relay decides what the agent may do.
    asks: Option<Registered>,
    watch: Watch,
    reporter: Reporter,
    flush_at: Option<Instant>,
    /// How many prompts are on their way.
    turns: usize,
    held: VecDeque<Delivery>,
    user: VecDeque<UserPrompt>,
    sent: Vec<Sent>,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        facts: SessionFacts,
        attached: Arc<AttachedSession>,
        events: Arc<OnceLock<EventHandler>>,
        orders: mpsc::Sender<Order>,
        asks: Option<Registered>,
        watch: Watch,
    ) -> Self {
        Self {
            watch,
            reporter: Reporter::new(session.id(), asks.is_some()),
            session,
            facts,
            attached,
            events,
            orders,
            asks,
            flush_at: None,
            turns: 0,
            held: VecDeque::new(),
            user: VecDeque::new(),
            sent: Vec::new(),
        }
    }

    /// Serves until the session is released, the link is over, or the agent is gone.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Order>) {
        let attached = self.attached.clone();
        let mut over = std::pin::pin!(attached.ended());
        self.at_boundary();
        loop {
            let timer = self.timer();
            tokio::select! {
                event = self.session.next_event() => match event {
                    Some(event) => self.happened(event).await,
                    None => return self.gone().await,
                },
                Some(order) = queue.recv() => match order {
                    Order::Release { reply } => {
                        self.release().await;
                        let _ = reply.send(());
                        return;
                    }
                    order => self.ordered(order).await,
                },
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => self.tick(),
                _ = &mut over => return,
            }
        }
    }

    async fn ordered(&mut self, order: Order) {
        match order {
            Order::Receive {
                message,
                context,
                reply,
            } => self.receive(&message, &context, reply).await,
            Order::Prompt { content, reply } => {
                self.user.push_back((content, reply));
                self.next_turn().await;
            }
            Order::GiveBack { id, reply } => {
                let _ = reply.send(self.give_back(id));
            }
            Order::Steered { delivery, result } => self.steered(*delivery, result).await,
            Order::Cancel => self.session.cancel(),
            Order::Release { .. } => {}
        }
    }

    async fn receive(&mut self, message: &RelayMessage, context: &MessageContext, reply: Reply) {
        let content = match parcel::content(message, context) {
            Ok(content) => content,
            Err(reason) => {
                let _ = reply.send(failed(reason));
                return;
            }
        };
        self.watch.see(|| Seen::Message {
            message: Box::new(message.clone()),
            context: Box::new(context.clone()),
        });
        let delivery = Delivery {
            id: context.id,
            content,
            reply: Some(reply),
        };
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

    /// Prompts with what waits, when no turn runs: the user's words first.
    async fn next_turn(&mut self) {
        if self.turns > 0 {
            return;
        }
        if let Some((content, reply)) = self.user.pop_front() {
            let sent = self.session.prompt(content).await;
            let sent = sent.map(|turn| self.began(turn.detach(), Vec::new()));
            let _ = reply.send(sent);
            return;
        }
        let count = self.held.len().min(PER_TURN);
        if count > 0 {
            let deliveries = self.held.drain(..count).collect();
            self.prompt(deliveries).await;
        }
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
        let report = self.reporter.status(AgentStatus::Active, None);
        self.report(report);
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
    fn steer(&self, delivery: Delivery) {
        let (session, orders) = (self.session.clone(), self.orders.clone());
        tokio::spawn(async move {
            let result = session.steer(delivery.content.clone()).await;
            let delivery = Box::new(delivery);
            // Without the task of the session nobody waits for it.
            let _ = orders.send(Order::Steered { delivery, result }).await;
        });
    }

    async fn steered(&mut self, delivery: Delivery, result: Result<Steered, HostError>) {
        match result {
            Ok(steered @ (Steered::Injected | Steered::StartedTurn)) => {
                let outcome = match steered {
                    Steered::StartedTurn => "startedNewTurn",
                    _ => "injected",
                };
                let evidence = json!({"sessionId": self.session.id(), "outcome": outcome});
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

    fn give_back(&mut self, id: DeliveryId) -> Result<(), ControlError> {
        let place = self.held.iter().position(|delivery| delivery.id == id);
        match place.and_then(|place| self.held.remove(place)) {
            Some(_) => Ok(()),
            None => Err(ControlError::Failed(
                "the agent has the message already".to_owned(),
            )),
        }
    }

    async fn happened(&mut self, event: SessionEvent) {
        self.follow(&event.event);
        let reports = self.reporter.take(&event, now());
        for report in reports {
            self.report(Some(report));
        }
        self.flush_at = match self.reporter.has_text() {
            true => self.flush_at.or(Some(Instant::now() + TEXT_WAIT)),
            false => None,
        };
        self.watch.see(|| Seen::Event(Box::new(event.clone())));
        if let Some(turn) = event.turn {
            self.evidence(turn, &event.event);
        }
        // Of an agent that is gone nothing more is said here: the end of its events comes next.
        if event.event.ends_turn() && self.session.alive().is_ok() {
            self.turns = self.turns.saturating_sub(1);
            self.next_turn().await;
            if self.turns == 0 {
                let report = self.reporter.status(AgentStatus::Idle, None);
                self.report(report);
                self.at_boundary();
            }
        }
    }

    /// Tells the broker how calls end that it has allowed.
    fn follow(&self, event: &Event) {
        let Some(asks) = &self.asks else { return };
        match event {
            Event::ToolCall(call) | Event::ToolCallUpdate(call) => asks.desk.observe(call),
            event if event.ends_turn() => asks.desk.close(),
            _ => {}
        }
    }

    /// A turn has shown something: what is in it has arrived, unless it failed before it began.
    fn evidence(&mut self, turn: u64, event: &Event) {
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

    fn delivered(&self, delivery: Delivery, door: &str, evidence: Value) {
        let receipt = parcel::delivered(delivery.id, door, evidence);
        self.settle(delivery, receipt);
    }

    fn refuse(&self, deliveries: Vec<Delivery>, error: &HostError) {
        for delivery in deliveries {
            let receipt = match error {
                HostError::Capability(_) | HostError::Invalid(_) => failed(error.to_string()),
                error => failed_for_now(error.to_string()),
            };
            self.settle(delivery, receipt);
        }
    }

    /// Says what became of a delivery: to whoever offered it, or later by itself.
    fn settle(&self, delivery: Delivery, receipt: MessageReceipt) {
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

    /// A turn has ended: whatever waits for the next message may come.
    fn at_boundary(&self) {
        let attached = self.attached.clone();
        tokio::spawn(async move {
            // Without a link nothing waits; it is said again at the next one.
            let _ = attached.boundary(BoundaryKind::NextMessage).await;
        });
    }

    fn report(&self, report: Option<AgentSessionEvent>) {
        let (Some(report), Some(events)) = (report, self.events.get()) else {
            return;
        };
        if let AgentSessionEvent::StatusChanged(changed) = &report {
            self.watch.see(|| Seen::Status(changed.status));
        }
        if let Err(error) = events.emit(report) {
            tracing::warn!(%error, "an event of a session is lost");
        }
    }

    fn timer(&self) -> Option<Instant> {
        let waiting = self.sent.iter();
        let waiting = waiting.filter(|sent| sent.deliveries.iter().any(|one| one.reply.is_some()));
        waiting
            .map(|sent| sent.accept_at)
            .chain(self.flush_at)
            .min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            let text = self.reporter.flush();
            self.report(text);
        }
        let late = self.sent.iter_mut().filter(|sent| sent.accept_at <= now);
        for delivery in late.flat_map(|sent| &mut sent.deliveries) {
            delivery.accept();
        }
    }

    async fn release(&mut self) {
        let text = self.reporter.flush();
        self.report(text);
        self.abandon("the session was released").await;
        // An agent that can't close a session ends with its process.
        let _ = self.session.close().await;
        self.session.host().stop().await;
    }

    /// The agent is gone. What it may not have seen goes back, and only then has the session failed: that ends it.
    async fn gone(mut self) {
        let text = self.reporter.flush();
        self.report(text);
        let reason = self.session.alive().err().map(|error| error.to_string());
        self.abandon(reason.as_deref().unwrap_or(super::GONE)).await;
        let report = self.reporter.status(AgentStatus::Failed, reason.as_deref());
        self.report(report);
    }

    /// Gives everything back that the agent has not shown to have, and waits until that is stored.
    async fn abandon(&mut self, why: &str) {
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

fn now() -> Timestamp {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}
