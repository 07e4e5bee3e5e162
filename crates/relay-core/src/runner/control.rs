//! What is asked of sessions, and what follows from their answers or their silence.
//!
//! What follows is done by the runner, not by whoever asked: a caller that goes away changes nothing.

use std::sync::Arc;

use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::ids::{ControlId, DeliveryId, SessionId};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::socket::{ControlFrame, ControlOp, ControlResult, ForkGrant};
use serde_json::Value;
use tokio::sync::oneshot;

use super::desk::Mono;
use super::state::{Advancing, Command, State, Timer, Times};
use crate::delivery::apply::{Recall, Step};
use crate::delivery::history::Offer;
use crate::error::{Error, Result};
use crate::store::{Advanced, AgentNo, DeliveryRow, Position, SessionNo, SessionRow, SessionTurn};

/// Something that was asked of a session.
pub(super) struct Control {
    session: SessionNo,
    asked: Asked,
}

/// Tells whoever asked for a change of a session how it ended.
pub(crate) type TurnAnswer = oneshot::Sender<Result<Arc<SessionRow>>>;

/// What was asked.
pub(crate) enum Asked {
    /// To give a delivery back.
    Recall(Position),
    /// To take a turn in its life, which is stored once it has.
    Turn {
        turn: SessionTurn,
        reason: Option<String>,
        answer: Option<TurnAnswer>,
    },
    /// Something whose result only the caller needs.
    Question(oneshot::Sender<Result<Option<Value>>>),
}

/// A delivery that a session was asked to give back.
pub(super) struct Recalling {
    agent: AgentNo,
    cause: RecallCause,
    callers: Vec<oneshot::Sender<Result<()>>>,
    /// What the session said, while a receipt of it is being stored.
    answer: Option<Answered>,
}

/// What a session said to being asked for a delivery.
#[derive(Clone, Copy)]
enum Answered {
    Confirmed,
    Unanswered,
    NotNeeded,
}

impl Answered {
    fn recall(self, offer: Option<Box<Offer>>) -> Recall {
        match self {
            Self::Confirmed => Recall::Confirmed(offer),
            Self::Unanswered => Recall::Unanswered(offer),
            Self::NotNeeded => Recall::NotNeeded,
        }
    }
}

/// Why a delivery is called back.
pub(super) enum RecallCause {
    /// Its deadline has passed.
    Deadline,
    /// Somebody wants it back.
    Cancel(Option<String>),
}

impl RecallCause {
    fn step(&self, recall: Recall) -> Step {
        match self {
            Self::Deadline => Step::Expired { recall },
            Self::Cancel(reason) => Step::Cancelled {
                reason: reason.clone(),
                recall,
            },
        }
    }
}

impl Recalling {
    /// The step that the recall ends in, and who is to hear how that went.
    pub(super) fn into_step(self, recall: Recall) -> (Step, Vec<oneshot::Sender<Result<()>>>) {
        (self.cause.step(recall), self.callers)
    }
}

/// What those hear who wanted a delivery back, once the step is taken.
pub(super) fn recalled(result: &Result<Advanced>) -> Result<()> {
    match result {
        Ok(advanced) if advanced.row.state == DeliveryState::Delivered => Err(already_delivered()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.clone()),
    }
}

/// What is to be asked of a session.
pub(crate) struct Ask {
    pub(crate) op: ControlOp,
    pub(crate) delivery_id: Option<DeliveryId>,
    pub(crate) mode: Option<DeliveryMode>,
    pub(crate) as_agent: Option<String>,
    pub(crate) fork: Option<ForkGrant>,
    pub(crate) reason: Option<String>,
    pub(crate) asked: Asked,
}

