//! Sessions as they are stored, what the writer remembers of them, and the events that tell of them.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::event::{AgentStatusEvent, RelayEvent, SessionLifecycle};
use relay_protocol::ids::SessionId;
use relay_protocol::link::LinkKind;
use relay_protocol::session_event::{
    AgentSessionEvent, SessionForked, SessionReleased, SessionResumed, SessionStarted,
};
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::agents;
use super::channels::page_of;
use super::codes::Code;
use super::directory::{from_json, remember, to_json, uuid_of};
use super::message_read::cursor;
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::chain::Hash;
use crate::store::news::News;
use crate::store::records::{AgentNo, SessionNo, SessionRow, WorkspaceRow};
use crate::store::requests::{PageRequest, Viewer};

/// What the writer remembers of sessions.
#[derive(Default)]
pub(super) struct Sessions {
    rows: HashMap<SessionNo, Arc<SessionRow>>,
    current: HashMap<AgentNo, Option<SessionNo>>,
    /// The session of each agent that messages to it are addressed to.
    addressed: HashMap<AgentNo, Option<SessionNo>>,
}

impl Sessions {
    fn learn(&mut self, row: Arc<SessionRow>) {
        let before = self.rows.get(&row.no);
        if before.is_none_or(|before| before.can_be_current() != row.can_be_current()) {
            self.current.remove(&row.agent);
        }
        if before.is_none_or(|before| before.can_be_addressed() != row.can_be_addressed()) {
            self.addressed.remove(&row.agent);
        }
        remember(&mut self.rows, row.no, row);
    }
}

/// Values of the column `addressed_only`: which messages are for a session alone.
pub(super) const ADDRESSED_ONLY: i64 = 1;
const KEEPS_MESSAGES: i64 = 2;

const SESSION_COLUMNS: &str = "no, workspace, id, agent, harness, link, webhook, capabilities,
     safe_states, status, status_before, reason, parent, addressed_only, acked, created_at, seen_at,
     ended_at, coalesce(status_at, ended_at, seen_at)";

fn read_session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    let webhook: Option<String> = row.get(6)?;
    let id = |bytes| SessionId::from_uuid(uuid_of(bytes));
    let time =
        |column| -> rusqlite::Result<Timestamp> { row.get(column).map(Timestamp::from_millis) };
    Ok(SessionRow {
        no: SessionNo(row.get(0)?),
        workspace_no: row.get(1)?,
        id: id(row.get(2)?),
        agent: AgentNo(row.get(3)?),
        harness: row.get(4)?,
        link: row.get::<_, Code<LinkKind>>(5)?.0,
        webhook: webhook.map(|text| from_json(&text)).transpose()?,
        capabilities: from_json(&row.get::<_, String>(7)?)?,
        safe_states: from_json(&row.get::<_, String>(8)?)?,
        status: row.get::<_, Code<AgentStatus>>(9)?.0,
        status_before: row
            .get::<_, Option<Code<AgentStatus>>>(10)?
            .map(|Code(status)| status),
        reason: row.get(11)?,
        parent: row.get::<_, Option<[u8; 16]>>(12)?.map(id),
        addressed_only: row.get::<_, i64>(13)? == ADDRESSED_ONLY,
        keeps_messages: row.get::<_, i64>(13)? == KEEPS_MESSAGES,
        acked: row.get(14)?,
        created_at: time(15)?,
        seen_at: time(16)?,
        ended_at: row.get::<_, Option<i64>>(17)?.map(Timestamp::from_millis),
        status_at: time(18)?,
    })
}

