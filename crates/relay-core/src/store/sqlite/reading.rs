//! Reactions, read marks, the inbox and the list of conversations.

use std::collections::{HashMap, HashSet, VecDeque};

use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    Conversation, Inbox, InboxChannel, InboxConversation, InboxItem, InboxWaiting, Reaction,
    ReadDoor, SeenBy,
};
use relay_protocol::delivery::{DeliveryReason, DeliveryState};
use relay_protocol::event::{MessageReacted, MessageRead, ReactionChange, RelayEvent};
use relay_protocol::ids::ConversationId;
use relay_protocol::limits::{REACTIONS_PER_MESSAGE, UNREAD_COUNTED};
use relay_protocol::render::UnsurfacedAttachment;
use relay_protocol::time::Timestamp;
use rusqlite::{Connection, params};

use super::channels::page_of;
use super::codes::Code;
use super::delivery_read::delivery_to;
use super::delivery_rows::load_delivery;
use super::directory::{ROOM_COLUMNS, from_json, read_room};
use super::message_read::{FullMessage, cursor, full_at, load, reactions};
use super::room_index;
use super::steps::Taken;
use super::writer::Tx;
use crate::delivery::apply::Step;
use crate::error::{Error, Result};
use crate::store::position::Position;
use crate::store::records::{AgentNo, RoomKind, RoomNo, RoomRow, WorkspaceRow};
use crate::store::requests::{InboxQuery, PageRequest, ReactionRequest, ReadMark, Viewer};
use crate::store::sent::{Extra, events_before_deliveries};

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
        settle_read(tx, &full, mark)?;
    }
    Ok(())
}

/// Settles what the reader has seen in its inbox before a session got it.
fn settle_read(tx: &mut Tx<'_>, full: &FullMessage, mark: &ReadMark) -> Result<()> {
    for position in tx.unfinished_in_room(mark.reader, full.room.no, full.position)? {
        if mark.offered.contains(&position) {
            continue;
        }
        let stored = load_delivery(tx.connection, position)?;
        let waits = mark.gate.wait_reason(&stored.row).is_some();
        if !waits && !stored.row.state.is_with_session() {
            let mut reading = match stored.row.message == full.position {
                true => mark.reading.clone(),
                false => mark.reading.door.into(),
            };
            if reading.door == ReadDoor::Inbox {
                reading.unsurfaced = named_attachments(tx, stored.row.message)?;
            }
            tx.step(stored, &Taken::plain(&Step::Read(reading), mark.at))?;
        }
    }
    Ok(())
}

/// The attachments of a message as an inbox shows them: by name, their content is read by itself.
fn named_attachments(tx: &Tx<'_>, message: Position) -> Result<Vec<UnsurfacedAttachment>> {
    let extra: Option<String> = tx
        .query("SELECT extra FROM messages WHERE position = ?1")?
        .query_row([message.key()], |row| row.get(0))?;
    let extra: Option<Extra> = extra.as_deref().map(from_json).transpose()?;
    let attachments = extra.map(|extra| extra.attachments).unwrap_or_default();
    let why = "the inbox names it; its content is read by itself";
    let named = attachments.iter();
    Ok(named
        .map(|attachment| UnsurfacedAttachment::new(attachment, why))
        .collect())
}

/// Most messages of one room that are looked at for an inbox.
const UNREAD_LOOKED_AT: usize = 10 * UNREAD_COUNTED;

/// One room of an agent and how far it has read there.
struct Shelf {
    room: RoomRow,
    read_to: Position,
}

fn all_shelves(connection: &Connection, agent: AgentNo) -> Result<Vec<Shelf>> {
    Ok(connection
        .prepare_cached(&format!(
            "SELECT {ROOM_COLUMNS}, m.read_to FROM members m JOIN rooms r ON r.no = m.room
             WHERE m.agent = ?1"
        ))?
        .query_map([agent.0], |row| {
            Ok(Shelf {
                room: read_room(row)?,
                read_to: Position::from_key(row.get(5)?),
            })
        })?
        .collect::<rusqlite::Result<_>>()?)
}

