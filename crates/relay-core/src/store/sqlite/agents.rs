//! Agents: registration, tokens, release.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::agent::{AgentPresence, AgentSummary, AgentType, Metadata};
use relay_protocol::api::Page;
use relay_protocol::event::{AgentEvent, RelayEvent, TokenEvent, TokenKind};
use relay_protocol::ids::{AgentId, SessionId};
use relay_protocol::names::fold;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::channels::{GENERAL, page_of};
use super::codes::Code;
use super::directory::{AGENT_COLUMNS, read_agent, to_json, unknown_agent, uuid_of};
use super::message_read::name_cursor;
use super::sessions::ADDRESSED_ONLY;
use super::steps::Taken;
use super::writer::Tx;
use crate::delivery::apply::{Recall, Step};
use crate::delivery::history::Offer;
use crate::error::{Error, Noun, Result};
use crate::messages::SYSTEM_NAME;
use crate::store::news::News;
use crate::store::position::Position;
use crate::store::records::{AgentNo, AgentRow, WorkspaceRow};
use crate::store::requests::{
    AgentChange, NewAgent, NewToken, PageRequest, Release, TokenRotation, Viewer,
};
use relay_protocol::limits::TOKEN_GRACE_MS;

pub(super) fn register(tx: &mut Tx<'_>, new: &NewAgent) -> Result<Arc<AgentRow>> {
    let workspace = tx.workspace(new.workspace_no)?;
    match tx.find_agent(workspace.no, &new.name)? {
        Some(holder) if new.adopt => adopt(tx, &workspace, &holder, new),
        Some(holder) => Err(Error::NameTaken {
            what: Noun::Agent,
            name: holder.name.clone(),
        }),
        None => create(tx, &workspace, new),
    }
}

fn create(tx: &mut Tx<'_>, workspace: &WorkspaceRow, new: &NewAgent) -> Result<Arc<AgentRow>> {
    let newcomer = Newcomer {
        id: new.id,
        name: &new.name,
        agent_type: new.agent_type,
        metadata: new.metadata.as_ref(),
        token: Some(new.token),
        in_channels: new.in_channels,
        by: SYSTEM_NAME,
        at: new.token.at,
    };
    enlist(tx, workspace, &newcomer)
}

/// An agent that is new.
pub(super) struct Newcomer<'a> {
    pub(super) id: AgentId,
    pub(super) name: &'a str,
    pub(super) agent_type: AgentType,
    pub(super) metadata: Option<&'a Metadata>,
    /// Its token, unless it acts only through sessions.
    pub(super) token: Option<NewToken>,
    /// Whether it joins `#general`.
    pub(super) in_channels: bool,
    /// Who takes it in.
    pub(super) by: &'a str,
    pub(super) at: Timestamp,
}

/// Takes in an agent whose name is free.
pub(super) fn enlist(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    new: &Newcomer<'_>,
) -> Result<Arc<AgentRow>> {
    tx.insert(
        "INSERT INTO agents (workspace, id, name, folded, type, metadata, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            workspace.no,
            new.id.uuid().as_bytes(),
            new.name,
            fold(new.name),
            Code(new.agent_type),
            new.metadata.map(to_json).transpose()?,
            new.at.as_millis()
        ],
    )?;
    let agent = tx.agent_called(workspace.no, new.name)?;
    let event = AgentEvent {
        agent: agent.identity(),
        reason: None,
        by: Some(new.by.to_owned()),
    };
    tx.log(workspace, new.at, RelayEvent::AgentRegistered(event))?;
    if let Some(token) = new.token {
        let owner = Some((agent.no, agent.name.as_str()));
        tx.add_token(workspace, TokenKind::Agent, owner, token, new.by)?;
    }
    if new.in_channels {
        let general = tx.channel_called(workspace.no, GENERAL)?;
        let joining = std::slice::from_ref(&agent);
        tx.add_members(workspace, &general, joining, None, new.at)?;
    }
    Ok(agent)
}

fn adopt(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    holder: &Arc<AgentRow>,
    new: &NewAgent,
) -> Result<Arc<AgentRow>> {
    let at = new.token.at;
    if let Some(metadata) = &new.metadata {
        set_metadata(tx, holder, &to_json(metadata)?)?;
    }
    let agent = tx.agent_called(workspace.no, &holder.name)?;
    let event = AgentEvent {
        agent: agent.identity(),
        reason: Some("adopted".to_owned()),
        by: Some(SYSTEM_NAME.to_owned()),
    };
    tx.log(workspace, at, RelayEvent::AgentRegistered(event))?;
    replace_tokens(
        tx,
        workspace,
        &agent,
        new.token,
        at.plus_millis(TOKEN_GRACE_MS),
        SYSTEM_NAME,
    )?;
    if !new.in_channels {
        tx.leave_channels(workspace, &agent, at)?;
    }
    Ok(agent)
}

