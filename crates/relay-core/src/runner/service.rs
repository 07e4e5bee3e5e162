//! What the engine's calls ask of the runner.

use std::sync::{Arc, PoisonError};

use relay_protocol::delivery::Priority;
use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::ids::SessionId;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::{AttachAttempt, BoundaryKind, DueDelivery};
use relay_protocol::socket::ControlResult;
use tokio::sync::oneshot;

use super::Runner;
use super::control::{Ask, Asked};
use super::guards::{AnswerTo, AttachGuard, HoldGuard, OnDrop, Settling};
use super::link::{Deliver, LinkId, Parcel, SessionLink};
use super::state::Offered;
use super::waiter::Heard;
use crate::delivery::apply::Step;
use crate::delivery::history::Offer;
use crate::error::{Error, Result, StorageError};
use crate::ingest::SharedReports;
use crate::store::{
    Advanced, AgentNo, DeliveryRow, Position, SessionNo, SessionRow, SessionTurn, WorkspaceRow,
};

impl Runner {
    /// A session can be reached over this link from now on.
    pub(crate) fn connect(
        &self,
        session: SessionNo,
        workspace: &Arc<WorkspaceRow>,
        head: Position,
        link: Option<Arc<dyn SessionLink>>,
        attempt: Option<AttachAttempt>,
    ) -> Result<Option<LinkId>> {
        let (mut state, times) = self.memory();
        if state.is_outdated(session, attempt.as_ref()) {
            return Err(outdated());
        }
        state.attach(session, workspace, head, attempt, times);
        let id = link.and_then(|link| state.connect(session, link, times));
        drop(state);
        self.ring();
        Ok(id)
    }

    /// A session whose link is the server's own to make has it again.
    pub(crate) fn relink(&self, session: SessionNo, link: Arc<dyn SessionLink>) -> Option<LinkId> {
        let id = self.with(|state, times| state.connect(session, link, times));
        self.ring();
        id
    }

    /// The sessions of this kind that have not ended, oldest first.
    pub(crate) fn living_sessions(
        &self,
        wanted: impl Fn(&SessionRow) -> bool,
    ) -> Vec<Arc<SessionRow>> {
        let (state, _) = self.memory();
        let sessions = state.sessions.keys();
        let rows = sessions.filter_map(|no| Some(state.live(*no)?.row.clone()));
        let mut rows: Vec<_> = rows
            .filter(|row| !row.status.is_terminal() && wanted(row))
            .collect();
        rows.sort_unstable_by_key(|row| row.no);
        rows
    }

    /// Begins to attach a session: until the guard is dropped it is not declared lost. If it is known
    /// already, waits for an earlier request to mark it offline, which must not be carried out after it
    /// came back.
    pub(crate) async fn begin_attach(&self, id: SessionId, no: Option<SessionNo>) -> AttachGuard {
        self.with(|state, _| state.begin_attach(id));
        let guard = AttachGuard::new(self.inbox.clone(), id);
        let Some(no) = no else { return guard };
        loop {
            let news = self.inbox.news.notified();
            if !self.with(|state, _| state.attaches.awaits_offline(no)) {
                return guard;
            }
            news.await;
        }
    }

