//! The runner's memory: news and time go in, commands come out. No store, no link, no clock in here.
//!
//! Everything in this memory follows from what the store has committed, and from which links are up and
//! what is out over them. It may be lost at any moment: what was out is offered again.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use relay_protocol::delivery::{DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::ids::{ControlId, SessionId, WorkspaceId};
use relay_protocol::policy::Policy;
use relay_protocol::socket::ControlFrame;
use relay_protocol::time::Timestamp;
use tokio::sync::oneshot;

use super::control::{Control, Recalling};
use super::desk::{Desk, Live, Mono, Out, Waiting};
use super::link::{CloseReason, LinkId, SessionLink};
use super::waiter::Waiters;
use crate::delivery::apply::{Recall, ReturnCause, Step};
use crate::delivery::history::Offer;
use crate::delivery::lane::Lane;
use crate::error::Result;
use crate::store::{
    AgentNo, DeliveryMoved, DeliveryRow, DueNow, News, Position, SendRecord, SessionNo, SessionRow,
    SessionTurn, WaitingPage, WaitingQuery, WorkspaceRow,
};

/// Deliveries whose time has come that are handled at once.
const DUE_AT_ONCE: usize = 256;

/// How long nothing is tried for an agent after the store could not write.
const STALL_MS: Mono = 1_000;

/// How much message text one desk keeps at hand: this many messages, each of at most this many bytes.
const AT_HAND: (usize, usize) = (16, 4_096);

/// Something that the runner learns.
pub(super) enum Input {
    /// A committed change.
    News(News),
    /// What waits for an agent, as the reading with this number found it.
    Refilled(AgentNo, u64, Result<WaitingPage>),
    /// What waits for one session only.
    Addressed(SessionNo, u64, Result<Vec<DeliveryRow>>),
    /// What the clock has made due.
    Due(Result<DueNow>),
    /// A step of a delivery is over.
    Stepped(Box<Stepped>),
    /// An offer that was about to be settled is not.
    Unsettled(AgentNo, Position, u64),
    /// A change that held an agent back is over.
    Released(AgentNo),
    /// A change of a session is over; false: nothing was stored.
    Changed(SessionNo, bool),
}

/// How a step of a delivery ended.
pub(super) struct Stepped {
    pub(super) agent: AgentNo,
    pub(super) position: Position,
    /// The offer that it was to settle.
    pub(super) epoch: Option<u64>,
    /// False: the store could not write.
    pub(super) stored: bool,
    /// The delivery from now on, where the store said so.
    pub(super) row: Option<DeliveryRow>,
}

/// Something that is to be done outside of the memory.
pub(super) enum Command {
    /// Hands an offer over.
    Hand(Box<HandOver>),
    /// Asks something of a session.
    Control(Arc<dyn SessionLink>, Box<ControlFrame>),
    /// Closes a link.
    Close(Arc<dyn SessionLink>, CloseReason),
    /// Takes a step of a delivery.
    Advance(Box<Advancing>),
    /// Reads what waits for an agent; readings are numbered.
    Refill(u64, WaitingQuery),
    /// Reads what waits for one session only.
    Addressed(SessionNo, u64),
    /// Reads what the clock has made due.
    Due(usize),
    /// Changes a session.
    Change(
        SessionNo,
        SessionTurn,
        Option<String>,
        Option<super::control::TurnAnswer>,
    ),
    /// Takes back what a session has accepted.
    TakeBack(SessionNo),
}

/// A step on its way to the store.
pub(super) struct Advancing {
    pub(super) agent: AgentNo,
    pub(super) position: Position,
    pub(super) step: Step,
    pub(super) decisions: Vec<DeliveryDecision>,
    /// Who wanted the delivery back and hears how that went.
    pub(super) callers: Vec<oneshot::Sender<Result<()>>>,
}

/// An offer on its way to a link.
pub(super) struct HandOver {
    pub(super) agent: AgentNo,
    pub(super) session: SessionNo,
    pub(super) link_id: LinkId,
    pub(super) link: Arc<dyn SessionLink>,
    pub(super) offered: Offered,
}

/// What a session needs to know of an offer, but for the message where that is not at hand.
#[derive(Clone)]
pub(super) struct Offered {
    pub(super) row: DeliveryRow,
    pub(super) workspace: WorkspaceId,
    pub(super) offer: Offer,
    pub(super) message: Option<Arc<relay_protocol::message::RelayMessage>>,
    /// How many more wait.
    pub(super) still_waiting: u32,
    /// Whether images become lines of text.
    pub(super) lines_for_images: bool,
}

