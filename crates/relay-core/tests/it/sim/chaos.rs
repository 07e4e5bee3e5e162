//! What happens in a run: one thing at a time, as the dice say.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use relay_core::link::Parcel;
use relay_core::{Error, Reach};
use relay_protocol::api::messages::{NewAttachment, SendMessage, SendTarget};
use relay_protocol::delivery::{DeliveryMode, MessageReceipt, Priority};
use relay_protocol::delivery_record::{CancelDelivery, DeliverMessage, Flush};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::message::AttachmentKind;
use relay_protocol::session::{
    AtBoundary, Attach, BoundaryKind, LifecycleRequest, NumberedEvent, ReportEvents,
};
use relay_protocol::session_event::{AgentSessionEvent, StatusChanged, ToolCompleted};
use relay_protocol::session_input::SessionEventInput;
use relay_protocol::status::AgentStatus;

use super::gate::Fate;
use super::harness::{SimLink, Temper, Up, delivered, failed, receipt};
use super::model::{Asked, Declared, Fault, Line, Stand};
use super::world::{InAir, Outcome, Said, World};

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Write,
    Answer,
    Poll,
    Step,
    Frame,
    Pass,
    SetClock,
    Send,
    Harness,
    Caller,
    Abandon,
    Crash,
}

impl World {
    /// One thing happens.
    pub(super) fn happen(&mut self) -> Result<(), Fault> {
        self.step_no += 1;
        let what = self.dice.weighted(&[
            (40, Happening::Write),
            (40, Happening::Answer),
            (44, Happening::Poll),
            (26, Happening::Step),
            (30, Happening::Frame),
            (9, Happening::Pass),
            (1, Happening::SetClock),
            (11, Happening::Send),
            (22, Happening::Harness),
            (7, Happening::Caller),
            (1, Happening::Abandon),
            (1, Happening::Crash),
        ]);
        match what {
            Happening::Write => {
                let refused = self.dice.chance(8);
                let fate = if refused { Fate::Refused } else { Fate::Made };
                self.write(fate).map(drop)
            }
            Happening::Answer => {
                self.answer();
                Ok(())
            }
            Happening::Poll => self.poll(),
            Happening::Step => self.step().map(drop),
            Happening::Frame => self.frame_arrives(),
            Happening::Pass => {
                let millis =
                    self.dice
                        .weighted(&[(10, 5), (8, 700), (6, 9_000), (4, 31_000), (1, 130_000)]);
                self.say(|| format!("{millis} ms pass"));
                self.clock.pass(millis);
                Ok(())
            }
            Happening::SetClock => {
                if self.dice.chance(200) {
                    let by = *self.dice.pick(&[-60_000, -2_000, 2_000, 60_000]).unwrap();
                    self.say(|| format!("the wall clock is set by {by} ms"));
                    self.clock.set_by(by);
                    self.model.clock_was_set = true;
                }
                Ok(())
            }
            Happening::Send => {
                self.send();
                Ok(())
            }
            Happening::Harness => self.harness_acts(),
            Happening::Caller => {
                self.caller_acts();
                Ok(())
            }
            Happening::Abandon => {
                if self.dice.chance(300)
                    && let Some(name) = self.executor.drop_one(&mut self.dice)
                {
                    self.say(|| format!("{name} goes away"));
                    self.repair_after_abandoned();
                }
                Ok(())
            }
            Happening::Crash => {
                if self.dice.chance(250) {
                    self.crash()?;
                }
                Ok(())
            }
        }
    }

    /// A harness whose call was dropped knows nothing of it and starts over.
    fn repair_after_abandoned(&mut self) {
        for at in 0..self.harnesses.len() {
            let harness = &mut self.harnesses[at];
            if harness.attaching || harness.reporting || harness.opening_calls > 0 {
                harness.attaching = false;
                harness.reporting = false;
                // Others may still be under way, and open a boundary when they come to the engine.
                let others = self.executor.count(&format!("{at}: opening"));
                harness.opening_calls = others;
                self.unplug(at);
            }
        }
    }