/// What an agent has not read. Replies count where the agent takes part in the thread. What has to wait for its moment is listed apart,
/// without its text, and does not count.
///
/// Everything unread is counted, but only the messages that the page shows are put together. What a session has surfaced is counted
/// apart, and shown where there is room.
pub(super) fn inbox(
    connection: &Connection,
    workspace: &WorkspaceRow,
    query: &InboxQuery,
) -> Result<Inbox> {
    let agent = query.agent;
    let mut inbox = Inbox {
        items: Vec::new(),
        waiting: Vec::new(),
        channels: Vec::new(),
        conversations: Vec::new(),
        mentions: 0,
        unread: 0,
        seen: 0,
        more: false,
    };
    let mut beside = Beside::find(connection, query)?;
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    for shelf in all_shelves(connection, agent)? {
        let mut of_room = match room_index::last(connection, shelf.room.no)? {
            Some(last) if last > shelf.read_to => {
                look_through(connection, agent, &shelf, query.limit)?
            }
            _ => RoomFindings::default(),
        };
        inbox.more |= of_room.is_cut_off;
        inbox.seen += of_room.seen;
        of_room.unread.extend(beside.behind(&shelf));
        let unread = of_room.unread.iter();
        let counted = unread.filter(|one| !beside.waits(one.position));
        count(connection, agent, &shelf.room, counted, &mut inbox)?;
        found.extend(of_room.unread);
        seen.extend(of_room.newest_seen);
    }
    // By place and not by id: ids begin with the time, and clocks can go back.
    found.sort_unstable_by_key(|unread| unread.position);
    let mut shown = Vec::new();
    for unread in &found {
        if shown.len() == query.limit {
            inbox.more = true;
            // Acknowledging the page reads all before its last messages, so nothing may come after what has no room.
            seen.retain(|seen| seen.position < unread.position);
            break;
        }
        match entry(connection, workspace, query, unread)? {
            Some(Entry::Readable(item)) => shown.push((unread.position, *item)),
            Some(Entry::Waiting(waiting)) if inbox.waiting.len() < query.limit => {
                inbox.waiting.push(*waiting);
            }
            Some(Entry::Waiting(_)) => inbox.more = true,
            None => {}
        }
    }
    seen.sort_unstable_by_key(|seen| seen.position);
    let room = query.limit - shown.len();
    for seen in seen.iter().skip(seen.len().saturating_sub(room)) {
        if let Some(Entry::Readable(item)) = entry(connection, workspace, query, seen)? {
            shown.push((seen.position, *item));
        }
    }
    shown.sort_unstable_by_key(|(position, _)| *position);
    inbox.items = shown.into_iter().map(|(_, item)| item).collect();
    Ok(inbox)
}

/// Deliveries that stay when those around them are read.
struct Beside {
    /// By the room of their messages.
    by_room: HashMap<RoomNo, Vec<Unread>>,
    /// The messages that have to wait.
    waiting: HashSet<Position>,
}

impl Beside {
    fn find(connection: &Connection, query: &InboxQuery) -> Result<Self> {
        let mut by_room: HashMap<RoomNo, Vec<Unread>> = HashMap::new();
        let mut statement =
            connection.prepare_cached("SELECT room FROM messages WHERE position = ?1")?;
        for row in &query.beside {
            let room = statement.query_row([row.message.key()], |row| row.get(0))?;
            by_room.entry(RoomNo(room)).or_default().push(Unread {
                position: row.message,
                is_mention: row.reason == DeliveryReason::Mention,
                is_seen: false,
                delivery: Some(row.position),
            });
        }
        let waits = query.beside.iter();
        let waits = waits.filter(|row| query.gate.wait_reason(row).is_some());
        Ok(Self {
            by_room,
            waiting: waits.map(|row| row.message).collect(),
        })
    }

