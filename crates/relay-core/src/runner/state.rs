//! The runner's memory: news and time go in, commands come out. No store, no link, no clock in here.
//!
//! Everything in this memory follows from what the store has committed, and from which links are up and
//! what is out over them. It may be lost at any moment: what was out is offered again.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::ids::{ControlId, PermissionId, SessionId, WorkspaceId};
use relay_protocol::policy::Policy;
use relay_protocol::socket::ControlFrame;
use relay_protocol::time::Timestamp;
use tokio::sync::oneshot;

use super::attaching::AttachTracker;
use super::control::{Control, Recalling};
use super::desk::{Desk, Live, Mono, Stirred};
use super::link::{CloseReason, LinkId, SessionLink};
use super::permissions::Expiries;
use super::switchboard::{Call, Switchboard};
use super::waiter::Waiters;
use crate::delivery::apply::Step;
use crate::delivery::history::Offer;
use crate::error::Result;
use crate::store::{
    AgentNo, DeliveryContent, DeliveryRow, DueNow, InvocationRow, News, Position, SessionNo,
    SessionTurn, WaitingPage, WaitingQuery, WorkspaceRow,
};

/// Deliveries whose time has come that are handled at once.
const DUE_AT_ONCE: usize = 256;

/// How long nothing is tried for an agent after the store could not write.
pub(super) const STALL_MS: Mono = 1_000;

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
    /// A receipt for an offer that had lapsed was stored, or refused.
    BelatedStored(AgentNo, Position),
    /// An offer that was about to be settled is not.
    Unsettled(AgentNo, Position, u64),
    /// A change that held an agent back is over.
    Released(AgentNo),
    /// A change of a session is over; false: nothing was stored.
    Changed(SessionNo, SessionTurn, bool),
    /// A call that attaches a session is over, or was given up.
    AttachEnded(SessionId),
    /// A call was left over by a former run.
    LeftOver(Arc<InvocationRow>),
    /// A call was marked as given to a handler; none: that could not be stored.
    Marked(Position, Option<Arc<InvocationRow>>),
    /// A call could not be ended.
    NotEnded(Position),
    /// A permission request could not be ended.
    NotExpired(PermissionId),
    /// What a session had accepted was taken back; false: it could not be.
    TakenBack(SessionNo, bool),
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
    /// Does something about a call.
    Call(Call),
    /// Ends a permission request that nobody answered.
    Expire(u32, PermissionId),
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

/// What a session needs to know of an offer, but for the content where that is not at hand.
#[derive(Clone)]
pub(super) struct Offered {
    pub(super) row: DeliveryRow,
    pub(super) workspace: WorkspaceId,
    pub(super) offer: Offer,
    pub(super) content: Option<DeliveryContent>,
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
    /// Deliveries about which a belated receipt is on its way to the store; they are not offered meanwhile.
    pub(super) belated: HashMap<Position, Belated>,
    pub(super) recalls: HashMap<Position, Recalling>,
    pub(super) controls: HashMap<ControlId, Control>,
    pub(super) attaches: AttachTracker,
    pub(super) waiters: Waiters,
    pub(super) switchboard: Switchboard,
    pub(super) expiries: Expiries,
    /// When the store has something due, as far as is known.
    next_due: Option<Timestamp>,
    /// What has moved since the store was asked for what is due, while it is being asked.
    pub(super) asking_due: Option<HashSet<Position>>,
    /// The run's number and the last offer's in it.
    epoch: u64,
    pub(super) links: u64,
    pub(super) refills: u64,
    pub(super) commands: Vec<Command>,
}

/// Belated receipts of one delivery that are on their way to the store.
#[derive(Default)]
pub(super) struct Belated {
    pub(super) receipts: u32,
    /// The delivery was due meanwhile and was taken off its place.
    pub(super) set_aside: bool,
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

    /// A desk is to be looked at, with all its sessions.
    pub(super) fn touch(&mut self, agent: AgentNo) {
        if let Some(desk) = self.desks.get_mut(&agent) {
            desk.stirred = Stirred::Everything;
        }
        self.enqueue(agent);
    }