    pub(super) fn poll(&mut self) -> Result<(), Fault> {
        if let Some(name) = self.executor.poll_one(&mut self.dice) {
            self.say(|| format!("poll {name}"));
        }
        let outcomes = std::mem::take(&mut *self.outcomes.borrow_mut());
        for outcome in outcomes {
            self.outcome(outcome)?;
        }
        Ok(())
    }

    fn outcome(&mut self, outcome: Outcome) -> Result<(), Fault> {
        match outcome {
            Outcome::Attached(at, line, result) => self.attached(at, line, result)?,
            Outcome::Reported(at, opens, result) => {
                let harness = &mut self.harnesses[at];
                harness.reporting = false;
                if opens {
                    harness.opening_calls = harness.opening_calls.saturating_sub(1);
                }
                match result {
                    Ok(acked) => harness.n = acked,
                    Err(Error::EventGap { expected, .. }) => harness.n = expected - 1,
                    Err(_) => {}
                }
            }
            Outcome::AtBoundary(at) => {
                let harness = &mut self.harnesses[at];
                harness.opening_calls = harness.opening_calls.saturating_sub(1);
            }
            Outcome::Due(at, session, kind, result) => {
                self.due_taken(at, session, kind, result)?;
            }
            Outcome::Sent(Ok(sent)) => self.acknowledged.push(sent.message_id),
            Outcome::Receipt(id, says, result) => {
                if says.delivered {
                    self.model.receipt_ends(id);
                }
                let Ok(stored) = result else {
                    return Ok(());
                };
                if says.outdated && !stored.late {
                    return Err(format!("{id}: a receipt for an older offer was taken"));
                }
                let told = self.model.told(id)?;
                let says_delivered = says.delivered;
                let goes_on = !matches!(told.stand, Stand::Ended(_));
                let is_newest = says.newest.is_some()
                    && says.newest == told.last_offer.map(|offer| (told.last_epoch, offer))
                    && told.last_offer.is_some_and(|(_, of)| of == told.generation);
                if says_delivered && stored.late && goes_on && is_newest {
                    return Err(format!(
                        "{id}: it was shown, which does not count: {told:?}"
                    ));
                }
                if says_delivered && !stored.late && !told.delivered {
                    return Err(format!(
                        "{id}: a receipt `delivered` was taken and is not logged"
                    ));
                }
            }
            Outcome::Flushed(agent) => self.model.flushed(agent),
            Outcome::Sent(Err(_)) | Outcome::Done => {}
        }
        Ok(())
    }

    fn attached(
        &mut self,
        at: usize,
        line: u64,
        result: relay_core::Result<(
            relay_protocol::session::Attached,
            Option<relay_core::link::LinkId>,
        )>,
    ) -> Result<(), Fault> {
        let harness = &mut self.harnesses[at];
        harness.attaching = false;
        match result {
            Ok((attached, link_id)) => {
                let session = attached.session_id;
                // What it held when it asked, and still holds by the log, it must be told to keep.
                for id in &harness.at_risk {
                    let told = self.model.deliveries.get(id);
                    let owned =
                        told.is_some_and(|told| told.stand == Stand::Accepted(Some(session)));
                    if owned && !attached.keep.contains(id) {
                        return Err(format!(
                            "{id} is held by {session} but not in its keep-list"
                        ));
                    }
                    if !attached.keep.contains(id) {
                        harness.held.remove(id);
                    }
                }
                // What it is told to keep and knows nothing of, it has lost.
                for id in attached.keep {
                    let said = match (harness.seen.contains(&id), harness.held.contains_key(&id)) {
                        (true, _) => delivered(id),
                        (false, true) => continue,
                        (false, false) => failed(id, Some(true)),
                    };
                    self.air.push(InAir::Up(at, receipt(id, None, said)));
                }
                if harness.session != Some(session) {
                    harness.n = attached.acked;
                }
                harness.session = Some(session);
                harness.token = Some(attached.resume_token);
                self.model.declared.insert(
                    session,
                    Declared {
                        capabilities: harness.capabilities.clone(),
                        safe_states: harness.safe_states.clone(),
                    },
                );
                match &mut harness.link {
                    Some((link, id)) if link.line == line => {
                        *id = link_id;
                        let now = relay_core::environment::Clock::now(&*self.clock);
                        self.model.links.insert(session, Line::Up(now));
                        self.model.connected(session, at)?;
                    }
                    // The link broke before the answer came.
                    _ => {
                        if let Some(id) = link_id {
                            self.engine().link_lost(session, id);
                        }
                    }
                }
            }
            Err(_) => {
                harness.unplug();
                harness.token = None;
            }
        }
        Ok(())
    }