fn set_metadata(tx: &mut Tx<'_>, agent: &AgentRow, metadata: &str) -> Result<()> {
    tx.execute(
        "UPDATE agents SET metadata = ?2 WHERE no = ?1",
        params![agent.no.0, metadata],
    )?;
    tx.directory.forget_agent(agent);
    Ok(())
}

pub(super) fn update(tx: &mut Tx<'_>, change: &AgentChange) -> Result<Arc<AgentRow>> {
    let agent = own_or_any(tx, change.viewer, &change.name)?;
    set_metadata(tx, &agent, &to_json(&change.metadata)?)?;
    tx.agent_by_no(agent.no)
}

pub(super) fn rotate_token(tx: &mut Tx<'_>, rotation: &TokenRotation) -> Result<()> {
    let workspace = tx.workspace(rotation.viewer.workspace_no)?;
    let agent = own_or_any(tx, rotation.viewer, &rotation.name)?;
    let by = actor(rotation.viewer, &agent);
    replace_tokens(
        tx,
        &workspace,
        &agent,
        rotation.token,
        rotation.grace_until,
        by,
    )
}

/// The agent that acts upon itself, or any one by name for the workspace.
///
/// Not by name in both cases: after a release the name may belong to somebody else.
fn own_or_any(tx: &mut Tx<'_>, viewer: Viewer, name: &str) -> Result<Arc<AgentRow>> {
    match viewer.agent {
        Some(no) => tx.live_agent(no),
        None => tx.agent_called(viewer.workspace_no, name),
    }
}

/// The name of who acts upon an agent: itself, or Relay for the workspace key.
fn actor(viewer: Viewer, agent: &AgentRow) -> &str {
    match viewer.agent {
        Some(_) => &agent.name,
        None => SYSTEM_NAME,
    }
}

fn replace_tokens(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    agent: &AgentRow,
    token: NewToken,
    grace_until: Timestamp,
    by: &str,
) -> Result<()> {
    tx.limit_tokens_of(agent.no, grace_until)?;
    tx.insert_token(TokenKind::Agent, Some(workspace.no), Some(agent.no), token)?;
    let event = TokenEvent {
        token_id: token.id,
        kind: TokenKind::Agent,
        agent_name: Some(agent.name.clone()),
        grace_until: Some(grace_until),
        by: Some(by.to_owned()),
    };
    tx.log(workspace, token.at, RelayEvent::TokenRotated(event))?;
    Ok(())
}

pub(super) fn release(tx: &mut Tx<'_>, release: &Release) -> Result<()> {
    let workspace = tx.workspace(release.viewer.workspace_no)?;
    let agent = own_or_any(tx, release.viewer, &release.name)?;
    fail_waiting(tx, &workspace, &agent, release)?;
    tx.drop_actions_of(agent.no, release.at)?;
    tx.end_sessions(&workspace, agent.no, release.reason.as_deref(), release.at)?;
    tx.abandon(
        "p.agent = ?1",
        agent.no.0,
        "the agent was released",
        release.at,
    )?;
    let by = actor(release.viewer, &agent);
    revoke_tokens(tx, &workspace, &agent, by, release.at)?;
    leave_everything(tx, &agent)?;
    tx.execute(
        "UPDATE agents SET released_at = ?2 WHERE no = ?1",
        params![agent.no.0, release.at.as_millis()],
    )?;
    tx.directory.forget_agent(&agent);
    let event = AgentEvent {
        agent: agent.identity(),
        reason: release.reason.clone(),
        by: Some(by.to_owned()),
    };
    tx.log(&workspace, release.at, RelayEvent::AgentReleased(event))?;
    tx.tell(News::AgentReleased(agent.no));
    Ok(())
}

/// Ends everything that is on its way to an agent.
fn fail_waiting(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    agent: &AgentRow,
    release: &Release,
) -> Result<()> {
    let mut offered: HashMap<Position, &Offer> = release
        .offered
        .iter()
        .map(|(position, offer)| (*position, offer))
        .collect();
    for delivery in tx.unfinished(workspace.no, agent.no)? {
        let recall = match offered.remove(&delivery) {
            Some(offer) => Recall::Unanswered(Some(Box::new(offer.clone()))),
            None => Recall::NotNeeded,
        };
        let step = Step::AgentReleased { recall };
        tx.step_at(delivery, &Taken::plain(&step, release.at))?;
    }
    Ok(())
}

