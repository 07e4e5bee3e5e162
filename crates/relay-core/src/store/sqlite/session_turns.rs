//! What the server does to sessions, and what becomes of the deliveries of those that end.

use std::sync::Arc;

use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::status::{
    AgentStatus, IllegalTransition, StatusChange, StatusSource, check_transition,
};
use relay_protocol::time::Timestamp;

use super::sessions::Life;
use super::steps::Taken;
use super::writer::Tx;
use crate::delivery::apply::{ReturnCause, Step};
use crate::delivery::lane::Lane;
use crate::error::Result;
use crate::store::records::{AgentNo, SessionNo, SessionRow, WorkspaceRow};
use crate::store::session_requests::{SessionChange, SessionTurn};

/// Whether a session's status may change like that.
pub(super) fn check_change(
    from: AgentStatus,
    to: AgentStatus,
    by: StatusSource,
    capabilities: &AgentSessionCapabilities,
) -> Result<(), IllegalTransition> {
    check_transition(StatusChange {
        from,
        to,
        by,
        can_pause: capabilities.lifecycle.pause == Some(true),
    })
}

/// Gives a session another status, remembering what it goes back to.
pub(super) fn become_status(
    row: &mut SessionRow,
    to: AgentStatus,
    reason: Option<String>,
    at: Timestamp,
) {
    if row.status == to {
        return;
    }
    row.status_before = match (row.status, to) {
        (AgentStatus::Offline, AgentStatus::Paused) => {
            let before = row.status_before;
            before.filter(|before| *before != AgentStatus::Paused)
        }
        (before, AgentStatus::Offline | AgentStatus::Paused) => Some(before),
        _ => None,
    };
    row.status = to;
    row.status_at = at;
    row.reason = reason;
    row.ended_at = to.is_terminal().then_some(at);
}

/// Changes a session.
pub(super) fn change(tx: &mut Tx<'_>, change: &SessionChange) -> Result<Arc<SessionRow>> {
    let before = tx.session(change.session)?;
    let to = destination(&before, change.to);
    if to == before.status {
        return Ok(before);
    }
    check_change(
        before.status,
        to,
        StatusSource::Server,
        &before.capabilities,
    )?;
    let workspace = tx.workspace(before.workspace_no)?;
    let mut row = (*before).clone();
    become_status(&mut row, to, change.reason.clone(), change.at);
    let row = tx.update_session(row)?;
    if change.to == SessionTurn::Resumed {
        tx.log_life(&workspace, &row, Life::Resumed, change.at)?;
    }
    tx.log_status(&workspace, &row, Some(before.status), change.at)?;
    if change.to == SessionTurn::Released {
        tx.log_life(&workspace, &row, Life::Released, change.at)?;
    }
    tx.settle_ended(&row, change.at, change.jitter)?;
    Ok(row)
}

/// The status that a turn leads to.
fn destination(row: &SessionRow, turn: SessionTurn) -> AgentStatus {
    match turn {
        SessionTurn::Offline => AgentStatus::Offline,
        SessionTurn::Paused => AgentStatus::Paused,
        SessionTurn::Resumed if row.status == AgentStatus::Paused => {
            row.status_before.unwrap_or(AgentStatus::Idle)
        }
        SessionTurn::Resumed => row.status,
        SessionTurn::Releasing => AgentStatus::Releasing,
        SessionTurn::Released => AgentStatus::Released,
        SessionTurn::Failed => AgentStatus::Failed,
    }
}

/// Takes back what a session accepted, because its link was gone for too long; says how many.
pub(super) fn take_back(
    tx: &mut Tx<'_>,
    session: SessionNo,
    at: Timestamp,
    jitter: u64,
) -> Result<u32> {
    let row = tx.session(session)?;
    tx.give_back(&row, ReturnCause::LeaseExpired, at, jitter)
}

impl Tx<'_> {
    /// Finds others for what a session had, if it has ended.
    pub(super) fn settle_ended(
        &mut self,
        row: &SessionRow,
        at: Timestamp,
        jitter: u64,
    ) -> Result<()> {
        let cause = match row.status {
            AgentStatus::Released => ReturnCause::SessionReleased,
            AgentStatus::Failed => ReturnCause::SessionFailed,
            _ => return Ok(()),
        };
        self.give_back(row, cause, at, jitter)?;
        self.fail_addressed(row, at)?;
        self.leave_questions(row, at)
    }

    /// Ends what a session has asked, may do and does, now that it has ended itself.
    fn leave_questions(&mut self, row: &SessionRow, at: Timestamp) -> Result<()> {
        let reason = match &row.reason {
            Some(why) => format!("the session is {}: {why}", row.status),
            None => format!("the session is {}", row.status),
        };
        self.end_runs_of(row.agent, row.no, at)?;
        self.abandon("p.session = ?1", row.no.0, &reason, at)?;
        self.end_grants_of(row.no, at)
    }

    /// Lets what a session holds wait again; says how many.
    fn give_back(
        &mut self,
        row: &SessionRow,
        cause: ReturnCause,
        at: Timestamp,
        jitter: u64,
    ) -> Result<u32> {
        let step = Step::Returned {
            offer: None,
            session: row.no,
            cause,
        };
        let mut returned = 0;
        for stored in self.held_by(row)? {
            let taken = Taken {
                jitter,
                ..Taken::plain(&step, at)
            };
            returned += u32::from(self.step(stored, &taken)?.moved);
        }
        Ok(returned)
    }

    /// Ends what only this session could have got and does not have.
    fn fail_addressed(&mut self, row: &SessionRow, at: Timestamp) -> Result<()> {
        let detail = format!("the session {} is {}", row.id, row.status);
        let step = Step::Mismatch {
            session: row.id,
            problem: Box::new(Problem::new(ErrorCode::UnknownSession, detail)),
        };
        for lane in [Lane::ADDRESSED, Lane::RESTING] {
            for delivery in self.rows_in_lane((row.workspace_no, row.agent), lane)? {
                if delivery.only_session == Some(row.no) {
                    self.step_at(delivery.position, &Taken::plain(&step, at))?;
                }
            }
        }
        Ok(())
    }

    /// Ends the sessions of an agent that is released. Nothing is on its way to them any more.
    pub(super) fn end_sessions(
        &mut self,
        workspace: &WorkspaceRow,
        agent: AgentNo,
        reason: Option<&str>,
        at: Timestamp,
    ) -> Result<()> {
        for before in self.open_sessions_of(agent)? {
            let mut row = (*before).clone();
            become_status(
                &mut row,
                AgentStatus::Released,
                reason.map(str::to_owned),
                at,
            );
            let row = self.update_session(row)?;
            self.log_status(workspace, &row, Some(before.status), at)?;
            self.log_life(workspace, &row, Life::Released, at)?;
            self.leave_questions(&row, at)?;
        }
        Ok(())
    }
}