    fn due_taken(
        &mut self,
        at: usize,
        session: SessionId,
        kind: BoundaryKind,
        result: relay_core::Result<relay_protocol::session::DueDeliveries>,
    ) -> Result<(), Fault> {
        let Ok(due) = result else { return Ok(()) };
        let now = self.now();
        // What it takes along does not depend on its link.
        self.model.links.remove(&session);
        for due in due.deliveries {
            self.say(|| format!("taken along {:?} by {at}", due.context));
            self.model
                .handed(session, &due.context, &[kind], &self.policy, now)?;
            let said = self.harnesses[at].receives(&due.context, now, &mut self.dice);
            self.air
                .extend(said.into_iter().map(|up| InAir::Up(at, up)));
        }
        Ok(())
    }

    /// A frame arrives, or doesn't, or arrives twice.
    pub(super) fn frame_arrives(&mut self) -> Result<(), Fault> {
        if self.air.is_empty() {
            return Ok(());
        }
        let at = self.dice.below(self.air.len() as u64) as usize;
        if !self.calm && self.dice.chance(40) {
            self.say(|| "a frame is lost".to_owned());
            self.air.swap_remove(at);
            return Ok(());
        }
        let twice = !self.calm && self.dice.chance(40);
        match &self.air[at] {
            // Before it knows what it keeps, a harness looks at nothing else.
            InAir::Down(harness, ..) if self.harnesses[*harness].attaching => {}
            InAir::Down(harness, line, parcel) => {
                let (harness, line, parcel) = (*harness, *line, parcel.clone());
                if !twice {
                    self.air.remove(at);
                }
                self.comes_down(harness, line, &parcel);
            }
            InAir::Up(harness, up) => {
                let (harness, up) = (*harness, up.clone());
                if !twice {
                    self.air.remove(at);
                }
                self.goes_up(harness, up);
            }
        }
        Ok(())
    }

    fn comes_down(&mut self, at: usize, line: u64, parcel: &Parcel) {
        let now = self.now();
        let harness = &mut self.harnesses[at];
        let plugged = harness
            .link
            .as_ref()
            .is_some_and(|(link, _)| link.line == line);
        if !plugged {
            return;
        }
        let said = match parcel {
            Parcel::Deliver(deliver) => harness.receives(&deliver.context, now, &mut self.dice),
            Parcel::Control(frame) => harness.controlled(frame, &mut self.dice),
            Parcel::Invoke(_) => panic!("a session handles no action"),
            Parcel::Close(_) => {
                self.unplug(at);
                return;
            }
        };
        self.say(|| format!("{at} gets {parcel:?} and says {said:?}"));
        self.air
            .extend(said.into_iter().map(|up| InAir::Up(at, up)));
    }

    fn goes_up(&mut self, at: usize, up: Up) {
        let harness = &self.harnesses[at];
        let Some(session) = harness.session else {
            return;
        };
        let caller = self.agents[harness.agent].caller.clone();
        match up {
            Up::Receipt(frame) => {
                let via = self.dice.chance(800).then_some(session);
                let id = frame.delivery_id;
                let known = self.model.deliveries.get(&id);
                let newest = known.map(|told| told.last_epoch);
                let last_offer = known.and_then(|told| told.last_offer);
                let answers_newest = last_offer.filter(|(to, _)| {
                    via.is_none_or(|via| via == *to)
                        && frame.epoch.is_some()
                        && frame.epoch == newest
                });
                let says = Said {
                    newest: answers_newest
                        .zip(newest)
                        .map(|(offer, epoch)| (epoch, offer)),
                    delivered: matches!(frame.receipt, MessageReceipt::Delivered(_)),
                    outdated: frame.epoch.is_some_and(|epoch| Some(epoch) < newest),
                };
                if says.delivered {
                    self.model.receipt_begins(id);
                }
                self.spawn(
                    format!("receipt of {at} for {id}"),
                    move |engine| async move {
                        let result = engine.receipt(&caller, via, frame).await;
                        Outcome::Receipt(id, says, result)
                    },
                );
            }
            Up::Control(result) => {
                self.spawn(
                    format!("control result of {at}"),
                    move |engine| async move {
                        let _ = engine.control_result(&caller, session, result).await;
                        Outcome::Done
                    },
                );
            }
        }
    }