/// The clocks' time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) now: Timestamp,
    pub(super) mono: Mono,
}

/// The memory.
#[derive(Default)]
pub(super) struct State {
    pub(super) desks: HashMap<AgentNo, Desk>,
    /// Where each session that has not ended is.
    pub(super) sessions: HashMap<SessionNo, AgentNo>,
    pub(super) by_id: HashMap<SessionId, SessionNo>,
    pub(super) workspaces: HashMap<u32, Arc<WorkspaceRow>>,
    /// Desks to look at.
    dirty: VecDeque<AgentNo>,
    pub(super) timers: BTreeSet<(Mono, Timer)>,
    /// Deliveries that are not out and have a step under way, and whether they have moved since.
    pub(super) stepping: HashMap<Position, bool>,
    pub(super) recalls: HashMap<Position, Recalling>,
    pub(super) controls: HashMap<ControlId, Control>,
    pub(super) waiters: Waiters,
    /// When the store has something due, as far as is known.
    next_due: Option<Timestamp>,
    /// What has moved since the store was asked for what is due, while it is being asked.
    asking_due: Option<HashSet<Position>>,
    /// The run's number and the last offer's in it.
    epoch: u64,
    links: u64,
    pub(super) refills: u64,
    pub(super) commands: Vec<Command>,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Session(SessionNo),
    Desk(AgentNo),
    Control(ControlId),
    Waiter(u64),
}

impl State {
    /// Begins a run: offers are numbered from here, greater than those of all runs before.
    pub(super) const fn begin(&mut self, run: u64, now: Timestamp) {
        // 2^53 is the greatest number that every JSON reader keeps; this leaves 2^21 runs.
        self.epoch = run << 32;
        self.next_due = Some(now);
    }

    pub(super) const fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    pub(super) fn policy(&self, workspace_no: u32) -> Option<&Policy> {
        self.workspaces.get(&workspace_no).map(|row| &row.policy)
    }

    /// A desk is to be looked at.
    pub(super) fn touch(&mut self, agent: AgentNo) {
        if let Some(desk) = self.desks.get_mut(&agent)
            && !desk.queued
        {
            desk.queued = true;
            self.dirty.push_back(agent);
        }
    }

