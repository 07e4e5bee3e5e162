//! What the runner knows of one agent: its sessions, what was offered to them, what waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use relay_protocol::delivery::Priority;
use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::policy::Policy;
use relay_protocol::session::{AttachAttempt, BoundaryKind};
use relay_protocol::session_event::AgentSessionEventType;
use relay_protocol::status::{AgentStatus, is_safe};

use super::link::{LinkId, SessionLink};
use crate::delivery::apply::ReturnCause;
use crate::delivery::decide::{Moment, SessionView, open_lanes};
use crate::delivery::history::Offer;
use crate::delivery::lane::LaneSet;
use crate::delivery::shelf::Shelf;
use crate::ingest::SharedReports;
use crate::store::{AgentNo, DeliveryContent, DeliveryRow, Position, SessionNo, SessionRow};
use relay_protocol::link::LinkKind;

/// Waiting deliveries of one agent that are kept in memory; the store has all of them.
pub(super) const SHELF: usize = 256;

/// How long a session that was given its share of a backlog may stay at rest before it gets the next
/// share, when it does not say that a turn has begun. One that works on what it got says so at once; one
/// that only takes messages should not wait long for the rest.
pub(super) const BACKLOG_PAUSE_MS: u64 = 2_000;

/// Milliseconds of the monotonic clock.
pub(crate) type Mono = u64;

/// One agent that has sessions.
pub(super) struct Desk {
    pub(super) agent: AgentNo,
    pub(super) workspace_no: u32,
    /// Sessions that have not ended, oldest first.
    /// Boxed, as is what is out to them: a map makes room for eleven at once, and most have one.
    pub(super) sessions: BTreeMap<SessionNo, Box<Live>>,
    /// What waits for whichever session is the current one.
    pub(super) shelf: Shelf<Waiting>,
    /// The number of the last reading for the shelf.
    pub(super) refill: u64,
    /// How many unfinished deliveries the agent has, as far as that is known.
    pub(super) unfinished: u32,
    /// Deliveries that came onto the shelf and whose waiting was not explained yet.
    pub(super) unexplained: BTreeSet<Position>,
    /// Changes under way that may settle any of the agent's deliveries: nothing is offered meanwhile.
    pub(super) holds: u32,
    /// After a failure of the store: nothing is tried before.
    pub(super) stalled_until: Option<Mono>,
    /// Whether the desk is in the queue of those to look at.
    pub(super) queued: bool,
    /// What is to be looked at then.
    pub(super) stirred: Stirred,
    /// The session that was the current one when the desk was looked at last.
    pub(super) served: Option<SessionNo>,
}

/// Where something has changed at a desk. An agent may have thousands of sessions, so those that nothing has happened to are
/// not looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stirred {
    /// In these sessions. What follows for others follows from which one is the current one.
    Sessions(BTreeSet<SessionNo>),
    /// Anywhere.
    Everything,
}

impl Default for Stirred {
    fn default() -> Self {
        Self::Sessions(BTreeSet::new())
    }
}

/// A delivery that waits.
pub(super) struct Waiting {
    pub(super) row: DeliveryRow,
    /// What the session gets, when it is at hand.
    pub(super) content: Option<DeliveryContent>,
    /// What was decided about it and is not stored yet.
    pub(super) decisions: Vec<DeliveryDecision>,
}

impl Waiting {
    pub(super) const fn new(row: DeliveryRow) -> Self {
        Self {
            row,
            content: None,
            decisions: Vec::new(),
        }
    }
}

/// An offer that is out.
pub(super) struct Out {
    pub(super) waiting: Waiting,
    pub(super) offer: Offer,
    /// The link that it went over; a session may also have taken it along.
    pub(super) over: Option<LinkId>,
    pub(super) since: Mono,
    /// A change that settles it is under way.
    pub(super) settling: bool,
    /// The session was asked to give it back; that has its own time.
    pub(super) recalled: bool,
}

impl Out {
    /// Whether it went over a link that its session, which has this one, has no more.
    pub(super) fn is_stray(&self, link: Option<LinkId>) -> bool {
        self.over.is_some() && self.over != link
    }