    fn send(&mut self) {
        let from = self.dice.below(self.agents.len() as u64) as usize;
        let to = self.dice.below(self.agents.len() as u64) as usize;
        let target = match self.dice.below(10) {
            0..2 => SendTarget::Channel("general".to_owned()),
            _ if from == to => SendTarget::Channel("general".to_owned()),
            _ => SendTarget::Agent(self.agents[to].name.clone()),
        };
        let modes = DeliveryMode::ALL;
        let mode = self
            .dice
            .chance(450)
            .then(|| *self.dice.pick(modes).unwrap());
        let now = self.now();
        let deadline = self.dice.chance(300).then(|| {
            let millis = *self.dice.pick(&[3_000, 30_000, 200_000]).unwrap();
            now.plus_millis(millis)
        });
        let mut body = SendMessage::text(target, format!("text {}", self.step_no));
        body.mode = mode;
        body.deadline = deadline;
        body.allow_downgrade = self.dice.chance(500).then_some(true);
        body.priority = self.dice.chance(200).then_some(Priority::Urgent);
        if self.dice.chance(120) {
            body.attachments = Some(vec![image()]);
        }
        self.send_as(from, body);
    }

    fn send_as(&mut self, from: usize, body: SendMessage) {
        let asked = Asked {
            mode: body.mode,
            allow_downgrade: body.allow_downgrade == Some(true),
            priority: body.priority.unwrap_or(Priority::Normal),
            deadline: body.deadline,
        };
        self.model.sending(body.text.clone(), asked);
        let caller = self.agents[from].caller.clone();
        self.spawn(format!("send of {from}"), move |engine| async move {
            Outcome::Sent(engine.send(&caller, body).await)
        });
    }

    /// Everybody writes to everybody, and nothing else happens.
    pub(super) fn everybody_writes(&mut self) -> Result<(), Fault> {
        for from in 0..self.agents.len() {
            let target = SendTarget::Channel("general".to_owned());
            let body = SendMessage::text(target, format!("in peace, {from}"));
            self.send_as(from, body);
        }
        self.come_to_rest().map(drop)
    }

    fn harness_acts(&mut self) -> Result<(), Fault> {
        let at = self.dice.below(self.harnesses.len() as u64) as usize;
        let harness = &self.harnesses[at];
        let plugged = harness.link.is_some() || (harness.hooks_only && harness.session.is_some());
        if !plugged {
            if !harness.attaching && self.dice.chance(600) {
                self.attach(at);
            }
            return Ok(());
        }
        if self.harnesses[at].session.is_none() {
            return Ok(());
        }
        match self.dice.weighted(&[
            (30, 0),
            (20, 1),
            (20, 2),
            (20, 3),
            (5, 4),
            (3, 5),
            (1, 6),
            (3, 7),
        ]) {
            0 => {
                let status = *self
                    .dice
                    .pick(&[
                        AgentStatus::Idle,
                        AgentStatus::Active,
                        AgentStatus::Active,
                        AgentStatus::Waiting,
                        AgentStatus::Blocked,
                    ])
                    .unwrap();
                self.report_status(at, status);
            }
            1 => {
                let kind = *self.dice.pick(BoundaryKind::ALL).unwrap();
                self.stand_at(at, kind);
            }
            2 => self.report_tool(at),
            3 => {
                if let Some(up) = self.harnesses[at].surfaces_held(&mut self.dice) {
                    self.say(|| format!("{at} surfaces what it held: {up:?}"));
                    self.air.push(InAir::Up(at, up));
                }
            }
            4 => self.unplug(at),
            5 => {
                // Its process dies: what it held is gone, what it has shown is on file.
                self.say(|| format!("the process of {at} dies"));
                self.harnesses[at].held.clear();
                self.unplug(at);
                if self.dice.chance(500) {
                    self.harnesses[at].token = None;
                    self.harnesses[at].session = None;
                }
            }
            6 => self.release(at),
            _ => self.pause_or_resume(at),
        }
        Ok(())
    }

