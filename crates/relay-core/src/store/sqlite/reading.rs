//! Reactions, read marks, the inbox and the list of conversations.

use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    Conversation, Inbox, InboxChannel, InboxConversation, InboxItem, Reaction,
};
use relay_protocol::delivery::DeliveryReason;
use relay_protocol::event::{MessageReacted, MessageRead, ReactionChange, RelayEvent};
use relay_protocol::ids::ConversationId;
use relay_protocol::limits::{REACTIONS_PER_MESSAGE, UNREAD_COUNTED};
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, params};

use super::channels::page_of;
use super::directory::{ROOM_COLUMNS, read_room};
use super::message_read::{
    FullMessage, SELECT_MESSAGE, cursor, delivery_to, load, reactions, read_message,
};
use super::writer::Tx;
use crate::error::{Error, Result};
use crate::store::position::{Position, id_at};
use crate::store::records::{AgentNo, RoomKind, RoomNo, RoomRow, WorkspaceRow};
use crate::store::requests::{PageRequest, ReactionRequest, ReadMark, Viewer};

pub(super) fn react(tx: &mut Tx<'_>, request: &ReactionRequest) -> Result<Vec<Reaction>> {
    let workspace = tx.workspace(request.workspace_no)?;
    let agent = tx.live_agent(request.agent)?;
    let viewer = Viewer {
        workspace_no: workspace.no,
        agent: Some(agent.no),
    };
    let full = load(tx.connection, &workspace, viewer, request.message)?;
    let changed = match request.change {
        ReactionChange::Added => add(tx, &workspace, &full, request)?,
        ReactionChange::Removed => tx.execute(
            "DELETE FROM reactions WHERE message = ?1 AND emoji = ?2 AND agent = ?3",
            params![full.position.key(), request.emoji, agent.no.0],
        )?,
    };
    if changed > 0 {
        let event = MessageReacted {
            message_id: full.message.id,
            emoji: request.emoji.clone(),
            agent_name: agent.name.clone(),
            action: request.change,
        };
        tx.log(&workspace, request.at, RelayEvent::MessageReacted(event))?;
    }
    reactions(tx.connection, full.position)
}

fn add(
    tx: &mut Tx<'_>,
    workspace: &WorkspaceRow,
    full: &FullMessage,
    request: &ReactionRequest,
) -> Result<usize> {
    let present = reactions(tx.connection, full.position)?;
    let is_new = present
        .iter()
        .all(|reaction| reaction.emoji != request.emoji);
    if is_new && present.len() >= REACTIONS_PER_MESSAGE {
        return Err(Error::LimitExceeded {
            what: "different reactions on a message",
            most: REACTIONS_PER_MESSAGE,
            found: present.len() + 1,
        });
    }
    let position = tx.next_position(workspace.no)?;
    tx.execute(
        "INSERT OR IGNORE INTO reactions (message, emoji, agent, position) VALUES (?1, ?2, ?3, ?4)",
        params![
            full.position.key(),
            request.emoji,
            request.agent.0,
            position.key()
        ],
    )
}

/// Moves an agent's marks forward to these messages; going back is not possible.
pub(super) fn mark_read(tx: &mut Tx<'_>, mark: &ReadMark) -> Result<()> {
    let workspace = tx.workspace(mark.workspace_no)?;
    let agent = tx.live_agent(mark.reader)?;
    let viewer = Viewer {
        workspace_no: workspace.no,
        agent: Some(agent.no),
    };
    for message in &mark.messages {
        let full = load(tx.connection, &workspace, viewer, *message)?;
        let moved = tx.execute(
            "UPDATE members SET read_to = ?3, read_at = ?4
             WHERE agent = ?1 AND room = ?2
               AND (read_to < ?3 OR (read_to = ?3 AND read_at IS NULL))",
            params![
                agent.no.0,
                full.room.no.0,
                full.position.key(),
                mark.at.as_millis()
            ],
        )?;
        if moved > 0 {
            let event = MessageRead {
                message_id: *message,
                agent_name: agent.name.clone(),
                read_at: Some(mark.at),
            };
            tx.log(&workspace, mark.at, RelayEvent::MessageRead(event))?;
        }
    }
    Ok(())
}

/// One room of an agent and how far it has read there.
struct Shelf {
    room: RoomRow,
    read_to: i64,
}