    /// Whether silence ends it, sooner or later.
    fn is_awaited(&self, link: Option<LinkId>) -> bool {
        !self.settling && !self.recalled && !self.is_stray(link)
    }

    /// Whether it was met with silence for so long.
    pub(super) fn is_unanswered(&self, link: Option<LinkId>, timeout: Mono, now: Mono) -> bool {
        self.is_awaited(link) && self.since + timeout <= now
    }
}

/// For how long a session without a link keeps what it has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    Runs,
    /// The store was asked to take it back.
    Ends,
    /// It was taken back.
    Over,
}

/// A session that has not ended.
pub(super) struct Live {
    pub(super) row: Arc<SessionRow>,
    pub(super) link: Option<(LinkId, Arc<dyn SessionLink>)>,
    /// The attempt of its client that attached it last.
    pub(super) attempt: Option<AttachAttempt>,
    /// Since when it has no link, or was not heard of if it never has one.
    pub(super) gone_since: Option<Mono>,
    /// Its grace was over before the memory learned of it.
    pub(super) long_gone: bool,
    pub(super) lease: Lease,
    /// It is no more; what was out to it goes back for this reason.
    pub(super) ended: Option<ReturnCause>,
    /// Going offline was asked of the store.
    pub(super) going_offline: bool,
    pub(super) out: BTreeMap<Position, Box<Out>>,
    /// What waits for this session only; read when it attaches.
    pub(super) addressed: BTreeMap<Position, Waiting>,
    /// The number of the reading under way, and what has moved since it began.
    pub(super) reading: Option<(u64, BTreeSet<Position>)>,
    /// It could not be read, and has to be.
    pub(super) unread: bool,
    /// The boundaries that it stands at and whose deliveries are still to be handed over.
    pub(super) openings: VecDeque<BoundaryKind>,
    pub(super) backlog: Backlog,
    /// What it has reported and is not stored yet.
    pub(super) reports: SharedReports,
    /// Its entry among the timers.
    pub(super) timer: Option<Mono>,
    /// The lanes that are open at any moment; computed anew after a change.
    open: Option<LaneSet>,
    /// The same for the moment that was asked for last.
    open_at: Option<(Moment, LaneSet)>,
}

impl Live {
    pub(super) fn new(row: Arc<SessionRow>, now: Mono) -> Self {
        Self {
            row,
            link: None,
            attempt: None,
            gone_since: Some(now),
            long_gone: false,
            lease: Lease::Runs,
            ended: None,
            going_offline: false,
            out: BTreeMap::new(),
            addressed: BTreeMap::new(),
            reading: None,
            unread: false,
            openings: VecDeque::new(),
            backlog: Backlog::default(),
            reports: SharedReports::default(),
            timer: None,
            open: None,
            open_at: None,
        }
    }

    pub(super) fn link_id(&self) -> Option<LinkId> {
        self.link.as_ref().map(|(id, _)| *id)
    }