    pub(super) fn unplug(&mut self, at: usize) {
        let session = self.harnesses[at].session;
        self.model.disconnected(at);
        let Some(id) = self.harnesses[at].unplug() else {
            return;
        };
        self.say(|| format!("the link of {at} breaks"));
        if let Some(session) = session {
            self.engine().link_lost(session, id);
            let now = self.now();
            self.model.links.insert(session, Line::Down(now));
        }
    }

    pub(super) fn attach(&mut self, at: usize) {
        let wire = self.wire.clone();
        let harness = &mut self.harnesses[at];
        if let Some(session) = harness.session {
            self.model.links.remove(&session);
        }
        self.model.disconnected(at);
        harness.attaching = true;
        harness.lines += 1;
        let line = harness.lines;
        if harness.token.is_none() {
            harness.held.clear();
        }
        harness.at_risk = harness.held.keys().copied().collect();
        let body = Attach {
            agent: self.agents[harness.agent].name.clone(),
            harness: "sim".to_owned(),
            capabilities: harness.capabilities.clone(),
            safe_states: Some(harness.safe_states.clone()),
            status: None,
            resume: harness.token.clone(),
            keeps_messages: None,
            attempt: None,
        };
        let reach = if harness.hooks_only {
            Reach::none()
        } else {
            let link = Arc::new(SimLink {
                harness: at,
                line,
                cut: AtomicBool::new(false),
                wire,
            });
            harness.link = Some((link.clone(), None));
            Reach::in_process(link)
        };
        let caller = self.agents[harness.agent].caller.clone();
        self.spawn(format!("attach {at}"), move |engine| async move {
            Outcome::Attached(at, line, engine.attach(&caller, body, reach).await)
        });
    }

    pub(super) fn report_status(&mut self, at: usize, status: AgentStatus) {
        let event = AgentSessionEvent::StatusChanged(StatusChanged {
            status,
            previous_status: None,
            reason: None,
        });
        self.report(at, event, false);
    }

    fn report_tool(&mut self, at: usize) {
        let event = AgentSessionEvent::ToolCompleted(ToolCompleted {
            run: None,
            tool: "bash".to_owned(),
            output: None,
            duration_ms: None,
        });
        self.report(at, event, true);
    }

    fn report(&mut self, at: usize, event: AgentSessionEvent, opens: bool) {
        let harness = &mut self.harnesses[at];
        let Some(session) = harness.session else {
            return;
        };
        if harness.reporting || !harness.emits_status() {
            return;
        }
        harness.reporting = true;
        if opens {
            harness.openings.insert(BoundaryKind::NextToolCall);
            harness.opening_calls += 1;
        }
        let body = ReportEvents::One(Box::new(NumberedEvent {
            n: harness.n + 1,
            event: SessionEventInput(event),
        }));
        let caller = self.agents[harness.agent].caller.clone();
        let what = if opens { "opening report" } else { "report" };
        self.spawn(format!("{at}: {what}"), move |engine| async move {
            let result = engine.report(&caller, session, body).await;
            Outcome::Reported(at, opens, result.map(|acked| acked.acked))
        });
    }

