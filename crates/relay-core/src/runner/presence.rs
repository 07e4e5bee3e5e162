//! Sessions as the memory sees them: they come, lose their links, come back and end.

use std::sync::Arc;

use relay_protocol::status::AgentStatus;

use super::desk::{Desk, Lease, Live, Out};
use super::link::{CloseReason, LinkId, SessionLink};
use super::state::{Advancing, Command, State, Timer, Times};
use crate::delivery::apply::{Recall, ReturnCause, Step};
use crate::store::{SessionNo, SessionRow, SessionTurn};

impl State {
    pub(super) fn session_changed(&mut self, row: Arc<SessionRow>, times: Times) {
        if row.status.is_terminal() {
            return self.session_ended(row);
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
                let live = Live::new(row, times.mono);
                desk.sessions.insert(no, Box::new(live));
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
        self.touch_session(agent, no);
    }

    /// What was offered to a session that went offline is free again.
    fn give_back_if_offline(&mut self, session: SessionNo) {
        let offline = self
            .live(session)
            .is_some_and(|live| live.row.status == AgentStatus::Offline);
        if offline {
            self.give_back(session, ReturnCause::LinkLost);
        }
    }

    /// A session is no more. It stays in mind until what was out to it is settled.
    fn session_ended(&mut self, row: Arc<SessionRow>) {
        let (no, id) = (row.no, row.id);
        let cause = match row.status {
            AgentStatus::Failed => ReturnCause::SessionFailed,
            _ => ReturnCause::SessionReleased,
        };
        self.give_back(no, cause);
        self.controls_of_lost(no);
        self.by_id.remove(&id);
        let Some(live) = self.live_mut(no) else {
            return;
        };
        live.update(row);
        live.ended = Some(cause);
        live.openings.clear();
        if let Some((_, link)) = live.link.take() {
            self.commands.push(Command::Close(link, CloseReason::Ended));
        }
        self.schedule(no);
        self.forget_if_done(no);
    }

    /// Forgets a session that has ended once nothing is out to it any more, and one that has been away
    /// for so long that nothing is left to remember. That one is learned of anew when it is heard of.
    pub(super) fn forget_if_done(&mut self, session: SessionNo) {
        let ended = |live: &Live| live.ended.is_some() && live.out.is_empty();
        let done = |live: &Live| ended(live) || live.is_dormant();
        if !self.live(session).is_some_and(done) {
            return;
        }
        let Some(agent) = self.sessions.remove(&session) else {
            return;
        };
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        if let Some(live) = desk.sessions.remove(&session) {
            self.by_id.remove(&live.row.id);
            if let Some(at) = live.timer {
                self.timers.remove(&(at, Timer::Session(session)));
            }
        }
        if desk.sessions.is_empty() {
            self.desks.remove(&agent);
        } else {
            self.touch_session(agent, session);
        }
    }

    /// Everything that is out to a session waits again.
    pub(super) fn give_back(&mut self, session: SessionNo, cause: ReturnCause) {
        self.give_back_some(session, cause, |_| true);
    }

    /// What went over a link that the session has no more waits again. Most of it did when the link broke;
    /// left are offers that were about to be settled then, and were not.
    pub(super) fn give_back_strays(&mut self, session: SessionNo) {
        let link = self.live(session).and_then(Live::link_id);
        self.give_back_some(session, ReturnCause::LinkLost, |out| out.is_stray(link));
    }

    fn give_back_some(
        &mut self,
        session: SessionNo,
        cause: ReturnCause,
        which: impl Fn(&Out) -> bool,
    ) {
        let Some(live) = self.live_mut(session) else {
            return;
        };
        let agent = live.row.agent;
        let mut returned = Vec::new();
        for (position, out) in &mut live.out {
            if !out.settling && which(out) {
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
        live.long_gone = false;
        live.lease = Lease::Runs;
        live.link = Some((id, link));
        live.changed();
        let agent = live.row.agent;
        self.schedule(session);
        self.touch_session(agent, session);
        Some(id)
    }

    /// Closes the link that a session has, because it comes back over another one, or without any.
    pub(super) fn supersede(&mut self, session: SessionNo, times: Times) {
        let Some(live) = self.live_mut(session) else {
            return;
        };
        let Some((id, link)) = live.link.clone() else {
            // It is on its way back: its time begins anew, also for what it is about to be told to keep.
            live.gone_since = Some(times.mono);
            live.long_gone = false;
            live.lease = Lease::Runs;
            self.give_back(session, ReturnCause::LinkLost);
            return self.schedule(session);
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

    pub(super) fn changed(&mut self, session: SessionNo, stored: bool, times: Times) {
        let Some(&agent) = self.sessions.get(&session) else {
            return;
        };
        if !stored {
            if let Some(live) = self.live_mut(session) {
                live.going_offline = false;
            }
            self.stall(agent, times);
        }
        self.schedule(session);
        self.touch_session(agent, session);
        self.forget_if_done(session);
    }

    /// What a session had accepted was taken back, or could not be.
    pub(super) fn taken_back(&mut self, session: SessionNo, stored: bool, times: Times) {
        if let Some(live) = self.live_mut(session)
            && live.lease == Lease::Ends
        {
            live.lease = if stored { Lease::Over } else { Lease::Runs };
        }
        self.changed(session, stored, times);
    }

    /// Sets the timer of a session to when it is next to be looked at.
    pub(super) fn schedule(&mut self, session: SessionNo) {
        let Some(live) = self.live(session) else {
            return;
        };
        let Some(policy) = self.policy(live.row.workspace_no) else {
            return;
        };
        let is_attaching = self.attaches.is_attaching(live.row.id);
        let (before, at) = (live.timer, live.wake_at(policy, is_attaching));
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

    pub(super) fn session_timer(&mut self, session: SessionNo, times: Times) {
        let known = self.live(session).map(|live| &live.row);
        let Some((workspace_no, id)) = known.map(|row| (row.workspace_no, row.id)) else {
            return;
        };
        let is_attaching = self.attaches.is_attaching(id);
        let Some(policy) = self.policy(workspace_no) else {
            return;
        };
        let grace = self.live(session).map_or(0, |live| live.grace(policy));
        let (timeout, lease) = (policy.offer_timeout_ms, policy.accepted_lease_ms);
        let Some(live) = self.live_mut(session) else {
            return;
        };
        live.timer = None;
        let agent = live.row.agent;
        let mut silent = Vec::new();
        let link = live.link_id();
        for (position, out) in &mut live.out {
            if out.is_unanswered(link, timeout, times.mono) {
                out.settling = true;
                let decisions = std::mem::take(&mut out.waiting.decisions);
                silent.push((*position, out.offer.clone(), decisions));
            }
        }
        let at_rest = live.is_safe();
        live.backlog.open_if_rested(times.mono, at_rest);
        let gone_since = live.gone_since.filter(|_| !is_attaching);
        let gone_for = gone_since.map(|since| times.mono - since);
        let goes_offline = live.can_go_offline() && gone_for.is_some_and(|gone| gone >= grace);
        let turn = match live.row.status {
            // Nobody is left who could say that it has ended.
            AgentStatus::Releasing => SessionTurn::Released,
            _ => SessionTurn::Offline,
        };
        let leased = live.lease == Lease::Runs;
        let ends_lease = leased && gone_for.is_some_and(|gone| gone >= lease);
        live.going_offline |= goes_offline;
        if ends_lease {
            live.lease = Lease::Ends;
        }
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
            if turn == SessionTurn::Offline {
                self.attaches.offline_requested(session);
            }
            let reason = Some("its link was lost".to_owned());
            self.commands
                .push(Command::Change(session, turn, reason, None));
        }
        if ends_lease {
            self.commands.push(Command::TakeBack(session));
        }
        self.schedule(session);
        self.touch_session(agent, session);
    }
}