impl State {
    /// Asks a session; gives back what was asked when the session can't be reached.
    pub(super) fn ask(
        &mut self,
        session: SessionNo,
        ask: Ask,
        times: Times,
    ) -> std::result::Result<ControlId, Asked> {
        let Some((session_id, workspace_no, link)) = self.reach(session) else {
            return Err(ask.asked);
        };
        let timeout = self
            .policy(workspace_no)
            .map_or(0, |policy| policy.offer_timeout_ms);
        // Unique because epochs are; nobody gains anything by guessing it.
        let control_id = ControlId::new(times.now, u128::from(self.next_epoch()));
        let frame = ControlFrame {
            control_id,
            session_id,
            op: ask.op,
            delivery_id: ask.delivery_id,
            mode: ask.mode,
            as_agent: ask.as_agent,
            fork: ask.fork,
            reason: ask.reason,
        };
        self.send_control(control_id, session, ask.asked, times.mono + timeout);
        self.commands.push(Command::Control(link, Box::new(frame)));
        Ok(control_id)
    }

    pub(super) fn send_control(
        &mut self,
        id: ControlId,
        session: SessionNo,
        asked: Asked,
        due: Mono,
    ) {
        self.controls.insert(id, Control { session, asked });
        self.timers.insert((due, Timer::Control(id)));
    }

    pub(super) fn reach(
        &self,
        session: SessionNo,
    ) -> Option<(SessionId, u32, Arc<dyn super::link::SessionLink>)> {
        let live = self.live(session)?;
        let (_, link) = live.link.as_ref()?;
        Some((live.row.id, live.row.workspace_no, link.clone()))
    }

    /// Asks the session that has a delivery to give it back.
    pub(super) fn recall(
        &mut self,
        row: &DeliveryRow,
        session: SessionNo,
        recalling: Recalling,
        times: Times,
    ) {
        let position = row.position;
        let workspace = self.live(session).map(|live| live.row.workspace_no);
        let workspace = workspace.and_then(|no| self.workspaces.get(&no));
        let ask = Ask {
            op: ControlOp::Cancel,
            delivery_id: workspace.map(|workspace| row.id(workspace.id)),
            mode: None,
            as_agent: None,
            fork: None,
            reason: match &recalling.cause {
                RecallCause::Deadline => Some("its deadline has passed".to_owned()),
                RecallCause::Cancel(reason) => reason.clone(),
            },
            asked: Asked::Recall(position),
        };
        let agent = recalling.agent;
        if self.ask(session, ask, times).is_ok() {
            if let Some(out) = self
                .desks
                .get_mut(&agent)
                .and_then(|desk| desk.out_mut(position))
            {
                out.recalled = true;
            }
            self.recalls.insert(position, recalling);
            self.schedule(session);
        } else {
            self.settle_recall(position, recalling, Answered::Unanswered);
        }
    }

    pub(super) fn recall_for_deadline(
        &mut self,
        row: &DeliveryRow,
        session: SessionNo,
        times: Times,
    ) {
        let recalling = Recalling {
            agent: row.agent,
            cause: RecallCause::Deadline,
            callers: Vec::new(),
            answer: None,
        };
        self.recall(row, session, recalling, times);
    }

    /// Takes the step that a recall ends in.
    fn settle_recall(&mut self, position: Position, mut recalling: Recalling, answered: Answered) {
        let agent = recalling.agent;
        let desk = self.desks.get_mut(&agent);
        let out = desk.and_then(|desk| desk.out_mut(position));
        let (offer, decisions) = match out {
            Some(out) if out.settling => {
                // Its receipt is being stored; that says more than we can.
                recalling.answer = Some(answered);
                self.recalls.insert(position, recalling);
                return;
            }
            Some(out) => {
                out.settling = true;
                let decisions = std::mem::take(&mut out.waiting.decisions);
                (Some(Box::new(out.offer.clone())), decisions)
            }
            None => {
                let decisions = self.take_from_desk(agent, position);
                self.stepping.insert(position, false);
                (None, decisions)
            }
        };
        let (step, callers) = recalling.into_step(answered.recall(offer));
        self.commands.push(Command::Advance(Box::new(Advancing {
            agent,
            position,
            step,
            decisions,
            callers,
        })));
    }

