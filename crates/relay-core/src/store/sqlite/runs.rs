//! Runs: what asks under rules of its own, and hands them down.

use std::sync::Arc;

use relay_protocol::ids::{RunId, SessionId};
use relay_protocol::limits::{RUN_DEPTH, RUNS_OPEN};
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::agents;
use super::directory::{from_json, to_json, uuid_of};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::permission_requests::{NewPermission, NewRun, RunNo, RunRow};
use crate::store::records::{AgentNo, SessionNo};
use crate::store::requests::Viewer;

const COLUMNS: &str = "r.no, r.workspace, r.id, r.agent, a.name, r.session, s.id, r.parent, o.id, r.depth, r.permissions,
    r.created_at, r.ended_at";

const TABLES: &str = "permission_runs r JOIN agents a ON a.no = r.agent
    LEFT JOIN sessions s ON s.no = r.session LEFT JOIN permission_runs o ON o.no = r.parent";

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let uuid = |column| row.get::<_, [u8; 16]>(column).map(uuid_of);
    let session: Option<i64> = row.get(5)?;
    let parent: Option<i64> = row.get(7)?;
    let permissions: Option<String> = row.get(10)?;
    Ok(RunRow {
        no: RunNo(row.get(0)?),
        workspace_no: row.get(1)?,
        id: RunId::from_uuid(uuid(2)?),
        agent: AgentNo(row.get(3)?),
        agent_name: row.get(4)?,
        session: session
            .map(|no| Ok::<_, rusqlite::Error>((SessionNo(no), SessionId::from_uuid(uuid(6)?))))
            .transpose()?,
        parent: parent
            .map(|no| Ok::<_, rusqlite::Error>((RunNo(no), RunId::from_uuid(uuid(8)?))))
            .transpose()?,
        depth: row.get(9)?,
        permissions: permissions.map(|text| from_json(&text)).transpose()?,
        created_at: Timestamp::from_millis(row.get(11)?),
        ended_at: row.get::<_, Option<i64>>(12)?.map(Timestamp::from_millis),
    })
}

fn by_id(connection: &Connection, workspace_no: u32, id: RunId) -> Result<RunRow> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE r.id = ?1 AND r.workspace = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row(params![id.uuid().as_bytes(), workspace_no], read);
    found.optional()?.ok_or(Error::UnknownRun(id))
}

fn by_no(connection: &Connection, no: RunNo) -> Result<RunRow> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE r.no = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([no.0], read)?)
}

/// A run, for its agent, for people and for the workspace.
pub(super) fn find(connection: &Connection, viewer: Viewer, id: RunId) -> Result<RunRow> {
    let row = by_id(connection, viewer.workspace_no, id)?;
    match viewer.agent {
        None => Ok(row),
        Some(agent) if agent == row.agent => Ok(row),
        Some(agent) if agents::by_no(connection, agent)?.is_human() => Ok(row),
        Some(_) => Err(Error::UnknownRun(id)),
    }
}

/// Begins a run, below another of the same agent or by itself.
pub(super) fn create(tx: &mut Tx<'_>, new: &NewRun) -> Result<RunRow> {
    let agent = tx.live_agent(new.agent)?;
    let open: usize = tx
        .query("SELECT count(*) FROM permission_runs WHERE agent = ?1 AND ended_at IS NULL")?
        .query_row([new.agent.0], |row| row.get(0))?;
    if open >= RUNS_OPEN {
        return Err(Error::LimitExceeded {
            what: "runs that have not ended",
            most: RUNS_OPEN,
            found: open + 1,
        });
    }
    let parent = new
        .parent
        .map(|id| own_open(tx, new.workspace_no, new.agent, id));
    let parent = parent.transpose()?;
    let depth = parent.as_ref().map_or(0, |parent| parent.depth + 1);
    if depth > RUN_DEPTH {
        return Err(Error::LimitExceeded {
            what: "runs above a run",
            most: RUN_DEPTH as usize,
            found: depth as usize,
        });
    }
    let session = new.session.or_else(|| {
        let above = parent.as_ref().and_then(|parent| parent.session);
        above.map(|(no, _)| no)
    });
    let no = tx.insert(
        "INSERT INTO permission_runs (workspace, id, agent, session, parent, depth, permissions, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            new.workspace_no,
            new.id.uuid().as_bytes(),
            agent.no.0,
            session.map(|no| no.0),
            parent.as_ref().map(|parent| parent.no.0),
            depth,
            new.permissions.as_ref().map(to_json).transpose()?,
            new.at.as_millis()
        ],
    )?;
    by_no(tx.connection, RunNo(no))
}

