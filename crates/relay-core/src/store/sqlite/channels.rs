//! Channels and their members, and the rooms behind both channels and conversations.

use std::str::FromStr;
use std::sync::Arc;

use relay_protocol::api::Page;
use relay_protocol::api::workspace::ChannelMember;
use relay_protocol::channel::Channel;
use relay_protocol::event::{ChannelEvent, ChannelMemberEvent, RelayEvent};
use relay_protocol::ids::ChannelId;
use relay_protocol::limits::CHANNEL_MEMBERS;
use relay_protocol::message::RelayMessageChannelRef;
use relay_protocol::names::fold;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::directory::{
    AGENT_COLUMNS, find_channel, participants, read_agent, unknown_channel, uuid_of,
};
use super::message_read::{bad_cursor, name_cursor};
use super::writer::Tx;
use crate::error::{Error, Noun, Result};
use crate::store::records::{AgentNo, AgentRow, RoomKind, RoomNo, RoomRow, WorkspaceRow};
use crate::store::requests::{ChannelChange, Joining, NewChannel, PageRequest, Viewer};

/// The channel that every agent is in from the start.
pub(super) const GENERAL: &str = "general";

/// A channel or conversation to create.
pub(super) struct NewRoom<'a> {
    pub(super) kind: RoomKind,
    pub(super) id: Uuid,
    pub(super) name: &'a str,
    pub(super) topic: Option<&'a str>,
    pub(super) members: &'a [AgentNo],
}

impl Tx<'_> {
    /// Writes a room and its members; logs nothing.
    pub(super) fn create_room(
        &mut self,
        workspace_no: u32,
        at: Timestamp,
        new: &NewRoom<'_>,
    ) -> Result<RoomNo> {
        let is_channel = new.kind == RoomKind::Channel;
        let no = self.insert(
            "INSERT INTO rooms (workspace, kind, id, name, folded, participants, topic, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                workspace_no,
                new.kind as i64,
                new.id.as_bytes(),
                new.name,
                is_channel.then(|| fold(new.name)),
                (!is_channel).then(|| participants(new.members)),
                new.topic,
                at.as_millis()
            ],
        )?;
        for agent in new.members {
            self.add_member(workspace_no, RoomNo(no), *agent, at)?;
        }
        Ok(RoomNo(no))
    }

    /// Writes a membership. What was said before does not count as unread.
    fn add_member(
        &mut self,
        workspace_no: u32,
        room: RoomNo,
        agent: AgentNo,
        at: Timestamp,
    ) -> Result<()> {
        let next = self.next_position(workspace_no)?;
        self.execute(
            "INSERT INTO members (agent, room, joined_at, read_to) VALUES (?1, ?2, ?3, ?4)",
            params![agent.0, room.0, at.as_millis(), next.key() - 1],
        )?;
        self.directory.forget_room(room);
        Ok(())
    }

    /// Adds those who are not in a channel yet.
    pub(super) fn add_members(
        &mut self,
        workspace: &WorkspaceRow,
        channel: &RoomRow,
        agents: &[Arc<AgentRow>],
        by: Option<&AgentRow>,
        at: Timestamp,
    ) -> Result<()> {
        let present = self.members_of(channel.no)?;
        let mut new: Vec<&Arc<AgentRow>> = Vec::new();
        for agent in agents {
            let is_present = present.binary_search(&agent.no).is_ok();
            if !is_present && new.iter().all(|other| other.no != agent.no) {
                new.push(agent);
            }
        }
        let found = present.len() + new.len();
        if found > CHANNEL_MEMBERS {
            return Err(Error::LimitExceeded {
                what: "members of a channel",
                most: CHANNEL_MEMBERS,
                found,
            });
        }
        for agent in new {
            self.add_member(workspace.no, channel.no, agent.no, at)?;
            let event = member_event(channel, agent, by);
            self.log(workspace, at, RelayEvent::ChannelMemberJoined(event))?;
        }
        Ok(())
    }

    /// Takes an agent out of all channels; its conversations stay.
    pub(super) fn leave_channels(
        &mut self,
        workspace: &WorkspaceRow,
        agent: &AgentRow,
        at: Timestamp,
    ) -> Result<()> {
        let rooms: Vec<RoomNo> = self
            .query("SELECT room FROM members WHERE agent = ?1")?
            .query_map([agent.no.0], |row| row.get(0).map(RoomNo))?
            .collect::<rusqlite::Result<_>>()?;
        for no in rooms {
            let room = self.room(no)?;
            if room.kind == RoomKind::Channel {
                self.remove_member(workspace, &room, agent, None, at)?;
            }
        }
        Ok(())
    }

    /// Takes an agent out of a channel, if it is in there.
    fn remove_member(
        &mut self,
        workspace: &WorkspaceRow,
        room: &RoomRow,
        agent: &AgentRow,
        by: Option<&AgentRow>,
        at: Timestamp,
    ) -> Result<()> {
        let gone = self.execute(
            "DELETE FROM members WHERE agent = ?1 AND room = ?2",
            params![agent.no.0, room.no.0],
        )?;
        if gone > 0 {
            self.directory.forget_room(room.no);
            let event = member_event(room, agent, by);
            self.log(workspace, at, RelayEvent::ChannelMemberLeft(event))?;
        }
        Ok(())
    }

    /// Checks that whoever acts may act inside a channel.
    fn check_member(&mut self, viewer: Viewer, room: &RoomRow) -> Result<Option<Arc<AgentRow>>> {
        let Some(agent) = viewer.agent else {
            return Ok(None);
        };
        let agent = self.live_agent(agent)?;
        if self.members_of(room.no)?.binary_search(&agent.no).is_err() {
            return Err(Error::NotAMember {
                agent: agent.name.clone(),
                place: room.label(),
            });
        }
        Ok(Some(agent))
    }
}

