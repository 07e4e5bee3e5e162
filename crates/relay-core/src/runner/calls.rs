//! The memory's side of the engine's calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::link::LinkKind;
use relay_protocol::session::{AttachAttempt, BoundaryKind};
use tokio::sync::oneshot;

use super::desk::Lease;
use super::guards::Found;
use super::link::SessionLink;
use super::state::{State, Timer, Times};
use super::waiter::Heard;
use crate::delivery::history::Offer;
use crate::store::{AgentNo, Position, SessionNo, WorkspaceRow};

impl State {
    /// A session has attached, for the first time or again.
    pub(super) fn attach(
        &mut self,
        session: SessionNo,
        workspace: &Arc<WorkspaceRow>,
        head: Position,
        attempt: Option<AttachAttempt>,
        times: Times,
    ) {
        let known = self.workspaces.get(&workspace.no);
        if known.is_none_or(|known| known.policy.version <= workspace.policy.version) {
            self.workspaces.insert(workspace.no, workspace.clone());
        }
        let per_turn = self
            .policy(workspace.no)
            .map_or(0, |policy| policy.backlog_per_turn);
        if let Some(live) = self.live_mut(session) {
            live.backlog.begin(head, per_turn);
            live.attempt = attempt;
        }
        self.heard_of(session, times);
        if let Some(&agent) = self.sessions.get(&session) {
            self.touch_session(agent, session);
        }
    }

    /// Whether the client of an attempt to attach a session has attached it anew since.
    pub(super) fn is_outdated(&self, session: SessionNo, attempt: Option<&AttachAttempt>) -> bool {
        let newest = self.live(session).and_then(|live| live.attempt.as_ref());
        matches!((attempt, newest), (Some(attempt), Some(newest)) if attempt.is_older_than(newest))
    }

    /// A session without a link is gone from when it was last heard of.
    pub(super) fn heard_of(&mut self, session: SessionNo, times: Times) {
        let Some(live) = self.live_mut(session) else {
            return;
        };
        if live.row.link == LinkKind::None {
            live.gone_since = Some(times.mono);
            live.lease = Lease::Runs;
            self.schedule(session);
        }
    }

    /// A session stands at a boundary. Without a link nothing can be handed to it.
    pub(super) fn open(&mut self, session: SessionNo, kind: BoundaryKind, times: Times) {
        let stalled = self
            .sessions
            .get(&session)
            .and_then(|agent| self.desks.get(agent))
            .is_some_and(|desk| desk.is_stalled(times.mono));
        let live = self.live_mut(session);
        let Some(live) = live.filter(|live| live.link.is_some() && !stalled) else {
            return;
        };
        if !live.openings.contains(&kind) {
            live.openings.push_back(kind);
        }
        if matches!(kind, BoundaryKind::OnIdle | BoundaryKind::NextMessage) {
            live.backlog.next_turn();
        }
        let agent = live.row.agent;
        self.touch_session(agent, session);
    }

    /// A session stands at a boundary no more.
    pub(super) fn close(&mut self, session: SessionNo, kind: BoundaryKind) {
        if let Some(live) = self.live_mut(session) {
            live.openings.retain(|open| *open != kind);
        }
    }

    /// The offer that a receipt answers, if it is out and nothing else settles it.
    pub(super) fn settle(
        &mut self,
        agent: Option<AgentNo>,
        position: Position,
        via: Option<SessionNo>,
        epoch: Option<u64>,
    ) -> Option<Found> {
        let agent = match (agent, via) {
            (Some(agent), _) => agent,
            (None, Some(session)) => *self.sessions.get(&session)?,
            (None, None) => self
                .desks
                .iter()
                .find(|(_, desk)| desk.out(position).is_some())
                .map(|(agent, _)| *agent)?,
        };
        let out = self.desks.get_mut(&agent)?.out_mut(position)?;
        let answers = !out.settling
            && via.is_none_or(|session| session == out.offer.session)
            && epoch.is_none_or(|epoch| epoch == out.offer.epoch);
        if !answers {
            return None;
        }
        out.settling = true;
        Some(Found {
            agent,
            position,
            offer: Box::new(out.offer.clone()),
            decisions: std::mem::take(&mut out.waiting.decisions),
        })
    }

    /// The offers that are out to a session.
    pub(super) fn offers_out(&self, session: SessionNo) -> BTreeSet<u64> {
        let out = self.live(session).map(|live| live.out.values());
        out.into_iter()
            .flatten()
            .map(|out| out.offer.epoch)
            .collect()
    }

