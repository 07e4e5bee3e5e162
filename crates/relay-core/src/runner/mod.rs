//! The delivery runner: gets waiting deliveries into sessions.
//!
//! [`state`] is its memory and decides; this file moves bytes: it feeds the memory with what the store
//! has committed and with the time, and does what comes out. Only [`Runner::step`] hands things to links,
//! one call at a time, so that a session gets them in order. `docs/delivery.md` has the whole picture.

mod actions;
mod attaching;
mod calls;
mod control;
mod desk;
mod guards;
mod handover;
pub mod link;
mod news;
mod pages;
mod permissions;
mod presence;
mod pump;
mod service;
mod state;
mod steps;
mod switchboard;
mod waiter;
mod waits;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::time::Timestamp;
use tokio::sync::Notify;

use self::control::recalled;
pub(crate) use self::control::{Ask, Asked, unreachable_session};
pub(crate) use self::desk::Mono;
pub(crate) use self::guards::{AnswerTo, Settling};
use self::handover::{content, context};
use self::link::{Deliver, Parcel};
use self::permissions::Decisions;
use self::state::{Advancing, Command, HandOver, Input, Offered, State, Stepped, Times};
pub use self::switchboard::HandlerId;
pub(crate) use self::waiter::Heard;
use crate::callers::Callers;
use crate::delivery::apply::Step;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::ingest::HeldReports;
use crate::store::{
    Advance, Advanced, AgentNo, News, Observer, Position, SessionChange, SessionNo, Store,
};

/// Gets waiting deliveries into sessions.
pub(crate) struct Runner {
    store: Arc<dyn Store>,
    environment: Environment,
    state: Mutex<State>,
    inbox: Arc<Inbox>,
    /// Held while commands are carried out, so that links see them in order.
    hands: Mutex<()>,
    /// Text of sessions that waits to be stored; what the runner stores of them comes after it.
    pub(crate) held: HeldReports,
}

/// Where news wait until somebody looks at the memory.
#[derive(Default)]
struct Inbox {
    inputs: Mutex<Vec<Input>>,
    /// Rings for whoever drives the runner.
    bell: Notify,
    /// Tells callers who wait for something to be read.
    news: Notify,
    /// Those who wait for decisions; they are told before anybody looks at the memory.
    decisions: Decisions,
    /// Those who were let in by a credential; they learn of its end before whoever ended it has an answer.
    callers: Arc<Callers>,
}

impl Inbox {
    fn put(&self, input: Input) {
        self.inputs().push(input);
        self.ring();
    }

    fn ring(&self) {
        self.bell.notify_one();
        self.news.notify_waiters();
    }

    fn inputs(&self) -> MutexGuard<'_, Vec<Input>> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Inbox {
    fn learn(&self, news: Vec<News>) {
        for news in &news {
            match news {
                News::PermissionEnded(id) => self.decisions.decided(*id),
                News::Credential(end) => self.callers.ends(*end),
                _ => {}
            }
        }
        self.inputs().extend(news.into_iter().map(Input::News));
        self.ring();
    }
}

/// How a change ended, as far as the memory needs to know.
fn is_stored<T>(result: &Result<T>) -> bool {
    !matches!(result, Err(Error::Storage(_)))
}

