//! What the log says, and what must hold of it.
//!
//! The model knows nothing of the engine's memory: it is built from the events of the log alone, in
//! order, and from what the simulation itself asked for. Every offer that reaches a link is held against
//! it, and at the end so is the whole run.

use std::collections::{BTreeMap, BTreeSet};

use relay_core::delivery::decide::{Moment, SessionView, Verdict, decide};
use relay_core::delivery::lane::Ask;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{DeliveryMode, MessageContext, MessageReceipt, Priority};
use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::ids::{AgentId, DeliveryId, MessageId, SessionId};
use relay_protocol::message::{AttachmentKind, RelayMessage};
use relay_protocol::policy::Policy;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;

/// What a send asked for; the log does not say all of it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) mode: Option<DeliveryMode>,
    pub(super) allow_downgrade: bool,
    pub(super) priority: Priority,
    pub(super) deadline: Option<Timestamp>,
}

/// What a session declared.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) capabilities: AgentSessionCapabilities,
    pub(super) safe_states: Vec<AgentStatus>,
}

/// Where a delivery stands, as the log tells it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stand {
    Waiting,
    Resting(Timestamp),
    Accepted(Option<SessionId>),
    Ended(&'static str),
}

/// A delivery, as the log tells it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) seq: u64,
    pub(super) agent: AgentId,
    pub(super) message: MessageId,
    pub(super) created_at: Timestamp,
    pub(super) image: bool,
    pub(super) stand: Stand,
    pub(super) generation: u32,
    /// How often it ended, by generation.
    pub(super) ends: BTreeMap<u32, u32>,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) reopened_at: Option<Timestamp>,
    pub(super) delivered: bool,
    pub(super) last_epoch: u64,
    /// To which session, and in which generation, its newest offer was made, as far as a store can know.
    pub(super) last_offer: Option<(SessionId, u32)>,
    pub(super) flushed: bool,
    /// Somebody has asked for something that takes it out of the order for a while.
    pub(super) disturbed: bool,
    /// It was made for one of these sessions only.
    pub(super) only: Option<BTreeSet<SessionId>>,
}

/// A session, as the log tells it.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) agent: AgentId,
    pub(super) status: AgentStatus,
    pub(super) started: u64,
    pub(super) ended: bool,
    pub(super) fork: bool,
}

/// The log's telling.
pub(super) struct Model {
    pub(super) seq: u64,
    pub(super) deliveries: BTreeMap<DeliveryId, Told>,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// Messages that were sent: by whom, and their newest version.
    pub(super) messages: BTreeMap<MessageId, (Option<AgentId>, u32)>,
    /// For which sessions messages of before were to be delivered once more.
    addressed: BTreeMap<MessageId, BTreeSet<SessionId>>,
    /// Offers that were handed over and not settled: who has it, and which offer it is.
    pub(super) out: BTreeMap<DeliveryId, (SessionId, u64)>,
    pub(super) asked: BTreeMap<MessageId, Asked>,
    /// What sends ask for that are under way, by their text.
    sending: BTreeMap<String, Asked>,
    pub(super) declared: BTreeMap<SessionId, Declared>,
    /// When the session came: what was older waited while it was away.
    pub(super) away_until: BTreeMap<SessionId, Vec<u64>>,
    pub(super) default_deadline_ms: i64,
    /// The latest time that the wall clock has shown.
    pub(super) latest: Timestamp,
    /// Calls under way that say that a message was shown. Meanwhile it is not offered, and others may be.
    receipts: BTreeMap<DeliveryId, u32>,
    /// Flushes under way, by agent.
    flushing: BTreeMap<AgentId, u32>,
    /// Sessions whose link is known to be up or down, and since when.
    pub(super) links: BTreeMap<SessionId, Line>,
    /// Sessions whose attach call was answered and whose link has not broken since, and the harness at the
    /// other end: none of these is offline.
    connected: BTreeMap<SessionId, usize>,
    /// Times of the wall clock can't be compared any more.
    pub(super) clock_was_set: bool,
}