    pub(super) fn next_dirty(&mut self) -> Option<AgentNo> {
        let agent = self.dirty.pop_front()?;
        if let Some(desk) = self.desks.get_mut(&agent) {
            desk.queued = false;
        }
        Some(agent)
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Takes in what has happened.
    pub(super) fn learn(&mut self, input: Input, times: Times) {
        match input {
            Input::News(News::Sent(record)) => self.sent(&record),
            Input::News(News::Moved(moved)) => self.moved(*moved, times),
            Input::News(News::Session(row)) => self.session_changed(row, times),
            Input::News(News::Edited(message)) => self.edited(message),
            Input::News(News::Workspace(row)) => self.workspace_changed(row),
            Input::News(News::AgentReleased(_)) => {}
            Input::Refilled(agent, no, page) => self.refilled(agent, no, page, times),
            Input::Addressed(session, no, rows) => self.addressed(session, no, rows, times),
            Input::Due(due) => self.due(due, times),
            Input::Stepped(stepped) => self.stepped(*stepped, times),
            Input::Unsettled(agent, position, epoch) => {
                self.offer_stepped(agent, position, epoch, false, None);
                self.resume_recall(position);
                self.touch(agent);
            }
            Input::Released(agent) => {
                if let Some(desk) = self.desks.get_mut(&agent) {
                    desk.holds = desk.holds.saturating_sub(1);
                }
                self.touch(agent);
            }
            Input::Changed(session, stored) => self.changed(session, stored, times),
        }
    }

    fn sent(&mut self, record: &Arc<SendRecord>) {
        for row in record.rows() {
            self.wake_by(row.not_before.unwrap_or(row.deadline).min(row.deadline));
            let Some(desk) = self.desks.get_mut(&row.agent) else {
                continue;
            };
            desk.unfinished += 1;
            let (agent, position, lane) = (row.agent, row.position, Lane::of(&row));
            if lane == Lane::RESTING {
                continue;
            }
            let at_hand = desk.shelf.len() < AT_HAND.0 && record.text.len() <= AT_HAND.1;
            let mut waiting = Waiting::new(row);
            waiting.message = at_hand.then(|| record.message().clone());
            desk.shelf.put(lane, position, waiting);
            desk.unexplained.insert(position);
            self.touch(agent);
        }
    }

    fn moved(&mut self, moved: DeliveryMoved, times: Times) {
        let DeliveryMoved {
            row,
            settles,
            receipt,
        } = moved;
        let (agent, position) = (row.agent, row.position);
        let terminal = row.state.is_terminal();
        if !terminal {
            self.wake_by(row.not_before.unwrap_or(row.deadline).min(row.deadline));
        }
        if let Some(receipt) = &receipt {
            self.answer_waiters(position, receipt, &row);
        }
        if let Some(has_moved) = self.stepping.get_mut(&position) {
            *has_moved = true;
        }
        if let Some(moved) = &mut self.asking_due {
            moved.insert(position);
        }
        if let Some(desk) = self.desks.get_mut(&agent) {
            settle_out(desk, position, settles, times.mono);
            if terminal {
                desk.unfinished = desk.unfinished.saturating_sub(1);
            }
            place(desk, row.clone());
            self.touch(agent);
        }
        self.recall_meets(&row);
    }

    fn edited(&mut self, message: Position) {
        for desk in self.desks.values_mut() {
            let shelved = desk.shelf.iter_mut();
            let addressed = desk.sessions.values_mut();
            let addressed = addressed.flat_map(|live| live.addressed.values_mut());
            for waiting in shelved.map(|(_, waiting)| waiting).chain(addressed) {
                if waiting.row.message == message {
                    waiting.message = None;
                }
            }
        }
    }

    fn workspace_changed(&mut self, row: Arc<WorkspaceRow>) {
        let no = row.no;
        self.workspaces.insert(no, row);
        let desks = self.desks.values_mut();
        let mut concerned = Vec::new();
        for desk in desks.filter(|desk| desk.workspace_no == no) {
            desk.sessions.values_mut().for_each(Live::changed);
            concerned.push(desk.agent);
        }
        // In an order that does not depend on the map's.
        concerned.sort_unstable();
        for agent in concerned {
            self.touch(agent);
        }
    }

    /// Something in the store is due at this time.
    pub(super) fn wake_by(&mut self, at: Timestamp) {
        if self.next_due.is_none_or(|known| at < known) {
            self.next_due = Some(at);
        }
    }

    fn refilled(&mut self, agent: AgentNo, no: u64, page: Result<WaitingPage>, times: Times) {
        // A reading that was given up for a later one is older than what was learned since.
        let Some(desk) = self.desks.get_mut(&agent).filter(|desk| desk.refill == no) else {
            return;
        };
        match page {
            Ok(page) => install(desk, page, &self.stepping),
            Err(_) => {
                desk.shelf.abandon_refill();
                self.stall(agent, times);
            }
        }
        self.touch(agent);
    }

    /// Reads what waits for one session only.
    fn read_addressed(&mut self, session: SessionNo) {
        self.refills += 1;
        let no = self.refills;
        if let Some(live) = self.live_mut(session) {
            live.reading = Some((no, BTreeSet::new()));
            self.commands.push(Command::Addressed(session, no));
        }
    }

    fn addressed(
        &mut self,
        session: SessionNo,
        no: u64,
        rows: Result<Vec<DeliveryRow>>,
        times: Times,
    ) {
        let Some(&agent) = self.sessions.get(&session) else {
            return;
        };
        let Ok(rows) = rows else {
            self.read_addressed(session);
            return self.stall(agent, times);
        };
        let Self {
            desks, stepping, ..
        } = self;
        let desk = desks.get_mut(&agent);
        let Some(live) = desk.and_then(|desk| desk.sessions.get_mut(&session)) else {
            return;
        };
        let Some((_, moved)) = live.reading.take_if(|(reading, _)| *reading == no) else {
            return;
        };
        for row in rows {
            let position = row.position;
            let known = live.out.contains_key(&position)
                || live.addressed.contains_key(&position)
                || stepping.contains_key(&position)
                || moved.contains(&position);
            if !known {
                live.addressed.insert(position, Waiting::new(row));
            }
        }
        self.touch(agent);
    }

    fn due(&mut self, due: Result<DueNow>, times: Times) {
        let moved = self.asking_due.take().unwrap_or_default();
        let Ok(DueNow { rows, next }) = due else {
            return self.wake_by(times.now.plus_millis(STALL_MS as i64));
        };
        if let Some(next) = next {
            self.wake_by(next);
        }
        for row in rows {
            let position = row.position;
            let handled =
                self.stepping.contains_key(&position) || self.recalls.contains_key(&position);
            // What has moved since is not as it was read, and known anyway.
            if handled || moved.contains(&position) {
                continue;
            }
            if row.deadline <= times.now {
                self.deadline_passed(row, times);
            } else {
                self.step(row.agent, position, Step::Woken, Vec::new());
            }
        }
    }

    /// A delivery's time is over. Whoever has it is asked to give it back first.
    fn deadline_passed(&mut self, row: DeliveryRow, times: Times) {
        let (agent, position) = (row.agent, row.position);
        let desk = self.desks.get(&agent);
        let out = desk.and_then(|desk| desk.out(position));
        if out.is_some_and(|out| out.settling) {
            return;
        }
        let held_by = match (out, row.state, row.holder) {
            (Some(out), _, _) => Some(out.offer.session),
            (None, DeliveryState::Accepted, Some(holder)) => Some(holder.session),
            _ => None,
        };
        match held_by {
            Some(session) => self.recall_for_deadline(&row, session, times),
            None => {
                let step = Step::Expired {
                    recall: Recall::NotNeeded,
                };
                let decisions = self.take_from_desk(agent, position);
                self.step(agent, position, step, decisions);
            }
        }
    }

    /// Takes a delivery off its desk, because a step of it is under way.
    pub(super) fn take_from_desk(
        &mut self,
        agent: AgentNo,
        position: Position,
    ) -> Vec<DeliveryDecision> {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return Vec::new();
        };
        let shelved = desk.shelf.remove(position);
        let mut lives = desk.sessions.values_mut();
        let addressed = || lives.find_map(|live| live.addressed.remove(&position));
        shelved
            .or_else(addressed)
            .map(|waiting| waiting.decisions)
            .unwrap_or_default()
    }