    /// Goes on with a recall that waited for a receipt to be stored.
    pub(super) fn resume_recall(&mut self, position: Position) {
        let answered = self.recalls.get(&position).and_then(|recall| recall.answer);
        if let Some(answered) = answered
            && let Some(recalling) = self.recalls.remove(&position)
        {
            self.settle_recall(position, recalling, answered);
        }
    }

    /// A delivery that is being called back has moved by itself.
    pub(super) fn recall_meets(&mut self, row: &DeliveryRow) {
        let position = row.position;
        if row.state == DeliveryState::Accepted {
            return self.resume_recall(position);
        }
        let desk = self.desks.get(&row.agent);
        if !row.state.is_terminal() && desk.is_some_and(|desk| desk.out(position).is_some()) {
            // It was flushed, say; the session still has it.
            return;
        }
        let Some(recalling) = self.recalls.remove(&position) else {
            return;
        };
        match row.state {
            DeliveryState::Delivered => {
                for caller in recalling.callers {
                    let _ = caller.send(Err(already_delivered()));
                }
            }
            DeliveryState::Failed | DeliveryState::Cancelled => {
                for caller in recalling.callers {
                    let _ = caller.send(Ok(()));
                }
            }
            // The session gave it back in its own words.
            _ => self.settle_recall(position, recalling, Answered::NotNeeded),
        }
    }

    /// Calls a delivery back for somebody. It is known to wait, to be out, or to be held.
    pub(super) fn cancel(
        &mut self,
        row: &DeliveryRow,
        reason: Option<String>,
        caller: oneshot::Sender<Result<()>>,
        times: Times,
    ) {
        let (agent, position) = (row.agent, row.position);
        if let Some(recalling) = self.recalls.get_mut(&position) {
            recalling.callers.push(caller);
            return;
        }
        let recalling = Recalling {
            agent,
            cause: RecallCause::Cancel(reason),
            callers: vec![caller],
            answer: None,
        };
        let out = self.desks.get(&agent).and_then(|desk| desk.out(position));
        let offered_to = out.map(|out| out.offer.session);
        let holder = row.holder.filter(|_| row.state == DeliveryState::Accepted);
        match offered_to.or(holder.map(|holder| holder.session)) {
            Some(session) => self.recall(row, session, recalling, times),
            None => self.settle_recall(position, recalling, Answered::NotNeeded),
        }
    }

    /// Calls deliveries back that nobody needs any more; nobody waits to hear how that went.
    pub(super) fn call_back(&mut self, rows: &[DeliveryRow], times: Times) {
        for row in rows {
            let (tell, _) = oneshot::channel();
            self.cancel(row, Some("it was decided".to_owned()), tell, times);
        }
    }

    /// A session says how something ended that was asked of it.
    pub(super) fn control_answered(
        &mut self,
        session: SessionNo,
        result: ControlResult,
    ) -> Result<()> {
        let known = self.controls.get(&result.control_id);
        if known.is_none_or(|control| control.session != session) {
            return Err(Error::Invalid {
                path: "controlId",
                expected: "an operation that this session was asked to do and has not answered"
                    .into(),
                found: result.control_id.to_string(),
            });
        }
        let Some(control) = self.controls.remove(&result.control_id) else {
            return Ok(());
        };
        match control.asked {
            Asked::Recall(position) => self.recall_answered(position, &result),
            Asked::Turn {
                turn,
                reason,
                answer,
            } => self.turn_answered(session, turn, reason, answer, result),
            Asked::Question(answer) => {
                let _ = answer.send(value_of(result));
            }
        }
        Ok(())
    }