/// Whether a session's link is up, and since when it is or isn't.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    Up(Timestamp),
    Down(Timestamp),
}

/// Something that must not be.
pub(super) type Fault = String;

impl Default for Model {
    fn default() -> Self {
        Self {
            seq: 0,
            deliveries: BTreeMap::new(),
            sessions: BTreeMap::new(),
            messages: BTreeMap::new(),
            addressed: BTreeMap::new(),
            out: BTreeMap::new(),
            asked: BTreeMap::new(),
            sending: BTreeMap::new(),
            declared: BTreeMap::new(),
            away_until: BTreeMap::new(),
            default_deadline_ms: 0,
            latest: Timestamp::from_millis(0),
            receipts: BTreeMap::new(),
            flushing: BTreeMap::new(),
            links: BTreeMap::new(),
            connected: BTreeMap::new(),
            clock_was_set: false,
        }
    }
}

impl Model {
    /// Takes the next event.
    pub(super) fn learn(&mut self, logged: &LoggedEvent) -> Result<(), Fault> {
        if logged.seq != self.seq + 1 {
            return Err(format!("event {} follows {}", logged.seq, self.seq));
        }
        self.seq = logged.seq;
        let Some(event) = &logged.event else {
            return Ok(());
        };
        match event {
            RelayEvent::MessageCreated(created) => {
                let (id, from) = (created.message.id, created.message.from.id);
                self.messages.insert(id, (from, created.message.version));
                if let Some(asked) = self.sending.get(&created.message.text) {
                    self.asked.insert(id, asked.clone());
                }
            }
            RelayEvent::MessageUpdated(updated) => {
                if let Some((_, version)) = self.messages.get_mut(&updated.message.id) {
                    *version = updated.message.version;
                }
            }
            RelayEvent::DeliveryCreated(created) => {
                let image = created
                    .message
                    .attachments
                    .iter()
                    .any(|attachment| attachment.kind == AttachmentKind::Image);
                let told = Told {
                    seq: logged.seq,
                    agent: created.agent.id,
                    message: created.message.id,
                    created_at: logged.at,
                    image,
                    stand: Stand::Waiting,
                    generation: 1,
                    ends: BTreeMap::new(),
                    ended_at: None,
                    reopened_at: None,
                    delivered: false,
                    last_epoch: 0,
                    last_offer: None,
                    disturbed: false,
                    only: self.addressed.get(&created.message.id).cloned(),
                    flushed: self.flushing.get(&created.agent.id).is_some_and(|n| *n > 0),
                };
                if self.deliveries.insert(created.delivery_id, told).is_some() {
                    return Err(format!("{} was created twice", created.delivery_id));
                }
            }
            RelayEvent::DeliveryAccepted(event) => {
                let session = event.session_id;
                self.moves(event.delivery_id, Stand::Accepted(session), logged.at)?;
            }
            RelayEvent::DeliveryDelivered(event) => {
                self.moves(event.delivery_id, Stand::Ended("delivered"), logged.at)?;
                let told = self.told(event.delivery_id)?;
                told.delivered = true;
                let told = told.clone();
                // Without a session it was read in the inbox.
                let (ask, _) = self.ask(&told);
                let waits = ask.mode == Some(DeliveryMode::Manual) && !ask.allow_downgrade;
                if event.session_id.is_none() && waits && !told.flushed {
                    return Err(format!("{} was read before its flush", event.delivery_id));
                }
            }
            RelayEvent::DeliveryDeferred(event) => {
                let reason = event.reason.as_deref();
                self.fits_link(event.session_id, reason, logged.at)?;
                self.deferred(event.delivery_id, event.available_at, reason, logged.at)?;
            }
            RelayEvent::DeliveryFailed(event) if event.terminal == Some(true) => {
                self.fits_link(event.session_id, Some(&event.reason), logged.at)?;
                self.moves(event.delivery_id, Stand::Ended("failed"), logged.at)?;
                if event.surfaced.is_none() {
                    return Err(format!("{} failed without `surfaced`", event.delivery_id));
                }
            }
            RelayEvent::DeliveryFailed(event) => {
                let next = event
                    .next_attempt_at
                    .ok_or("an attempt without a next one")?;
                self.fits_link(event.session_id, Some(&event.reason), logged.at)?;
                self.moves(event.delivery_id, Stand::Resting(next), logged.at)?;
            }
            RelayEvent::DeliveryCancelled(event) => {
                self.moves(event.delivery_id, Stand::Ended("cancelled"), logged.at)?;
            }
            RelayEvent::DeliveryLateReceipt(event) => {
                let was_shown = matches!(event.receipt, MessageReceipt::Delivered(_));
                let told = self.told(event.delivery_id)?;
                if !was_shown && !matches!(told.stand, Stand::Ended(_)) {
                    return Err(format!("late receipt of open {}", event.delivery_id));
                }
            }
            RelayEvent::SessionStarted(event) => {
                self.started(event.session_id, event.agent_id, logged.seq, false);
                self.away_until
                    .entry(event.session_id)
                    .or_default()
                    .push(logged.seq);
            }
            RelayEvent::SessionResumed(event) => {
                self.away_until
                    .entry(event.session_id)
                    .or_default()
                    .push(logged.seq);
            }
            RelayEvent::SessionForked(event) => {
                self.started(event.session_id, event.agent_id, logged.seq, true);
            }
            RelayEvent::SessionReleased(event) => {
                if let Some(session) = self.sessions.get_mut(&event.session_id) {
                    session.ended = true;
                }
            }
            RelayEvent::AgentStatusChanged(event) => {
                let (Some(id), Some(status)) = (event.session_id, event.status) else {
                    return Err("a status without its session".to_owned());
                };
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.status = status;
                    session.ended |= status.is_terminal();
                }
                self.reachable_unless_lost(id)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn started(&mut self, id: SessionId, agent: AgentId, seq: u64, fork: bool) {
        self.sessions.insert(
            id,
            Session {
                agent,
                status: AgentStatus::Starting,
                started: seq,
                ended: false,
                fork,
            },
        );
    }

    pub(super) fn told(&mut self, id: DeliveryId) -> Result<&mut Told, Fault> {
        self.deliveries
            .get_mut(&id)
            .ok_or_else(|| format!("{id} was never created"))
    }

    fn moves(&mut self, id: DeliveryId, to: Stand, at: Timestamp) -> Result<(), Fault> {
        self.out.remove(&id);
        let told = self.told(id)?;
        if let Stand::Ended(how) = told.stand {
            return Err(format!("{id} goes on to {to:?} although it ended as {how}"));
        }
        if let Stand::Ended(_) = to {
            *told.ends.entry(told.generation).or_default() += 1;
            told.ended_at = Some(at);
        }
        told.stand = to;
        Ok(())
    }

    /// A session that has a link keeps what it accepted; one that has none can't be silent.
    fn fits_link(
        &self,
        session: Option<SessionId>,
        reason: Option<&str>,
        at: Timestamp,
    ) -> Result<(), Fault> {
        let line = session.and_then(|session| self.links.get(&session));
        let wrong = match (line, reason) {
            (Some(Line::Up(since)), Some("lease_expired")) => *since < at,
            (Some(Line::Down(since)), Some(reason)) if reason.ends_with("no_receipt") => {
                *since < at
            }
            _ => false,
        };
        if wrong && !self.clock_was_set {
            return Err(format!("{reason:?} of a session whose link is {line:?}"));
        }
        Ok(())
    }

    fn deferred(
        &mut self,
        id: DeliveryId,
        until: Timestamp,
        reason: Option<&str>,
        at: Timestamp,
    ) -> Result<(), Fault> {
        if reason == Some("retry") {
            let told = self.told(id)?;
            if told.stand != Stand::Ended("failed") {
                return Err(format!("{id} was retried as {:?}", told.stand));
            }
            told.stand = Stand::Waiting;
            told.generation += 1;
            told.ended_at = None;
            told.reopened_at = Some(at);
            return Ok(());
        }
        let to = if until <= at {
            Stand::Waiting
        } else {
            Stand::Resting(until)
        };
        self.moves(id, to, at)
    }

    /// The deadline of a delivery in its present generation.
    pub(super) fn deadline(&self, told: &Told) -> Timestamp {
        let asked = self.asked(told);
        let first = asked
            .and_then(|asked| asked.deadline)
            .unwrap_or_else(|| told.created_at.plus_millis(self.default_deadline_ms));
        match told.reopened_at {
            Some(at) if at >= first => at.plus_millis(self.default_deadline_ms),
            _ => first,
        }
    }

    /// What its send asked for. What is delivered once more asks for nothing.
    fn asked(&self, told: &Told) -> Option<&Asked> {
        self.asked
            .get(&told.message)
            .filter(|_| told.only.is_none())
    }

    fn ask(&self, told: &Told) -> (Ask, Priority) {
        let asked = self.asked(told);
        let ask = Ask {
            mode: asked.and_then(|asked| asked.mode),
            allow_downgrade: asked.is_some_and(|asked| asked.allow_downgrade),
            image: told.image,
            flushed: false,
        };
        (ask, asked.map_or(Priority::Normal, |asked| asked.priority))
    }

    /// A message with this text is about to be sent.
    pub(super) fn sending(&mut self, text: String, asked: Asked) {
        self.sending.insert(text, asked);
    }

    /// A message of before is to be delivered to one session.
    pub(super) fn addressing(&mut self, message: MessageId, session: SessionId) {
        self.addressed.entry(message).or_default().insert(session);
    }

    /// A session says that a message was shown.
    pub(super) fn receipt_begins(&mut self, id: DeliveryId) {
        *self.receipts.entry(id).or_default() += 1;
    }

    /// The engine has answered.
    pub(super) fn receipt_ends(&mut self, id: DeliveryId) {
        if let Some(count) = self.receipts.get_mut(&id) {
            *count = count.saturating_sub(1);
        }
    }

    /// Any delivery of an agent may be let go from now on.
    pub(super) fn flushing(&mut self, agent: AgentId) {
        *self.flushing.entry(agent).or_default() += 1;
        for told in self.deliveries.values_mut() {
            told.flushed |= told.agent == agent;
        }
    }

    /// A flush is over.
    pub(super) fn flushed(&mut self, agent: AgentId) {
        if let Some(count) = self.flushing.get_mut(&agent) {
            *count = count.saturating_sub(1);
        }
    }

    /// The process has died: nothing is out, and nothing is under way.
    pub(super) fn crashed(&mut self) {
        for id in self.out.keys() {
            if let Some(told) = self.deliveries.get_mut(id) {
                // The store knows nothing of this offer.
                told.last_offer = None;
            }
        }
        self.out.clear();
        self.receipts.clear();
        self.flushing.clear();
        self.links.clear();
        self.connected.clear();
    }

    /// A session has attached and has its link.
    pub(super) fn connected(&mut self, session: SessionId, harness: usize) -> Result<(), Fault> {
        self.connected.insert(session, harness);
        self.reachable_unless_lost(session)
    }

    /// The link of a harness is broken, or about to be replaced.
    pub(super) fn disconnected(&mut self, harness: usize) {
        self.connected.retain(|_, at| *at != harness);
    }

    /// A session whose link is up must not be offline: nothing would be offered to it.
    fn reachable_unless_lost(&self, id: SessionId) -> Result<(), Fault> {
        let status = self.sessions.get(&id).map(|session| session.status);
        if self.connected.contains_key(&id) && status == Some(AgentStatus::Offline) {
            return Err(format!("{id} is offline although its link is up"));
        }
        Ok(())
    }

    /// The session that an agent's deliveries must go to.
    pub(super) fn current(&self, agent: AgentId) -> Option<SessionId> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.agent == agent && !session.ended && !session.fork)
            .filter(|(_, session)| {
                !matches!(
                    session.status,
                    AgentStatus::Offline | AgentStatus::Releasing
                )
            })
            .max_by_key(|(_, session)| session.started)
            .map(|(id, _)| *id)
    }

