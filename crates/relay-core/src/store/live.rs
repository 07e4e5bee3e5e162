//! Committed changes, announced to subscribers in this process.
//!
//! A topic per workspace keeps the newest entries in memory, bounded by number and bytes. Subscribers
//! pull: each has a cursor, takes what is in memory, and reads from the store what is no longer there.
//! So a slow one costs nothing, and a lost announcement delays nobody for good: the store is the truth.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use relay_protocol::event::{DeliveryCreated, LoggedEvent, MessageEvent, RelayEvent};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::limits::LIVE_ENTRIES;
use relay_protocol::socket::event_frame;
use relay_protocol::time::Timestamp;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::news::{News, Observer};
use super::position::{Position, id_at};
use super::records::RoomKind;
use super::sent::SendRecord;

/// Most bytes of message text that a topic keeps in memory.
pub const LIVE_BYTES: usize = 16 * 1024 * 1024;

/// An event, its JSON and its frame on the socket, each of which is made once for all who want it.
pub struct StoredEvent {
    /// The event.
    pub event: LoggedEvent,
    json: OnceLock<Box<RawValue>>,
    frame: OnceLock<Bytes>,
}

impl StoredEvent {
    /// Wraps an event.
    #[must_use]
    pub const fn new(event: LoggedEvent) -> Self {
        Self {
            event,
            json: OnceLock::new(),
            frame: OnceLock::new(),
        }
    }

    /// The event's JSON.
    pub fn json(&self) -> &RawValue {
        self.json.get_or_init(|| self.event.to_json())
    }

    /// The text of the event's frame on the socket.
    pub fn frame(&self) -> &Bytes {
        self.frame
            .get_or_init(|| event_frame(self.event.seq, self.json()).into())
    }
}

/// One row of the log, as it was just committed.
pub struct Entry {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The place of its first event.
    pub position: Position,
    /// How many events it stands for.
    pub count: u64,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub content: EntryContent,
    expanded: OnceLock<Vec<Arc<StoredEvent>>>,
}

/// What a row of the log stands for.
pub enum EntryContent {
    /// One event.
    One(Box<RelayEvent>),
    /// A send: the message's events, then one `delivery.created` per recipient.
    Send(Arc<SendRecord>),
}

impl Entry {
    /// An entry that nobody has looked at yet.
    #[must_use]
    pub const fn new(
        workspace: WorkspaceId,
        position: Position,
        count: u64,
        at: Timestamp,
        content: EntryContent,
    ) -> Self {
        Self {
            workspace,
            position,
            count,
            at,
            content,
            expanded: OnceLock::new(),
        }
    }

    /// The events that the row stands for.
    pub fn events(&self) -> &[Arc<StoredEvent>] {
        self.expanded.get_or_init(|| {
            let events = match &self.content {
                EntryContent::One(event) => vec![(**event).clone()],
                EntryContent::Send(record) => send_events(record),
            };
            (0..)
                .zip(events)
                .map(|(at, event)| {
                    let position = self.position.plus(at);
                    Arc::new(StoredEvent::new(logged(
                        self.workspace,
                        position,
                        self.at,
                        event,
                    )))
                })
                .collect()
        })
    }

    fn erases(&self) -> bool {
        matches!(&self.content, EntryContent::One(event) if matches!(**event, RelayEvent::AuditErased(_)))
    }

    fn bytes(&self) -> usize {
        match &self.content {
            EntryContent::One(_) => 1_024,
            EntryContent::Send(record) => record.text.len() + 256 * record.recipients.len() + 1_024,
        }
    }
}

/// Gives an event its place.
#[must_use]
pub fn logged(
    workspace_id: WorkspaceId,
    position: Position,
    at: Timestamp,
    event: RelayEvent,
) -> LoggedEvent {
    LoggedEvent {
        seq: position.seq(),
        id: id_at(workspace_id, position, at),
        at,
        workspace_id,
        event_type: event.tag().to_owned(),
        event: Some(event),
    }
}