    /// Those of a room that the agent has read past.
    fn behind(&mut self, shelf: &Shelf) -> impl Iterator<Item = Unread> {
        let all = self.by_room.remove(&shelf.room.no).unwrap_or_default();
        let read_to = shelf.read_to;
        all.into_iter().filter(move |one| one.position <= read_to)
    }

    fn waits(&self, message: Position) -> bool {
        self.waiting.contains(&message)
    }
}

/// A message that was not read, as far as counting needs to know it.
struct Unread {
    position: Position,
    is_mention: bool,
    /// Whether a session has surfaced it.
    is_seen: bool,
    /// Its delivery, for one that was read past.
    delivery: Option<Position>,
}

/// What was found in a room after the last message that the agent has read there.
#[derive(Default)]
struct RoomFindings {
    /// What nobody has seen, oldest first.
    unread: Vec<Unread>,
    /// The newest of those that a session has surfaced.
    newest_seen: VecDeque<Unread>,
    /// How many a session has surfaced.
    seen: u64,
    /// Whether there may be more than was looked at.
    is_cut_off: bool,
}

impl RoomFindings {
    /// Adds a message, keeping so many of those that a session has surfaced.
    fn add(&mut self, found: Unread, kept: usize) {
        if !found.is_seen {
            return self.unread.push(found);
        }
        self.seen += 1;
        self.newest_seen.push_back(found);
        if self.newest_seen.len() > kept {
            self.newest_seen.pop_front();
        }
    }
}

/// Looks through a room for what is unread, keeping so many of those that a session has surfaced.
fn look_through(
    connection: &Connection,
    agent: AgentNo,
    shelf: &Shelf,
    kept: usize,
) -> Result<RoomFindings> {
    let mut found = RoomFindings::default();
    let mut after = shelf.read_to;
    // What does not count (own messages, other people's threads) is passed over, within reason.
    for _ in 0..UNREAD_LOOKED_AT / UNREAD_COUNTED {
        let positions = room_index::oldest(connection, shelf.room.no, after, UNREAD_COUNTED)?;
        let Some(last) = positions.last() else {
            return Ok(found);
        };
        after = *last;
        for position in positions {
            if let Some(one) = belongs(connection, agent, &shelf.room, position)? {
                found.add(one, kept);
            }
            if found.unread.len() == UNREAD_COUNTED {
                found.is_cut_off = true;
                return Ok(found);
            }
        }
    }
    found.is_cut_off = true;
    Ok(found)
}

/// A message that belongs into an agent's inbox, if it does.
fn belongs(
    connection: &Connection,
    agent: AgentNo,
    room: &RoomRow,
    position: Position,
) -> Result<Option<Unread>> {
    let (own, is_reply, recipients): (bool, bool, u64) = connection
        .prepare_cached(
            "SELECT author IS ?2, thread IS NOT NULL, recipients FROM messages WHERE position = ?1",
        )?
        .query_row([position.key(), agent.0], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    if own {
        return Ok(None);
    }
    let first = position.plus(events_before_deliveries(room, is_reply));
    let delivery = delivery_to(connection, first, recipients, agent)?;
    // Only replies may be somebody else's.
    if delivery.is_none() && is_reply {
        return Ok(None);
    }
    let state = delivery.map(|(_, state, _)| state);
    Ok(Some(Unread {
        position,
        is_mention: delivery.is_some_and(|(_, _, reason)| reason == DeliveryReason::Mention),
        is_seen: is_surfaced(connection, agent, position, state)?,
        delivery: None,
    }))
}

/// Whether a session has surfaced a message, given how the delivery of its send stands. Reading in the inbox moves the mark, so what was
/// delivered beyond the mark was surfaced.
fn is_surfaced(
    connection: &Connection,
    agent: AgentNo,
    message: Position,
    state: Option<DeliveryState>,
) -> Result<bool> {
    if state == Some(DeliveryState::Delivered) {
        return Ok(true);
    }
    Ok(connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM extra_deliveries e JOIN deliveries d ON d.position = e.position
                            WHERE e.message = ?1 AND d.agent = ?2 AND d.state = ?3)",
        )?
        .query_row(
            params![message.key(), agent.0, Code(DeliveryState::Delivered)],
            |row| row.get(0),
        )?)
}

