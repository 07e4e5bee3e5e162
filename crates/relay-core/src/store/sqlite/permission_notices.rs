//! Who hears of a permission request, and what that means for the session that asked.
//!
//! People are told by an urgent message, so that receipts show whether anybody saw it. The session waits; it is blocked
//! while nobody who may decide was reached.

use relay_protocol::delivery::DeliveryState;
use relay_protocol::limits::PERMISSION_TOLD;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use rusqlite::{OptionalExtension as _, params};

use super::delivery_rows::load_delivery;
use super::messages;
use super::session_turns::become_status;
use super::writer::Tx;
use crate::error::Result;
use crate::permissions::notice_to;
use crate::store::news::News;
use crate::store::permission_requests::PermissionRow;
use crate::store::position::Position;
use crate::store::records::{AgentNo, DeliveryRow, SessionNo, WorkspaceRow};

/// Why a session waits.
pub(super) const WAITS: &str = "waits for a permission";
/// Why a session is blocked.
const BLOCKED: &str = "waits for a permission, and nobody who may decide was reached";

/// What was done to find somebody who decides.
pub(super) struct Told {
    /// The message.
    pub(super) notice: Option<Position>,
    /// Whether one of them has a session that can be reached.
    pub(super) is_anybody_there: bool,
}

impl Tx<'_> {
    /// Tells those who may decide.
    pub(super) fn tell_deciders(
        &mut self,
        workspace: &WorkspaceRow,
        row: &PermissionRow,
        text: &str,
    ) -> Result<Told> {
        let lineage = self.lineage(row)?;
        let people: Vec<AgentNo> = self
            .query(
                "SELECT no FROM agents WHERE workspace = ?1 AND type = 1 AND released_at IS NULL
                 ORDER BY no LIMIT ?2",
            )?
            .query_map(
                params![workspace.no, PERMISSION_TOLD + lineage.len()],
                |row| row.get(0).map(AgentNo),
            )?
            .collect::<rusqlite::Result<_>>()?;
        let mut names = Vec::new();
        let mut is_anybody_there = false;
        let people = people.into_iter().filter(|no| !lineage.contains(no));
        for no in people.take(PERMISSION_TOLD) {
            names.push(self.agent_by_no(no)?.name.clone());
            is_anybody_there |= self.current_session(no)?.is_some();
        }
        if names.is_empty() {
            return Ok(Told {
                notice: None,
                is_anybody_there: false,
            });
        }
        let sent = messages::send(self, &notice_to(workspace.no, names, row, text))?;
        Ok(Told {
            notice: Some(sent.position),
            is_anybody_there,
        })
    }

    /// Calls back what nobody needs to see any more.
    pub(super) fn call_back_notice(&mut self, row: &PermissionRow) -> Result<()> {
        let Some(notice) = row.notice else {
            return Ok(());
        };
        // A message's deliveries follow it, after a few events that tell of it.
        let unfinished: Vec<i64> = self
            .query(
                "SELECT position FROM deliveries
                 WHERE position > ?1 AND position <= ?2 AND message = ?1 AND state < 4",
            )?
            .query_map(
                params![notice.key(), notice.plus(PERMISSION_TOLD as u64 + 8).key()],
                |row| row.get(0),
            )?
            .collect::<rusqlite::Result<_>>()?;
        let mut rows = Vec::new();
        for position in unfinished {
            rows.push(load_delivery(self.connection, Position::from_key(position))?.row);
        }
        if !rows.is_empty() {
            self.tell(News::NoticesOver(rows));
        }
        Ok(())
    }

    /// A session has asked and waits.
    pub(super) fn session_waits(
        &mut self,
        workspace: &WorkspaceRow,
        session: SessionNo,
        is_anybody_there: bool,
        at: Timestamp,
    ) -> Result<()> {
        let (status, reason) = match is_anybody_there {
            true => (AgentStatus::Waiting, WAITS),
            false => (AgentStatus::Blocked, BLOCKED),
        };
        let row = self.session(session)?;
        let is_worse = row.reason.as_deref() == Some(WAITS) && !is_anybody_there;
        if is_worse || !row.status.takes_offers() {
            return Ok(());
        }
        self.set_status(workspace, session, status, Some(reason), at)
    }

    /// A session that waited for its last answer goes on. One that has told of another status since is left alone.
    pub(super) fn session_goes_on(
        &mut self,
        workspace: &WorkspaceRow,
        agent: AgentNo,
        session: SessionNo,
        at: Timestamp,
    ) -> Result<()> {
        let row = self.session(session)?;
        let is_ours = matches!(row.reason.as_deref(), Some(WAITS | BLOCKED));
        if !is_ours || !row.status.takes_offers() {
            return Ok(());
        }
        if self.has_open_question(agent, session)? {
            return Ok(());
        }
        self.set_status(workspace, session, AgentStatus::Active, None, at)
    }

    /// Whether a request of a session waits for a decision.
    pub(super) fn has_open_question(&self, agent: AgentNo, session: SessionNo) -> Result<bool> {
        Ok(self
            .query(
                "SELECT EXISTS (SELECT 1 FROM permissions WHERE state = 0 AND agent = ?1 AND session = ?2)",
            )?
            .query_row(params![agent.0, session.0], |row| row.get(0))?)
    }

    fn set_status(
        &mut self,
        workspace: &WorkspaceRow,
        session: SessionNo,
        status: AgentStatus,
        reason: Option<&str>,
        at: Timestamp,
    ) -> Result<()> {
        let before = self.session(session)?;
        if before.status == status && before.reason.as_deref() == reason {
            return Ok(());
        }
        let mut row = (*before).clone();
        become_status(&mut row, status, reason.map(str::to_owned), at);
        row.reason = reason.map(str::to_owned);
        let row = self.update_session(row)?;
        self.log_status(workspace, &row, Some(before.status), at)
    }

    /// A delivery of a notice has moved: somebody has it before their eyes, or nobody will.
    pub(super) fn notice_moved(&mut self, row: &DeliveryRow, at: Timestamp) -> Result<()> {
        if !row.state.is_terminal() {
            return Ok(());
        }
        let asked: Option<(i64, Option<i64>)> = self
            .query("SELECT no, session FROM permissions WHERE state = 0 AND notice = ?1")?
            .query_row([row.message.key()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((_, Some(session))) = asked else {
            return Ok(());
        };
        let workspace = self.workspace(row.position.workspace_no())?;
        let session = SessionNo(session);
        if row.state == DeliveryState::Delivered {
            return self.session_waits(&workspace, session, true, at);
        }
        let others: bool = self
            .query(
                "SELECT EXISTS (SELECT 1 FROM deliveries WHERE position > ?1 AND position <= ?2
                                AND message = ?1 AND (state < 4 OR state = 4))",
            )?
            .query_row(
                params![
                    row.message.key(),
                    row.message.plus(PERMISSION_TOLD as u64 + 8).key()
                ],
                |row| row.get(0),
            )?;
        match others {
            true => Ok(()),
            false => self.set_status(&workspace, session, AgentStatus::Blocked, Some(BLOCKED), at),
        }
    }
}