    /// A session is to be looked at: nothing else at its desk has changed, but for which one is the current one.
    pub(super) fn touch_session(&mut self, agent: AgentNo, session: SessionNo) {
        if let Some(desk) = self.desks.get_mut(&agent)
            && let Stirred::Sessions(some) = &mut desk.stirred
        {
            some.insert(session);
        }
        self.enqueue(agent);
    }

    fn enqueue(&mut self, agent: AgentNo) {
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
            Input::News(News::AgentReleased(_) | News::Action(_) | News::Credential(_)) => {}
            Input::News(News::ActionRemoved(action)) => self.switchboard.action_removed(action),
            Input::News(News::Invoked(row)) => self.switchboard.opened(&row),
            Input::News(News::InvocationEnded(call)) => self.switchboard.ended(call),
            Input::News(News::PermissionAsked(id, workspace_no, until)) => {
                self.expiries.asked(id, workspace_no, until);
            }
            Input::News(News::PermissionEnded(id)) => self.expiries.ended(id),
            Input::News(News::NoticesOver(rows)) => self.call_back(&rows, times),
            Input::NotExpired(id) => self.expiries.not_ended(id, times.now),
            Input::LeftOver(row) => self.switchboard.left_over(&row),
            Input::Marked(call, row) => self.switchboard.marked(call, row.as_deref()),
            Input::NotEnded(call) => self.switchboard.not_ended(call, times.now),
            Input::Refilled(agent, no, page) => self.refilled(agent, no, page, times),
            Input::Addressed(session, no, rows) => self.addressed(session, no, rows, times),
            Input::Due(due) => self.due(due, times),
            Input::Stepped(stepped) => self.stepped(*stepped, times),
            Input::BelatedStored(agent, position) => self.belated_stored(agent, position),
            Input::Unsettled(agent, position, epoch) => {
                self.offer_stepped(agent, position, epoch, false, None, times);
                self.resume_recall(position);
                self.touch(agent);
            }
            Input::Released(agent) => {
                if let Some(desk) = self.desks.get_mut(&agent) {
                    desk.holds = desk.holds.saturating_sub(1);
                }
                self.touch(agent);
            }
            Input::Changed(session, turn, stored) => {
                if turn == SessionTurn::Offline {
                    self.attaches.offline_answered(session);
                }
                self.changed(session, stored, times);
            }
            Input::AttachEnded(session) => self.end_attach(session),
            Input::TakenBack(session, stored) => self.taken_back(session, stored, times),
        }
    }

    /// Something in the store is due at this time.
    pub(super) fn wake_by(&mut self, at: Timestamp) {
        if self.next_due.is_none_or(|known| at < known) {
            self.next_due = Some(at);
        }
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
        let live = self.desks.get_mut(agent)?.sessions.get_mut(&session)?;
        Some(live)
    }

    pub(super) fn live(&self, session: SessionNo) -> Option<&Live> {
        let agent = self.sessions.get(&session)?;
        let live = self.desks.get(agent)?.sessions.get(&session)?;
        Some(live)
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
        self.switchboard.tick(times.now);
        self.expiries.tick(times.now);
        if self.asking_due.is_none() && self.next_due.is_some_and(|at| at <= times.now) {
            self.asking_due = Some(HashSet::new());
            // What becomes known from here on may be newer than the answer.
            self.next_due = None;
            let limit = DUE_AT_ONCE + self.recalls.len() + self.stepping.len();
            self.commands.push(Command::Due(limit));
        }
    }

    /// When the clocks bring the next thing to do: by the monotonic clock, and by the wall clock.
    pub(super) fn next_wake(&self) -> (Option<Mono>, Option<Timestamp>) {
        let due = self.next_due.filter(|_| self.asking_due.is_none());
        let wall = [due, self.switchboard.next_deadline(), self.expiries.next()]
            .into_iter()
            .flatten()
            .min();
        (self.timers.first().map(|(at, _)| *at), wall)
    }
}