    /// A session comes back: its link of before is closed, and what was out over it is settled once this
    /// returns. Refused if the same client has attached it anew since it asked for this.
    pub(crate) async fn supersede(
        &self,
        session: SessionNo,
        attempt: Option<&AttachAttempt>,
    ) -> Result<()> {
        let before = self.with(|state, times| {
            if state.is_outdated(session, attempt) {
                return None;
            }
            state.supersede(session, times);
            Some(state.offers_out(session))
        });
        let Some(before) = before else {
            return Err(outdated());
        };
        self.ring();
        loop {
            let news = self.inbox.news.notified();
            let (is_outdated, is_settled) = self.with(|state, _| {
                // What it takes along at a boundary meanwhile is not waited for.
                let is_settled = state.offers_out(session).is_disjoint(&before);
                (state.is_outdated(session, attempt), is_settled)
            });
            if is_outdated {
                return Err(outdated());
            }
            if is_settled {
                return Ok(());
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
    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<SessionRow>> {
        let (state, _) = self.memory();
        let no = state.by_id.get(&id)?;
        state.live(*no).map(|live| live.row.clone())
    }

    /// Learns of a session that is not in mind: it was away for long, and is heard of again.
    pub(crate) fn remember(&self, row: &Arc<SessionRow>) {
        self.with(|state, times| {
            if state.by_id.contains_key(&row.id) {
                return;
            }
            state.session_changed(row.clone(), times);
            if let Some(live) = state.live_mut(row.no) {
                live.long_gone = true;
            }
        });
        self.ring();
    }

    /// The current session of an agent.
    pub(crate) fn current(&self, agent: AgentNo) -> Option<Arc<SessionRow>> {
        let (state, _) = self.memory();
        let desk = state.desks.get(&agent)?;
        let live = desk.sessions.get(&desk.current()?)?;
        Some(live.row.clone())
    }

    /// What a session has reported and is not stored yet. One that has ended begins anew, and its reports are
    /// refused.
    pub(crate) fn reports(&self, session: SessionNo) -> SharedReports {
        self.with(|state, _| {
            let live = state.live(session);
            live.map(|live| live.reports.clone()).unwrap_or_default()
        })
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
                // Offers that were decided on may not be on the link yet: they are once nobody carries out commands.
                drop(self.hands.lock().unwrap_or_else(PoisonError::into_inner));
                return;
            }
            news.await;
        }
    }

    /// What is due for a session that takes it along: so many, of so many bytes; and whether more is. What
    /// waits on its link until it asks is taken along, too.
    pub(crate) async fn take_due(
        &self,
        session: SessionNo,
        kind: Option<BoundaryKind>,
        (most, most_bytes): (usize, usize),
        render: impl Fn(&Deliver) -> String,
    ) -> (Vec<DueDelivery>, bool) {
        let offered = self.claim(session, kind, most).await;
        // Nothing is waited for from here on: what is off its link would be lost with the call.
        let mut share = Share::new(most, most_bytes, render);
        let left_on_link = self.take_unfetched(session, &mut share);
        let left = self.unpack(offered, &mut share);
        let more = left_on_link || left || self.memory().0.has_more(session, kind);
        (share.into_ordered(), more)
    }

    /// Takes what fits off the link of a session; says whether something is left there.
    fn take_unfetched<R>(&self, session: SessionNo, share: &mut Share<R>) -> bool
    where
        R: Fn(&Deliver) -> String,
    {
        let Some((link, out)) = self.with(|state, _| state.link_and_offers(session)) else {
            return false;
        };
        let mut left = false;
        link.take_unfetched(&mut |deliver| {
            // One that was settled or called back meanwhile is not wanted any more.
            let position = deliver.context.epoch().and_then(|epoch| out.get(&epoch));
            left = position.is_some_and(|position| !share.add(*position, deliver));
            !left
        });
        left
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

    /// Reads the messages of claimed offers, as many as fit; the others are free again. Says whether there
    /// are any.
    fn unpack<R>(&self, offered: Vec<Offered>, share: &mut Share<R>) -> bool
    where
        R: Fn(&Deliver) -> String,
    {
        let mut left = Vec::new();
        for offered in offered {
            let fits = match self.parcel(&offered) {
                Some(Parcel::Deliver(deliver)) if left.is_empty() => {
                    share.add(offered.row.position, &deliver)
                }
                _ => false,
            };
            if !fits {
                left.push(offered);
            }
        }
        let more = !left.is_empty();
        let (mut state, times) = self.memory();
        for offered in left {
            let Offered { row, offer, .. } = offered;
            state.take_back_offer(row.agent, row.position, offer.epoch, times);
        }
        drop(state);
        more
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
        Some(Settling::new(found, self.inbox.clone()))
    }

    /// What a `delivered` receipt answers, once it is known for whom the delivery is.
    pub(crate) fn answer_to(
        &self,
        agent: AgentNo,
        position: Position,
        via: Option<SessionNo>,
        epoch: Option<u64>,
    ) -> AnswerTo {
        let (mut state, _) = self.memory();
        if let Some(found) = state.settle(Some(agent), position, via, epoch) {
            return AnswerTo::Offer(Settling::new(found, self.inbox.clone()));
        }
        if state.is_offered_anew(agent, position, via, epoch) {
            return AnswerTo::OlderOffer;
        }
        AnswerTo::LapsedOffer(state.hold_for_receipt(agent, position))
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
        self.take_step((agent, position), step, decisions, move |result| {
            let _ = tell.send(result);
        });
        told.await.unwrap_or(Err(StorageError::Closed.into()))
    }

    /// Nothing is offered to an agent until the guard is dropped; says what is out.
    pub(crate) fn hold(&self, agent: AgentNo) -> (HoldGuard, Vec<(Position, Offer)>) {
        let (mut state, _) = self.memory();
        let out = state.hold(agent);
        let inbox = self.inbox.clone();
        (HoldGuard::new(inbox, agent), out)
    }

    /// Calls a delivery back.
    pub(crate) async fn cancel(&self, row: &DeliveryRow, reason: Option<String>) -> Result<()> {
        let (tell, told) = oneshot::channel();
        self.with(|state, times| state.cancel(row, reason, tell, times));
        self.ring();
        told.await.unwrap_or(Err(StorageError::Closed.into()))
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
        turn: SessionTurn,
        reason: Option<String>,
        answer: oneshot::Sender<Result<Arc<SessionRow>>>,
    ) {
        let (mut state, _) = self.memory();
        state.turn(session, turn, reason, Some(answer));
        drop(state);
        self.ring();
    }

    /// A session says how something ended that was asked of it.
    pub(crate) fn control_answered(&self, session: SessionNo, result: ControlResult) -> Result<()> {
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

    /// Decisions about a delivery that are not stored yet.
    pub(crate) fn decisions(&self, agent: AgentNo, position: Position) -> Vec<DeliveryDecision> {
        let (state, _) = self.memory();
        state.decisions(agent, position)
    }
}

/// What a session takes along at once, up to a number and a size.
struct Share<R> {
    due: Vec<(Position, DueDelivery)>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
    render: R,
}

impl<R: Fn(&Deliver) -> String> Share<R> {
    const fn new(most: usize, most_bytes: usize, render: R) -> Self {
        Self {
            due: Vec::new(),
            bytes: 0,
            most,
            most_bytes,
            render,
        }
    }

    /// Adds a delivery if it fits. The first one always does.
    fn add(&mut self, position: Position, deliver: &Deliver) -> bool {
        if self.due.len() >= self.most {
            return false;
        }
        let text = (self.render)(deliver);
        if !self.due.is_empty() && self.bytes + text.len() > self.most_bytes {
            return false;
        }
        self.bytes += text.len();
        let due = DueDelivery {
            message: (*deliver.message).clone(),
            context: deliver.context.clone(),
            text,
        };
        self.due.push((position, due));
        true
    }

    /// The deliveries, urgent ones first, then the oldest first.
    fn into_ordered(mut self) -> Vec<DueDelivery> {
        self.due.sort_by_key(|(position, due)| {
            let is_normal = due.context.priority != Some(Priority::Urgent);
            (is_normal, *position)
        });
        self.due.into_iter().map(|(_, due)| due).collect()
    }
}

/// The answer to an attempt to attach that came after a newer one of the same client. Whoever still reads it has to try again,
/// with a greater number.
fn outdated() -> Error {
    let detail = "the client has attached this session since, over another connection";
    let mut problem = Problem::new(ErrorCode::SessionUnreachable, detail);
    problem.retryable = true;
    Error::Refused(Box::new(problem))
}
