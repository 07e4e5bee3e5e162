//! Reading messages, threads, reactions and deliveries.

use std::sync::Arc;

use relay_protocol::agent::AgentType;
use relay_protocol::api::Page;
use relay_protocol::api::messages::{MessageView, Reaction, Reader};
use relay_protocol::ids::{AgentId, MessageId, WorkspaceId};
use relay_protocol::message::{MessageAuthor, RelayMessage};
use relay_protocol::names::{check_form, fold};
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::channels::{page_of, require};
use super::codes::Code;
use super::directory::{from_json, uuid_of};
use super::log::bounds;
use super::room_index;
use crate::error::{Error, Result};
use crate::store::position::{Position, SEQ_MAX, place_of};
use crate::store::records::{AgentNo, RoomKind, RoomNo, RoomRow, WorkspaceRow};
use crate::store::requests::{PageRequest, Place, Viewer};
use crate::store::sent::{Extra, MessageParts, events_before_deliveries, system_author};

/// A message with what only the store needs to know of it.
pub(super) struct FullMessage {
    pub(super) position: Position,
    pub(super) message: RelayMessage,
    pub(super) room: RoomRow,
    pub(super) author: Option<AgentNo>,
    pub(super) parent: Option<(Position, Timestamp)>,
    pub(super) recipients: u64,
    /// The sender's own key.
    pub(super) idempotency_key: Option<String>,
}

impl FullMessage {
    /// The place of its first delivery.
    pub(super) fn first_delivery(&self) -> Position {
        self.position
            .plus(events_before_deliveries(&self.room, self.parent.is_some()))
    }
}

pub(super) const SELECT_MESSAGE: &str =
    "SELECT m.position, m.at, m.author, m.author_name, m.parent,
        m.parent_at, m.recipients, m.text, m.extra, m.version, m.version_at,
        r.no, r.kind, r.id, r.name, r.archived_at, a.id, a.name, a.type
     FROM messages m JOIN rooms r ON r.no = m.room LEFT JOIN agents a ON a.no = m.author";

pub(super) fn read_message(workspace: WorkspaceId, row: &Row<'_>) -> rusqlite::Result<FullMessage> {
    let position = Position::from_key(row.get(0)?);
    let parent = match (row.get::<_, Option<i64>>(4)?, row.get::<_, Option<i64>>(5)?) {
        (Some(parent), Some(at)) => Some((Position::from_key(parent), Timestamp::from_millis(at))),
        _ => None,
    };
    let room = RoomRow {
        no: RoomNo(row.get(11)?),
        kind: RoomKind::from_code(row.get(12)?),
        id: uuid_of(row.get(13)?),
        name: row.get(14)?,
        archived_at: row.get::<_, Option<i64>>(15)?.map(Timestamp::from_millis),
    };
    let mut extra = read_extra(row.get(8)?)?;
    let idempotency_key = extra.idempotency_key.take();
    let parts = MessageParts {
        workspace,
        position,
        at: Timestamp::from_millis(row.get(1)?),
        author: read_author(row)?,
        room: &room,
        parent,
        text: row.get(7)?,
        extra,
        version: row.get(9)?,
        updated_at: row.get::<_, Option<i64>>(10)?.map(Timestamp::from_millis),
    };
    let message = parts.message();
    let author = row.get::<_, Option<i64>>(2)?.map(AgentNo);
    Ok(FullMessage {
        position,
        message,
        room,
        author,
        parent,
        recipients: row.get(6)?,
        idempotency_key,
    })
}

fn read_author(row: &Row<'_>) -> rusqlite::Result<MessageAuthor> {
    if let Some(name) = row.get::<_, Option<String>>(3)? {
        return Ok(system_author(&name));
    }
    let name: String = row.get(17)?;
    Ok(MessageAuthor {
        id: Some(AgentId::from_uuid(uuid_of(row.get(16)?))),
        handle: Some(format!("@{name}")),
        name: Some(name),
        agent_type: Some(row.get::<_, Code<AgentType>>(18)?.0),
    })
}

pub(super) fn read_extra(text: Option<String>) -> rusqlite::Result<Extra> {
    text.map_or_else(|| Ok(Extra::default()), |text| from_json(&text))
}

/// The message at a place, in its current version.
pub(super) fn message_at(
    connection: &Connection,
    workspace: WorkspaceId,
    position: Position,
) -> Result<Arc<RelayMessage>> {
    full_at(connection, workspace, position).map(|full| Arc::new(full.message))
}

pub(super) fn full_at(
    connection: &Connection,
    workspace: WorkspaceId,
    position: Position,
) -> Result<FullMessage> {
    Ok(connection
        .prepare_cached(&format!("{SELECT_MESSAGE} WHERE m.position = ?1"))?
        .query_row([position.key()], |row| read_message(workspace, row))?)
}

/// The message at a place, as it was sent.
pub(super) fn version_one(
    connection: &Connection,
    workspace: WorkspaceId,
    position: Position,
) -> Result<FullMessage> {
    let mut full = full_at(connection, workspace, position)?;
    if full.message.version > 1 {
        become_version(connection, &mut full.message, position)?;
        full.message.updated_at = None;
    }
    Ok(full)
}