    /// A session must be shown what a message says now, not what it said before an edit.
    pub(super) fn shown(&self, message: &RelayMessage) -> Result<(), Fault> {
        match self.messages.get(&message.id) {
            Some((_, version)) if *version == message.version => Ok(()),
            known => Err(format!("{} is shown as it was: {known:?}", message.id)),
        }
    }

    /// Holds an offer that was handed to a session against the log.
    pub(super) fn handed(
        &mut self,
        session: SessionId,
        context: &MessageContext,
        kinds: &[BoundaryKind],
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Fault> {
        let id = context.id;
        let epoch = context.epoch().ok_or("an offer without an epoch")?;
        let told = self.told(id)?.clone();
        let fault = |what: &str| Err(format!("{id} handed to {session} (offer {epoch}): {what}"));
        match told.stand {
            Stand::Waiting => {}
            // The wall clock may have been set back since its time had come.
            Stand::Resting(until) if until <= self.latest || told.flushed => {}
            ref other => return fault(&format!("it is {other:?}")),
        }
        if self.out.contains_key(&id) {
            return fault("it is out already");
        }
        if epoch <= told.last_epoch {
            return fault("its epoch is not greater than the last one");
        }
        if self.deadline(&told) <= now {
            return fault("its deadline has passed");
        }
        let meant = match &told.only {
            Some(only) => only.contains(&session),
            None => self.current(told.agent) == Some(session),
        };
        if !meant {
            return fault("it is not for that session");
        }
        let out = self.out.values().filter(|(to, _)| *to == session).count();
        if out >= policy.window as usize {
            return fault("the window is full");
        }
        self.at_its_boundary(session, &told, context.mode, kinds, policy)
            .or_else(|what| fault(&what))?;
        self.in_order(session, id, (&told, context.mode), kinds, policy, now)
            .or_else(|what| fault(&what))?;
        let told = self.told(id)?;
        told.last_epoch = epoch;
        told.last_offer = Some((session, told.generation));
        self.out.insert(id, (session, epoch));
        Ok(())
    }

    fn verdict(
        &self,
        session: SessionId,
        told: &Told,
        moment: Moment,
        policy: &Policy,
    ) -> Option<Verdict> {
        self.verdict_on(session, self.ask(told).0, moment, policy)
    }

    fn verdict_on(
        &self,
        session: SessionId,
        ask: Ask,
        moment: Moment,
        policy: &Policy,
    ) -> Option<Verdict> {
        let declared = self.declared.get(&session)?;
        let view = SessionView {
            capabilities: &declared.capabilities,
            safe_states: &declared.safe_states,
            status: self.sessions.get(&session)?.status,
            linked: true,
        };
        Some(decide(&view, ask, policy, moment))
    }

    /// Whether a session could have a delivery right now.
    pub(super) fn is_due(&self, session: SessionId, told: &Told, policy: &Policy) -> bool {
        let verdict = self.verdict(session, told, Moment::Now, policy);
        matches!(verdict, Some(Verdict::Offer { .. } | Verdict::Mismatch(_)))
    }

    /// Whether a session that was the current one before can't take it, or may not be able to for all that
    /// is known: then it may be about to fail.
    fn may_be_failing(&self, told: &Told, policy: &Policy) -> bool {
        let mut sessions = self
            .sessions
            .iter()
            .filter(|(_, session)| session.agent == told.agent);
        sessions.any(|(id, _)| {
            let verdict = self.verdict(*id, told, Moment::Now, policy);
            matches!(verdict, None | Some(Verdict::Mismatch(_)))
        })
    }

    fn flushed_verdict(
        &self,
        session: SessionId,
        told: &Told,
        moment: Moment,
        policy: &Policy,
    ) -> Option<Verdict> {
        let ask = Ask {
            flushed: true,
            ..self.ask(told).0
        };
        let verdict = self.verdict_on(session, ask, moment, policy);
        verdict.filter(|_| told.flushed)
    }

    fn at_its_boundary(
        &self,
        session: SessionId,
        told: &Told,
        mode: DeliveryMode,
        kinds: &[BoundaryKind],
        policy: &Policy,
    ) -> Result<(), Fault> {
        let mut seen = Vec::new();
        for moment in moments(kinds) {
            let verdicts = [
                self.verdict(session, told, moment, policy),
                self.flushed_verdict(session, told, moment, policy),
            ];
            for verdict in verdicts.into_iter().flatten() {
                match verdict {
                    Verdict::Offer { mode: meant, .. } if meant == mode => return Ok(()),
                    other => seen.push(format!("{other:?}")),
                }
            }
        }
        Err(format!(
            "offered as {mode}, but the rules say {}",
            seen.join(" or ")
        ))
    }

    /// Nothing that is due as well, older and no less urgent, may be passed over.
    fn in_order(
        &self,
        session: SessionId,
        id: DeliveryId,
        (told, mode): (&Told, DeliveryMode),
        kinds: &[BoundaryKind],
        policy: &Policy,
        now: Timestamp,
    ) -> Result<(), Fault> {
        // At which of these moments it was offered can't be told; one in order is enough.
        if told.only.is_some() {
            return Ok(());
        }
        let possible = moments(kinds).filter(|moment| {
            let verdicts = [
                self.verdict(session, told, *moment, policy),
                self.flushed_verdict(session, told, *moment, policy),
            ];
            verdicts.into_iter().flatten().any(
                |verdict| matches!(verdict, Verdict::Offer { mode: meant, .. } if meant == mode),
            )
        });
        let mut passed_over = None;
        for moment in possible {
            passed_over = self.passed_over(session, id, told, moment, policy, now);
            if passed_over.is_none() {
                return Ok(());
            }
        }
        passed_over.map_or(Ok(()), |other| {
            Err(format!("{other} is due, too, and comes first"))
        })
    }

    fn passed_over(
        &self,
        session: SessionId,
        id: DeliveryId,
        told: &Told,
        moment: Moment,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<DeliveryId> {
        let key = |told: &Told| (self.ask(told).1 != Priority::Urgent, told.seq);
        let returns = self.away_until.get(&session).cloned().unwrap_or_default();
        let others = self.deliveries.iter().filter(|(other_id, other)| {
            **other_id != id
                && other.agent == told.agent
                && other.stand == Stand::Waiting
                && !other.flushed
                && !other.disturbed
                && other.only.is_none()
                && !self.out.contains_key(other_id)
                && self.receipts.get(other_id).is_none_or(|calls| *calls == 0)
                && key(other) < key(told)
                && self.deadline(other) > self.latest.max(now)
                // Of what waited while the session was away it gets a share only.
                && !returns.iter().any(|at| other.seq <= *at && told.seq > *at)
        });
        let mut due = others
            .filter(|(_, other)| !self.may_be_failing(other, policy))
            .filter(|(_, other)| {
                let verdict = self.verdict(session, other, moment, policy);
                matches!(verdict, Some(Verdict::Offer { .. }))
            });
        due.next().map(|(id, _)| *id)
    }

    /// How many deliveries have not ended.
    pub(super) fn open(&self) -> usize {
        let all = self.deliveries.values();
        all.filter(|told| !matches!(told.stand, Stand::Ended(_)))
            .count()
    }

    /// What must hold once everything has come to rest and all deadlines have passed.
    pub(super) fn at_the_end(&self) -> Result<(), Fault> {
        for (id, told) in &self.deliveries {
            if !matches!(told.stand, Stand::Ended(_)) {
                return Err(format!("{id} is stuck: {told:?}"));
            }
            for generation in 1..=told.generation {
                let ends = told.ends.get(&generation).copied().unwrap_or(0);
                if ends != 1 {
                    return Err(format!(
                        "{id} ended {ends} times in generation {generation}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The moments that an offer may have been made at.
fn moments(kinds: &[BoundaryKind]) -> impl Iterator<Item = Moment> {
    std::iter::once(Moment::Now).chain(kinds.iter().copied().map(Moment::At))
}
