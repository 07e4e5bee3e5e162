//! Actions: what is registered, and for whom it is there.

use std::collections::HashSet;
use std::sync::Arc;

use relay_protocol::action::{ActionCaller, RegisterAction, is_action_name, is_available};
use relay_protocol::api::Page;
use relay_protocol::event::{ActionOffered, RelayEvent};
use relay_protocol::limits::ACTIONS;
use relay_protocol::names::fold;
use relay_protocol::suggest::nearest;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::agents;
use super::channels::page_of;
use super::directory::{SUGGESTED, from_json, to_json};
use super::message_read::bad_cursor;
use super::writer::Tx;
use crate::error::{Error, Noun, Result};
use crate::messages::SYSTEM_NAME;
use crate::store::action_requests::{ActionNo, ActionQuery, ActionRemoval, ActionRow, NewAction};
use crate::store::news::News;
use crate::store::records::{AgentNo, AgentRow};
use crate::store::requests::Viewer;

/// How many rows a page looks at, at a time, when the first ones were not all for the one who asks.
const LOOKED_AT: usize = 200;

const COLUMNS: &str = "no, version, workspace, owner, body, created_at";

/// A row without the agent that it belongs to.
struct Stored {
    no: ActionNo,
    version: u32,
    workspace_no: u32,
    owner: Option<AgentNo>,
    body: RegisterAction,
    created_at: Timestamp,
}

fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        no: ActionNo(row.get(0)?),
        version: row.get(1)?,
        workspace_no: row.get(2)?,
        owner: row.get::<_, Option<i64>>(3)?.map(AgentNo),
        body: from_json(&row.get::<_, String>(4)?)?,
        created_at: Timestamp::from_millis(row.get(5)?),
    })
}

impl Stored {
    fn with_owner(self, owner: Option<Arc<AgentRow>>) -> ActionRow {
        ActionRow {
            no: self.no,
            version: self.version,
            workspace_no: self.workspace_no,
            owner,
            body: self.body,
            created_at: self.created_at,
        }
    }
}