    /// The link of a session, and the places of what is out to it and not about to be settled, by offer.
    pub(super) fn link_and_offers(
        &self,
        session: SessionNo,
    ) -> Option<(Arc<dyn SessionLink>, BTreeMap<u64, Position>)> {
        let live = self.live(session)?;
        let (_, link) = live.link.as_ref()?;
        let out = live.out.iter();
        let out = out.filter(|(_, out)| !out.settling && !out.recalled);
        let out = out.map(|(position, out)| (out.offer.epoch, *position));
        Some((link.clone(), out.collect()))
    }

    /// Whether another offer of a delivery is out than the one that a receipt answers.
    pub(super) fn is_offered_anew(
        &self,
        agent: AgentNo,
        position: Position,
        via: Option<SessionNo>,
        epoch: Option<u64>,
    ) -> bool {
        let out = self.desks.get(&agent).and_then(|desk| desk.out(position));
        out.is_some_and(|out| match epoch {
            Some(epoch) => epoch != out.offer.epoch,
            None => via.is_some_and(|session| session != out.offer.session),
        })
    }

    /// Offers a delivery to no session until a receipt of it is stored. Says which offer of it is about to be
    /// settled.
    pub(super) fn hold_for_receipt(
        &mut self,
        agent: AgentNo,
        position: Position,
    ) -> Option<Box<Offer>> {
        self.belated.entry(position).or_default().receipts += 1;
        let out = self.desks.get(&agent)?.out(position)?;
        Some(Box::new(out.offer.clone()))
    }

    /// A belated receipt was stored. If it did not end the delivery, that is due as before.
    pub(super) fn belated_stored(&mut self, agent: AgentNo, position: Position) {
        let Some(belated) = self.belated.get_mut(&position) else {
            return;
        };
        belated.receipts -= 1;
        if belated.receipts > 0 {
            return;
        }
        let was_due = belated.set_aside;
        self.belated.remove(&position);
        if was_due {
            if let Some(desk) = self.desks.get_mut(&agent) {
                desk.shelf.forget();
            }
            self.reload_addressed(agent);
            self.touch(agent);
        }
    }

    /// Offers nothing more to an agent for now; says what is out.
    pub(super) fn hold(&mut self, agent: AgentNo) -> Vec<(Position, Offer)> {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return Vec::new();
        };
        desk.holds += 1;
        let lives = desk.sessions.values();
        let out = lives.flat_map(|live| &live.out);
        out.map(|(position, out)| (*position, out.offer.clone()))
            .collect()
    }

    /// Adds somebody who waits for what a session says about a delivery.
    pub(super) fn listen(
        &mut self,
        agent: AgentNo,
        position: Position,
        times: Times,
    ) -> oneshot::Receiver<Heard> {
        let (tell, told) = oneshot::channel();
        let id = self.waiters.add(position, tell);
        let Some(desk) = self.desks.get_mut(&agent) else {
            self.waiters.tell(position, &Heard::no_session());
            return told;
        };
        desk.unexplained.insert(position);
        let workspace_no = desk.workspace_no;
        let timeout = self
            .policy(workspace_no)
            .map_or(0, |policy| policy.offer_timeout_ms);
        self.timers
            .insert((times.mono + timeout, Timer::Waiter(id)));
        self.touch(agent);
        told
    }

    /// Decisions about a delivery that are not stored yet.
    pub(super) fn decisions(&self, agent: AgentNo, position: Position) -> Vec<DeliveryDecision> {
        let Some(desk) = self.desks.get(&agent) else {
            return Vec::new();
        };
        if let Some(out) = desk.out(position) {
            return out.waiting.decisions.clone();
        }
        let mut lives = desk.sessions.values();
        let addressed = || lives.find_map(|live| live.addressed.get(&position));
        let waiting = desk.shelf.get(position).or_else(addressed);
        let decisions = waiting.map(|waiting| waiting.decisions.clone());
        decisions.unwrap_or_default()
    }

    /// An offer whose message can't be read at the moment: it is tried again later.
    pub(super) fn offer_unread(
        &mut self,
        agent: AgentNo,
        position: Position,
        epoch: u64,
        times: Times,
    ) {
        self.take_back_offer(agent, position, epoch, times);
        self.stall(agent, times);
    }
}