/// The events of a send, in order.
fn send_events(record: &SendRecord) -> Vec<RelayEvent> {
    let message = record.message();
    let mut events = Vec::with_capacity(3 + record.recipients.len());
    events.push(RelayEvent::MessageCreated(MessageEvent::of(
        message.clone(),
    )));
    if record.parent.is_some() {
        events.push(RelayEvent::ThreadReply(MessageEvent::of(message.clone())));
    }
    match record.room.kind {
        RoomKind::Dm => events.push(RelayEvent::DmReceived(MessageEvent::of(message.clone()))),
        RoomKind::Group => {
            events.push(RelayEvent::GroupDmReceived(MessageEvent::of(
                message.clone(),
            )));
        }
        RoomKind::Channel | RoomKind::Notice => {}
    }
    let first = record.first_delivery();
    events.extend((0..).zip(&record.recipients).map(|(at, recipient)| {
        RelayEvent::DeliveryCreated(DeliveryCreated {
            delivery_id: id_at(record.workspace, first.plus(at), record.at),
            message_id: Some(message.id),
            message: message.clone(),
            agent: recipient.agent.lasting_identity(),
            agent_id: Some(recipient.agent.id),
            mode: record.mode,
        })
    }));
    events
}

/// The topics of all workspaces, and who else learns of commits.
#[derive(Default)]
pub struct Hub {
    topics: Mutex<HashMap<u32, Arc<Topic>>>,
    observer: Mutex<Option<Arc<dyn Observer>>>,
}

/// One workspace's newest entries.
pub struct Topic {
    recent: Mutex<Recent>,
    head: watch::Sender<u64>,
}

#[derive(Default)]
struct Recent {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
}

/// What a topic has for a cursor.
pub enum Recall {
    /// The entries that follow, without a gap.
    Entries(Vec<Arc<Entry>>),
    /// Nothing that is newer.
    Nothing,
    /// What follows is not in memory any more, or was never.
    Gap,
}

impl Hub {
    /// The topic of a workspace, for a subscriber.
    pub fn topic(&self, workspace_no: u32) -> Arc<Topic> {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        // Topics that nobody holds cost memory and are dropped when the next subscriber comes.
        topics.retain(|no, topic| *no == workspace_no || Arc::strong_count(topic) > 1);
        topics
            .entry(workspace_no)
            .or_insert_with(|| Arc::new(Topic::new()))
            .clone()
    }

    /// Tells an observer of every commit from now on, in place of the one before.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        *self.observer() = Some(observer);
    }

    /// Hands the observer what a commit brought.
    pub fn tell(&self, news: Vec<News>) {
        let observer = self.observer().clone();
        if let Some(observer) = observer.filter(|_| !news.is_empty()) {
            observer.learn(news);
        }
    }

    fn observer(&self) -> MutexGuard<'_, Option<Arc<dyn Observer>>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces committed entries, in order.
    pub fn publish(&self, entries: impl IntoIterator<Item = Arc<Entry>>) {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.is_empty() {
            return;
        }
        for entry in entries {
            if let Some(topic) = topics.get(&entry.position.workspace_no()) {
                topic.push(entry);
            }
        }
    }
}

impl Topic {
    fn new() -> Self {
        Self {
            recent: Mutex::default(),
            head: watch::Sender::new(0),
        }
    }

    fn push(&self, entry: Arc<Entry>) {
        let head = entry.position.seq() + entry.count - 1;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if entry.erases() {
            // What was erased may be anywhere in here; those who still need it read the store.
            *recent = Recent::default();
        }
        recent.bytes += entry.bytes();
        recent.entries.push_back(entry);
        while recent.entries.len() > LIVE_ENTRIES || recent.bytes > LIVE_BYTES {
            let Some(oldest) = recent.entries.pop_front() else {
                break;
            };
            recent.bytes -= oldest.bytes();
        }
        drop(recent);
        self.head.send_replace(head);
    }

    /// What follows a sequence number, as far as it is in memory; at most `most` entries.
    pub fn after(&self, seq: u64, most: usize) -> Recall {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &recent.entries;
        let Some(oldest) = entries.front() else {
            return Recall::Gap;
        };
        if oldest.position.seq() > seq + 1 {
            return Recall::Gap;
        }
        let from = entries.partition_point(|entry| entry.position.seq() + entry.count - 1 <= seq);
        let found: Vec<_> = entries.iter().skip(from).take(most).cloned().collect();
        if found.is_empty() {
            Recall::Nothing
        } else {
            Recall::Entries(found)
        }
    }

    /// Tells when the head moves.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }
}