/// A run of an agent that has not ended.
fn own_open(tx: &Tx<'_>, workspace_no: u32, agent: AgentNo, id: RunId) -> Result<RunRow> {
    let row = by_id(tx.connection, workspace_no, id)?;
    if row.agent != agent {
        return Err(Error::UnknownRun(id));
    }
    match row.ended_at {
        None => Ok(row),
        Some(_) => Err(Error::RunEnded(id)),
    }
}

/// Ends a run and those below it: what they have asked is not needed any more.
pub(super) fn end(
    tx: &mut Tx<'_>,
    viewer: Viewer,
    id: RunId,
    reason: Option<&str>,
    at: Timestamp,
) -> Result<RunRow> {
    let row = find(tx.connection, viewer, id)?;
    if row.ended_at.is_none() {
        tx.end_runs(row.no, reason.unwrap_or("the run has ended"), at)?;
    }
    by_no(tx.connection, row.no)
}

impl Tx<'_> {
    /// The run in which somebody asks.
    pub(super) fn open_run(&self, new: &NewPermission, id: RunId) -> Result<Arc<RunRow>> {
        let row = own_open(self, new.workspace_no, new.agent, id)?;
        let elsewhere = row.session.map(|(no, _)| no) != new.session && new.session.is_some();
        match elsewhere && row.session.is_some() {
            true => Err(Error::UnknownRun(id)),
            false => Ok(Arc::new(row)),
        }
    }

    fn end_runs(&mut self, root: RunNo, reason: &str, at: Timestamp) -> Result<()> {
        let mut waiting = vec![root];
        while let Some(run) = waiting.pop() {
            let below: Vec<i64> = self
                .query("SELECT no FROM permission_runs WHERE parent = ?1 AND ended_at IS NULL")?
                .query_map([run.0], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            waiting.extend(below.into_iter().map(RunNo));
            self.execute(
                "UPDATE permission_runs SET ended_at = ?2 WHERE no = ?1 AND ended_at IS NULL",
                params![run.0, at.as_millis()],
            )?;
            self.abandon("p.run = ?1", run.0, reason, at)?;
        }
        Ok(())
    }

    /// Ends the runs of a session that has ended.
    pub(super) fn end_runs_of(
        &mut self,
        agent: AgentNo,
        session: SessionNo,
        at: Timestamp,
    ) -> Result<()> {
        self.execute(
            "UPDATE permission_runs SET ended_at = ?3
             WHERE agent = ?1 AND session = ?2 AND ended_at IS NULL",
            params![agent.0, session.0, at.as_millis()],
        )?;
        Ok(())
    }

    /// The agents whose run, or whose session, leads to a request: none of them decides about it.
    pub(super) fn lineage(
        &mut self,
        row: &crate::store::permission_requests::PermissionRow,
    ) -> Result<Vec<AgentNo>> {
        let mut agents = vec![row.agent];
        let mut run = row.run.map(|(no, _)| no);
        while let Some(no) = run {
            let above = by_no(self.connection, no)?;
            agents.push(above.agent);
            run = above.parent.map(|(no, _)| no);
        }
        let mut session = row.session.map(|(_, id)| id);
        while let Some(id) = session {
            let Some(above) = self.find_session(row.workspace_no, id)? else {
                break;
            };
            agents.push(above.agent);
            session = above.parent.filter(|parent: &SessionId| *parent != id);
        }
        agents.sort_unstable();
        agents.dedup();
        Ok(agents)
    }
}
