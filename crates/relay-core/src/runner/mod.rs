//! The delivery runner: gets waiting deliveries into sessions.
//!
//! [`state`] is its memory and decides; this file moves bytes: it feeds the memory with what the store
//! has committed and with the time, and does what comes out. Only [`Runner::step`] hands things to links,
//! one call at a time, so that a session gets them in order. `docs/delivery.md` has the whole picture.

mod calls;
mod control;
mod desk;
mod handover;
pub mod link;
mod pump;
mod state;
mod waiter;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::session::{BoundaryKind, DueDelivery};
use relay_protocol::time::Timestamp;
use tokio::sync::{Notify, oneshot};

use self::control::recalled;
pub(crate) use self::control::{Ask, Asked, unreachable_session};
use self::handover::{content, context};
use self::link::{Deliver, LinkId, Parcel, SessionLink};
use self::state::{Advancing, Command, HandOver, Input, Offered, State, Stepped, Times};
pub(crate) use self::waiter::Heard;
use crate::delivery::apply::Step;
use crate::delivery::history::Offer;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::store::{
    Advance, Advanced, AgentNo, News, Observer, Position, SessionChange, SessionNo, SessionRow,
    Store, WorkspaceRow,
};

/// Gets waiting deliveries into sessions.
pub(crate) struct Runner {
    store: Arc<dyn Store>,
    environment: Environment,
    state: Mutex<State>,
    inbox: Arc<Inbox>,
    /// Held while commands are carried out, so that links see them in order.
    hands: Mutex<()>,
}

/// Where news wait until somebody looks at the memory.
#[derive(Default)]
struct Inbox {
    inputs: Mutex<Vec<Input>>,
    /// Rings for whoever drives the runner.
    bell: Notify,
    /// Tells callers who wait for something to be read.
    news: Notify,
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
        self.inputs().extend(news.into_iter().map(Input::News));
        self.ring();
    }
}

/// How a change ended, as far as the memory needs to know.
fn is_stored<T>(result: &Result<T>) -> bool {
    !matches!(result, Err(Error::Storage(_)))
}