    pub(super) fn stand_at(&mut self, at: usize, kind: BoundaryKind) {
        let pulls = self.harnesses[at].hooks_only || self.dice.chance(200);
        let harness = &mut self.harnesses[at];
        let Some(session) = harness.session else {
            return;
        };
        let caller = self.agents[harness.agent].caller.clone();
        if pulls {
            let body = AtBoundary {
                kind,
                limit: None,
                max_bytes: None,
            };
            self.spawn(
                format!("boundary {kind} of {at}"),
                move |engine| async move {
                    Outcome::Due(
                        at,
                        session,
                        kind,
                        engine.boundary(&caller, session, body).await,
                    )
                },
            );
            return;
        }
        harness.openings.insert(kind);
        harness.opening_calls += 1;
        self.spawn(format!("{at}: opening {kind}"), move |engine| async move {
            let _ = engine.at_boundary(&caller, session, kind).await;
            Outcome::AtBoundary(at)
        });
    }

    fn release(&mut self, at: usize) {
        let Some(session) = self.harnesses[at].session.take() else {
            return;
        };
        self.harnesses[at].token = None;
        // Whether its link breaks is not told from now on.
        self.model.links.remove(&session);
        self.model.disconnected(at);
        let key = self.key.clone();
        self.spawn(format!("release {at}"), move |engine| async move {
            let body = LifecycleRequest::default();
            let _ = engine.release_session(&key, session, body).await;
            Outcome::Done
        });
    }

    fn pause_or_resume(&mut self, at: usize) {
        let Some(session) = self.harnesses[at].session else {
            return;
        };
        let pause = self.dice.chance(400);
        let key = self.key.clone();
        self.spawn(format!("pause or resume {at}"), move |engine| async move {
            let body = LifecycleRequest::default();
            let _ = match pause {
                true => engine.pause_session(&key, session, body).await,
                false => engine.resume_session(&key, session, body).await,
            };
            Outcome::Done
        });
    }

    fn caller_acts(&mut self) {
        let ids: Vec<DeliveryId> = self.model.deliveries.keys().copied().collect();
        let Some(&id) = self.dice.pick(&ids) else {
            return;
        };
        let key = self.key.clone();
        if let Ok(told) = self.model.told(id) {
            told.disturbed = true;
        }
        match self.dice.below(8) {
            0 | 1 => self.spawn(format!("cancel {id}"), move |engine| async move {
                let _ = engine
                    .cancel_delivery(&key, id, CancelDelivery::default())
                    .await;
                Outcome::Done
            }),
            2 => self.spawn(format!("retry {id}"), move |engine| async move {
                let _ = engine.retry(&key, id).await;
                Outcome::Done
            }),
            3 => self.flush(),
            4 => self.edit(),
            5 => self.deliver_once_more(),
            6 if self.dice.chance(40) => self.release_agent(),
            _ => {
                let at = self.dice.below(self.agents.len() as u64) as usize;
                let caller = self.agents[at].caller.clone();
                self.spawn(format!("inbox of {at}"), move |engine| async move {
                    let _ = engine
                        .take_inbox(&caller, relay_core::PageQuery::default())
                        .await;
                    Outcome::Done
                });
            }
        }
    }

    fn edit(&mut self) {
        let ids: Vec<MessageId> = self.model.messages.keys().copied().collect();
        let Some(&id) = self.dice.pick(&ids) else {
            return;
        };
        let author = self.model.messages[&id].0;
        let Some(author) = self.agents.iter().find(|agent| Some(agent.id) == author) else {
            return;
        };
        let caller = author.caller.clone();
        let text = format!("edited at {}", self.step_no);
        self.spawn(format!("edit {id}"), move |engine| async move {
            let _ = engine.edit_message(&caller, id, text).await;
            Outcome::Done
        });
    }

    fn deliver_once_more(&mut self) {
        let ids: Vec<MessageId> = self.model.messages.keys().copied().collect();
        let at = self.dice.below(self.harnesses.len() as u64) as usize;
        let (Some(&message_id), Some(session)) = (self.dice.pick(&ids), self.harnesses[at].session)
        else {
            return;
        };
        self.model.addressing(message_id, session);
        let body = DeliverMessage {
            message_id,
            agent: None,
            session_id: Some(session),
            context: None,
        };
        let key = self.key.clone();
        let name = format!("deliver {message_id} to {session}");
        self.spawn(name, move |engine| async move {
            let _ = engine.deliver(&key, body).await;
            Outcome::Done
        });
    }