fn by_name(connection: &Connection, workspace_no: u32, name: &str) -> Result<Option<Stored>> {
    let sql = format!("SELECT {COLUMNS} FROM actions WHERE workspace = ?1 AND name = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row(params![workspace_no, name], read);
    Ok(found.optional()?)
}

/// The action with this name, or an error with the nearest names.
pub(super) fn find(connection: &Connection, workspace_no: u32, name: &str) -> Result<ActionRow> {
    let Some(found) = by_name(connection, workspace_no, name)? else {
        return Err(unknown_action(connection, workspace_no, name)?);
    };
    let owner = found.owner.map(|no| agents::by_no(connection, no));
    Ok(found.with_owner(owner.transpose()?))
}

fn unknown_action(connection: &Connection, workspace_no: u32, name: &str) -> Result<Error> {
    let names: Vec<String> = connection
        .prepare_cached("SELECT name FROM actions WHERE workspace = ?1")?
        .query_map([workspace_no], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Error::UnknownAction {
        name: name.to_owned(),
        nearest: nearest(name, names.iter().map(String::as_str), SUGGESTED),
    })
}

/// Registers an action, or replaces what its owner registered before.
pub(super) fn register(tx: &mut Tx<'_>, new: &NewAction) -> Result<Arc<ActionRow>> {
    let workspace_no = new.viewer.workspace_no;
    let owner = new.viewer.agent.map(|no| tx.live_agent(no)).transpose()?;
    let known = by_name(tx.connection, workspace_no, &new.body.name)?;
    let row = match known {
        Some(known) if known.owner != new.viewer.agent => {
            return Err(Error::NameTaken {
                what: Noun::Action,
                name: new.body.name.clone(),
            });
        }
        // A process registers what it offers whenever it connects: that is no news.
        Some(known) if known.body == new.body => known,
        Some(known) => {
            tell_those_who_lose(tx, &known, new, owner.as_deref())?;
            let row = replace(tx, known, new)?;
            tell_registered(tx, new, owner.as_deref())?;
            row
        }
        None => {
            let row = insert(tx, new)?;
            tell_registered(tx, new, owner.as_deref())?;
            row
        }
    };
    let row = Arc::new(row.with_owner(owner));
    tx.tell(News::Action(row.clone()));
    Ok(row)
}

/// Tells those an action was for, before it is for others.
fn tell_those_who_lose(
    tx: &mut Tx<'_>,
    known: &Stored,
    new: &NewAction,
    owner: Option<&AgentRow>,
) -> Result<()> {
    if known.body.available_to == new.body.available_to {
        return Ok(());
    }
    let gone = RelayEvent::ActionRemoved(offered(&known.body, owner, new.at));
    tx.log_action(known.workspace_no, gone, new.at)
}

fn tell_registered(tx: &mut Tx<'_>, new: &NewAction, owner: Option<&AgentRow>) -> Result<()> {
    let event = RelayEvent::ActionRegistered(offered(&new.body, owner, new.at));
    tx.log_action(new.viewer.workspace_no, event, new.at)
}

/// What is told of an action that came or went.
fn offered(body: &RegisterAction, owner: Option<&AgentRow>, at: Timestamp) -> ActionOffered {
    ActionOffered {
        action: body.name.clone(),
        agent: owner.map(|owner| caller_of(Some(owner))),
        available_to: body.available_to.clone(),
        at,
    }
}

fn replace(tx: &mut Tx<'_>, known: Stored, new: &NewAction) -> Result<Stored> {
    let version = known.version + 1;
    tx.execute(
        "UPDATE actions SET version = ?2, body = ?3 WHERE no = ?1",
        params![known.no.0, version, to_json(&new.body)?],
    )?;
    let body = new.body.clone();
    Ok(Stored {
        version,
        body,
        ..known
    })
}

fn insert(tx: &mut Tx<'_>, new: &NewAction) -> Result<Stored> {
    let workspace_no = new.viewer.workspace_no;
    let known: usize = tx
        .query("SELECT count(*) FROM actions WHERE workspace = ?1")?
        .query_row([workspace_no], |row| row.get(0))?;
    if known >= ACTIONS {
        return Err(Error::LimitExceeded {
            what: "actions",
            most: ACTIONS,
            found: known + 1,
        });
    }
    let no = tx.insert(
        "INSERT INTO actions (workspace, name, owner, version, body, created_at)
         VALUES (?1, ?2, ?3, 1, ?4, ?5)",
        params![
            workspace_no,
            new.body.name,
            new.viewer.agent.map(|no| no.0),
            to_json(&new.body)?,
            new.at.as_millis()
        ],
    )?;
    Ok(Stored {
        no: ActionNo(no),
        version: 1,
        workspace_no,
        owner: new.viewer.agent,
        body: new.body.clone(),
        created_at: new.at,
    })
}

/// Takes an action back; its open calls fail.
pub(super) fn remove(tx: &mut Tx<'_>, removal: &ActionRemoval) -> Result<()> {
    let Viewer {
        workspace_no,
        agent,
    } = removal.viewer;
    let found = find(tx.connection, workspace_no, &removal.name)?;
    let owner = found.owner.as_ref().map(|owner| owner.no);
    if agent.is_some() && agent != owner {
        return Err(Error::Forbidden {
            needs: "the token of the agent that registered it, or the workspace key",
        });
    }
    tx.drop_action(&found, removal.at)
}

impl Tx<'_> {
    /// Takes back everything that an agent registered.
    pub(super) fn drop_actions_of(&mut self, agent: AgentNo, at: Timestamp) -> Result<()> {
        let sql = format!("SELECT {COLUMNS} FROM actions WHERE owner = ?1 ORDER BY name");
        let actions: Vec<Stored> = self
            .query(&sql)?
            .query_map([agent.0], read)?
            .collect::<rusqlite::Result<_>>()?;
        let owner = agents::by_no(self.connection, agent)?;
        for action in actions {
            self.drop_action(&action.with_owner(Some(owner.clone())), at)?;
        }
        Ok(())
    }

    fn drop_action(&mut self, action: &ActionRow, at: Timestamp) -> Result<()> {
        self.fail_calls_of(action.no, at)?;
        self.execute("DELETE FROM actions WHERE no = ?1", [action.no.0])?;
        let gone = offered(&action.body, action.owner.as_deref(), at);
        self.log_action(action.workspace_no, RelayEvent::ActionRemoved(gone), at)?;
        self.tell(News::ActionRemoved(action.no));
        Ok(())
    }

    fn log_action(&mut self, workspace_no: u32, event: RelayEvent, at: Timestamp) -> Result<()> {
        let workspace = self.workspace(workspace_no)?;
        self.log(&workspace, at, event)?;
        Ok(())
    }

    /// Whom events name as the caller.
    pub(super) fn action_caller(&mut self, viewer: Viewer) -> Result<ActionCaller> {
        let agent = viewer.agent.map(|no| self.live_agent(no)).transpose()?;
        Ok(caller_of(agent.as_deref()))
    }

    /// Whether a caller may call an action.
    pub(super) fn is_available(
        &mut self,
        action: &ActionRow,
        viewer: Viewer,
        caller: &ActionCaller,
    ) -> Result<bool> {
        let channels = channels_of(self.connection, viewer, action.body.available_to.is_some())?;
        Ok(available(action, caller, &channels))
    }
}