impl Runner {
    pub(crate) fn new(store: Arc<dyn Store>, environment: Environment) -> Self {
        let inbox = Arc::new(Inbox::default());
        store.live().observe(inbox.clone());
        Self {
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

    /// Looks again soon.
    fn ring(&self) {
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
            let commands = std::mem::take(&mut state.commands);
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
                let inbox = self.inbox.clone();
                let change = SessionChange {
                    session,
                    at: self.environment.clock.now(),
                    to,
                    reason,
                    jitter: self.jitter(),
                };
                self.store.change_session(change).then(move |result| {
                    inbox.put(Input::Changed(session, is_stored(&result)));
                    if let Some(answer) = answer {
                        let _ = answer.send(result);
                    }
                });
            }
            Command::TakeBack(session) => {
                let inbox = self.inbox.clone();
                let now = self.environment.clock.now();
                self.store
                    .take_back(session, now, self.jitter())
                    .then(move |result| inbox.put(Input::Changed(session, is_stored(&result))));
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
        let inbox = self.inbox.clone();
        let epoch = epoch_of(&step);
        let advance = Advance {
            position,
            at: self.environment.clock.now(),
            step,
            decisions,
            jitter: self.jitter(),
        };
        self.store.advance(advance).then(move |result| {
            inbox.put(stepped(agent, position, epoch, &result));
            for caller in callers {
                let _ = caller.send(recalled(&result));
            }
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
        let message = match &offered.message {
            Some(message) => message.clone(),
            // Reads are answered on the spot.
            None => self.store.message_at(offered.row.message).wait().ok()?,
        };
        Some(Parcel::Deliver(Box::new(Deliver {
            session_id: offered.offer.session_id,
            message: content(offered, message),
            context: context(offered, self.environment.clock.now()),
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

/// What the engine's calls need of the memory.
impl Runner {
    /// A session can be reached over this link from now on.
    pub(crate) fn connect(
        &self,
        session: SessionNo,
        workspace: &Arc<WorkspaceRow>,
        head: Position,
        link: Option<Arc<dyn SessionLink>>,
    ) -> Option<LinkId> {
        let (mut state, times) = self.memory();
        state.attach(session, workspace, head, times);
        let id = link.and_then(|link| state.connect(session, link, times));
        drop(state);
        self.ring();
        id
    }

    /// A session comes back: its link of before is closed, and what was out over it is settled once this
    /// returns.
    pub(crate) async fn supersede(&self, session: SessionNo) {
        self.with(|state, times| state.supersede(session, times));
        self.ring();
        loop {
            let news = self.inbox.news.notified();
            let settled = self.with(|state, _| {
                let live = state.live(session);
                live.is_none_or(|live| live.out.is_empty())
            });
            if settled {
                return;
            }
            news.await;
        }
    }

    /// A link is gone.
    pub(crate) fn disconnect(&self, session: SessionNo, link: LinkId) {
        let (mut state, times) = self.memory();
        state.disconnect(session, link, times);
        drop(state);
        self.ring();
    }

    /// A session that has not ended.
    pub(crate) fn session(&self, id: relay_protocol::ids::SessionId) -> Option<Arc<SessionRow>> {
        let (state, _) = self.memory();
        let no = state.by_id.get(&id)?;
        state.live(*no).map(|live| live.row.clone())
    }

    /// The current session of an agent.
    pub(crate) fn current(&self, agent: AgentNo) -> Option<Arc<SessionRow>> {
        let (state, _) = self.memory();
        let desk = state.desks.get(&agent)?;
        let live = desk.sessions.get(&desk.current()?)?;
        Some(live.row.clone())
    }

    /// A session was heard of.
    pub(crate) fn heard_of(&self, session: SessionNo) {
        let (mut state, times) = self.memory();
        state.heard_of(session, times);
    }

    /// A session stands at a boundary; what is due goes over its link.
    pub(crate) fn open(&self, session: SessionNo, kind: BoundaryKind) {
        let (mut state, times) = self.memory();
        state.open(session, kind, times);
        drop(state);
        self.ring();
    }

    /// A session stands at a boundary until this returns: then what is due is on its link. When nobody
    /// waits any more, it stands there no more.
    pub(crate) async fn stand_at(&self, session: SessionNo, kind: BoundaryKind) {
        self.open(session, kind);
        let _leaves = OnDrop(|| self.memory().0.close(session, kind));
        loop {
            let news = self.inbox.news.notified();
            let served = self.with(|state, _| {
                let live = state.live(session);
                live.is_none_or(|live| !live.openings.contains(&kind))
            });
            if served {
                return;
            }
            news.await;
        }
    }

    /// What is due for a session that takes it along: so many, of so many bytes; and whether more is.
    pub(crate) async fn take_due(
        &self,
        session: SessionNo,
        kind: Option<BoundaryKind>,
        (most, most_bytes): (usize, usize),
        render: impl Fn(&Deliver) -> String,
    ) -> (Vec<DueDelivery>, bool) {
        let offered = self.claim(session, kind, most).await;
        let (due, left) = self.unpack(offered, most_bytes, render);
        let more = left || self.memory().0.has_more(session, kind);
        (due, more)
    }

    async fn claim(
        &self,
        session: SessionNo,
        kind: Option<BoundaryKind>,
        limit: usize,
    ) -> Vec<Offered> {
        loop {
            let news = self.inbox.news.notified();
            let claimed = self.with(|state, times| {
                let claimed = state.claim(session, kind, limit, times);
                if !state.commands.is_empty() {
                    // What has to be read, or ended, is done by whoever drives the runner.
                    self.inbox.bell.notify_one();
                }
                claimed
            });
            match claimed {
                Some(offered) => return offered,
                None => news.await,
            }
        }
    }

    /// Reads the messages of claimed offers, as many as fit; the others are free again.
    fn unpack(
        &self,
        offered: Vec<Offered>,
        most_bytes: usize,
        render: impl Fn(&Deliver) -> String,
    ) -> (Vec<DueDelivery>, bool) {
        let mut bytes = 0;
        let mut due = Vec::new();
        let mut left = Vec::new();
        for offered in offered {
            let deliver = match self.parcel(&offered) {
                Some(Parcel::Deliver(deliver)) if left.is_empty() => deliver,
                _ => {
                    left.push(offered);
                    continue;
                }
            };
            let text = render(&deliver);
            if !due.is_empty() && bytes + text.len() > most_bytes {
                left.push(offered);
                continue;
            }
            bytes += text.len();
            due.push(DueDelivery {
                message: (*deliver.message).clone(),
                context: deliver.context,
                text,
            });
        }
        let more = !left.is_empty();
        let (mut state, _) = self.memory();
        for offered in left {
            let Offered { row, offer, .. } = offered;
            state.take_back_offer(row.agent, row.position, offer.epoch);
        }
        drop(state);
        (due, more)
    }

    /// The offer that a receipt answers, if it is out. From now on nothing else settles it.
    pub(crate) fn settle(
        &self,
        agent: Option<AgentNo>,
        position: Position,
        via: Option<SessionNo>,
        epoch: Option<u64>,
    ) -> Option<Settling> {
        let (mut state, _) = self.memory();
        let found = state.settle(agent, position, via, epoch)?;
        Some(Settling {
            found,
            inbox: self.inbox.clone(),
            armed: true,
        })
    }

    /// Takes the step that somebody outside has asked for, and tells the memory when it is over, also
    /// if nobody waits for it any more.
    pub(crate) async fn take(
        &self,
        agent: AgentNo,
        position: Position,
        step: Step,
        decisions: Vec<DeliveryDecision>,
    ) -> Result<Advanced> {
        let (tell, told) = oneshot::channel();
        let inbox = self.inbox.clone();
        let epoch = epoch_of(&step);
        let advance = Advance {
            position,
            at: self.environment.clock.now(),
            step,
            decisions,
            jitter: self.jitter(),
        };
        self.store.advance(advance).then(move |result| {
            inbox.put(stepped(agent, position, epoch, &result));
            let _ = tell.send(result);
        });
        told.await
            .unwrap_or(Err(crate::error::StorageError::Closed.into()))
    }

    /// Nothing is offered to an agent until the guard is dropped; says what is out.
    pub(crate) fn hold(&self, agent: AgentNo) -> (HoldGuard, Vec<(Position, Offer)>) {
        let (mut state, _) = self.memory();
        let out = state.hold(agent);
        let inbox = self.inbox.clone();
        (HoldGuard { inbox, agent }, out)
    }

    /// Calls a delivery back.
    pub(crate) async fn cancel(
        &self,
        row: &crate::store::DeliveryRow,
        reason: Option<String>,
    ) -> Result<()> {
        let (tell, told) = oneshot::channel();
        self.with(|state, times| state.cancel(row, reason, tell, times));
        self.ring();
        told.await
            .unwrap_or(Err(crate::error::StorageError::Closed.into()))
    }

    /// Asks something of a session.
    pub(crate) fn ask(&self, session: SessionNo, ask: Ask) -> std::result::Result<(), Asked> {
        let (mut state, times) = self.memory();
        let asked = state.ask(session, ask, times).map(|_| ());
        drop(state);
        self.ring();
        asked
    }

    /// Stores a turn in a session's life without asking it.
    pub(crate) fn turn(
        &self,
        session: SessionNo,
        turn: crate::store::SessionTurn,
        reason: Option<String>,
        answer: oneshot::Sender<Result<Arc<SessionRow>>>,
    ) {
        let (mut state, _) = self.memory();
        state.turn(session, turn, reason, Some(answer));
        drop(state);
        self.ring();
    }

    /// A session says how something ended that was asked of it.
    pub(crate) fn control_answered(
        &self,
        session: SessionNo,
        result: relay_protocol::socket::ControlResult,
    ) -> Result<()> {
        let (mut state, _) = self.memory();
        let answered = state.control_answered(session, result);
        drop(state);
        self.ring();
        answered
    }

    /// What a session will say about a delivery, or the decision that Relay holds it.
    pub(crate) fn listen(&self, agent: AgentNo, position: Position) -> oneshot::Receiver<Heard> {
        let (mut state, times) = self.memory();
        let listening = state.listen(agent, position, times);
        drop(state);
        self.ring();
        listening
    }

    /// What is known of a delivery in memory: an offer that is out, and decisions not stored yet.
    pub(crate) fn known(
        &self,
        agent: AgentNo,
        position: Position,
    ) -> (Option<Offer>, Vec<DeliveryDecision>) {
        let (state, _) = self.memory();
        state.known(agent, position)
    }
}

/// An offer that is being settled by a receipt. Dropped before that, it is out as before.
pub(crate) struct Settling {
    pub(crate) found: Found,
    inbox: Arc<Inbox>,
    armed: bool,
}

/// An offer that is out.
pub(crate) struct Found {
    pub(crate) agent: AgentNo,
    pub(crate) position: Position,
    pub(crate) offer: Box<Offer>,
    pub(crate) decisions: Vec<DeliveryDecision>,
}

impl Settling {
    /// Whoever stores the receipt tells the end of it.
    pub(crate) fn into_parts(mut self) -> (AgentNo, Box<Offer>, Vec<DeliveryDecision>) {
        self.armed = false;
        let decisions = std::mem::take(&mut self.found.decisions);
        (self.found.agent, self.found.offer.clone(), decisions)
    }

    /// The receipt was stored, or refused.
    pub(crate) fn finish(mut self, stored: bool) {
        if stored {
            self.armed = false;
            let Found {
                agent, position, ..
            } = self.found;
            let epoch = Some(self.found.offer.epoch);
            self.inbox.put(Input::Stepped(Box::new(Stepped {
                agent,
                position,
                epoch,
                stored: true,
                row: None,
            })));
        }
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        if self.armed {
            let Found {
                agent, position, ..
            } = self.found;
            let epoch = self.found.offer.epoch;
            self.inbox.put(Input::Unsettled(agent, position, epoch));
        }
    }
}

/// Does something when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// While it lives, nothing is offered to an agent.
pub(crate) struct HoldGuard {
    inbox: Arc<Inbox>,
    agent: AgentNo,
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.inbox.put(Input::Released(self.agent));
    }
}
