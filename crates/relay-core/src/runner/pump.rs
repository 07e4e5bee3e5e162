//! Looking at a desk: what is due goes out, what can't be taken ends, the rest is told why it waits.

use relay_protocol::delivery::DeliveryMode;
use relay_protocol::message::AttachmentKind;
use relay_protocol::policy::Policy;
use relay_protocol::problem::Problem;
use relay_protocol::session::BoundaryKind;

use super::desk::{Desk, Live, Out, Waiting};
use super::state::{Command, HandOver, Offered, State, Times};
use super::waiter::Heard;
use crate::delivery::apply::{Recall, Step};
use crate::delivery::decide::{Decision, Moment, decide_delivery};
use crate::delivery::history::Offer;
use crate::delivery::shelf::{Next, Wanted};
use crate::delivery::waiting::hold_code;
use crate::store::{AgentNo, Position, SessionNo, WaitingQuery};
use relay_protocol::link::LinkKind;

/// Most hold decisions that are kept in memory for one delivery.
const DECISIONS: usize = 16;

/// What a look at the shelf found.
enum Found {
    /// An offer was made.
    Offer(Box<Offered>),
    /// Something was dealt with; there may be more.
    Dealt,
    /// Nothing more is due.
    Nothing,
    /// More has to be read first.
    Reading,
}

impl State {
    /// Looks at every desk where something has changed; says whether there was one.
    pub(super) fn pump(&mut self, times: Times) -> bool {
        let mut looked = false;
        while let Some(agent) = self.next_dirty() {
            self.pump_desk(agent, times);
            looked = true;
        }
        looked
    }

    fn pump_desk(&mut self, agent: AgentNo, times: Times) {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        let sessions = desk.take_stirred();
        // Everything is looked at when that is over.
        if desk.is_held(times.mono) {
            return;
        }
        desk.stalled_until = None;
        let current = desk.current();
        desk.served = current;
        for session in sessions {
            let Some(live) = self.live(session) else {
                continue;
            };
            if let Some(cause) = live.ended {
                // Only what could not be stored before.
                self.give_back(session, cause);
                continue;
            }
            if live.unread {
                self.read_addressed(session);
            }
            self.give_back_strays(session);
            self.pump_session(agent, session, Some(session) == current, times);
            self.schedule(session);
        }
        self.explain(agent, times);
    }

    /// Hands over what is due for a session at the moment at which it stands, as far as its window allows.
    fn pump_session(&mut self, agent: AgentNo, session: SessionNo, is_current: bool, times: Times) {
        let Some((moment, keeps_messages)) = self
            .live(session)
            .map(|live| (live.moment(), live.row.keeps_messages))
        else {
            return;
        };
        if !keeps_messages {
            self.pump_addressed(agent, session, moment, times);
        }
        // The boundary stays open until what waits is known.
        if is_current && !self.pump_shelf(agent, session, moment, times) {
            return;
        }
        if keeps_messages {
            // What anybody could have got came before what is for it alone.
            self.pump_addressed(agent, session, moment, times);
        }
        if !is_current {
            if let Some(live) = self.live_mut(session) {
                live.openings.clear();
            }
        } else if moment != Moment::Now {
            if let Some(live) = self.live_mut(session) {
                live.openings.pop_front();
            }
            // What is open at other moments has not been looked at.
            self.touch_session(agent, session);
        }
    }

    /// Hands over what waits for whichever session is the current one; false where more has to be read first.
    fn pump_shelf(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        moment: Moment,
        times: Times,
    ) -> bool {
        loop {
            match self.next_due_for(agent, session, moment, times) {
                Found::Offer(offered) => self.hand(agent, session, *offered),
                Found::Dealt => {}
                Found::Nothing => return true,
                Found::Reading => return false,
            }
        }
    }