    /// The session as decisions see it.
    pub(super) fn view(&self) -> SessionView<'_> {
        SessionView {
            capabilities: &self.row.capabilities,
            safe_states: &self.row.safe_states,
            status: self.row.status,
            linked: self.link.is_some(),
        }
    }

    /// The lanes from which something can be done at this moment.
    pub(super) fn open_lanes(&mut self, policy: &Policy, moment: Moment) -> LaneSet {
        let known = match moment {
            Moment::Now => self.open,
            _ => self
                .open_at
                .filter(|(of, _)| *of == moment)
                .map(|(_, lanes)| lanes),
        };
        if let Some(lanes) = known {
            return lanes;
        }
        let lanes = open_lanes(&self.view(), policy, moment);
        match moment {
            Moment::Now => self.open = Some(lanes),
            _ => self.open_at = Some((moment, lanes)),
        }
        lanes
    }

    /// What waits for this session only: urgent before normal, then oldest first.
    pub(super) fn addressed_in_order(&self) -> Vec<Position> {
        let waiting = self.addressed.iter();
        let mut order: Vec<_> = waiting
            .map(|(position, waiting)| (waiting.row.priority != Priority::Urgent, *position))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, position)| position).collect()
    }

    /// The moment at which it stands.
    pub(super) fn moment(&self) -> Moment {
        self.openings
            .front()
            .copied()
            .map_or(Moment::Now, Moment::At)
    }

    /// Something that decisions depend on has changed.
    pub(super) fn changed(&mut self) {
        self.open = None;
        self.open_at = None;
    }

    pub(super) fn is_safe(&self) -> bool {
        is_safe(self.row.status, &self.row.safe_states)
    }

    /// Whether the session says when a turn begins.
    fn reports_turns(&self) -> bool {
        let emits = &self.row.capabilities.events.emits;
        emits.contains(&AgentSessionEventType::StatusChanged)
            || emits.contains(&AgentSessionEventType::StatusActive)
    }

    /// Takes the session's newest row.
    pub(super) fn update(&mut self, row: Arc<SessionRow>) {
        let was_active = self.row.status == AgentStatus::Active;
        if row.status != AgentStatus::Offline {
            self.going_offline = false;
        }
        self.row = row;
        self.changed();
        if was_active && self.is_safe() {
            self.backlog.next_turn();
        }
    }

    /// An offer is out no more, for whatever reason.
    pub(super) fn take_out(&mut self, position: Position, now: Mono) -> Option<Box<Out>> {
        let out = self.out.remove(&position)?;
        if self.out.is_empty() {
            self.rests(now);
        }
        Some(out)
    }

    /// Nothing is out any more.
    fn rests(&mut self, now: Mono) {
        self.backlog.rested_since = Some(now);
        if !self.reports_turns() && self.row.link != LinkKind::None {
            self.backlog.next_turn();
        }
    }

    /// How many offers may be out at a time. To a session that is called only one: calls beside each other
    /// come in any order.
    pub(super) fn window(&self, policy: &Policy) -> usize {
        match self.row.link {
            LinkKind::Webhook => 1,
            _ => policy.window as usize,
        }
    }

    /// Says when something about the session is to be looked at, if nothing happens before. While it is
    /// being attached, its grace time and its lease rest.
    pub(super) fn wake_at(&self, policy: &Policy, is_attaching: bool) -> Option<Mono> {
        if self.ended.is_some() {
            return None;
        }
        let link = self.link_id();
        let silent = self
            .out
            .values()
            .filter(|out| out.is_awaited(link))
            .map(|out| out.since + policy.offer_timeout_ms)
            .min();
        let gone_since = self.gone_since.filter(|_| !is_attaching);
        let offline = gone_since
            .filter(|_| self.can_go_offline())
            .map(|since| since + self.grace(policy));
        let lease = gone_since
            .filter(|_| self.lease == Lease::Runs)
            .map(|since| since + policy.accepted_lease_ms);
        let share = self.backlog.next_share_at(self.is_safe());
        [silent, offline, lease, share].into_iter().flatten().min()
    }

    /// For how long it may be without a link.
    pub(super) const fn grace(&self, policy: &Policy) -> Mono {
        if self.long_gone {
            0
        } else {
            policy.offline_grace_ms
        }
    }

    /// Whether the memory can do without it until it comes back: the store knows as much.
    pub(super) fn is_dormant(&self) -> bool {
        self.row.status == AgentStatus::Offline
            && self.link.is_none()
            && self.lease == Lease::Over
            && self.out.is_empty()
            && self.addressed.is_empty()
            && self.reading.is_none()
            && !self.unread
    }

    pub(super) fn can_go_offline(&self) -> bool {
        self.row.link != LinkKind::None
            && !self.going_offline
            && !matches!(
                self.row.status,
                AgentStatus::Offline | AgentStatus::Released | AgentStatus::Failed
            )
    }
}

/// What waited while a session was away: it gets a share of it per turn, not all at once.
#[derive(Default)]
pub(super) struct Backlog {
    /// What is not newer than this waited while the session was away.
    mark: Option<Position>,
    /// How many of them it may still get in this turn.
    left: u32,
    per_turn: u32,
    /// Since when nothing is out.
    rested_since: Option<Mono>,
}