/// The message at a place, as it was when something else was logged.
pub(super) fn version_at(
    connection: &Connection,
    workspace: WorkspaceId,
    position: Position,
    logged: Position,
) -> Result<Arc<RelayMessage>> {
    let mut full = full_at(connection, workspace, position)?;
    let then: Option<i64> = connection
        .prepare_cached(
            "SELECT max(v.position) FROM message_versions v JOIN messages m ON m.position = v.message
             WHERE v.message = ?1 AND m.version_position > ?2 AND v.position < ?2",
        )?
        .query_row([position.key(), logged.key()], |row| row.get(0))?;
    if let Some(written) = then {
        become_version(connection, &mut full.message, Position::from_key(written))?;
    }
    Ok(Arc::new(full.message))
}

/// Turns a message into the version that was written at a place of the log.
pub(super) fn become_version(
    connection: &Connection,
    message: &mut RelayMessage,
    written: Position,
) -> Result<()> {
    let (text, extra, version, at) = connection
        .prepare_cached(
            "SELECT text, extra, version, at FROM message_versions WHERE position = ?1",
        )?
        .query_row([written.key()], |row| {
            Ok((
                row.get(0)?,
                read_extra(row.get(1)?)?,
                row.get(2)?,
                row.get(3)?,
            ))
        })?;
    let Extra {
        attachments,
        mentions,
        metadata,
        idempotency_key: _,
    } = extra;
    message.text = text;
    message.attachments = attachments;
    message.mentions = mentions;
    message.metadata = metadata;
    message.version = version;
    message.updated_at = (version > 1).then(|| Timestamp::from_millis(at));
    Ok(())
}

/// The message with this id, if the viewer may see it.
pub(super) fn load(
    connection: &Connection,
    workspace: &WorkspaceRow,
    viewer: Viewer,
    id: MessageId,
) -> Result<FullMessage> {
    let unknown = || Error::UnknownMessage(id);
    let (position, at) = place_of(workspace.id, workspace.no, id).ok_or_else(unknown)?;
    let full = connection
        .prepare_cached(&format!(
            "{SELECT_MESSAGE} WHERE m.position = ?1 AND m.at = ?2"
        ))?
        .query_row([position.key(), at.as_millis()], |row| {
            read_message(workspace.id, row)
        })
        .optional()?
        .ok_or_else(unknown)?;
    if sees(connection, viewer, full.room.no)? {
        Ok(full)
    } else {
        Err(unknown())
    }
}

/// Whether the viewer is in a room.
pub(super) fn sees(connection: &Connection, viewer: Viewer, room: RoomNo) -> Result<bool> {
    let Some(agent) = viewer.agent else {
        return Ok(true);
    };
    Ok(connection
        .prepare_cached("SELECT 1 FROM members WHERE agent = ?1 AND room = ?2")?
        .exists(params![agent.0, room.0])?)
}

/// Whether an agent is in the channel or conversation with this id.
pub(super) fn is_member(connection: &Connection, agent: AgentNo, room: Uuid) -> Result<bool> {
    Ok(connection
        .prepare_cached(
            "SELECT 1 FROM rooms r JOIN members m ON m.room = r.no
             WHERE r.id = ?1 AND m.agent = ?2",
        )?
        .exists(params![room.as_bytes(), agent.0])?)
}

/// The room of a place, if the viewer may see it.
pub(super) fn place(connection: &Connection, viewer: Viewer, place: &Place) -> Result<RoomNo> {
    match place {
        Place::Channel(name) => {
            let room = require(connection, viewer.workspace_no, name)?;
            if sees(connection, viewer, room)? {
                return Ok(room);
            }
            let agent = viewer.agent.map_or(0, |no| no.0);
            let agent = connection
                .prepare_cached("SELECT name FROM agents WHERE no = ?1")?
                .query_row([agent], |row| row.get(0))?;
            Err(Error::NotAMember {
                agent,
                place: format!("#{name}"),
            })
        }
        Place::Conversation(id) => {
            let room = connection
                .prepare_cached(
                    "SELECT no FROM rooms WHERE id = ?1 AND workspace = ?2 AND kind <> 0",
                )?
                .query_row(params![id.uuid().as_bytes(), viewer.workspace_no], |row| {
                    row.get(0).map(RoomNo)
                })
                .optional()?
                .ok_or(Error::UnknownConversation(*id))?;
            if sees(connection, viewer, room)? {
                Ok(room)
            } else {
                Err(Error::UnknownConversation(*id))
            }
        }
    }
}

pub(super) fn view(connection: &Connection, full: FullMessage) -> Result<MessageView> {
    let reactions = reactions(connection, full.position)?;
    let replies: u64 = connection
        .prepare_cached("SELECT count(*) FROM messages WHERE thread = ?1")?
        .query_row([full.position.key()], |row| row.get(0))?;
    Ok(MessageView {
        message: full.message,
        reactions: (!reactions.is_empty()).then_some(reactions),
        replies: (replies > 0).then_some(replies),
    })
}

