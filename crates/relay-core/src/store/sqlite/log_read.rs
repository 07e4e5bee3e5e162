//! Reading the log: rows become events again, with the messages they refer to.

use std::sync::Arc;

use relay_protocol::event::{DeliveryCreated, LoggedEvent, MessageEvent, RelayEvent};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::limits::LOG_PAGE_BYTES;
use relay_protocol::message::RelayMessage;
use relay_protocol::time::Timestamp;
use relay_protocol::wire;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::codes::Code;
use super::delivery_events::with_message;
use super::directory::{AGENT_COLUMNS, read_agent};
use super::log::{Content, bounds, read_count, read_cut, read_head};
use super::message_read::{become_version, full_at, version_at, version_one};
use crate::error::{Error, Result, StorageError};
use crate::store::chain::{Hash, Salt};
use crate::store::live::{EVENT_BYTES, StoredEvent, logged, message_bytes};
use crate::store::position::{Position, id_at};
use crate::store::records::{RoomKind, WorkspaceRow};
use relay_protocol::delivery::DeliveryMode;

/// A row of the log.
pub(super) struct LogRow {
    pub(super) position: Position,
    pub(super) count: u64,
    pub(super) event_type: String,
    pub(super) at: Timestamp,
    pub(super) content: i64,
    pub(super) message: Option<Position>,
    pub(super) payload: Option<String>,
    pub(super) salt: Option<Salt>,
    pub(super) digest: Option<Hash>,
    pub(super) hash: Hash,
}

pub(super) const SELECT_LOG: &str =
    "SELECT position, count, type, at, content, message, payload, salt, digest, hash FROM log";

pub(super) fn read_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    Ok(LogRow {
        position: Position::from_key(row.get(0)?),
        count: read_count(row, 1)?,
        event_type: row.get(2)?,
        at: Timestamp::from_millis(row.get(3)?),
        content: row.get(4)?,
        message: row.get::<_, Option<i64>>(5)?.map(Position::from_key),
        payload: row.get(6)?,
        salt: row.get(7)?,
        digest: row.get(8)?,
        hash: row.get(9)?,
    })
}

/// Events after a sequence number, oldest first: at most `limit`, and no more rows once they have
/// [`LOG_PAGE_BYTES`]. Empty only at the end of the log.
pub(super) fn events(
    connection: &Connection,
    workspace: &WorkspaceRow,
    after: u64,
    limit: usize,
) -> Result<Vec<Arc<StoredEvent>>> {
    check_cursor(connection, workspace.no, after)?;
    let (first, last) = bounds(workspace.no);
    // The row that holds the next event may have begun before it.
    let next = Position::new(workspace.no, after + 1).key();
    let start: Option<i64> = connection
        .prepare_cached(
            "SELECT position FROM log WHERE position BETWEEN ?1 AND ?2
             ORDER BY position DESC LIMIT 1",
        )?
        .query_row([first, next], |row| row.get(0))
        .optional()?;
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_LOG} WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![start.unwrap_or(next), last, limit + 1])?;
    let mut found: Vec<Arc<StoredEvent>> = Vec::new();
    let mut bytes = 0;
    while found.len() < limit && bytes < LOG_PAGE_BYTES {
        let Some(row) = rows.next()? else { break };
        let row = read_row(row)?;
        let skip = (after + 1).saturating_sub(row.position.seq());
        if skip >= row.count {
            continue;
        }
        let take = (row.count - skip).min((limit - found.len()) as u64);
        let events = expand(connection, workspace.id, &row, skip, take)?;
        bytes += events.iter().map(|event| event.size).sum::<usize>();
        found.extend(events);
    }
    Ok(found)
}

fn check_cursor(connection: &Connection, workspace_no: u32, after: u64) -> Result<()> {
    let head = read_head(connection, workspace_no)?.seq;
    let cut = read_cut(connection, workspace_no)?.seq;
    if after > head || (after > 0 && after < cut) {
        let found = after.to_string();
        return Err(Error::BadCursor {
            expected: format!("{cut} to {head}, or 0"),
            found,
        });
    }
    Ok(())
}

/// The events of a row, from the one at `skip`, at most `take` of them.
fn expand(
    connection: &Connection,
    workspace: WorkspaceId,
    row: &LogRow,
    skip: u64,
    take: u64,
) -> Result<Vec<Arc<StoredEvent>>> {
    let events: Vec<LoggedEvent> = if row.digest.is_some() {
        erased_types(connection, workspace, row)?
            .enumerate()
            .skip(skip as usize)
            .take(take as usize)
            .map(|(at, event_type)| erased(workspace, row, at as u64, event_type))
            .collect()
    } else {
        let events = match Content::from_code(row.content)? {
            Content::Inline => vec![inline(connection, workspace, row)?],
            Content::Version => vec![updated(connection, workspace, row)?],
            Content::Send => sent(connection, workspace, row, skip, take)?,
        };
        (skip..)
            .zip(events)
            .map(|(at, event)| logged(workspace, row.position.plus(at), row.at, event))
            .collect()
    };
    let payload = row.payload.as_ref().map_or(0, String::len);
    let stored = events.into_iter().map(|event| {
        let text = event.event.as_ref().map_or(0, message_bytes);
        let size = payload + text + EVENT_BYTES;
        Arc::new(StoredEvent::new(event, size))
    });
    Ok(stored.collect())
}