impl Tx<'_> {
    /// A session that must exist.
    pub(super) fn session(&mut self, no: SessionNo) -> Result<Arc<SessionRow>> {
        if let Some(known) = self.directory.sessions.rows.get(&no) {
            return Ok(known.clone());
        }
        let row = self
            .query(&format!(
                "SELECT {SESSION_COLUMNS} FROM sessions WHERE no = ?1"
            ))?
            .query_row([no.0], read_session)?;
        let row = Arc::new(row);
        self.directory.sessions.learn(row.clone());
        Ok(row)
    }

    /// The session that an agent's deliveries go to, if there is one.
    pub(super) fn current_session(&mut self, agent: AgentNo) -> Result<Option<Arc<SessionRow>>> {
        if let Some(known) = self.directory.sessions.current.get(&agent) {
            return known.map(|no| self.session(no)).transpose();
        }
        let open = self.open_sessions_of(agent)?;
        let current = open.into_iter().rev().find(|row| row.can_be_current());
        let no = current.as_ref().map(|row| row.no);
        remember(&mut self.directory.sessions.current, agent, no);
        Ok(current)
    }

    /// The session that a message to an agent is addressed to, if there is one: the newest that keeps its messages.
    pub(super) fn newest_addressed_session(
        &mut self,
        agent: AgentNo,
    ) -> Result<Option<Arc<SessionRow>>> {
        if let Some(known) = self.directory.sessions.addressed.get(&agent) {
            return known.map(|no| self.session(no)).transpose();
        }
        let open = self.open_sessions_of(agent)?;
        let newest = open.into_iter().rev().find(|row| row.can_be_addressed());
        let no = newest.as_ref().map(|row| row.no);
        remember(&mut self.directory.sessions.addressed, agent, no);
        Ok(newest)
    }

    /// The sessions of an agent that have not ended, oldest first.
    pub(super) fn open_sessions_of(&mut self, agent: AgentNo) -> Result<Vec<Arc<SessionRow>>> {
        let found: Vec<SessionNo> = self
            .query("SELECT no FROM sessions WHERE agent = ?1 AND ended_at IS NULL ORDER BY no")?
            .query_map([agent.0], |row| row.get(0).map(SessionNo))?
            .collect::<rusqlite::Result<_>>()?;
        found.into_iter().map(|no| self.session(no)).collect()
    }

    /// The session with this id, if there is one.
    pub(super) fn find_session(
        &mut self,
        workspace_no: u32,
        id: SessionId,
    ) -> Result<Option<Arc<SessionRow>>> {
        let no = self
            .query("SELECT no FROM sessions WHERE id = ?1 AND workspace = ?2")?
            .query_row(params![id.uuid().as_bytes(), workspace_no], |row| {
                row.get(0).map(SessionNo)
            })
            .optional()?;
        no.map(|no| self.session(no)).transpose()
    }

    /// The session that comes back with this token, if there is one.
    pub(super) fn session_with_token(&mut self, token: &Hash) -> Result<Option<Arc<SessionRow>>> {
        let no = self
            .query("SELECT no FROM sessions WHERE token = ?1")?
            .query_row([token], |row| row.get(0).map(SessionNo))
            .optional()?;
        no.map(|no| self.session(no)).transpose()
    }

    /// Stores a new session; its number is made here.
    pub(super) fn insert_session(
        &mut self,
        row: SessionRow,
        token: &Hash,
    ) -> Result<Arc<SessionRow>> {
        let no = self.insert(
            "INSERT INTO sessions (workspace, id, agent, token, harness, link, webhook, capabilities,
                                   safe_states, status, status_before, reason, parent,
                                   addressed_only, acked, created_at, seen_at, ended_at, status_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
            params![
                row.workspace_no,
                row.id.uuid().as_bytes(),
                row.agent.0,
                token,
                row.harness,
                Code(row.link),
                row.webhook.as_ref().map(to_json).transpose()?,
                to_json(&row.capabilities)?,
                to_json(&row.safe_states)?,
                Code(row.status),
                row.status_before.map(Code),
                row.reason,
                row.parent.map(|id| id.uuid().into_bytes()),
                match (row.addressed_only, row.keeps_messages) {
                    (true, _) => ADDRESSED_ONLY,
                    (false, true) => KEEPS_MESSAGES,
                    (false, false) => 0,
                },
                row.acked,
                row.created_at.as_millis(),
                row.seen_at.as_millis(),
                row.ended_at.map(Timestamp::as_millis),
                row.status_at.as_millis()
            ],
        )?;
        Ok(self.session_is(SessionRow {
            no: SessionNo(no),
            ..row
        }))
    }

    /// Stores what a session declares when it attaches again.
    pub(super) fn update_declaration(&mut self, row: &SessionRow) -> Result<()> {
        self.execute(
            "UPDATE sessions SET harness = ?2, link = ?3, webhook = ?4, capabilities = ?5,
                                 safe_states = ?6
             WHERE no = ?1",
            params![
                row.no.0,
                row.harness,
                Code(row.link),
                row.webhook.as_ref().map(to_json).transpose()?,
                to_json(&row.capabilities)?,
                to_json(&row.safe_states)?
            ],
        )?;
        Ok(())
    }

    /// Stores what a session is doing.
    pub(super) fn update_session(&mut self, row: SessionRow) -> Result<Arc<SessionRow>> {
        self.execute(
            "UPDATE sessions SET status = ?2, status_before = ?3, reason = ?4, acked = ?5,
                                 seen_at = ?6, ended_at = ?7, status_at = ?8
             WHERE no = ?1",
            params![
                row.no.0,
                Code(row.status),
                row.status_before.map(Code),
                row.reason,
                row.acked,
                row.seen_at.as_millis(),
                row.ended_at.map(Timestamp::as_millis),
                row.status_at.as_millis()
            ],
        )?;
        Ok(self.session_is(row))
    }

    fn session_is(&mut self, row: SessionRow) -> Arc<SessionRow> {
        let row = Arc::new(row);
        self.directory.sessions.learn(row.clone());
        self.tell(News::Session(row.clone()));
        row
    }

    /// Logs that a session has another status than before.
    pub(super) fn log_status(
        &mut self,
        workspace: &WorkspaceRow,
        row: &SessionRow,
        previous: Option<AgentStatus>,
        at: Timestamp,
    ) -> Result<()> {
        let agent = self.agent_by_no(row.agent)?;
        let event = AgentStatusEvent {
            agent_id: agent.id,
            agent_name: Some(agent.name.clone()),
            session_id: Some(row.id),
            status: Some(row.status),
            previous_status: previous,
            reason: row.reason.clone(),
        };
        let of_its_own = match row.status {
            AgentStatus::Idle => Some(RelayEvent::AgentStatusIdle(event.clone())),
            AgentStatus::Active => Some(RelayEvent::AgentStatusActive(event.clone())),
            AgentStatus::Blocked => Some(RelayEvent::AgentStatusBlocked(event.clone())),
            AgentStatus::Waiting => Some(RelayEvent::AgentStatusWaiting(event.clone())),
            AgentStatus::Offline => Some(RelayEvent::AgentStatusOffline(event.clone())),
            _ => None,
        };
        self.log(workspace, at, RelayEvent::AgentStatusChanged(event))?;
        if let Some(event) = of_its_own {
            self.log(workspace, at, event)?;
        }
        Ok(())
    }

    /// Logs a turn in the life of a session.
    pub(super) fn log_life(
        &mut self,
        workspace: &WorkspaceRow,
        row: &SessionRow,
        life: Life,
        at: Timestamp,
    ) -> Result<()> {
        let agent = self.agent_by_no(row.agent)?;
        let session_id = row.id;
        let parent = row.parent.unwrap_or(row.id);
        let reason = (life == Life::Released)
            .then(|| row.reason.clone())
            .flatten();
        let form = match life {
            Life::Started => AgentSessionEvent::SessionStarted(SessionStarted { session_id }),
            Life::Resumed => AgentSessionEvent::SessionResumed(SessionResumed { session_id }),
            Life::Forked => AgentSessionEvent::SessionForked(SessionForked {
                session_id,
                parent_session_id: parent,
            }),
            Life::Released => AgentSessionEvent::SessionReleased(SessionReleased {
                session_id,
                reason: reason.clone(),
            }),
        };
        let event = SessionLifecycle {
            session_id,
            parent_session_id: row.parent,
            reason,
            agent_id: agent.id,
            agent_name: Some(agent.name.clone()),
            agent_type: Some(agent.agent_type),
            event: Some(form),
        };
        let event = match life {
            Life::Started => RelayEvent::SessionStarted(event),
            Life::Resumed => RelayEvent::SessionResumed(event),
            Life::Forked => RelayEvent::SessionForked(event),
            Life::Released => RelayEvent::SessionReleased(event),
        };
        self.log(workspace, at, event)?;
        Ok(())
    }
}

