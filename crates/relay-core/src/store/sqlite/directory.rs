//! What the writer remembers of agents, channels and conversations, so that a send reads nothing.
//!
//! Filled as things are asked for, changed only by the writer, and thrown away whole when a change is
//! taken back: then the database is asked again.

use std::collections::HashMap;
use std::sync::Arc;

use relay_protocol::names::fold;
use relay_protocol::time::Timestamp;
use rusqlite::{OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::codes::Code;
use super::permission_rules::Compiled;
use super::room_index::Fill;
use super::sessions::Sessions;
use super::waiting::Fresh;
use super::writer::Tx;
use crate::error::{Error, Result, StorageError};
use crate::store::position::Position;
use crate::store::records::{AgentNo, AgentRow, RoomKind, RoomNo, RoomRow, WorkspaceRow};
use relay_protocol::ids::{AgentId, WorkspaceId};
use relay_protocol::suggest::nearest;

/// Most entries of one kind that are remembered.
const REMEMBERED: usize = 100_000;

/// The memory.
#[derive(Default)]
pub(super) struct Directory {
    workspaces: HashMap<u32, Arc<WorkspaceRow>>,
    agents: HashMap<AgentNo, Arc<AgentRow>>,
    names: HashMap<(u32, String), AgentNo>,
    rooms: HashMap<RoomNo, Arc<RoomRow>>,
    members: HashMap<RoomNo, Arc<Vec<AgentNo>>>,
    channels: HashMap<(u32, String), RoomNo>,
    conversations: HashMap<(u32, RoomKey), RoomNo>,
    threads: HashMap<Position, Arc<Vec<AgentNo>>>,
    waiting: HashMap<AgentNo, u32>,
    pub(super) sessions: Sessions,
    pub(super) compiled: Compiled,
    pub(super) fresh: Fresh,
    pub(super) room_fill: Fill,
}

/// What makes a conversation the one it is: its kind and its members.
pub(super) type RoomKey = (u8, Vec<AgentNo>);

impl Directory {
    /// Throws everything away.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Throws away what is known of one room.
    pub(super) fn forget_room(&mut self, room: RoomNo) {
        self.rooms.remove(&room);
        self.members.remove(&room);
    }

    /// Throws away what is known of one agent.
    pub(super) fn forget_agent(&mut self, agent: &AgentRow) {
        self.agents.remove(&agent.no);
        self.names.remove(&(agent.workspace_no, fold(&agent.name)));
        self.waiting.remove(&agent.no);
    }

    /// Throws away what is known of one workspace itself.
    pub(super) fn forget_workspace(&mut self, workspace_no: u32) {
        self.workspaces.remove(&workspace_no);
    }

    /// Notes that an author has spoken in a thread.
    pub(super) fn joined_thread(&mut self, thread: Position, author: AgentNo) {
        if let Some(known) = self.threads.get_mut(&thread)
            && !known.contains(&author)
        {
            Arc::make_mut(known).push(author);
        }
    }

    /// How many unfinished deliveries an agent has, if that is known.
    pub(super) fn known_waiting(&self, agent: AgentNo) -> Option<u32> {
        self.waiting.get(&agent).copied()
    }

    /// Remembers how many unfinished deliveries an agent has.
    pub(super) fn count_waiting(&mut self, agent: AgentNo, count: u32) {
        remember(&mut self.waiting, agent, count);
    }

    /// Notes that one more delivery waits for an agent.
    pub(super) fn more_waiting(&mut self, agent: AgentNo) {
        if let Some(count) = self.waiting.get_mut(&agent) {
            *count += 1;
        }
    }

    /// Notes that one delivery less waits for an agent.
    pub(super) fn less_waiting(&mut self, agent: AgentNo) {
        if let Some(count) = self.waiting.get_mut(&agent) {
            *count = count.saturating_sub(1);
        }
    }
}

pub(super) fn remember<K: Eq + std::hash::Hash, V>(memory: &mut HashMap<K, V>, key: K, value: V) {
    if memory.len() >= REMEMBERED {
        memory.clear();
    }
    memory.insert(key, value);
}

impl Tx<'_> {
    /// A workspace that must exist.
    pub(super) fn workspace(&mut self, no: u32) -> Result<Arc<WorkspaceRow>> {
        if let Some(known) = self.directory.workspaces.get(&no) {
            return Ok(known.clone());
        }
        let row = self
            .query(&format!(
                "SELECT {WORKSPACE_COLUMNS} FROM workspaces WHERE no = ?1"
            ))?
            .query_row([no], read_workspace)?;
        let row = Arc::new(row);
        remember(&mut self.directory.workspaces, no, row.clone());
        Ok(row)
    }

    /// An agent by number, released or not.
    pub(super) fn agent_by_no(&mut self, no: AgentNo) -> Result<Arc<AgentRow>> {
        if let Some(known) = self.directory.agents.get(&no) {
            return Ok(known.clone());
        }
        let row = self
            .query(&format!("SELECT {AGENT_COLUMNS} FROM agents WHERE no = ?1"))?
            .query_row([no.0], read_agent)?;
        let row = Arc::new(row);
        remember(&mut self.directory.agents, no, row.clone());
        Ok(row)
    }

    /// An agent that can speak: it exists and was not released.
    pub(super) fn live_agent(&mut self, no: AgentNo) -> Result<Arc<AgentRow>> {
        let agent = self.agent_by_no(no)?;
        match agent.released_at {
            None => Ok(agent),
            Some(_) => Err(Error::AgentReleased {
                name: agent.name.clone(),
            }),
        }
    }

    /// The agent with this name, if there is one.
    pub(super) fn find_agent(
        &mut self,
        workspace_no: u32,
        name: &str,
    ) -> Result<Option<Arc<AgentRow>>> {
        let key = (workspace_no, fold(name));
        if let Some(no) = self.directory.names.get(&key) {
            return self.agent_by_no(*no).map(Some);
        }
        let no = self
            .query("SELECT no FROM agents WHERE workspace = ?1 AND folded = ?2 AND released_at IS NULL")?
            .query_row(params![workspace_no, key.1], |row| row.get(0).map(AgentNo))
            .optional()?;
        let Some(no) = no else { return Ok(None) };
        remember(&mut self.directory.names, key, no);
        self.agent_by_no(no).map(Some)
    }

    /// The agent with this name, or an error with the nearest names.
    pub(super) fn agent_called(&mut self, workspace_no: u32, name: &str) -> Result<Arc<AgentRow>> {
        match self.find_agent(workspace_no, name)? {
            Some(agent) => Ok(agent),
            None => Err(unknown_agent(self.connection, workspace_no, name)?),
        }
    }

    /// A room by number.
    pub(super) fn room(&mut self, no: RoomNo) -> Result<Arc<RoomRow>> {
        if let Some(known) = self.directory.rooms.get(&no) {
            return Ok(known.clone());
        }
        let row = self
            .query(&format!("SELECT {ROOM_COLUMNS} FROM rooms WHERE no = ?1"))?
            .query_row([no.0], read_room)?;
        let row = Arc::new(row);
        remember(&mut self.directory.rooms, no, row.clone());
        Ok(row)
    }

    /// The channel with this name, or an error with the nearest names.
    pub(super) fn channel_called(&mut self, workspace_no: u32, name: &str) -> Result<Arc<RoomRow>> {
        let key = (workspace_no, fold(name));
        if let Some(no) = self.directory.channels.get(&key) {
            return self.room(*no);
        }
        match find_channel(self.connection, workspace_no, name)? {
            Some(no) => {
                remember(&mut self.directory.channels, key, no);
                self.room(no)
            }
            None => Err(unknown_channel(self.connection, workspace_no, name)?),
        }
    }

    /// The conversation with these members, if there is one.
    pub(super) fn find_conversation(
        &mut self,
        workspace_no: u32,
        key: &RoomKey,
    ) -> Result<Option<Arc<RoomRow>>> {
        let memory_key = (workspace_no, key.clone());
        if let Some(no) = self.directory.conversations.get(&memory_key) {
            return self.room(*no).map(Some);
        }
        let no = self
            .query("SELECT no FROM rooms WHERE workspace = ?1 AND participants = ?2 AND kind = ?3")?
            .query_row(params![workspace_no, participants(&key.1), key.0], |row| {
                row.get(0).map(RoomNo)
            })
            .optional()?;
        let Some(no) = no else { return Ok(None) };
        remember(&mut self.directory.conversations, memory_key, no);
        self.room(no).map(Some)
    }

    /// The members of a room, in ascending order.
    pub(super) fn members_of(&mut self, room: RoomNo) -> Result<Arc<Vec<AgentNo>>> {
        if let Some(known) = self.directory.members.get(&room) {
            return Ok(known.clone());
        }
        let members: Vec<AgentNo> = self
            .query("SELECT agent FROM members WHERE room = ?1 ORDER BY agent")?
            .query_map([room.0], |row| row.get(0).map(AgentNo))?
            .collect::<rusqlite::Result<_>>()?;
        let members = Arc::new(members);
        remember(&mut self.directory.members, room, members.clone());
        Ok(members)
    }

    /// Everybody who has spoken in a thread, its root included.
    pub(super) fn thread_participants(&mut self, thread: Position) -> Result<Arc<Vec<AgentNo>>> {
        if let Some(known) = self.directory.threads.get(&thread) {
            return Ok(known.clone());
        }
        let authors: Vec<AgentNo> = self
            .query(
                "SELECT author FROM messages WHERE position = ?1 AND author IS NOT NULL
                 UNION SELECT author FROM messages WHERE thread = ?1 AND author IS NOT NULL",
            )?
            .query_map([thread.key()], |row| row.get(0).map(AgentNo))?
            .collect::<rusqlite::Result<_>>()?;
        let authors = Arc::new(authors);
        remember(&mut self.directory.threads, thread, authors.clone());
        Ok(authors)
    }
}

