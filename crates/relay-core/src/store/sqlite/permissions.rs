//! Permission requests as they are stored: asking, finding, listing, and what becomes of what was allowed.

use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::event::{PermissionExecuted, PermissionRequested, RelayEvent};
use relay_protocol::ids::{AgentId, MessageId, PermissionId, RunId, SessionId};
use relay_protocol::limits::PERMISSIONS_PENDING;
use relay_protocol::permission::{
    ExecutionState, PermissionExecution, PermissionState, RuleDecision,
};
use relay_protocol::time::Timestamp;
use relay_rules::{Call, Verdict};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::agents;
use super::channels::page_of;
use super::codes::Code;
use super::directory::{from_json, to_json, uuid_of};
use super::message_read::cursor;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::permissions::machine::{Effect, Move, Obstacle, Standing, apply};
use crate::permissions::{decided_by_rule, obstructed};
use crate::store::news::News;
use crate::store::permission_requests::{
    ExecutionMove, ExecutionStep, NewPermission, PermissionList, PermissionNo, PermissionRow,
    RunNo, Whose,
};
use crate::store::position::Position;
use crate::store::records::{AgentNo, SessionNo, SessionRow, WorkspaceRow};
use crate::store::requests::Viewer;

const COLUMNS: &str = "p.no, p.workspace, p.id, p.agent, a.id, a.name, p.session, s.id, p.run, r.id, p.state, p.body,
    p.created_at, p.expires_at, p.hash, p.notice, p.outcome, p.updated_hash, p.response_id, p.response, p.execution,
    p.start_id, w.id";

const TABLES: &str =
    "permissions p JOIN agents a ON a.no = p.agent JOIN workspaces w ON w.no = p.workspace
    LEFT JOIN sessions s ON s.no = p.session LEFT JOIN permission_runs r ON r.no = p.run";

fn read(row: &Row<'_>) -> rusqlite::Result<PermissionRow> {
    let uuid = |column| row.get::<_, [u8; 16]>(column).map(uuid_of);
    let json = |column| row.get::<_, Option<String>>(column);
    let session: Option<i64> = row.get(6)?;
    let run: Option<i64> = row.get(8)?;
    let response_id: Option<String> = row.get(18)?;
    Ok(PermissionRow {
        no: PermissionNo(row.get(0)?),
        workspace_no: row.get(1)?,
        id: PermissionId::from_uuid(uuid(2)?),
        agent: AgentNo(row.get(3)?),
        agent_id: AgentId::from_uuid(uuid(4)?),
        agent_name: row.get(5)?,
        session: session
            .map(|no| Ok::<_, rusqlite::Error>((SessionNo(no), SessionId::from_uuid(uuid(7)?))))
            .transpose()?,
        run: run
            .map(|no| Ok::<_, rusqlite::Error>((RunNo(no), RunId::from_uuid(uuid(9)?))))
            .transpose()?,
        state: row.get::<_, Code<_>>(10)?.0,
        body: from_json(&row.get::<_, String>(11)?)?,
        created_at: Timestamp::from_millis(row.get(12)?),
        expires_at: Timestamp::from_millis(row.get(13)?),
        hash: row.get(14)?,
        notice: row.get::<_, Option<i64>>(15)?.map(Position::from_key),
        outcome: json(16)?.map(|text| from_json(&text)).transpose()?,
        updated_hash: row.get(17)?,
        response: match response_id {
            Some(id) => Some((id, row.get(19)?)),
            None => None,
        },
        execution: json(20)?.map(|text| from_json(&text)).transpose()?,
        start_id: row.get(21)?,
        workspace: relay_protocol::ids::WorkspaceId::from_uuid(uuid(22)?),
    })
}

fn one(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Option<PermissionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(values, read).optional()?)
}