    /// Begins a step of a delivery that is not out.
    pub(super) fn step(
        &mut self,
        agent: AgentNo,
        position: Position,
        step: Step,
        decisions: Vec<DeliveryDecision>,
    ) {
        self.stepping.insert(position, false);
        self.commands.push(Command::Advance(Box::new(Advancing {
            agent,
            position,
            step,
            decisions,
            callers: Vec::new(),
        })));
    }

    /// A step is over. What it changed was learned before.
    fn stepped(&mut self, stepped: Stepped, times: Times) {
        let Stepped {
            agent,
            position,
            epoch,
            stored,
            row,
        } = stepped;
        match epoch {
            Some(epoch) => {
                let generation = row.filter(is_open).map(|row| row.generation);
                self.offer_stepped(agent, position, epoch, stored, generation);
            }
            None if self.stepping.remove(&position) == Some(false) => {
                // Nothing came of it: it is due as before, and was taken off its desk for nothing.
                let wait = if stored { 0 } else { STALL_MS as i64 };
                self.wake_by(times.now.plus_millis(wait));
                if let Some(desk) = self.desks.get_mut(&agent) {
                    desk.shelf.forget();
                }
                self.reload_addressed(agent);
            }
            None => {}
        }
        if !stored {
            self.stall(agent, times);
        }
        self.resume_recall(position);
        self.touch(agent);
    }

    /// A step that was to settle an offer is over. If the offer is still out, the step came to nothing:
    /// either the delivery has been settled otherwise, or it goes on in this generation as before.
    fn offer_stepped(
        &mut self,
        agent: AgentNo,
        position: Position,
        epoch: u64,
        stored: bool,
        open_in: Option<u32>,
    ) {
        let desk = self.desks.get_mut(&agent);
        let Some(out) = desk.and_then(|desk| desk.out_mut(position)) else {
            return;
        };
        if out.offer.epoch != epoch {
            return;
        }
        out.settling = false;
        if !stored || open_in == Some(out.offer.generation) {
            out.recalled = self.recalls.contains_key(&position);
        } else {
            self.drop_out(agent, position);
        }
        let sessions: Vec<SessionNo> = self.desks[&agent].sessions.keys().copied().collect();
        for session in sessions {
            self.schedule(session);
        }
    }