/// Sorted members as the bytes that stand for them.
pub(super) fn participants(agents: &[AgentNo]) -> Vec<u8> {
    agents
        .iter()
        .flat_map(|agent| agent.0.to_be_bytes())
        .collect()
}

/// Finds a channel's number by its name.
pub(super) fn find_channel(
    connection: &rusqlite::Connection,
    workspace_no: u32,
    name: &str,
) -> Result<Option<RoomNo>> {
    Ok(connection
        .prepare_cached("SELECT no FROM rooms WHERE workspace = ?1 AND folded = ?2")?
        .query_row(params![workspace_no, fold(name)], |row| {
            row.get(0).map(RoomNo)
        })
        .optional()?)
}

/// How many names an error suggests.
pub(super) const SUGGESTED: usize = 3;

pub(super) fn unknown_agent(
    connection: &rusqlite::Connection,
    workspace_no: u32,
    name: &str,
) -> Result<Error> {
    let sql = "SELECT name FROM agents WHERE workspace = ?1 AND released_at IS NULL";
    let nearest = nearest_names(connection, sql, workspace_no, name)?;
    Ok(Error::UnknownAgent {
        name: name.to_owned(),
        nearest,
    })
}

pub(super) fn unknown_channel(
    connection: &rusqlite::Connection,
    workspace_no: u32,
    name: &str,
) -> Result<Error> {
    let sql = "SELECT name FROM rooms WHERE workspace = ?1 AND folded IS NOT NULL";
    let nearest = nearest_names(connection, sql, workspace_no, name)?;
    Ok(Error::UnknownChannel {
        name: name.to_owned(),
        nearest,
    })
}