fn member_event(channel: &RoomRow, agent: &AgentRow, by: Option<&AgentRow>) -> ChannelMemberEvent {
    ChannelMemberEvent {
        channel: RelayMessageChannelRef {
            id: Some(ChannelId::from_uuid(channel.id)),
            name: Some(channel.name.clone()),
        },
        agent_id: agent.id,
        agent_name: agent.name.clone(),
        by: by.filter(|by| by.no != agent.no).map(|by| by.name.clone()),
    }
}

pub(super) fn create(tx: &mut Tx<'_>, new: &NewChannel) -> Result<Channel> {
    let workspace = tx.workspace(new.workspace_no)?;
    if let Some(no) = find_channel(tx.connection, workspace.no, &new.name)? {
        let holder = tx.room(no)?;
        return Err(Error::NameTaken {
            what: Noun::Channel,
            name: holder.name.clone(),
        });
    }
    let creator = new.by.map(|no| tx.live_agent(no)).transpose()?;
    let no = tx.create_room(
        workspace.no,
        new.at,
        &NewRoom {
            kind: RoomKind::Channel,
            id: new.id.uuid(),
            name: &new.name,
            topic: new.topic.as_deref(),
            members: &[],
        },
    )?;
    let channel = read(tx.connection, no)?;
    let by = creator.as_ref().map(|agent| agent.name.clone());
    tx.log(
        &workspace,
        new.at,
        RelayEvent::ChannelCreated(ChannelEvent { channel, by }),
    )?;
    if let Some(agent) = creator {
        let room = tx.room(no)?;
        tx.add_members(&workspace, &room, &[agent], None, new.at)?;
    }
    read(tx.connection, no)
}

pub(super) fn update(tx: &mut Tx<'_>, change: &ChannelChange) -> Result<Channel> {
    let workspace = tx.workspace(change.viewer.workspace_no)?;
    let room = tx.channel_called(workspace.no, &change.channel)?;
    let by = tx.check_member(change.viewer, &room)?;
    if let Some(topic) = &change.topic {
        let topic = Some(topic.as_str()).filter(|topic| !topic.is_empty());
        tx.execute(
            "UPDATE rooms SET topic = ?2 WHERE no = ?1",
            params![room.no.0, topic],
        )?;
    }
    if let Some(archived) = change.archived {
        let archived_at = archived.then(|| room.archived_at.unwrap_or(change.at).as_millis());
        tx.execute(
            "UPDATE rooms SET archived_at = ?2 WHERE no = ?1",
            params![room.no.0, archived_at],
        )?;
    }
    tx.directory.forget_room(room.no);
    let channel = read(tx.connection, room.no)?;
    let by = by.map(|agent| agent.name.clone());
    let event = ChannelEvent {
        channel: channel.clone(),
        by,
    };
    tx.log(&workspace, change.at, RelayEvent::ChannelUpdated(event))?;
    Ok(channel)
}

pub(super) fn join(tx: &mut Tx<'_>, joining: &Joining) -> Result<Channel> {
    let workspace = tx.workspace(joining.viewer.workspace_no)?;
    let room = tx.channel_called(workspace.no, &joining.channel)?;
    if room.archived_at.is_some() {
        return Err(Error::ChannelArchived {
            name: room.name.clone(),
        });
    }
    let by = joining
        .viewer
        .agent
        .map(|no| tx.live_agent(no))
        .transpose()?;
    let agents = called(tx, joining)?;
    let invites_others = agents
        .iter()
        .any(|agent| Some(agent.no) != joining.viewer.agent);
    if invites_others {
        tx.check_member(joining.viewer, &room)?;
    }
    tx.add_members(&workspace, &room, &agents, by.as_deref(), joining.at)?;
    read(tx.connection, room.no)
}