/// A turn in the life of a session that has an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Started,
    Resumed,
    Forked,
    Released,
}

/// One session, for its agent or the workspace.
pub(super) fn find(
    connection: &Connection,
    viewer: Viewer,
    id: SessionId,
) -> Result<Arc<SessionRow>> {
    connection
        .prepare_cached(&format!(
            "SELECT {SESSION_COLUMNS} FROM sessions
             WHERE id = ?1 AND workspace = ?2 AND (?3 IS NULL OR agent = ?3)"
        ))?
        .query_row(
            params![
                id.uuid().as_bytes(),
                viewer.workspace_no,
                viewer.agent.map(|no| no.0)
            ],
            read_session,
        )
        .optional()?
        .map(Arc::new)
        .ok_or(Error::UnknownSession(id))
}

/// Finds the session that a resume token belongs to.
pub(super) fn of_token(
    connection: &Connection,
    token: &Hash,
) -> Result<Option<(SessionNo, SessionId)>> {
    Ok(connection
        .prepare_cached("SELECT no, id FROM sessions WHERE token = ?1")?
        .query_row([token], |row| {
            let id = SessionId::from_uuid(uuid_of(row.get(1)?));
            Ok((SessionNo(row.get(0)?), id))
        })
        .optional()?)
}

/// Sessions, newest first. An agent sees its own.
pub(super) fn list(
    connection: &Connection,
    viewer: Viewer,
    agent: Option<&str>,
    page: &PageRequest,
) -> Result<Page<Arc<SessionRow>>> {
    let named = agent
        .map(|name| agents::find(connection, viewer.workspace_no, name))
        .transpose()?
        .map(|agent| agent.no);
    let before = cursor(page)?.map_or(i64::MAX, |no| i64::try_from(no).unwrap_or(i64::MAX));
    let of_agent = named.or(viewer.agent);
    if viewer.agent.is_some() && viewer.agent != of_agent {
        return Err(Error::Forbidden {
            needs: "the workspace key, or that agent's own token",
        });
    }
    let which = match of_agent {
        Some(_) => "agent = ?2",
        None => "?2 IS NULL",
    };
    let rows: Vec<Arc<SessionRow>> = connection
        .prepare_cached(&format!(
            "SELECT {SESSION_COLUMNS} FROM sessions
             WHERE workspace = ?1 AND {which} AND no < ?3 ORDER BY no DESC LIMIT ?4"
        ))?
        .query_map(
            params![
                viewer.workspace_no,
                of_agent.map(|no| no.0),
                before,
                page.limit + 1
            ],
            |row| read_session(row).map(Arc::new),
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(rows, page.limit, |row: &Arc<SessionRow>| {
        row.no.0.to_string()
    }))
}

/// Sessions that have not ended, in the order of their numbers.
pub(super) fn open(
    connection: &Connection,
    after: SessionNo,
    limit: usize,
) -> Result<Vec<Arc<SessionRow>>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {SESSION_COLUMNS} FROM sessions
             WHERE no > ?1 AND ended_at IS NULL ORDER BY no LIMIT ?2"
        ))?
        .query_map(params![after.0, limit], |row| {
            read_session(row).map(Arc::new)
        })?
        .collect::<rusqlite::Result<_>>()?)
}