    /// An offer that the store knows to be settled otherwise.
    fn drop_out(&mut self, agent: AgentNo, position: Position) {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        for live in desk.sessions.values_mut() {
            live.out.remove(&position);
        }
        desk.shelf.forget();
        self.reload_addressed(agent);
    }

    fn reload_addressed(&mut self, agent: AgentNo) {
        let Some(desk) = self.desks.get(&agent) else {
            return;
        };
        let sessions: Vec<SessionNo> = desk.sessions.keys().copied().collect();
        for session in sessions {
            self.read_addressed(session);
        }
    }

    fn changed(&mut self, session: SessionNo, stored: bool, times: Times) {
        let Some(&agent) = self.sessions.get(&session) else {
            return;
        };
        if !stored {
            if let Some(live) = self.live_mut(session) {
                live.going_offline = false;
                live.lease_ended = false;
            }
            self.stall(agent, times);
        }
        self.schedule(session);
        self.touch(agent);
    }

    /// After a failure of the store: waits a moment before trying again.
    pub(super) fn stall(&mut self, agent: AgentNo, times: Times) {
        let until = times.mono + STALL_MS;
        if let Some(desk) = self.desks.get_mut(&agent) {
            desk.stalled_until = Some(until);
            // A boundary is a moment; it does not wait for the store to come back.
            for live in desk.sessions.values_mut() {
                live.openings.clear();
            }
            self.timers.insert((until, Timer::Desk(agent)));
        }
    }

    pub(super) fn live_mut(&mut self, session: SessionNo) -> Option<&mut Live> {
        let agent = self.sessions.get(&session)?;
        self.desks.get_mut(agent)?.sessions.get_mut(&session)
    }

    pub(super) fn live(&self, session: SessionNo) -> Option<&Live> {
        let agent = self.sessions.get(&session)?;
        self.desks.get(agent)?.sessions.get(&session)
    }

    fn session_changed(&mut self, row: Arc<SessionRow>, times: Times) {
        if row.status.is_terminal() {
            return self.session_ended(&row, times);
        }
        let (agent, no) = (row.agent, row.no);
        self.sessions.insert(no, agent);
        self.by_id.insert(row.id, no);
        let desk = self
            .desks
            .entry(agent)
            .or_insert_with(|| Desk::new(agent, row.workspace_no));
        match desk.sessions.get_mut(&no) {
            Some(live) => live.update(row),
            None => {
                desk.sessions.insert(no, Live::new(row, times.mono));
                self.read_addressed(no);
            }
        }
        if self
            .live(no)
            .is_some_and(|live| !live.row.status.takes_offers())
        {
            self.give_back_if_offline(no);
        }
        self.schedule(no);
        self.touch(agent);
    }

    /// What was offered to a session that went offline is free again.
    fn give_back_if_offline(&mut self, session: SessionNo) {
        let offline = self
            .live(session)
            .is_some_and(|live| live.row.status == relay_protocol::status::AgentStatus::Offline);
        if offline {
            self.give_back(session, ReturnCause::LinkLost);
        }
    }

    fn session_ended(&mut self, row: &SessionRow, times: Times) {
        let cause = match row.status {
            relay_protocol::status::AgentStatus::Failed => ReturnCause::SessionFailed,
            _ => ReturnCause::SessionReleased,
        };
        self.give_back(row.no, cause);
        self.controls_of_lost(row.no);
        self.by_id.remove(&row.id);
        let Some(agent) = self.sessions.remove(&row.no) else {
            return;
        };
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        if let Some(live) = desk.sessions.remove(&row.no) {
            if let Some((_, link)) = live.link {
                self.commands.push(Command::Close(link, CloseReason::Ended));
            }
            if let Some(at) = live.timer {
                self.timers.remove(&(at, Timer::Session(row.no)));
            }
        }
        let _ = times;
        if desk.sessions.is_empty() {
            self.desks.remove(&agent);
        } else {
            self.touch(agent);
        }
    }

    /// Everything that is out to a session waits again.
    pub(super) fn give_back(&mut self, session: SessionNo, cause: ReturnCause) {
        let Some(live) = self.live_mut(session) else {
            return;
        };
        let agent = live.row.agent;
        let mut returned = Vec::new();
        for (position, out) in &mut live.out {
            if !out.settling {
                out.settling = true;
                let decisions = std::mem::take(&mut out.waiting.decisions);
                returned.push((*position, out.offer.clone(), decisions));
            }
        }
        for (position, offer, decisions) in returned {
            let offer = Some(Box::new(offer));
            let (step, callers) = match self.recalls.remove(&position) {
                Some(recalling) => recalling.into_step(Recall::Unanswered(offer)),
                None => {
                    let step = Step::Returned {
                        offer,
                        session,
                        cause,
                    };
                    (step, Vec::new())
                }
            };
            self.commands.push(Command::Advance(Box::new(Advancing {
                agent,
                position,
                step,
                decisions,
                callers,
            })));
        }
    }