/// A message in an inbox.
enum Entry {
    Readable(Box<InboxItem>),
    Waiting(Box<InboxWaiting>),
}

/// A message as the inbox shows it; nothing if it was read past and its delivery has ended since.
fn entry(
    connection: &Connection,
    workspace: &WorkspaceRow,
    query: &InboxQuery,
    unread: &Unread,
) -> Result<Option<Entry>> {
    let full = full_at(connection, workspace.id, unread.position)?;
    let own = match unread.delivery {
        Some(position) => Some(position),
        None => delivery_to(
            connection,
            full.first_delivery(),
            full.recipients,
            query.agent,
        )?
        .map(|(position, _, _)| position),
    };
    let delivery = own.map(|position| load_delivery(connection, position));
    let row = delivery.transpose()?.map(|stored| stored.row);
    if unread.delivery.is_some() && row.as_ref().is_none_or(|row| row.state.is_terminal()) {
        return Ok(None);
    }
    let waiting = row.as_ref().and_then(|row| query.gate.wait_reason(row));
    // Without a delivery it was sent before the agent could get one, to the whole room.
    let reason = row
        .as_ref()
        .map_or(DeliveryReason::Message, |row| row.reason);
    let delivery_id = row.as_ref().map(|row| row.id(workspace.id));
    Ok(Some(match (waiting, delivery_id) {
        (Some(waiting), Some(delivery_id)) => Entry::Waiting(Box::new(InboxWaiting {
            message_id: full.message.id,
            delivery_id,
            from: full.message.from,
            to: full.message.to,
            reason,
            waiting,
        })),
        _ => Entry::Readable(Box::new(InboxItem {
            delivery_id,
            state: row.map(|row| row.state),
            seen_by: unread.is_seen.then_some(SeenBy::Session),
            reason,
            message: full.message,
        })),
    }))
}

fn count<'u>(
    connection: &Connection,
    agent: AgentNo,
    room: &RoomRow,
    counted: impl Iterator<Item = &'u Unread>,
    inbox: &mut Inbox,
) -> Result<()> {
    let (mut unread, mut mentions) = (0, 0);
    for one in counted {
        unread += 1;
        mentions += u64::from(one.is_mention);
    }
    if unread == 0 {
        return Ok(());
    }
    inbox.mentions += mentions;
    inbox.unread += unread;
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
    let before = cursor(page)?.map(|seq| Position::new(workspace.no, seq));
    let mut found = Vec::new();
    for shelf in all_shelves(connection, agent)? {
        if shelf.room.kind == RoomKind::Channel {
            continue;
        }
        if let Some(last) = room_index::last(connection, shelf.room.no)?
            && before.is_none_or(|before| last < before)
        {
            found.push((last, shelf));
        }
    }
    found.sort_unstable_by_key(|(last, _)| std::cmp::Reverse(*last));
    found.truncate(page.limit + 1);
    let Page { items, next_cursor } =
        page_of(found, page.limit, |(last, _)| last.seq().to_string());
    let items = items
        .into_iter()
        .map(|(last, shelf)| conversation(connection, agent, last, &shelf))
        .collect::<Result<_>>()?;
    Ok(Page { items, next_cursor })
}

fn conversation(
    connection: &Connection,
    agent: AgentNo,
    last: Position,
    shelf: &Shelf,
) -> Result<Conversation> {
    let last_at = connection
        .prepare_cached("SELECT at FROM messages WHERE position = ?1")?
        .query_row([last.key()], |row| row.get(0))?;
    Ok(Conversation {
        conversation_id: ConversationId::from_uuid(shelf.room.id),
        participants: names(connection, shelf.room.no, None)?,
        last_message_at: Some(Timestamp::from_millis(last_at)),
        unread: look_through(connection, agent, shelf, 0)?.unread.len() as u64,
    })
}