    fn recall_answered(&mut self, position: Position, result: &ControlResult) {
        let Some(recalling) = self.recalls.remove(&position) else {
            return;
        };
        match (&recalling.cause, result.ok) {
            (_, true) => self.settle_recall(position, recalling, Answered::Confirmed),
            (RecallCause::Deadline, false) => {
                self.settle_recall(position, recalling, Answered::Unanswered);
            }
            // It goes on as if nobody had asked.
            (RecallCause::Cancel(_), false) => {
                let problem = unsupported(ControlOp::Cancel, result);
                for caller in recalling.callers {
                    let _ = caller.send(Err(Error::Refused(Box::new(problem.clone()))));
                }
                let desk = self.desks.get_mut(&recalling.agent);
                if let Some(out) = desk.and_then(|desk| desk.out_mut(position)) {
                    out.recalled = false;
                    let session = out.offer.session;
                    self.schedule(session);
                }
            }
        }
    }

    fn turn_answered(
        &mut self,
        session: SessionNo,
        turn: SessionTurn,
        reason: Option<String>,
        answer: Option<TurnAnswer>,
        result: ControlResult,
    ) {
        // Whoever is asked to end may fail to say so nicely; it has to end all the same.
        if result.ok || turn == SessionTurn::Released {
            return self.turn(session, turn, reason, answer);
        }
        if let Some(answer) = answer {
            let _ = answer.send(value_of(result).and(Err(unreachable_session())));
        }
    }

    /// Stores a turn in a session's life.
    pub(super) fn turn(
        &mut self,
        session: SessionNo,
        turn: SessionTurn,
        reason: Option<String>,
        answer: Option<TurnAnswer>,
    ) {
        self.commands
            .push(Command::Change(session, turn, reason, answer));
    }

    /// A session has not said anything in time.
    pub(super) fn control_unanswered(&mut self, id: ControlId) {
        if let Some(control) = self.controls.remove(&id) {
            self.give_up(control);
        }
    }

    fn give_up(&mut self, control: Control) {
        match control.asked {
            Asked::Recall(position) => {
                let Some(recalling) = self.recalls.remove(&position) else {
                    return;
                };
                self.settle_recall(position, recalling, Answered::Unanswered);
            }
            Asked::Turn {
                turn: SessionTurn::Released,
                reason,
                answer,
            } => self.turn(control.session, SessionTurn::Released, reason, answer),
            Asked::Turn { answer, .. } => {
                if let Some(answer) = answer {
                    let _ = answer.send(Err(unreachable_session()));
                }
            }
            Asked::Question(answer) => {
                let _ = answer.send(Err(unreachable_session()));
            }
        }
    }

    /// The link is gone over which a session was asked: nobody will answer.
    pub(super) fn controls_of_lost(&mut self, session: SessionNo) {
        let mut lost: Vec<ControlId> = self
            .controls
            .iter()
            .filter(|(_, control)| control.session == session)
            .map(|(id, _)| *id)
            .collect();
        lost.sort_unstable();
        for id in lost {
            self.control_unanswered(id);
        }
    }
}

fn value_of(result: ControlResult) -> Result<Option<Value>> {
    if result.ok {
        return Ok(result.result);
    }
    let problem = result.problem.unwrap_or_else(|| {
        let detail = "the session could not do it and did not say why";
        Box::new(Problem::new(ErrorCode::UnsupportedOperation, detail))
    });
    Err(Error::Refused(problem))
}

fn unsupported(op: ControlOp, result: &ControlResult) -> Problem {
    let why = result.problem.as_ref().map_or_else(
        || "the session's adapter can't do it".to_owned(),
        |problem| problem.detail.clone(),
    );
    Problem {
        operation: Some(op.to_string()),
        why: Some(why.clone()),
        ..Problem::new(
            ErrorCode::UnsupportedOperation,
            format!("{op} is not supported by the session: {why}"),
        )
    }
}

fn already_delivered() -> Error {
    Error::Refused(Box::new(Problem::new(
        ErrorCode::AlreadyDelivered,
        "the session had seen the message before it could be called back",
    )))
}

/// A session that can't be asked, or does not answer.
pub(crate) fn unreachable_session() -> Error {
    Error::Refused(Box::new(Problem::new(
        ErrorCode::SessionUnreachable,
        "the session has no link or did not answer in time",
    )))
}