impl Runner {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        environment: Environment,
        callers: Arc<Callers>,
    ) -> Self {
        let inbox = Arc::new(Inbox {
            callers,
            ..Inbox::default()
        });
        store.live().observe(inbox.clone());
        Self {
            held: HeldReports::new(store.clone(), environment.clone()),
            store,
            environment,
            state: Mutex::default(),
            inbox,
            hands: Mutex::default(),
        }
    }

    fn times(&self) -> Times {
        let mono = self.environment.clock.monotonic().as_millis();
        Times {
            now: self.environment.clock.now(),
            mono: u64::try_from(mono).unwrap_or(u64::MAX),
        }
    }

    fn jitter(&self) -> u64 {
        self.environment.random.bits() as u64
    }

    /// The memory, with everything learned that has happened up to now.
    fn memory(&self) -> (MutexGuard<'_, State>, Times) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let times = self.times();
        let inputs = std::mem::take(&mut *self.inbox.inputs());
        for input in inputs {
            state.learn(input, times);
        }
        (state, times)
    }

    /// Asks something of the memory, which is let go before anybody waits.
    fn with<T>(&self, ask: impl FnOnce(&mut State, Times) -> T) -> T {
        let (mut state, times) = self.memory();
        ask(&mut state, times)
    }

    /// The time by the clock that only goes forward.
    pub(crate) fn mono(&self) -> Mono {
        self.times().mono
    }

    /// Looks again soon.
    pub(crate) fn ring(&self) {
        self.inbox.ring();
    }

    /// Begins a run: learns of the sessions that a former run has left.
    pub(crate) async fn begin(&self) -> Result<()> {
        const AT_ONCE: usize = 500;
        let run = self.store.begin_run().await?;
        self.with(|state, times| state.begin(run, times.now));
        let mut after = SessionNo(0);
        loop {
            let rows = self.store.open_sessions(after, AT_ONCE).await?;
            let Some(last) = rows.last() else { break };
            after = last.no;
            for row in rows {
                let workspace = self.store.workspace_by_no(row.workspace_no).await?;
                self.inbox.put(Input::News(News::Workspace(workspace)));
                self.inbox.put(Input::News(News::Session(row)));
            }
        }
        self.find_open_calls().await?;
        self.find_waiting_permissions().await?;
        self.ring();
        Ok(())
    }

    /// Does everything that is due now; says how long nothing will be, unless something happens.
    pub(crate) fn step(&self) -> Option<Duration> {
        let hands = self.hands.lock().unwrap_or_else(PoisonError::into_inner);
        let mut worked = false;
        loop {
            let (mut state, times) = self.memory();
            state.tick(times);
            worked |= state.pump(times);
            let calls = std::mem::take(&mut state.switchboard.calls);
            let over = std::mem::take(&mut state.expiries.over);
            let mut commands = std::mem::take(&mut state.commands);
            commands.extend(calls.into_iter().map(Command::Call));
            commands.extend(over.into_iter().map(|(no, id)| Command::Expire(no, id)));
            if commands.is_empty() && !state.has_dirty() {
                let (mono, wall) = state.next_wake();
                drop(state);
                drop(hands);
                if worked {
                    self.inbox.news.notify_waiters();
                }
                return until(mono, wall, times);
            }
            drop(state);
            for command in commands {
                self.perform(command);
            }
        }
    }

    /// Waits until something has happened.
    pub(crate) async fn stirred(&self) {
        self.inbox.bell.notified().await;
    }

    fn perform(&self, command: Command) {
        match command {
            Command::Hand(hand) => self.hand(*hand),
            // A link that is broken is noticed by whoever reads from it.
            Command::Control(link, frame) => {
                let _ = link.carry(Parcel::Control(frame));
            }
            Command::Close(link, reason) => {
                let _ = link.carry(Parcel::Close(reason));
            }
            Command::Advance(advancing) => self.advance(*advancing),
            Command::Refill(no, query) => {
                let (inbox, agent) = (self.inbox.clone(), query.agent);
                self.store
                    .waiting(query)
                    .then(move |page| inbox.put(Input::Refilled(agent, no, page)));
            }
            Command::Addressed(session, no) => {
                let inbox = self.inbox.clone();
                self.store
                    .addressed_to(session)
                    .then(move |rows| inbox.put(Input::Addressed(session, no, rows)));
            }
            Command::Due(limit) => {
                let inbox = self.inbox.clone();
                let now = self.environment.clock.now();
                self.store
                    .due(now, limit)
                    .then(move |due| inbox.put(Input::Due(due)));
            }
            Command::Change(session, to, reason, answer) => {
                self.held.end_session(session);
                let inbox = self.inbox.clone();
                let change = SessionChange {
                    session,
                    at: self.environment.clock.now(),
                    to,
                    reason,
                    jitter: self.jitter(),
                };
                self.store.change_session(change).then(move |result| {
                    inbox.put(Input::Changed(session, to, is_stored(&result)));
                    if let Some(answer) = answer {
                        let _ = answer.send(result);
                    }
                });
            }
            Command::Call(call) => self.call(call),
            Command::Expire(workspace_no, id) => self.expire(workspace_no, id),
            Command::TakeBack(session) => {
                let inbox = self.inbox.clone();
                let now = self.environment.clock.now();
                self.store
                    .take_back(session, now, self.jitter())
                    .then(move |result| inbox.put(Input::TakenBack(session, is_stored(&result))));
            }
        }
    }

    fn advance(&self, advancing: Advancing) {
        let Advancing {
            agent,
            position,
            step,
            decisions,
            callers,
        } = advancing;
        self.take_step((agent, position), step, decisions, move |result| {
            for caller in callers {
                let _ = caller.send(recalled(&result));
            }
        });
    }

    /// Takes a step in the store. The memory is told when it is over, then whoever else wants to know.
    fn take_step(
        &self,
        (agent, position): (AgentNo, Position),
        step: Step,
        decisions: Vec<DeliveryDecision>,
        tell: impl FnOnce(Result<Advanced>) + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        let epoch = epoch_of(&step);
        let is_belated = matches!(step, Step::BelatedReceipt { .. });
        let advance = Advance {
            position,
            at: self.environment.clock.now(),
            step,
            decisions,
            jitter: self.jitter(),
        };
        self.store.advance(advance).then(move |result| {
            inbox.put(stepped(agent, position, epoch, &result));
            if is_belated {
                inbox.put(Input::BelatedStored(agent, position));
            }
            tell(result);
        });
    }

    fn hand(&self, hand: HandOver) {
        let HandOver {
            agent,
            session,
            link_id,
            link,
            offered,
        } = hand;
        let Some(parcel) = self.parcel(&offered) else {
            let (mut state, times) = self.memory();
            state.offer_unread(agent, offered.row.position, offered.offer.epoch, times);
            return;
        };
        if link.carry(parcel).is_err() {
            let (mut state, times) = self.memory();
            state.disconnect(session, link_id, times);
        }
    }

    /// The offer as a link carries it; nothing when the message can't be read at the moment.
    fn parcel(&self, offered: &Offered) -> Option<Parcel> {
        let given = match &offered.content {
            Some(given) => given.clone(),
            // Reads are answered on the spot.
            None => {
                let row = &offered.row;
                let read = self.store.delivery_content(row.message, row.position);
                read.wait().ok()?
            }
        };
        Some(Parcel::Deliver(Box::new(Deliver {
            session_id: offered.offer.session_id,
            context: context(offered, &given, self.environment.clock.now()),
            message: content(offered, given.message),
        })))
    }
}