    /// Finds the next thing to do for a session, and does it but for the handing over.
    fn next_due_for(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        moment: Moment,
        times: Times,
    ) -> Found {
        let Some(workspace_no) = self.desks.get(&agent).map(|desk| desk.workspace_no) else {
            return Found::Nothing;
        };
        let Some(workspace) = self.workspaces.get(&workspace_no).cloned() else {
            return Found::Nothing;
        };
        let policy = &workspace.policy;
        let Some(desk) = self.desks.get_mut(&agent) else {
            return Found::Nothing;
        };
        let Some(live) = desk.sessions.get_mut(&session) else {
            return Found::Nothing;
        };
        let wanted = Wanted {
            lanes: live.open_lanes(policy, moment),
            after: live.backlog.after(),
        };
        if wanted.lanes.is_empty() || live.out.len() >= live.window(policy) {
            return Found::Nothing;
        }
        match desk.shelf.next(wanted) {
            Next::Item(position, _) => self.deal_with(agent, session, position, moment, times),
            Next::Wait => Found::Reading,
            Next::Empty => {
                // What a busy session cannot have now is a backlog still.
                let mark = live.backlog.mark();
                if mark.is_some_and(|mark| desk.shelf.is_clear_to(mark)) {
                    live.backlog.done();
                }
                Found::Nothing
            }
            Next::Refill(wanted) => {
                desk.shelf.begin_refill(wanted);
                self.refills += 1;
                desk.refill = self.refills;
                let share = live.backlog.share();
                let query = WaitingQuery {
                    workspace_no,
                    agent,
                    wanted,
                    limit: desk.shelf.page_rows(share, desk.in_flight()),
                };
                self.commands.push(Command::Refill(desk.refill, query));
                Found::Reading
            }
        }
    }

    fn deal_with(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        position: Position,
        moment: Moment,
        times: Times,
    ) -> Found {
        let Some(waiting) = self
            .desks
            .get_mut(&agent)
            .and_then(|desk| desk.shelf.remove(position))
        else {
            return Found::Nothing;
        };
        self.judge(agent, session, waiting, moment, times)
    }

    /// Decides about a delivery that was taken off its place, and does what follows.
    fn judge(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        waiting: Waiting,
        moment: Moment,
        times: Times,
    ) -> Found {
        if let Some(belated) = self.belated.get_mut(&waiting.row.position) {
            belated.set_aside = true;
            return Found::Dealt;
        }
        let Some((decision, session_id)) = self.decision(agent, session, &waiting, moment, times)
        else {
            return Found::Nothing;
        };
        let position = waiting.row.position;
        match decision {
            Decision::Offer { mode, why } => {
                let offered = self.make_offer(agent, session, waiting, (mode, why), times);
                offered.map_or(Found::Nothing, |offered| Found::Offer(Box::new(offered)))
            }
            Decision::Mismatch(mismatch) => {
                let step = Step::Mismatch {
                    session: session_id,
                    problem: Box::new(Problem::from(mismatch)),
                };
                self.step(agent, position, step, waiting.decisions);
                Found::Dealt
            }
            Decision::Expire => {
                let recall = Recall::NotNeeded;
                self.step(agent, position, Step::Expired { recall }, waiting.decisions);
                Found::Dealt
            }
            Decision::Hold(_) => {
                self.put_back(agent, waiting);
                Found::Nothing
            }
        }
    }

    fn decision(
        &self,
        agent: AgentNo,
        session: SessionNo,
        waiting: &Waiting,
        moment: Moment,
        times: Times,
    ) -> Option<(Decision, relay_protocol::ids::SessionId)> {
        let desk = self.desks.get(&agent)?;
        let policy = self.policy(desk.workspace_no)?;
        let live = desk.sessions.get(&session)?;
        let decision = decide_delivery(&live.view(), &waiting.row, policy, moment, times.now);
        Some((decision, live.row.id))
    }

    fn put_back(&mut self, agent: AgentNo, waiting: Waiting) {
        let lane = crate::delivery::lane::Lane::of(&waiting.row);
        let position = waiting.row.position;
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        match waiting.row.only_session {
            None => desk.shelf.put(lane, position, waiting),
            Some(session) => {
                if let Some(live) = desk.sessions.get_mut(&session) {
                    live.addressed.insert(position, waiting);
                }
            }
        }
    }