fn revoke_tokens(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    agent: &AgentRow,
    by: &str,
    at: Timestamp,
) -> Result<()> {
    for token_id in tx.delete_tokens("agent = ?1", [agent.no.0])? {
        let event = TokenEvent {
            token_id,
            kind: TokenKind::Agent,
            agent_name: Some(agent.name.clone()),
            grace_until: None,
            by: Some(by.to_owned()),
        };
        tx.log(workspace, at, RelayEvent::TokenRevoked(event))?;
    }
    Ok(())
}

fn leave_everything(tx: &mut Tx<'_>, agent: &AgentRow) -> Result<()> {
    let rooms: Vec<i64> = tx
        .query("SELECT room FROM members WHERE agent = ?1")?
        .query_map([agent.no.0], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    tx.execute("DELETE FROM members WHERE agent = ?1", [agent.no.0])?;
    for room in rooms {
        tx.directory
            .forget_room(crate::store::records::RoomNo(room));
    }
    Ok(())
}

pub(super) fn find(
    connection: &Connection,
    workspace_no: u32,
    name: &str,
) -> Result<Arc<AgentRow>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {AGENT_COLUMNS} FROM agents
             WHERE workspace = ?1 AND folded = ?2 AND released_at IS NULL"
        ))?
        .query_row(params![workspace_no, fold(name)], read_agent)
        .optional()?;
    match found {
        Some(agent) => Ok(Arc::new(agent)),
        None => Err(unknown_agent(connection, workspace_no, name)?),
    }
}

pub(super) fn by_no(connection: &Connection, no: AgentNo) -> Result<Arc<AgentRow>> {
    Ok(connection
        .prepare_cached(&format!("SELECT {AGENT_COLUMNS} FROM agents WHERE no = ?1"))?
        .query_row([no.0], read_agent)
        .map(Arc::new)?)
}

/// A page of agents with their presence, in one query: the newest session that can be the current one, else the newest.
pub(super) fn list(
    connection: &Connection,
    workspace_no: u32,
    page: &PageRequest,
) -> Result<Page<AgentSummary>> {
    let columns: Vec<String> = AGENT_COLUMNS
        .split(", ")
        .map(|column| format!("a.{column}"))
        .collect();
    let agents: Vec<AgentSummary> = connection
        .prepare_cached(&format!(
            "SELECT {}, s.id, s.status, coalesce(s.status_at, s.ended_at, s.seen_at), s.ended_at
             FROM agents a LEFT JOIN sessions s ON s.no = coalesce(
                 (SELECT no FROM sessions
                  WHERE agent = a.no AND ended_at IS NULL AND addressed_only <> {ADDRESSED_ONLY}
                        AND status NOT IN (?4, ?5)
                  ORDER BY no DESC LIMIT 1),
                 (SELECT no FROM sessions
                  WHERE agent = a.no AND addressed_only <> {ADDRESSED_ONLY}
                  ORDER BY no DESC LIMIT 1))
             WHERE a.workspace = ?1 AND a.folded > ?2 AND a.released_at IS NULL
             ORDER BY a.folded LIMIT ?3",
            columns.join(", ")
        ))?
        .query_map(
            params![
                workspace_no,
                name_cursor(page)?,
                page.limit + 1,
                Code(AgentStatus::Offline),
                Code(AgentStatus::Releasing)
            ],
            |row| {
                let agent = read_agent(row)?.identity();
                Ok(AgentSummary::new(agent, read_presence(row)?))
            },
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(agents, page.limit, |agent: &AgentSummary| {
        fold(&agent.name)
    }))
}

/// Reads what follows the columns of an agent.
fn read_presence(row: &Row<'_>) -> rusqlite::Result<AgentPresence> {
    let status = row.get::<_, Option<Code<AgentStatus>>>(8)?;
    let has_ended = row.get::<_, Option<i64>>(10)?.is_some();
    let id = row.get::<_, Option<[u8; 16]>>(7)?;
    Ok(AgentPresence {
        status: match status {
            Some(Code(status)) if !has_ended => status,
            _ => AgentStatus::Offline,
        },
        since: row.get::<_, Option<i64>>(9)?.map(Timestamp::from_millis),
        session_id: id
            .filter(|_| !has_ended)
            .map(|id| SessionId::from_uuid(uuid_of(id))),
    })
}