/// What the memory is told of a step that is over.
fn stepped(
    agent: AgentNo,
    position: Position,
    epoch: Option<u64>,
    result: &Result<Advanced>,
) -> Input {
    Input::Stepped(Box::new(Stepped {
        agent,
        position,
        epoch,
        stored: is_stored(result),
        row: result.as_ref().ok().map(|advanced| advanced.row.clone()),
    }))
}

/// The offer that a step settles.
fn epoch_of(step: &Step) -> Option<u64> {
    use crate::delivery::apply::Recall;
    let offer = match step {
        Step::Receipt { offer, .. } | Step::Returned { offer, .. } => offer.as_deref(),
        Step::NoReceipt { offer } => Some(&**offer),
        Step::Expired { recall } | Step::Cancelled { recall, .. } => match recall {
            Recall::NotNeeded => None,
            Recall::Confirmed(offer) | Recall::Unanswered(offer) => offer.as_deref(),
        },
        _ => None,
    };
    offer.map(|offer| offer.epoch)
}

/// How long it is until the earlier of two moments.
fn until(mono: Option<u64>, wall: Option<Timestamp>, times: Times) -> Option<Duration> {
    let mono = mono.map(|at| at.saturating_sub(times.mono));
    let wall = wall.map(|at| {
        let wait = at.as_millis() - times.now.as_millis();
        u64::try_from(wait).unwrap_or(0)
    });
    let wait = [mono, wall].into_iter().flatten().min()?;
    Some(Duration::from_millis(wait))
}