    /// What waits for this session only. These are few, so each is looked at.
    fn pump_addressed(&mut self, agent: AgentNo, session: SessionNo, moment: Moment, times: Times) {
        let Some(live) = self.live(session) else {
            return;
        };
        for position in live.addressed_in_order() {
            match self.next_addressed(agent, session, position, moment, times) {
                Some(Found::Offer(offered)) => self.hand(agent, session, *offered),
                Some(_) => {}
                None => break,
            }
        }
    }

    fn next_addressed(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        position: Position,
        moment: Moment,
        times: Times,
    ) -> Option<Found> {
        let live = self.live(session)?;
        let policy = self.policy(live.row.workspace_no)?;
        if live.out.len() >= live.window(policy) {
            return None;
        }
        let waiting = self.live_mut(session)?.addressed.remove(&position)?;
        Some(self.judge(agent, session, waiting, moment, times))
    }

    fn make_offer(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        waiting: Waiting,
        (mode, why): (DeliveryMode, std::borrow::Cow<'static, str>),
        times: Times,
    ) -> Option<Offered> {
        let epoch = self.next_epoch();
        let desk = self.desks.get_mut(&agent)?;
        let workspace = self.workspaces.get(&desk.workspace_no)?.id;
        let live = desk.sessions.get_mut(&session)?;
        let offer = Offer {
            epoch,
            generation: waiting.row.generation,
            session,
            session_id: live.row.id,
            mode,
            why,
            offered_at: times.now,
            live: live.link.is_some() && live.row.link != LinkKind::None,
        };
        let over = live.link_id().filter(|_| offer.live);
        let lines_for_images = waiting.row.image && !takes_images(live);
        let position = waiting.row.position;
        live.backlog.offered(position, waiting.row.ask().flushed);
        let mut offered = Offered {
            row: waiting.row.clone(),
            workspace,
            offer: offer.clone(),
            content: waiting.content.clone(),
            still_waiting: 0,
            lines_for_images,
        };
        let out = Out {
            waiting,
            offer,
            over,
            since: times.mono,
            settling: false,
            recalled: false,
        };
        live.out.insert(position, Box::new(out));
        desk.unexplained.remove(&position);
        offered.still_waiting = desk.still_waiting();
        Some(offered)
    }

    fn hand(&mut self, agent: AgentNo, session: SessionNo, offered: Offered) {
        let link = self.live(session).and_then(|live| live.link.clone());
        if let Some((link_id, link)) = link {
            self.commands.push(Command::Hand(Box::new(HandOver {
                agent,
                session,
                link_id,
                link,
                offered,
            })));
        }
    }

    /// What is due for a session that stands at a boundary and takes it along: at most so many. `None`
    /// when something has to be read first.
    pub(super) fn claim(
        &mut self,
        session: SessionNo,
        kind: Option<BoundaryKind>,
        limit: usize,
        times: Times,
    ) -> Option<Vec<Offered>> {
        let Some(&agent) = self.sessions.get(&session) else {
            return Some(Vec::new());
        };
        let desk = self.desks.get(&agent)?;
        if desk.is_held(times.mono) {
            return None;
        }
        let is_current = desk.current() == Some(session);
        if let Some(live) = self.live_mut(session)
            && matches!(kind, Some(BoundaryKind::OnIdle | BoundaryKind::NextMessage))
        {
            live.backlog.next_turn();
        }
        let moment = kind.map_or(Moment::Asked, Moment::At);
        let mut taken = self.claim_addressed(agent, session, moment, limit, times);
        while is_current && taken.len() < limit {
            match self.next_due_for(agent, session, moment, times) {
                Found::Offer(offered) => taken.push(*offered),
                Found::Dealt => {}
                Found::Nothing => break,
                Found::Reading if taken.is_empty() => return None,
                Found::Reading => break,
            }
        }
        self.schedule(session);
        Some(taken)
    }

    fn claim_addressed(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        moment: Moment,
        limit: usize,
        times: Times,
    ) -> Vec<Offered> {
        let mut taken = Vec::new();
        let live = self.live(session);
        let positions = live.map(Live::addressed_in_order).unwrap_or_default();
        for position in positions {
            if taken.len() >= limit {
                break;
            }
            match self.next_addressed(agent, session, position, moment, times) {
                Some(Found::Offer(offered)) => taken.push(*offered),
                Some(_) => {}
                None => break,
            }
        }
        taken
    }

    /// Whether a claim would find more.
    pub(super) fn has_more(&mut self, session: SessionNo, kind: Option<BoundaryKind>) -> bool {
        let Some(&agent) = self.sessions.get(&session) else {
            return false;
        };
        let moment = kind.map_or(Moment::Asked, Moment::At);
        let Some(desk) = self.desks.get_mut(&agent) else {
            return false;
        };
        let Some(workspace) = self.workspaces.get(&desk.workspace_no).cloned() else {
            return false;
        };
        let is_current = desk.current() == Some(session);
        let Some(live) = desk.sessions.get_mut(&session) else {
            return false;
        };
        let wanted = Wanted {
            lanes: live.open_lanes(&workspace.policy, moment),
            after: live.backlog.after(),
        };
        is_current && !wanted.lanes.is_empty() && !matches!(desk.shelf.next(wanted), Next::Empty)
    }

    /// Takes an offer back that did not reach anybody.
    pub(super) fn take_back_offer(
        &mut self,
        agent: AgentNo,
        position: Position,
        epoch: u64,
        times: Times,
    ) {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        for live in desk.sessions.values_mut() {
            let is_it = |out: &Out| out.offer.epoch == epoch && !out.settling;
            if live.out.get(&position).is_some_and(|out| is_it(out))
                && let Some(out) = live.take_out(position, times.mono)
            {
                self.put_back(agent, out.waiting);
                return;
            }
        }
    }

    /// Notes why new deliveries wait, and tells callers who want to know.
    fn explain(&mut self, agent: AgentNo, times: Times) {
        let Some(desk) = self.desks.get_mut(&agent) else {
            return;
        };
        let Some(workspace) = self.workspaces.get(&desk.workspace_no) else {
            return;
        };
        let policy = &workspace.policy;
        let current = desk.current();
        let fresh = std::mem::take(&mut desk.unexplained);
        for position in fresh {
            let heard = explain_one(desk, current, position, policy, times);
            if let Some(heard) = heard
                && self.waiters.is_awaited(position)
            {
                self.waiters.tell(position, &heard);
            }
        }
    }
}

fn explain_one(
    desk: &mut Desk,
    current: Option<SessionNo>,
    position: Position,
    policy: &Policy,
    times: Times,
) -> Option<Heard> {
    let mut lives = desk.sessions.iter();
    let only = lives.find(|(_, live)| live.addressed.contains_key(&position));
    let only = only.map(|(no, _)| *no);
    let waiting = match only {
        Some(session) => desk.sessions.get(&session)?.addressed.get(&position)?,
        None => desk.shelf.get(position)?,
    };
    let Some(live) = only.or(current).and_then(|no| desk.sessions.get(&no)) else {
        return Some(Heard::no_session());
    };
    let view = live.view();
    let Decision::Hold(hold) = decide_delivery(&view, &waiting.row, policy, Moment::Now, times.now)
    else {
        return None;
    };
    let polls_at_boundaries = live.row.link == LinkKind::None;
    let heard = Heard::Held {
        waits_for: hold.waits_for,
        why: hold.why.to_string(),
        code: hold_code(&view, &waiting.row, &hold, polls_at_boundaries),
        until: hold.until,
    };
    let decision = hold.decision(times.now, Some(live.row.id));
    let waiting = match only {
        Some(session) => {
            let live = desk.sessions.get_mut(&session)?;
            live.addressed.get_mut(&position)?
        }
        None => desk.shelf.get_mut(position)?,
    };
    let repeats = |last: &relay_protocol::delivery_record::DeliveryDecision| {
        last.reason == decision.reason && last.session_id == decision.session_id
    };
    if waiting.decisions.len() < DECISIONS && !waiting.decisions.last().is_some_and(repeats) {
        waiting.decisions.push(decision);
    }
    Some(heard)
}

fn takes_images(live: &Live) -> bool {
    live.row
        .capabilities
        .messaging
        .attachments
        .contains(&AttachmentKind::Image)
}