    fn release_agent(&mut self) {
        let at = self.dice.below(self.agents.len() as u64) as usize;
        let (key, name) = (self.key.clone(), self.agents[at].name.clone());
        self.spawn(format!("release agent {at}"), move |engine| async move {
            let _ = engine.release_agent(&key, &name, None).await;
            Outcome::Done
        });
    }

    fn flush(&mut self) {
        let at = self.dice.below(self.agents.len() as u64) as usize;
        let (key, name) = (self.key.clone(), self.agents[at].name.clone());
        let agent = self.agents[at].id;
        // From here on any of its deliveries may be let go at any moment.
        self.model.flushing(agent);
        let body = Flush {
            mode: self.dice.chance(500).then_some(DeliveryMode::Manual),
            delivery_id: None,
        };
        self.spawn(format!("flush {at}"), move |engine| async move {
            let _ = engine.flush(&key, &name, body).await;
            Outcome::Flushed(agent)
        });
    }

    /// Everything works from now on, and everybody is honest.
    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        for at in 0..self.harnesses.len() {
            self.harnesses[at].temper = Temper::Honest;
        }
    }

    /// Does everything that can be done without time passing, in any order: the runner may step between
    /// any two things.
    pub(super) fn come_to_rest(&mut self) -> Result<Option<std::time::Duration>, Fault> {
        for _ in 0..100_000 {
            let possible = self.possible_without_time();
            let Some(&what) = self.dice.pick(&possible) else {
                let wait = self.step()?;
                if self.possible_without_time().is_empty() {
                    return Ok(wait);
                }
                continue;
            };
            match what {
                Happening::Write => drop(self.write(Fate::Made)?),
                Happening::Answer => drop(self.answer()),
                Happening::Poll => self.poll()?,
                Happening::Frame => self.frame_arrives()?,
                _ => drop(self.step()?),
            }
        }
        Err("it never comes to rest".to_owned())
    }

    /// Before it knows what it keeps, a harness looks at nothing else.
    fn can_arrive(&self, frame: &InAir) -> bool {
        !matches!(frame, InAir::Down(harness, ..) if self.harnesses[*harness].attaching)
    }

    /// What can go on at this moment; steps only between other things.
    fn possible_without_time(&self) -> Vec<Happening> {
        let mut possible = Vec::new();
        if self.gate().waiting() > 0 {
            possible.push(Happening::Write);
        }
        if !self.answers.is_empty() {
            possible.push(Happening::Answer);
        }
        if self.executor.has_woken() {
            possible.push(Happening::Poll);
        }
        if self.air.iter().any(|frame| self.can_arrive(frame)) {
            possible.push(Happening::Frame);
        }
        if !possible.is_empty() {
            possible.push(Happening::Step);
        }
        possible
    }

    /// Everybody who can be is attached and does something.
    pub(super) fn everybody_works(&mut self) -> Result<(), Fault> {
        for at in 0..self.harnesses.len() {
            let plugged = self.harnesses[at].link.is_some() || self.harnesses[at].hooks_only;
            let attached = plugged && self.harnesses[at].session.is_some();
            if !attached && !self.harnesses[at].attaching {
                self.attach(at);
            }
        }
        self.come_to_rest()?;
        for status in [AgentStatus::Active, AgentStatus::Idle] {
            for at in 0..self.harnesses.len() {
                self.report_status(at, status);
            }
            self.come_to_rest()?;
        }
        for at in 0..self.harnesses.len() {
            while let Some(up) = self.harnesses[at].surfaces_held(&mut self.dice) {
                self.air.push(InAir::Up(at, up));
            }
        }
        self.come_to_rest()?;
        Ok(())
    }
}

fn image() -> NewAttachment {
    NewAttachment {
        attachment_id: None,
        kind: Some(AttachmentKind::Image),
        media_type: Some("image/png".to_owned()),
        name: Some("x.png".to_owned()),
        data: Some("iVBORw0KGgo=".to_owned()),
    }
}
