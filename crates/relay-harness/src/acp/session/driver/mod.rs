//! The task of a session on the relay: it reads what happens, puts messages in, and says what became of them.
//!
//! A prompt is not acknowledged by the protocol. What shows that the agent has it is the first update of its turn, or the answer
//! to it; until then nothing is called delivered. What takes longer than an offer may is accepted first. Whatever waits
//! for the end of a turn is put into the next one together.

mod entering;
mod order;
mod settling;
mod talk;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use relay_protocol::session::BoundaryKind;
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use relay_sdk::{AttachedSession, ControlError, EventHandler, Fork};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

pub(super) use self::order::Order;
use self::talk::Talk;
use super::RelaySession;
use super::broker::Registered;
use super::parcel::Delivery;
use super::place::Place;
use super::reporter::Reporter;
use super::watch::{Seen, Watch};
use super::way::PromptStage;
use crate::acp::capabilities::SessionFacts;
use crate::acp::content::PromptContent;
use crate::acp::event::{Event, SessionEvent};
use crate::acp::host::{HostError, Session};

/// How long pieces of text are put together before they are reported.
const TEXT_WAIT: Duration = Duration::from_millis(200);

/// A prompt of the agent's user.
struct UserPrompt {
    content: Vec<PromptContent>,
    reply: oneshot::Sender<Result<(), HostError>>,
    stage: PromptStage,
}

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
    /// The conversation that the session is there for, if it is for one.
    talk: Option<Talk>,
    /// While this is there, the relay decides what the agent may do.
    asks: Option<Registered>,
    watch: Watch,
    reporter: Reporter,
    flush_at: Option<Instant>,
    /// How many prompts are on their way.
    turns: usize,
    /// How many deliveries are on their way into a turn.
    steering: usize,
    held: VecDeque<Delivery>,
    user: VecDeque<UserPrompt>,
    /// Whether what is due before a prompt of the user is being received.
    receives_due: bool,
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
            reporter: Reporter::new(session.id(), asks.is_some(), place.options.first_status()),
            talk: place.options.talk().map(Talk::new),
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
            steering: 0,
            held: VecDeque::new(),
            user: VecDeque::new(),
            receives_due: false,
            sent: Vec::new(),
        }
    }

    /// Serves until the session is released, the link is over, or the agent is gone.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Order>) {
        let attached = self.attached.clone();
        let mut over = std::pin::pin!(attached.ended());
        if self.talk.is_none() {
            self.at_boundary();
        }
        while !self.talk.as_ref().is_some_and(Talk::is_over) {
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
                () = talk::cancelled(self.talk.as_ref()) => self.cancel(),
                _ = &mut over => return,
            }
        }
        self.leave().await;
    }

    async fn ordered(&mut self, order: Order) {
        match order {
            Order::Receive {
                message,
                context,
                reply,
            } => self.receive(&message, &context, reply).await,
            Order::Prompt { content, reply } => {
                self.user.push_back(UserPrompt {
                    content,
                    reply,
                    stage: self.first_stage(),
                });
                self.next_turn().await;
            }
            Order::DueReceived => self.due_received().await,
            Order::GiveBack { id, reply } => {
                let _ = reply.send(self.give_back(id));
            }
            Order::Steered { delivery, result } => self.steered(*delivery, result).await,
            Order::Fork { fork, reply } => self.fork(fork, reply),
            Order::Forked(fork) => self.forks.push(*fork),
            Order::Cancel => self.cancel(),
            Order::Rested { since } => self.rested(since),
            Order::Release { .. } => {}
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
            if let Some(talk) = &mut self.talk {
                talk.turn_over(matches!(event.event, Event::TurnFailed { .. }));
                if talk.is_over() {
                    return;
                }
            }
            self.next_turn().await;
            self.rest();
        }
    }

    /// Reports the session as idle, unless another turn has begun or a prompt of the user is about to begin one.
    fn rest(&mut self) {
        if self.turns == 0 && !self.receives_due {
            let report = self.reporter.status(AgentStatus::Idle, None);
            self.report(report);
            self.at_boundary();
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
        let talk = self.talk.as_ref();
        let rest = talk.map(|talk| (talk.begun(), self.orders.clone()));
        tokio::spawn(async move {
            // Without a link nothing waits; it is said again at the next one.
            let _ = attached.boundary(BoundaryKind::NextMessage).await;
            if let Some((since, orders)) = rest {
                // What was handed over at the first one is here when the second is answered.
                let _ = attached.boundary(BoundaryKind::NextMessage).await;
                let _ = orders.send(Order::Rested { since }).await;
            }
        });
    }

    /// Nothing has come for a conversation at the end of its turn.
    fn rested(&mut self, since: u64) {
        let comes = self.turns + self.steering + self.user.len() + self.held.len();
        if let Some(talk) = self.talk.as_mut().filter(|_| comes == 0) {
            talk.rested(since);
        }
    }

    /// Cancels what the agent does. That is the end of a conversation.
    fn cancel(&mut self) {
        self.session.cancel();
        if let Some(talk) = &mut self.talk {
            talk.end(self.turns > 0, Instant::now());
        }
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
            .chain(self.talk.as_ref().and_then(Talk::gives_up_at))
            .min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            let text = self.reporter.flush();
            self.report(text);
        }
        if let Some(talk) = &mut self.talk {
            talk.tick(now);
        }
        let late = self.sent.iter_mut().filter(|sent| sent.accept_at <= now);
        for delivery in late.flat_map(|sent| &mut sent.deliveries) {
            delivery.accept();
        }
    }

    /// A conversation is over. Its agent is left to whoever began it.
    async fn leave(mut self) {
        let text = self.reporter.flush();
        self.report(text);
        self.abandon("the conversation has ended").await;
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