pub(super) fn reactions(connection: &Connection, message: Position) -> Result<Vec<Reaction>> {
    let mut statement = connection.prepare_cached(
        "SELECT r.emoji, a.name FROM reactions r JOIN agents a ON a.no = r.agent
         WHERE r.message = ?1 ORDER BY r.position",
    )?;
    let mut rows = statement.query([message.key()])?;
    let mut found: Vec<Reaction> = Vec::new();
    while let Some(row) = rows.next()? {
        let (emoji, agent): (String, String) = (row.get(0)?, row.get(1)?);
        match found.iter_mut().find(|reaction| reaction.emoji == emoji) {
            Some(reaction) => reaction.agents.push(agent),
            None => found.push(Reaction {
                emoji,
                agents: vec![agent],
            }),
        }
    }
    Ok(found)
}

/// The messages of a room, newest first, without replies.
pub(super) fn list(
    connection: &Connection,
    workspace: &WorkspaceRow,
    room: RoomNo,
    page: &PageRequest,
) -> Result<Page<MessageView>> {
    let mut before = match cursor(page)? {
        Some(seq) => Position::new(workspace.no, seq),
        None => Position::from_key(bounds(workspace.no).1),
    };
    let wanted = page.limit + 1;
    let mut messages = Vec::new();
    while messages.len() < wanted {
        let positions = room_index::newest(connection, room, before, wanted)?;
        let Some(last) = positions.last() else { break };
        before = *last;
        for position in positions {
            let full = full_at(connection, workspace.id, position)?;
            if full.parent.is_none() {
                messages.push(full);
            }
        }
    }
    messages.truncate(wanted);
    viewed_page(connection, messages, page.limit)
}

/// A thread: its root, then the replies, oldest first.
pub(super) fn thread(
    connection: &Connection,
    workspace: &WorkspaceRow,
    root: FullMessage,
    page: &PageRequest,
) -> Result<Page<MessageView>> {
    let after = cursor(page)?.map_or(root.position.key() - 1, |seq| {
        Position::new(workspace.no, seq).key()
    });
    let messages = collect(
        connection,
        workspace.id,
        "WHERE (m.position = ?1 OR m.thread = ?1) AND m.position > ?2
         ORDER BY m.position LIMIT ?3",
        params![root.position.key(), after, page.limit + 1],
    )?;
    viewed_page(connection, messages, page.limit)
}

fn collect(
    connection: &Connection,
    workspace: WorkspaceId,
    condition: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<FullMessage>> {
    Ok(connection
        .prepare_cached(&format!("{SELECT_MESSAGE} {condition}"))?
        .query_map(params, |row| read_message(workspace, row))?
        .collect::<rusqlite::Result<_>>()?)
}

fn viewed_page(
    connection: &Connection,
    messages: Vec<FullMessage>,
    limit: usize,
) -> Result<Page<MessageView>> {
    let Page { items, next_cursor } = page_of(messages, limit, |full: &FullMessage| {
        full.position.seq().to_string()
    });
    let items = items
        .into_iter()
        .map(|full| view(connection, full))
        .collect::<Result<_>>()?;
    Ok(Page { items, next_cursor })
}

/// The sequence number in a page's cursor.
pub(super) fn cursor(page: &PageRequest) -> Result<Option<u64>> {
    let Some(text) = &page.cursor else {
        return Ok(None);
    };
    match text.parse() {
        Ok(seq) if seq <= SEQ_MAX => Ok(Some(seq)),
        _ => Err(bad_cursor(text)),
    }
}

/// The folded name in a page's cursor; empty for the first page.
pub(super) fn name_cursor(page: &PageRequest) -> Result<&str> {
    match page.cursor.as_deref() {
        None => Ok(""),
        Some(name) if check_form(name).is_ok() && fold(name) == name => Ok(name),
        Some(other) => Err(bad_cursor(other)),
    }
}

pub(super) fn bad_cursor(found: &str) -> Error {
    Error::BadCursor {
        expected: "the nextCursor of an earlier page".to_owned(),
        found: found.to_owned(),
    }
}

pub(super) fn readers(connection: &Connection, full: &FullMessage) -> Result<Vec<Reader>> {
    Ok(connection
        .prepare_cached(
            "SELECT a.name, m.read_to, m.read_at FROM members m JOIN agents a ON a.no = m.agent
             WHERE m.room = ?1 AND m.read_to >= ?2 AND m.read_at IS NOT NULL
             ORDER BY m.read_at, a.no",
        )?
        .query_map(params![full.room.no.0, full.position.key()], |row| {
            let exactly = row.get::<_, i64>(1)? == full.position.key();
            let read_at = row.get::<_, i64>(2)?;
            Ok(Reader {
                agent_name: row.get(0)?,
                read_at: exactly.then(|| Timestamp::from_millis(read_at)),
            })
        })?
        .collect::<rusqlite::Result<_>>()?)
}