pub(super) fn leave(tx: &mut Tx<'_>, leaving: &Joining) -> Result<Channel> {
    let workspace = tx.workspace(leaving.viewer.workspace_no)?;
    let room = tx.channel_called(workspace.no, &leaving.channel)?;
    let by = leaving
        .viewer
        .agent
        .map(|no| tx.live_agent(no))
        .transpose()?;
    for agent in called(tx, leaving)? {
        tx.remove_member(&workspace, &room, &agent, by.as_deref(), leaving.at)?;
    }
    read(tx.connection, room.no)
}

fn called(tx: &mut Tx<'_>, joining: &Joining) -> Result<Vec<Arc<AgentRow>>> {
    let workspace_no = joining.viewer.workspace_no;
    joining
        .agents
        .iter()
        .map(|name| tx.agent_called(workspace_no, name))
        .collect()
}

const CHANNEL_COLUMNS: &str = "r.id, r.name, r.topic, r.created_at, r.archived_at,
     (SELECT count(*) FROM members m WHERE m.room = r.no)";

fn read_channel(row: &rusqlite::Row<'_>) -> rusqlite::Result<Channel> {
    Ok(Channel {
        id: ChannelId::from_uuid(uuid_of(row.get(0)?)),
        name: row.get(1)?,
        topic: row.get(2)?,
        created_at: Timestamp::from_millis(row.get(3)?),
        archived_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
        member_count: Some(row.get(5)?),
    })
}

fn read(connection: &Connection, no: RoomNo) -> Result<Channel> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {CHANNEL_COLUMNS} FROM rooms r WHERE r.no = ?1"
        ))?
        .query_row([no.0], read_channel)?)
}

/// The number of the channel with this name, or an error with the nearest names.
pub(super) fn require(connection: &Connection, workspace_no: u32, name: &str) -> Result<RoomNo> {
    match find_channel(connection, workspace_no, name)? {
        Some(no) => Ok(no),
        None => Err(unknown_channel(connection, workspace_no, name)?),
    }
}

pub(super) fn find(connection: &Connection, workspace_no: u32, name: &str) -> Result<Channel> {
    read(connection, require(connection, workspace_no, name)?)
}

pub(super) fn list(
    connection: &Connection,
    workspace_no: u32,
    page: &PageRequest,
) -> Result<Page<Channel>> {
    let channels: Vec<Channel> = connection
        .prepare_cached(&format!(
            "SELECT {CHANNEL_COLUMNS} FROM rooms r
             WHERE r.workspace = ?1 AND r.folded > ?2 ORDER BY r.folded LIMIT ?3"
        ))?
        .query_map(
            params![workspace_no, name_cursor(page)?, page.limit + 1],
            read_channel,
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(channels, page.limit, |channel: &Channel| {
        fold(&channel.name)
    }))
}

pub(super) fn members(
    connection: &Connection,
    workspace_no: u32,
    channel: &str,
    page: &PageRequest,
) -> Result<Page<ChannelMember>> {
    let room = require(connection, workspace_no, channel)?;
    let members: Vec<ChannelMember> = connection
        .prepare_cached(&format!(
            "SELECT {AGENT_COLUMNS}, m.joined_at FROM members m JOIN agents a ON a.no = m.agent
             WHERE m.room = ?1 AND a.folded > ?2 ORDER BY a.folded LIMIT ?3"
        ))?
        .query_map(params![room.0, name_cursor(page)?, page.limit + 1], |row| {
            let joined_at = Timestamp::from_millis(row.get(7)?);
            Ok(ChannelMember {
                agent: read_agent(row)?.identity(),
                joined_at,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(page_of(members, page.limit, |member: &ChannelMember| {
        fold(&member.agent.name)
    }))
}

/// What a page goes on after.
pub(super) fn begin_of<T: FromStr>(page: &PageRequest) -> Result<Option<T>> {
    let Some(cursor) = &page.cursor else {
        return Ok(None);
    };
    match cursor.parse() {
        Ok(place) => Ok(Some(place)),
        Err(_) => Err(bad_cursor(cursor)),
    }
}

/// Where a page of rows with numbers begins.
pub(super) fn row_of(page: &PageRequest) -> Result<Option<i64>> {
    match begin_of::<i64>(page)? {
        Some(row) if row < 0 => Err(bad_cursor(&row.to_string())),
        row => Ok(row),
    }
}

/// Makes a page of one item more than fits.
pub(super) fn page_of<T>(
    mut items: Vec<T>,
    limit: usize,
    cursor: impl Fn(&T) -> String,
) -> Page<T> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| more).map(cursor);
    Page { items, next_cursor }
}