fn nearest_names(
    connection: &rusqlite::Connection,
    sql: &str,
    workspace_no: u32,
    name: &str,
) -> Result<Vec<String>> {
    let names: Vec<String> = connection
        .prepare_cached(sql)?
        .query_map([workspace_no], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(nearest(name, names.iter().map(String::as_str), SUGGESTED))
}

pub(super) const WORKSPACE_COLUMNS: &str = "no, id, name, policy, created_at";

pub(super) fn read_workspace(row: &Row<'_>) -> rusqlite::Result<WorkspaceRow> {
    let policy: String = row.get(3)?;
    Ok(WorkspaceRow {
        no: row.get(0)?,
        id: WorkspaceId::from_uuid(uuid_of(row.get(1)?)),
        name: row.get(2)?,
        policy: from_json(&policy)?,
        created_at: Timestamp::from_millis(row.get(4)?),
    })
}

pub(super) const AGENT_COLUMNS: &str = "no, workspace, id, name, type, metadata, released_at";

pub(super) fn read_agent(row: &Row<'_>) -> rusqlite::Result<AgentRow> {
    let metadata: Option<String> = row.get(5)?;
    Ok(AgentRow {
        no: AgentNo(row.get(0)?),
        workspace_no: row.get(1)?,
        id: AgentId::from_uuid(uuid_of(row.get(2)?)),
        name: row.get(3)?,
        agent_type: row.get::<_, Code<_>>(4)?.0,
        metadata: metadata.map(|text| from_json(&text)).transpose()?,
        released_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::from_millis),
    })
}

pub(super) const ROOM_COLUMNS: &str = "no, kind, id, name, archived_at";

pub(super) fn read_room(row: &Row<'_>) -> rusqlite::Result<RoomRow> {
    Ok(RoomRow {
        no: RoomNo(row.get(0)?),
        kind: RoomKind::from_code(row.get(1)?),
        id: uuid_of(row.get(2)?),
        name: row.get(3)?,
        archived_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
    })
}

/// A UUID as it is stored.
pub(super) fn uuid_of(bytes: [u8; 16]) -> Uuid {
    Uuid::from_bytes(bytes)
}

/// Reads JSON that this store wrote.
pub(super) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into())
    })
}

/// Writes JSON for this store.
pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| StorageError::Unavailable(error.to_string()).into())
}