fn erased(workspace: WorkspaceId, row: &LogRow, at: u64, event_type: &str) -> LoggedEvent {
    let position = row.position.plus(at);
    LoggedEvent {
        seq: position.seq(),
        id: id_at(workspace, position, row.at),
        at: row.at,
        workspace_id: workspace,
        event: None,
        event_type: event_type.to_owned(),
    }
}

/// The names of the events that an erased row stands for.
fn erased_types<'r>(
    connection: &Connection,
    workspace: WorkspaceId,
    row: &'r LogRow,
) -> Result<impl Iterator<Item = &'r str>> {
    let mut names = vec![row.event_type.as_str()];
    if row.content == Content::Send as i64 {
        let full = full_at(connection, workspace, row.position)?;
        names.extend(full.parent.map(|_| "thread.reply"));
        match full.room.kind {
            RoomKind::Dm => names.push("dm.received"),
            RoomKind::Group => names.push("group_dm.received"),
            RoomKind::Channel | RoomKind::Notice => {}
        }
    }
    let rest = (row.count as usize).saturating_sub(names.len());
    Ok(names
        .into_iter()
        .chain(std::iter::repeat_n("delivery.created", rest)))
}

fn inline(connection: &Connection, workspace: WorkspaceId, row: &LogRow) -> Result<RelayEvent> {
    let payload = row.payload.as_deref().unwrap_or_default();
    let Some(message) = row.message else {
        return wire::decode(payload.as_bytes()).map_err(|error| damaged(row, &error));
    };
    let message = version_at(connection, workspace, message, row.position)?;
    with_message(payload, &message).map_err(|error| damaged(row, &error))
}

fn damaged(row: &LogRow, error: &dyn std::fmt::Display) -> Error {
    StorageError::Corrupt(format!("event {}: {error}", row.position.seq())).into()
}

fn updated(connection: &Connection, workspace: WorkspaceId, row: &LogRow) -> Result<RelayEvent> {
    let message = row.message.ok_or_else(|| damaged(row, &"no message"))?;
    let mut full = full_at(connection, workspace, message)?;
    let current: Option<i64> = connection
        .prepare_cached("SELECT version_position FROM messages WHERE position = ?1")?
        .query_row([message.key()], |row| row.get(0))?;
    if current != Some(row.position.key()) {
        become_version(connection, &mut full.message, row.position)?;
    }
    Ok(RelayEvent::MessageUpdated(MessageEvent::of(Arc::new(
        full.message,
    ))))
}

fn sent(
    connection: &Connection,
    workspace: WorkspaceId,
    row: &LogRow,
    skip: u64,
    take: u64,
) -> Result<Vec<RelayEvent>> {
    let full = version_one(connection, workspace, row.position)?;
    let first_delivery = full.first_delivery();
    let (kind, is_reply) = (full.room.kind, full.parent.is_some());
    let message = Arc::new(full.message);
    let event = || MessageEvent::of(message.clone());
    let mut events = vec![RelayEvent::MessageCreated(event())];
    if is_reply {
        events.push(RelayEvent::ThreadReply(event()));
    }
    match kind {
        RoomKind::Dm => events.push(RelayEvent::DmReceived(event())),
        RoomKind::Group => events.push(RelayEvent::GroupDmReceived(event())),
        RoomKind::Channel | RoomKind::Notice => {}
    }
    let before = events.len() as u64;
    let mut events: Vec<_> = events
        .into_iter()
        .skip(skip as usize)
        .take(take as usize)
        .collect();
    let from = first_delivery.plus(skip.saturating_sub(before));
    let wanted = take - events.len() as u64;
    if wanted > 0 {
        events.extend(created(connection, workspace, &message, from, wanted)?);
    }
    Ok(events)
}

fn created(
    connection: &Connection,
    workspace: WorkspaceId,
    message: &Arc<RelayMessage>,
    from: Position,
    count: u64,
) -> Result<Vec<RelayEvent>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {AGENT_COLUMNS}, d.position, d.mode FROM deliveries d JOIN agents a ON a.no = d.agent
             WHERE d.position >= ?1 AND d.position < ?2 ORDER BY d.position"
        ))?
        .query_map([from.key(), from.plus(count).key()], |row| {
            let agent = read_agent(row)?;
            let position = Position::from_key(row.get(7)?);
            Ok(RelayEvent::DeliveryCreated(DeliveryCreated {
                delivery_id: id_at(workspace, position, message.created_at),
                message_id: Some(message.id),
                message: message.clone(),
                agent_id: Some(agent.id),
                agent: agent.lasting_identity(),
                mode: row.get::<_, Option<Code<DeliveryMode>>>(8)?.map(|code| code.0),
            }))
        })?
        .collect::<rusqlite::Result<_>>()?)
}