impl Backlog {
    /// The session has come back; everything up to the mark waited meanwhile.
    pub(super) const fn begin(&mut self, mark: Position, per_turn: u32) {
        *self = Self {
            mark: Some(mark),
            left: per_turn,
            per_turn,
            rested_since: None,
        };
    }

    pub(super) const fn next_turn(&mut self) {
        self.left = self.per_turn;
    }

    /// Up to where deliveries waited while the session was away, unless none of them is left.
    pub(super) const fn mark(&self) -> Option<Position> {
        self.mark
    }

    /// Only what is newer than this, or was flushed, may be offered now.
    pub(super) const fn after(&self) -> Option<Position> {
        if self.left == 0 { self.mark } else { None }
    }

    /// How many may be offered in this turn, where there is such a limit.
    pub(super) fn share(&self) -> Option<usize> {
        let limited = self.mark.is_some() && self.left > 0;
        limited.then_some(self.left as usize)
    }

    /// Counts an offer. What was flushed goes beyond any share.
    pub(super) fn offered(&mut self, position: Position, flushed: bool) {
        if !flushed && self.mark.is_some_and(|mark| position <= mark) {
            self.left = self.left.saturating_sub(1);
            self.rested_since = None;
        }
    }

    /// Nothing of it is left.
    pub(super) const fn done(&mut self) {
        self.mark = None;
    }

    fn next_share_at(&self, at_rest: bool) -> Option<Mono> {
        let due = self.mark.is_some() && self.left == 0 && at_rest;
        self.rested_since
            .filter(|_| due)
            .map(|since| since + BACKLOG_PAUSE_MS)
    }

    /// Opens the next share if the session was at rest for long enough.
    pub(super) fn open_if_rested(&mut self, now: Mono, at_rest: bool) {
        if self.next_share_at(at_rest).is_some_and(|at| at <= now) {
            self.next_turn();
        }
    }
}

impl Desk {
    pub(super) fn new(agent: AgentNo, workspace_no: u32) -> Self {
        Self {
            agent,
            workspace_no,
            sessions: BTreeMap::new(),
            shelf: Shelf::new(SHELF),
            refill: 0,
            unfinished: 0,
            unexplained: BTreeSet::new(),
            holds: 0,
            stalled_until: None,
            queued: false,
            stirred: Stirred::default(),
            served: None,
        }
    }

    /// The session that the agent's deliveries go to.
    pub(super) fn current(&self) -> Option<SessionNo> {
        let mut newest_first = self.sessions.iter().rev();
        newest_first
            .find(|(_, live)| live.row.can_be_current())
            .map(|(no, _)| *no)
    }

    /// The sessions to look at, oldest first; from here on nothing has changed.
    pub(super) fn take_stirred(&mut self) -> Vec<SessionNo> {
        match std::mem::take(&mut self.stirred) {
            Stirred::Everything => self.sessions.keys().copied().collect(),
            Stirred::Sessions(mut some) => {
                some.extend(self.served);
                some.extend(self.current());
                some.into_iter().collect()
            }
        }
    }

    /// Whether nothing may be offered at the moment.
    pub(super) fn is_held(&self, now: Mono) -> bool {
        self.holds > 0 || self.is_stalled(now)
    }

    /// Whether the store has failed a moment ago.
    pub(super) fn is_stalled(&self, now: Mono) -> bool {
        self.stalled_until.is_some_and(|until| now < until)
    }

    /// The offer of a delivery that is out.
    pub(super) fn out(&self, position: Position) -> Option<&Out> {
        self.sessions
            .values()
            .find_map(|live| live.out.get(&position).map(|out| &**out))
    }

    pub(super) fn out_mut(&mut self, position: Position) -> Option<&mut Out> {
        self.sessions
            .values_mut()
            .find_map(|live| live.out.get_mut(&position).map(|out| &mut **out))
    }

    /// How many deliveries wait behind those that are out.
    pub(super) fn still_waiting(&self) -> u32 {
        self.unfinished
            .saturating_sub(u32::try_from(self.in_flight()).unwrap_or(u32::MAX))
    }

    /// How many offers are out.
    pub(super) fn in_flight(&self) -> usize {
        self.sessions.values().map(|live| live.out.len()).sum()
    }
}