/// How events name a caller; none: the workspace.
fn caller_of(agent: Option<&AgentRow>) -> ActionCaller {
    use relay_protocol::agent::AgentType;
    match agent {
        Some(agent) => ActionCaller {
            name: agent.name.clone(),
            id: Some(agent.id),
            agent_type: Some(agent.agent_type),
        },
        None => ActionCaller {
            name: SYSTEM_NAME.to_owned(),
            id: None,
            agent_type: Some(AgentType::System),
        },
    }
}

/// The channels that a caller is in, folded, where that is asked for.
fn channels_of(connection: &Connection, viewer: Viewer, is_asked: bool) -> Result<HashSet<String>> {
    let Some(agent) = viewer.agent.filter(|_| is_asked) else {
        return Ok(HashSet::new());
    };
    let mut statement = connection.prepare_cached(
        "SELECT r.folded FROM members m JOIN rooms r ON r.no = m.room
         WHERE m.agent = ?1 AND r.folded IS NOT NULL AND r.archived_at IS NULL",
    )?;
    let names = statement.query_map([agent.0], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}

fn available(action: &ActionRow, caller: &ActionCaller, channels: &HashSet<String>) -> bool {
    let selectors = action.body.available_to.as_deref();
    is_available(selectors, caller, |name| channels.contains(&fold(name)))
}

/// The actions that somebody may call or has registered, by name.
pub(super) fn list(connection: &Connection, query: &ActionQuery) -> Result<Page<ActionRow>> {
    let viewer = query.viewer;
    let me = viewer.agent.map(|no| agents::by_no(connection, no));
    let me = me.transpose()?;
    let caller = caller_of(me.as_deref());
    let channels = channels_of(connection, viewer, true)?;
    let is_shown = |action: &ActionRow| {
        let owner = action.owner.as_ref().map(|owner| owner.no);
        viewer.agent.is_none() || viewer.agent == owner || available(action, &caller, &channels)
    };
    let mut found = Vec::new();
    let cursor = query.page.cursor.as_deref();
    if let Some(cursor) = cursor.filter(|cursor| !is_action_name(cursor)) {
        return Err(bad_cursor(cursor));
    }
    let mut after = cursor.unwrap_or_default().to_owned();
    // Mostly everything is for everybody: then these are the page, and the one that says that there is more.
    let mut looked_at = query.page.limit + 1;
    while found.len() <= query.page.limit {
        let rows = next(connection, query, &after, looked_at)?;
        looked_at = LOOKED_AT;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.body.name);
        for stored in rows {
            let owner = stored.owner.map(|no| agents::by_no(connection, no));
            let action = stored.with_owner(owner.transpose()?);
            if is_shown(&action) {
                found.push(action);
            }
        }
    }
    Ok(page_of(found, query.page.limit, |action: &ActionRow| {
        action.body.name.clone()
    }))
}

fn next(
    connection: &Connection,
    query: &ActionQuery,
    after: &str,
    most: usize,
) -> Result<Vec<Stored>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM actions WHERE workspace = ?1 AND name > ?2
             AND (owner IS NOT NULL OR NOT ?3) ORDER BY name LIMIT ?4"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let (workspace_no, of_agents) = (query.viewer.workspace_no, query.of_agents);
    let rows = statement.query_map(params![workspace_no, after, of_agents, most], read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