    /// A session is reachable over a link from now on.
    pub(super) fn connect(
        &mut self,
        session: SessionNo,
        link: Arc<dyn SessionLink>,
        times: Times,
    ) -> Option<LinkId> {
        self.supersede(session, times);
        self.links += 1;
        let id = LinkId(self.links);
        let live = self.live_mut(session)?;
        live.gone_since = None;
        live.lease_ended = false;
        live.link = Some((id, link));
        live.changed();
        let agent = live.row.agent;
        self.schedule(session);
        self.touch(agent);
        Some(id)
    }

    /// Closes the link that a session has, because it comes back over another one, or without any.
    pub(super) fn supersede(&mut self, session: SessionNo, times: Times) {
        let live = self.live_mut(session);
        let Some((id, link)) = live.and_then(|live| live.link.clone()) else {
            return self.give_back(session, ReturnCause::LinkLost);
        };
        self.commands
            .push(Command::Close(link, CloseReason::Superseded));
        self.disconnect(session, id, times);
    }

    /// A link is gone. An older one than the session has now changes nothing.
    pub(super) fn disconnect(&mut self, session: SessionNo, link: LinkId, times: Times) {
        let Some(live) = self.live_mut(session) else {
            return;
        };
        if live.link.as_ref().is_none_or(|(id, _)| *id != link) {
            return;
        }
        live.link = None;
        live.gone_since = Some(times.mono);
        live.openings.clear();
        live.changed();
        self.give_back(session, ReturnCause::LinkLost);
        self.controls_of_lost(session);
        self.schedule(session);
    }

    /// Sets the timer of a session to when it is next to be looked at.
    pub(super) fn schedule(&mut self, session: SessionNo) {
        let Some(live) = self.live(session) else {
            return;
        };
        let Some(policy) = self.policy(live.row.workspace_no) else {
            return;
        };
        let (before, at) = (live.timer, live.wake_at(policy));
        if before == at {
            return;
        }
        let timer = Timer::Session(session);
        if let Some(before) = before {
            self.timers.remove(&(before, timer));
        }
        if let Some(at) = at {
            self.timers.insert((at, timer));
        }
        if let Some(live) = self.live_mut(session) {
            live.timer = at;
        }
    }

    /// Does what time has brought.
    pub(super) fn tick(&mut self, times: Times) {
        while let Some(&(at, timer)) = self.timers.first() {
            if at > times.mono {
                break;
            }
            self.timers.pop_first();
            match timer {
                Timer::Session(session) => self.session_timer(session, times),
                Timer::Desk(agent) => self.touch(agent),
                Timer::Control(id) => self.control_unanswered(id),
                Timer::Waiter(id) => self.waiters.expire(id),
            }
        }
        if self.asking_due.is_none() && self.next_due.is_some_and(|at| at <= times.now) {
            self.asking_due = Some(HashSet::new());
            // What becomes known from here on may be newer than the answer.
            self.next_due = None;
            let limit = DUE_AT_ONCE + self.recalls.len() + self.stepping.len();
            self.commands.push(Command::Due(limit));
        }
    }