pub(super) fn many(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<PermissionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(values, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The request with this id in a workspace, whoever may see it.
pub(super) fn in_workspace(
    connection: &Connection,
    workspace_no: u32,
    id: PermissionId,
) -> Result<PermissionRow> {
    let found = one(
        connection,
        "p.id = ?1 AND p.workspace = ?2",
        params![id.uuid().as_bytes(), workspace_no],
    )?;
    found.ok_or(Error::UnknownPermission(id))
}

/// A request, for the agent that asked, for people, and for the workspace.
pub(super) fn find(
    connection: &Connection,
    viewer: Viewer,
    id: PermissionId,
) -> Result<PermissionRow> {
    let row = in_workspace(connection, viewer.workspace_no, id)?;
    match viewer.agent {
        None => Ok(row),
        Some(agent) if agent == row.agent => Ok(row),
        Some(agent) if agents::by_no(connection, agent)?.is_human() => Ok(row),
        Some(_) => Err(Error::UnknownPermission(id)),
    }
}

/// Requests, newest first.
pub(super) fn list(
    connection: &Connection,
    list: &PermissionList,
) -> Result<Page<Arc<PermissionRow>>> {
    let workspace_no = list.viewer.workspace_no;
    let named = list.query.agent.as_deref();
    let named = named.map(|name| agents::find(connection, workspace_no, name));
    let named = named.transpose()?.map(|agent| agent.no);
    let mut conditions = String::from("p.workspace = ?1 AND p.no < ?2");
    if !list.sees_all {
        conditions.push_str(" AND p.agent = ?3");
    }
    if named.is_some() {
        conditions.push_str(" AND p.agent = ?4");
    }
    if list.query.session.is_some() {
        conditions.push_str(" AND s.id = ?5");
    }
    match list.query.state {
        // Spelled out, so that the index of those that wait is used.
        Some(PermissionState::Pending) => conditions.push_str(" AND p.state = 0"),
        Some(_) => conditions.push_str(" AND p.state = ?6"),
        None => {}
    }
    let sql = format!("{conditions} ORDER BY p.no DESC LIMIT ?7");
    let before = cursor(&list.page)?.unwrap_or(i64::MAX as u64);
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE {sql}");
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(
        params![
            workspace_no,
            before,
            list.viewer.agent.map(|no| no.0),
            named.map(|no| no.0),
            list.query.session.map(|id| id.uuid().into_bytes()),
            list.query.state.map(Code),
            list.page.limit + 1
        ],
        read,
    )?;
    let found: Vec<PermissionRow> = rows.collect::<rusqlite::Result<_>>()?;
    let found = found.into_iter().map(Arc::new).collect();
    Ok(page_of(found, list.page.limit, |row| row.no.0.to_string()))
}

/// Those of all workspaces that wait for a decision, oldest first.
pub(super) fn pending(
    connection: &Connection,
    after: PermissionNo,
    limit: usize,
) -> Result<Vec<Arc<PermissionRow>>> {
    let found = many(
        connection,
        "p.state = 0 AND p.no > ?1 ORDER BY p.no LIMIT ?2",
        params![after.0, limit],
    )?;
    Ok(found.into_iter().map(Arc::new).collect())
}

/// Writes a request down. The rules decide at once, or it waits.
pub(super) fn ask(tx: &mut Tx<'_>, new: &NewPermission) -> Result<Arc<PermissionRow>> {
    let workspace = tx.workspace(new.workspace_no)?;
    let agent = tx.live_agent(new.agent)?;
    let scope = match (new.asked.run_id, new.session) {
        (Some(run), _) => run.to_string(),
        (None, Some(session)) => tx.session(session)?.id.to_string(),
        (None, None) => String::new(),
    };
    if let Some(known) = asked_before(tx, new, &scope)? {
        return Ok(Arc::new(known));
    }
    let run = new.asked.run_id.map(|id| tx.open_run(new, id));
    let run = run.transpose()?;
    let in_session = run.as_ref().and_then(|run| run.session);
    let in_session = new.session.or(in_session.map(|(no, _)| no));
    let session = in_session.map(|no| tx.session_that_asks(no));
    let session = session.transpose()?;
    tx.check_room_for_questions(new.agent)?;
    let whose = Whose {
        workspace_no: workspace.no,
        agent: Some(new.agent),
        session: session.as_ref().map(|session| session.no),
        run: run.as_ref().map(|run| run.no),
        turn: new.body.turn_id.clone(),
        at: new.at,
    };
    let call = Call {
        tool: &new.asked.tool,
        params: &new.asked.params,
        tool_call_id: new.asked.tool_call_id.as_deref(),
        cwd: new.asked.cwd.as_deref().map(std::path::Path::new),
    };
    let (verdict, in_force) = tx.judge(&whose, &call, &new.files)?;
    let mut row = PermissionRow {
        no: PermissionNo(0),
        workspace: workspace.id,
        workspace_no: workspace.no,
        id: new.id,
        agent: agent.no,
        agent_id: agent.id,
        agent_name: agent.name.clone(),
        session: session.as_ref().map(|session| (session.no, session.id)),
        run: run.as_ref().map(|run| (run.no, run.id)),
        state: state_of(&verdict),
        body: new.body.clone(),
        created_at: new.at,
        expires_at: new.expires_at,
        hash: new.hash.clone(),
        notice: None,
        outcome: None,
        updated_hash: None,
        response: None,
        execution: None,
        start_id: None,
    };
    if row.state == PermissionState::Pending {
        let told = tx.tell_deciders(&workspace, &row, &new.notice)?;
        row.notice = told.notice;
        let no = tx.insert_permission(&row, &scope)?;
        let row = Arc::new(PermissionRow { no, ..row });
        tx.log_asked(&workspace, &row)?;
        if let Some(session) = &session {
            tx.session_waits(&workspace, session.no, told.is_anybody_there, new.at)?;
        }
        tx.tell(News::PermissionAsked(
            row.id,
            row.workspace_no,
            row.expires_at,
        ));
        return Ok(row);
    }
    let grant = tx.use_up(&verdict, &in_force, new.at)?;
    row.outcome = Some(decided_by_rule(&verdict, row.state, grant, new.at));
    let no = tx.insert_permission(&row, &scope)?;
    let row = Arc::new(PermissionRow { no, ..row });
    tx.log_asked(&workspace, &row)?;
    tx.log_ended(&workspace, &row, new.at)?;
    Ok(row)
}

/// The request of an earlier call of the same ask.
fn asked_before(tx: &Tx<'_>, new: &NewPermission, scope: &str) -> Result<Option<PermissionRow>> {
    let Some(call) = &new.body.tool_call_id else {
        return Ok(None);
    };
    let known = one(
        tx.connection,
        "p.agent = ?1 AND p.scope = ?2 AND p.call = ?3",
        params![new.agent.0, scope, call],
    )?;
    match known {
        Some(known) if known.hash != new.hash => {
            Err(Error::IdempotencyConflict { key: call.clone() })
        }
        known => Ok(known),
    }
}

const fn state_of(verdict: &Verdict) -> PermissionState {
    match verdict.decision {
        RuleDecision::Allow => PermissionState::Approved,
        RuleDecision::Deny => PermissionState::Denied,
        RuleDecision::Ask => PermissionState::Pending,
    }
}

/// A step of what was allowed, by the agent that asked.
pub(super) fn execute(tx: &mut Tx<'_>, step: &ExecutionStep) -> Result<Arc<PermissionRow>> {
    let row = in_workspace(tx.connection, step.viewer.workspace_no, step.id)?;
    if step.viewer.agent != Some(row.agent) {
        return Err(Error::UnknownPermission(step.id));
    }
    let it = match &step.step {
        ExecutionMove::Start { hash, start_id } => Move::Start {
            hash,
            start_id: start_id.as_deref(),
        },
        ExecutionMove::Finish { state, .. } => Move::Finish(*state),
    };
    let (error, start_id) = match &step.step {
        ExecutionMove::Start { start_id, .. } => (None, start_id.clone()),
        ExecutionMove::Finish { error, .. } => (error.clone(), None),
    };
    match tx.applied(&row, &it, step.at)? {
        Effect::Executes(state) => tx.write_execution(row, state, error, start_id, step.at),
        _ => Ok(Arc::new(row)),
    }
}

pub(super) fn standing(row: &PermissionRow) -> Standing<'_> {
    Standing {
        state: row.state,
        expires_at: row.expires_at,
        hash: row.running_hash(),
        execution: row.execution.as_ref().map(|execution| execution.state),
        start_id: row.start_id.as_deref(),
    }
}

impl Tx<'_> {
    /// What becomes of a request, or why not.
    pub(super) fn applied(
        &self,
        row: &PermissionRow,
        it: &Move<'_>,
        at: Timestamp,
    ) -> Result<Effect> {
        apply(&standing(row), it, at).map_err(|obstacle: Obstacle| obstructed(row, obstacle))
    }

    fn check_room_for_questions(&self, agent: AgentNo) -> Result<()> {
        let waiting: usize = self
            .query("SELECT count(*) FROM permissions WHERE state = 0 AND agent = ?1")?
            .query_row([agent.0], |row| row.get(0))?;
        if waiting < PERMISSIONS_PENDING {
            return Ok(());
        }
        Err(Error::TooManyWaiting {
            what: "permission requests that wait for a decision",
            most: PERMISSIONS_PENDING,
        })
    }

    fn session_that_asks(&mut self, no: SessionNo) -> Result<Arc<SessionRow>> {
        let session = self.session(no)?;
        match session.status.is_terminal() {
            false => Ok(session),
            true => Err(Error::SessionEnded {
                id: session.id,
                status: session.status,
            }),
        }
    }

    fn insert_permission(&mut self, row: &PermissionRow, scope: &str) -> Result<PermissionNo> {
        let no = self.insert(
            "INSERT INTO permissions (workspace, id, agent, session, run, scope, call, state, is_open, body,
                                      created_at, expires_at, hash, notice, outcome)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
            params![
                row.workspace_no,
                row.id.uuid().as_bytes(),
                row.agent.0,
                row.session.map(|(no, _)| no.0),
                row.run.map(|(no, _)| no.0),
                scope,
                row.body.tool_call_id,
                Code(row.state),
                is_open(row),
                to_json(&row.body)?,
                row.created_at.as_millis(),
                row.expires_at.as_millis(),
                row.hash,
                row.notice.map(Position::key),
                row.outcome.as_ref().map(to_json).transpose()?
            ],
        )?;
        Ok(PermissionNo(no))
    }

    /// Stores everything about a request that can change.
    pub(super) fn update_permission(&mut self, row: &PermissionRow) -> Result<()> {
        self.execute(
            "UPDATE permissions SET state = ?2, is_open = ?3, outcome = ?4, updated_hash = ?5, response_id = ?6,
                                    response = ?7, execution = ?8, start_id = ?9
             WHERE no = ?1",
            params![
                row.no.0,
                Code(row.state),
                is_open(row),
                row.outcome.as_ref().map(to_json).transpose()?,
                row.updated_hash,
                row.response.as_ref().map(|(id, _)| id),
                row.response.as_ref().map(|(_, digest)| digest),
                row.execution.as_ref().map(to_json).transpose()?,
                row.start_id
            ],
        )?;
        Ok(())
    }

    fn log_asked(&mut self, workspace: &WorkspaceRow, row: &PermissionRow) -> Result<()> {
        let permission = Box::new(row.to_record());
        let event = RelayEvent::PermissionRequested(PermissionRequested { permission });
        self.log(workspace, row.created_at, event)?;
        Ok(())
    }

    /// Writes down how far a call has got.
    pub(super) fn write_execution(
        &mut self,
        mut row: PermissionRow,
        state: ExecutionState,
        error: Option<String>,
        start_id: Option<String>,
        at: Timestamp,
    ) -> Result<Arc<PermissionRow>> {
        let has_started = state == ExecutionState::Started;
        let before = row.execution.take().and_then(|before| before.started_at);
        let execution = PermissionExecution {
            state,
            started_at: before.or_else(|| has_started.then_some(at)),
            ended_at: (!has_started).then_some(at),
            error,
        };
        row.execution = Some(execution.clone());
        row.start_id = start_id.or(row.start_id);
        self.update_permission(&row)?;
        let executed = PermissionExecuted {
            permission_id: row.id,
            agent_id: Some(row.agent_id),
            session_id: row.session.map(|(_, id)| id),
            args_hash: row.running_hash().to_owned(),
            execution,
        };
        let event = match has_started {
            true => RelayEvent::PermissionStarted(executed),
            false => RelayEvent::PermissionFinished(executed),
        };
        let workspace = self.workspace(row.workspace_no)?;
        self.log(&workspace, at, event)?;
        Ok(Arc::new(row))
    }
}

