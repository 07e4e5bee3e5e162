//! The task of a session on the relay: it reads what happens, puts messages in, and says what became of them.
//!
//! A prompt is not acknowledged by the protocol. What shows that the agent has it is the first update of its turn, or the answer
//! to it; until then nothing is called delivered. What takes longer than an offer may is accepted first. Whatever waits
//! for the end of a turn is put into the next one together.

mod order;
mod settling;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use relay_protocol::session::BoundaryKind;
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use relay_sdk::{AttachedSession, ControlError, EventHandler, Fork, failed, failed_for_now};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

pub(super) use self::order::Order;
use super::RelaySession;
use super::broker::Registered;
use super::parcel::{self, Delivery, Reply, STEER_DOOR};
use super::place::Place;
use super::reporter::Reporter;
use super::watch::{Seen, Watch};
use super::way::{Way, decide_way};
use crate::acp::capabilities::SessionFacts;
use crate::acp::content::PromptContent;
use crate::acp::event::{Event, SessionEvent};
use crate::acp::host::{HostError, Session, Steered};

/// How long evidence is waited for before a delivery is accepted; an offer counts as failed after 30 s.
const EVIDENCE_WAIT: Duration = Duration::from_secs(15);

/// How long pieces of text are put together before they are reported.
const TEXT_WAIT: Duration = Duration::from_millis(200);

/// Most deliveries that are put into one turn.
const PER_TURN: usize = 20;

/// Most deliveries that wait for the end of a turn.
const MAX_HELD: usize = 256;

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
    /// How copies of the session are put on the relay, and those that are.
    place: Place,
    forks: Vec<RelaySession>,
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
        place: Place,
        asks: Option<Registered>,
    ) -> Self {
        Self {
            watch: place.options.watch.clone(),
            reporter: Reporter::new(session.id(), asks.is_some()),
            session,
            facts,
            attached,
            events,
            orders,
            place,
            forks: Vec::new(),
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
            Order::Fork { fork, reply } => self.fork(fork, reply),
            Order::Forked(fork) => self.forks.push(*fork),
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

    /// In a task of its own, because the agent is asked.
    fn fork(&self, fork: Fork, reply: oneshot::Sender<Result<(), ControlError>>) {
        let (session, place, orders) = (
            self.session.clone(),
            self.place.clone(),
            self.orders.clone(),
        );
        tokio::spawn(async move {
            let forked = match place.fork(&session, fork).await {
                Ok(forked) => {
                    // Without the task of the session it is dropped, and leaves the relay.
                    let _ = orders.send(Order::Forked(Box::new(forked))).await;
                    Ok(())
                }
                Err(why) => Err(ControlError::Failed(why)),
            };
            let _ = reply.send(forked);
        });
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
        if !self.place.is_fork {
            self.session.host().stop().await;
        }
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
}

fn now() -> Timestamp {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}