    fn session_timer(&mut self, session: SessionNo, times: Times) {
        let Some(workspace_no) = self.live(session).map(|live| live.row.workspace_no) else {
            return;
        };
        let Some(policy) = self.policy(workspace_no) else {
            return;
        };
        let (timeout, grace, lease) = (
            policy.offer_timeout_ms,
            policy.offline_grace_ms,
            policy.accepted_lease_ms,
        );
        let Some(live) = self.live_mut(session) else {
            return;
        };
        live.timer = None;
        let agent = live.row.agent;
        let mut silent = Vec::new();
        for (position, out) in &mut live.out {
            if !out.settling && !out.recalled && out.since + timeout <= times.mono {
                out.settling = true;
                let decisions = std::mem::take(&mut out.waiting.decisions);
                silent.push((*position, out.offer.clone(), decisions));
            }
        }
        let at_rest = live.is_safe();
        live.backlog.open_if_rested(times.mono, at_rest);
        let gone_for = live.gone_since.map(|since| times.mono - since);
        let goes_offline = live.can_go_offline() && gone_for.is_some_and(|gone| gone >= grace);
        let ends_lease = !live.lease_ended && gone_for.is_some_and(|gone| gone >= lease);
        live.going_offline |= goes_offline;
        live.lease_ended |= ends_lease;
        for (position, offer, decisions) in silent {
            let offer = Box::new(offer);
            self.commands.push(Command::Advance(Box::new(Advancing {
                agent,
                position,
                step: Step::NoReceipt { offer },
                decisions,
                callers: Vec::new(),
            })));
        }
        if goes_offline {
            let reason = Some("its link was lost".to_owned());
            let turn = SessionTurn::Offline;
            self.commands
                .push(Command::Change(session, turn, reason, None));
        }
        if ends_lease {
            self.commands.push(Command::TakeBack(session));
        }
        self.schedule(session);
        self.touch(agent);
    }

    /// When the clocks bring the next thing to do: by the monotonic clock, and by the wall clock.
    pub(super) fn next_wake(&self) -> (Option<Mono>, Option<Timestamp>) {
        let wall = self.next_due.filter(|_| self.asking_due.is_none());
        (self.timers.first().map(|(at, _)| *at), wall)
    }

    fn answer_waiters(&mut self, position: Position, receipt: &MessageReceipt, row: &DeliveryRow) {
        self.waiters.receipt(position, receipt, row);
    }
}

/// Takes the offer off its session that a change has settled.
fn settle_out(desk: &mut Desk, position: Position, settles: Option<u64>, now: Mono) {
    for live in desk.sessions.values_mut() {
        let is_it = |out: &Out| Some(out.offer.epoch) == settles;
        if live.out.get(&position).is_some_and(is_it) {
            live.out.remove(&position);
            live.settled(now);
        }
    }
}

/// Puts what was read onto the shelf. What was decided about a delivery before stays with it.
fn install(desk: &mut Desk, page: WaitingPage, stepping: &HashMap<Position, bool>) {
    desk.unfinished = page.total;
    let lives = desk.sessions.values();
    let out: HashSet<Position> = lives.flat_map(|live| live.out.keys().copied()).collect();
    let decided = desk.shelf.iter();
    let decided = decided.map(|(position, waiting)| (position, waiting.decisions.clone()));
    let mut decided: HashMap<Position, Vec<DeliveryDecision>> = decided.collect();
    let unexplained = &mut desk.unexplained;
    let rows = page.rows.into_iter().map(|row| {
        let position = row.position;
        unexplained.insert(position);
        let mut waiting = Waiting::new(row);
        waiting.decisions = decided.remove(&position).unwrap_or_default();
        (Lane::of(&waiting.row), position, waiting)
    });
    let total = page.total as usize;
    desk.shelf
        .finish_refill(rows, page.complete, total, |position| {
            out.contains(&position) || stepping.contains_key(&position)
        });
}

/// Whether a delivery can be offered, or is.
fn is_open(row: &DeliveryRow) -> bool {
    matches!(row.state, DeliveryState::Pending | DeliveryState::Deferred)
}

/// Puts a changed delivery where it belongs.
fn place(desk: &mut Desk, row: DeliveryRow) {
    let position = row.position;
    let only = row.only_session;
    let live = only.and_then(|session| desk.sessions.get_mut(&session));
    if let Some((_, moved)) = live.and_then(|live| live.reading.as_mut()) {
        moved.insert(position);
    }
    if let Some(out) = desk.out_mut(position) {
        out.waiting.row = row;
        return;
    }
    let lane = Lane::of(&row);
    let finished = row.state.is_terminal();
    let known = desk.shelf.remove(position);
    if finished || lane == Lane::HELD || lane == Lane::RESTING {
        desk.unexplained.remove(&position);
        for live in desk.sessions.values_mut() {
            live.addressed.remove(&position);
        }
        return;
    }
    let waiting = match known {
        Some(known) => Waiting { row, ..known },
        None => Waiting::new(row),
    };
    if let Some(session) = waiting.row.only_session {
        if let Some(live) = desk.sessions.get_mut(&session) {
            live.addressed.insert(position, waiting);
        }
    } else {
        desk.shelf.put(lane, position, waiting);
    }
    desk.unexplained.insert(position);
}