fn shelves(connection: &Connection, agent: AgentNo) -> Result<Vec<Shelf>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {ROOM_COLUMNS}, m.read_to FROM members m JOIN rooms r ON r.no = m.room
             WHERE m.agent = ?1 AND EXISTS
                 (SELECT 1 FROM messages x WHERE x.room = m.room AND x.position > m.read_to)"
        ))?
        .query_map([agent.0], |row| {
            Ok(Shelf {
                room: read_room(row)?,
                read_to: row.get(5)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?)
}

/// What an agent has not read. Replies count where the agent takes part in the thread.
pub(super) fn inbox(
    connection: &Connection,
    workspace: &WorkspaceRow,
    agent: AgentNo,
    limit: usize,
) -> Result<Inbox> {
    let mut inbox = Inbox {
        items: Vec::new(),
        channels: Vec::new(),
        conversations: Vec::new(),
        mentions: 0,
        unread: 0,
        more: false,
    };
    let mut items = Vec::new();
    for shelf in shelves(connection, agent)? {
        let unread = unread(connection, workspace, agent, &shelf)?;
        inbox.more |= unread.len() == UNREAD_COUNTED;
        count(connection, agent, &shelf.room, &unread, &mut inbox)?;
        items.extend(unread);
    }
    // By place and not by id: ids begin with the time, and clocks can go back.
    items.sort_by_key(|(position, _)| *position);
    inbox.more |= items.len() > limit;
    inbox.items = items
        .into_iter()
        .take(limit)
        .map(|(_, item)| item)
        .collect();
    Ok(inbox)
}

fn unread(
    connection: &Connection,
    workspace: &WorkspaceRow,
    agent: AgentNo,
    shelf: &Shelf,
) -> Result<Vec<(Position, InboxItem)>> {
    let mut statement = connection.prepare_cached(&format!(
        "{SELECT_MESSAGE} WHERE m.room = ?1 AND m.position > ?2 AND m.author IS NOT ?3
         ORDER BY m.position"
    ))?;
    let mut rows = statement.query(params![shelf.room.no.0, shelf.read_to, agent.0])?;
    let mut items = Vec::new();
    while items.len() < UNREAD_COUNTED
        && let Some(row) = rows.next()?
    {
        let full = read_message(workspace.id, row)?;
        let delivery = delivery_to(connection, &full, agent)?;
        if delivery.is_none() && full.parent.is_some() {
            // Somebody else's thread.
            continue;
        }
        let sent_at = full.message.created_at;
        let item = InboxItem {
            delivery_id: delivery.map(|(position, ..)| id_at(workspace.id, position, sent_at)),
            state: delivery.map(|(_, state, _)| state),
            reason: delivery.map_or(DeliveryReason::Message, |(.., reason)| reason),
            message: full.message,
        };
        items.push((full.position, item));
    }
    Ok(items)
}

fn count(
    connection: &Connection,
    agent: AgentNo,
    room: &RoomRow,
    unread: &[(Position, InboxItem)],
    inbox: &mut Inbox,
) -> Result<()> {
    if unread.is_empty() {
        return Ok(());
    }
    let mentions = unread
        .iter()
        .filter(|(_, item)| item.reason == DeliveryReason::Mention)
        .count() as u64;
    inbox.mentions += mentions;
    inbox.unread += unread.len() as u64;
    let unread = unread.len() as u64;
    if room.kind == RoomKind::Channel {
        inbox.channels.push(InboxChannel {
            channel: room.name.clone(),
            unread,
            mentions,
        });
    } else {
        let conversation_id = ConversationId::from_uuid(room.id);
        let with = names(connection, room.no, Some(agent))?;
        inbox.conversations.push(InboxConversation {
            conversation_id,
            with,
            unread,
        });
    }
    Ok(())
}

/// The members of a room by name, without one of them.
fn names(connection: &Connection, room: RoomNo, without: Option<AgentNo>) -> Result<Vec<String>> {
    Ok(connection
        .prepare_cached(
            "SELECT a.name FROM members m JOIN agents a ON a.no = m.agent
             WHERE m.room = ?1 AND a.no IS NOT ?2 ORDER BY a.folded",
        )?
        .query_map(params![room.0, without.map(|no| no.0)], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?)
}

/// An agent's conversations, the most recent first.
pub(super) fn conversations(
    connection: &Connection,
    workspace: &WorkspaceRow,
    agent: AgentNo,
    page: &PageRequest,
) -> Result<Page<Conversation>> {
    let before = cursor(page)?.map_or(i64::MAX, |seq| Position::new(workspace.no, seq).key());
    let mut statement = connection.prepare_cached(
        "SELECT r.no, r.id, x.position, x.at,
                (SELECT count(*) FROM (SELECT 1 FROM messages u WHERE u.room = r.no
                     AND u.position > m.read_to AND u.author IS NOT ?1 LIMIT ?4))
         FROM members m JOIN rooms r ON r.no = m.room
         JOIN messages x ON x.position = (SELECT max(position) FROM messages WHERE room = r.no)
         WHERE m.agent = ?1 AND r.kind <> 0 AND x.position < ?2
         ORDER BY x.position DESC LIMIT ?3",
    )?;
    let found: Vec<(RoomNo, Position, Conversation)> = statement
        .query_map(
            params![agent.0, before, page.limit + 1, UNREAD_COUNTED],
            |row| {
                let conversation = Conversation {
                    conversation_id: ConversationId::from_uuid(super::directory::uuid_of(
                        row.get(1)?,
                    )),
                    participants: Vec::new(),
                    last_message_at: Some(Timestamp::from_millis(row.get(3)?)),
                    unread: row.get(4)?,
                };
                Ok((
                    RoomNo(row.get(0)?),
                    Position::from_key(row.get(2)?),
                    conversation,
                ))
            },
        )?
        .collect::<rusqlite::Result<_>>()?;
    let Page { items, next_cursor } = page_of(found, page.limit, |(_, position, _)| {
        position.seq().to_string()
    });
    let items = items
        .into_iter()
        .map(|(room, _, conversation)| {
            Ok(Conversation {
                participants: names(connection, room, None)?,
                ..conversation
            })
        })
        .collect::<Result<_>>()?;
    Ok(Page { items, next_cursor })
}