/// Whether a request waits, may still be run, or runs.
fn is_open(row: &PermissionRow) -> bool {
    match (row.state, &row.execution) {
        (PermissionState::Pending, _) => true,
        (PermissionState::Approved, None) => true,
        (PermissionState::Approved, Some(execution)) => execution.state == ExecutionState::Started,
        _ => false,
    }
}

/// Removes what the call of a request is made with, because the event that told of it is erased; says which messages told
/// of the request and of the decision. One that waits can still be decided: whoever asked knows the call, and the hash stays.
pub(super) fn forget_call(
    tx: &mut Tx<'_>,
    id: PermissionId,
) -> Result<Option<(Option<Position>, Option<MessageId>)>> {
    let condition = "p.id = ?1";
    let Some(mut row) = one(tx.connection, condition, [id.uuid().as_bytes()])? else {
        return Ok(None);
    };
    row.body.params.clear();
    row.body.masked = true;
    row.body.title = None;
    row.body.cwd = None;
    row.body.suggestions.clear();
    let mut guidance = None;
    if let Some(outcome) = &mut row.outcome {
        outcome.updated_params = None;
        outcome.reason = None;
        outcome.rule = None;
        guidance = outcome.guidance_message_id;
    }
    if let Some(execution) = &mut row.execution {
        execution.error = None;
    }
    tx.execute(
        "UPDATE permissions SET body = ?2 WHERE no = ?1",
        params![row.no.0, to_json(&row.body)?],
    )?;
    tx.update_permission(&row)?;
    Ok(Some((row.notice, guidance)))
}

/// Removes what can be read no longer; says how many rows went.
pub(super) fn forget_old(tx: &mut Tx<'_>, before: i64) -> Result<u64> {
    let mut gone = 0;
    for sql in [
        // What was allowed and never begun is old, too, at some time: what is not there can't be begun.
        // No decision comes after the time that a request had for it.
        "DELETE FROM permissions WHERE expires_at < ?1
             AND (is_open = 0 OR (state <> 0 AND execution IS NULL))",
        "DELETE FROM grants WHERE coalesce(revoked_at, expires_at) < ?1",
        "DELETE FROM permission_runs WHERE ended_at < ?1
             AND NOT EXISTS (SELECT 1 FROM permissions p WHERE p.run = permission_runs.no)",
    ] {
        gone += tx.execute(sql, [before])? as u64;
    }
    Ok(gone)
}
