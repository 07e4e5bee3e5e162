//! Committed changes, announced to subscribers in this process.
//!
//! A topic per workspace keeps the newest entries in memory. Their number is bounded for each topic; their bytes
//! are counted (`live/memory.rs`) and bounded over all topics: the oldest entry of all goes first. An event and its frame
//! exist once for all who want them. Subscribers pull: each has a cursor, takes what is in memory, and reads from
//! the store what is no longer there. So a slow one costs nothing, and a lost announcement delays nobody for
//! good: the store is the truth.

mod memory;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use relay_protocol::event::{DeliveryCreated, LoggedEvent, MessageEvent, RelayEvent};
use relay_protocol::ids::WorkspaceId;
use relay_protocol::limits::{LIVE_BYTES, LIVE_ENTRIES};
use relay_protocol::socket::event_frame;
use relay_protocol::time::Timestamp;
use tokio::sync::watch;

use self::memory::MemoryCharge;
pub use self::memory::{LiveMemory, heap_bytes};
use super::news::{News, Observer};
use super::position::{Position, id_at};
use super::records::RoomKind;
use super::sent::SendRecord;

/// Bytes of an event besides its payload.
pub(super) const EVENT_BYTES: usize = 1_024;

/// Entries may take so many bytes; the rest of the bound is for frames.
const ENTRIES_BYTES: usize = LIVE_BYTES - LIVE_BYTES / 4;

/// An event and its frame on the socket, which is made once for all who want it and has its JSON in it.
pub struct StoredEvent {
    /// The event.
    pub event: LoggedEvent,
    /// About how long its JSON is.
    pub size: usize,
    frame: OnceLock<CachedFrame>,
    /// What its frame is counted in; nothing for an event that one reader alone has.
    memory: Option<Arc<LiveMemory>>,
}

struct CachedFrame {
    frame: EventFrame,
    _charge: Option<MemoryCharge>,
}

#[derive(Clone)]
struct EventFrame {
    text: Bytes,
    json: Range<usize>,
}

/// The JSON of an event.
pub struct EventJson(Bytes);

impl EventJson {
    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The text as bytes, which are not copied.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }
}

impl StoredEvent {
    /// Wraps an event whose JSON has about this size.
    #[must_use]
    pub const fn new(event: LoggedEvent, size: usize) -> Self {
        Self {
            event,
            size,
            frame: OnceLock::new(),
            memory: None,
        }
    }

    /// The event's JSON.
    pub fn json(&self) -> EventJson {
        let EventFrame { text, json } = self.made();
        EventJson(text.slice(json))
    }

    /// The text of the event's frame on the socket.
    pub fn frame(&self) -> Bytes {
        self.made().text
    }

    /// The frame, kept for others if there is room for it.
    fn made(&self) -> EventFrame {
        if let Some(cached) = self.frame.get() {
            return cached.frame.clone();
        }
        let json = self.event.to_json();
        let text = Bytes::from(event_frame(self.event.seq, &json));
        let end = text.len() - 1;
        let frame = EventFrame {
            json: end - json.get().len()..end,
            text,
        };
        let charge = match &self.memory {
            None => None,
            Some(memory) => match memory.try_charge(frame.text.len()) {
                None => return frame,
                charge => charge,
            },
        };
        let made = || CachedFrame {
            frame,
            _charge: charge,
        };
        self.frame.get_or_init(made).frame.clone()
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
    /// The send that it stands for, whose events are made when somebody wants them.
    send: Option<Arc<SendRecord>>,
    expanded: OnceLock<Vec<Arc<StoredEvent>>>,
    bytes: usize,
    charge: Option<MemoryCharge>,
}

impl Entry {
    /// An entry of one event, whose payload has about this size as JSON and takes so many bytes in memory.
    #[must_use]
    pub fn one(
        workspace: WorkspaceId,
        position: Position,
        at: Timestamp,
        event: RelayEvent,
        (size, bytes): (usize, usize),
    ) -> Self {
        let event = logged(workspace, position, at, event);
        let event = Arc::new(StoredEvent::new(event, size + EVENT_BYTES));
        Self {
            workspace,
            position,
            count: 1,
            at,
            send: None,
            expanded: vec![event].into(),
            bytes: bytes + EVENT_BYTES,
            charge: None,
        }
    }

    /// An entry of a send: the message's events, then one `delivery.created` for each recipient.
    #[must_use]
    pub fn send(record: &Arc<SendRecord>, count: u64) -> Self {
        let extra = &record.extra;
        let extra = serde_json::to_vec(&(&extra.attachments, &extra.mentions, &extra.metadata));
        let events = usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            workspace: record.workspace,
            position: record.position,
            count,
            at: record.at,
            send: Some(record.clone()),
            expanded: OnceLock::new(),
            // The record and the message each have the text.
            bytes: 2 * record.text.len()
                + extra.map_or(0, |json| 2 * memory::heap_of(&json))
                + events.saturating_mul(EVENT_BYTES),
            charge: None,
        }
    }

    /// The events that the row stands for.
    pub fn events(&self) -> &[Arc<StoredEvent>] {
        self.expanded.get_or_init(|| {
            let Some(record) = &self.send else {
                return Vec::new();
            };
            let memory = self.charge.as_ref().map(MemoryCharge::memory);
            let events = (0..).zip(send_events(record));
            let stored = events.map(|(at, event)| {
                let position = self.position.plus(at);
                let event = logged(self.workspace, position, self.at, event);
                let size = record.text.len() + EVENT_BYTES;
                Arc::new(StoredEvent {
                    memory: memory.cloned(),
                    ..StoredEvent::new(event, size)
                })
            });
            stored.collect()
        })
    }

    /// Counts what the entry takes from now on, and the frames that are made of it.
    fn count_in(&mut self, memory: &Arc<LiveMemory>) {
        self.charge = Some(memory.charge(self.bytes));
        let events = self.expanded.get_mut().into_iter().flatten();
        for event in events.filter_map(Arc::get_mut) {
            event.memory = Some(memory.clone());
        }
    }

    fn erases(&self) -> bool {
        let first = self.expanded.get().and_then(|events| events.first());
        let event = first.and_then(|first| first.event.event.as_ref());
        matches!(event, Some(RelayEvent::AuditErased(_)))
    }
}

/// How long the text of the message is that an event carries. Events of one message share it.
#[must_use]
pub fn message_bytes(event: &RelayEvent) -> usize {
    let message = match event {
        RelayEvent::MessageCreated(event)
        | RelayEvent::MessageUpdated(event)
        | RelayEvent::ThreadReply(event)
        | RelayEvent::DmReceived(event)
        | RelayEvent::GroupDmReceived(event) => &event.message,
        RelayEvent::DeliveryCreated(created) => &created.message,
        RelayEvent::DeliveryFailed(failed) => &failed.message,
        _ => return 0,
    };
    message.text.len()
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
    topics: Mutex<Topics>,
    memory: Arc<LiveMemory>,
    observer: Mutex<Option<Arc<dyn Observer>>>,
}

#[derive(Default)]
struct Topics {
    by_workspace: HashMap<u32, Arc<Topic>>,
    /// The workspace of each entry that is kept, by the order in which they came.
    order: BTreeMap<u64, u32>,
    last: u64,
}

/// One workspace's newest entries.
pub struct Topic {
    recent: Mutex<VecDeque<Kept>>,
    head: watch::Sender<u64>,
}

/// An entry and its place among those of all topics.
struct Kept {
    order: u64,
    entry: Arc<Entry>,
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
        let mut topics = self.topics();
        topics.drop_unused(workspace_no);
        topics
            .by_workspace
            .entry(workspace_no)
            .or_insert_with(|| Arc::new(Topic::new()))
            .clone()
    }

    /// What the entries that are kept take, with all that was made of them.
    #[must_use]
    pub const fn memory(&self) -> &Arc<LiveMemory> {
        &self.memory
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

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observer(&self) -> MutexGuard<'_, Option<Arc<dyn Observer>>> {
        self.observer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces committed entries, in order.
    pub fn publish(&self, entries: impl IntoIterator<Item = Arc<Entry>>) {
        let mut topics = self.topics();
        if topics.by_workspace.is_empty() {
            return;
        }
        for mut entry in entries {
            let workspace_no = entry.position.workspace_no();
            let Some(topic) = topics.by_workspace.get(&workspace_no).cloned() else {
                continue;
            };
            if let Some(entry) = Arc::get_mut(&mut entry) {
                entry.count_in(&self.memory);
            }
            let head = entry.position.seq() + entry.count - 1;
            topics.keep(workspace_no, &topic, entry);
            topics.make_room(&self.memory);
            topic.head.send_replace(head);
        }
    }
}

impl Topics {
    fn keep(&mut self, workspace_no: u32, topic: &Topic, entry: Arc<Entry>) {
        let mut recent = topic.recent();
        if entry.erases() {
            // What was erased may be anywhere in here; those who still need it read the store.
            for kept in recent.drain(..) {
                self.order.remove(&kept.order);
            }
        }
        self.last += 1;
        self.order.insert(self.last, workspace_no);
        recent.push_back(Kept {
            order: self.last,
            entry,
        });
        if recent.len() > LIVE_ENTRIES
            && let Some(oldest) = recent.pop_front()
        {
            self.order.remove(&oldest.order);
        }
    }

    /// Lets the oldest entries of all topics go until the rest is within its bound.
    fn make_room(&mut self, memory: &LiveMemory) {
        while memory.bytes() > ENTRIES_BYTES
            && let Some((order, workspace_no)) = self.order.pop_first()
        {
            if let Some(topic) = self.by_workspace.get(&workspace_no) {
                let oldest = topic.recent().pop_front_if(|kept| kept.order == order);
                drop(oldest);
            }
        }
    }

    /// Topics that nobody holds cost memory and are dropped when the next subscriber comes.
    fn drop_unused(&mut self, wanted: u32) {
        self.by_workspace.retain(|no, topic| {
            let is_used = *no == wanted || Arc::strong_count(topic) > 1;
            if !is_used {
                for kept in topic.recent().iter() {
                    self.order.remove(&kept.order);
                }
            }
            is_used
        });
    }
}

impl Topic {
    fn new() -> Self {
        Self {
            recent: Mutex::default(),
            head: watch::Sender::new(0),
        }
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What follows a sequence number, as far as it is in memory; at most so many entries, and no more once they
    /// have so many bytes.
    pub fn after(&self, seq: u64, (most, most_bytes): (usize, usize)) -> Recall {
        let recent = self.recent();
        let Some(oldest) = recent.front() else {
            return Recall::Gap;
        };
        if oldest.entry.position.seq() > seq + 1 {
            return Recall::Gap;
        }
        let is_known = |kept: &Kept| kept.entry.position.seq() + kept.entry.count - 1 <= seq;
        let from = recent.partition_point(is_known);
        let mut bytes = 0;
        let has_room = |kept: &&Kept| {
            let had_room = bytes < most_bytes;
            bytes += kept.entry.bytes;
            had_room
        };
        let following = recent.iter().skip(from).take(most).take_while(has_room);
        let found: Vec<_> = following.map(|kept| kept.entry.clone()).collect();
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

#[cfg(test)]
mod tests {
    use relay_protocol::event::SessionReport;
    use relay_protocol::ids::AgentId;
    use relay_protocol::session_event::{AgentSessionEvent, TerminalOutput};

    use super::*;

    const AT: Timestamp = Timestamp::from_millis(1);
    const LARGE: usize = 400_000;

    fn large(workspace_no: u32, seq: u64) -> Arc<Entry> {
        let event = AgentSessionEvent::TerminalOutput(TerminalOutput {
            stream: None,
            text: "x".repeat(LARGE),
        });
        let report = SessionReport {
            agent_id: AgentId::new(AT, 1),
            session_id: None,
            event,
        };
        let size = (LARGE + 200, LARGE + 1_000);
        Arc::new(Entry::one(
            WorkspaceId::new(AT, u128::from(workspace_no)),
            Position::new(workspace_no, seq),
            AT,
            RelayEvent::TerminalOutput(report),
            size,
        ))
    }

    #[test]
    fn the_memory_of_live_events_is_bounded_over_all_workspaces() {
        let hub = Hub::default();
        let topics = [1, 2, 3].map(|no| (no, hub.topic(no)));
        let count = 2 * LIVE_BYTES / LARGE / topics.len();
        let mut most = 0;
        for seq in 1..=count as u64 {
            for (no, topic) in &topics {
                hub.publish([large(*no, seq)]);
                // A subscriber that keeps up gets each event once, and a second one the same copy.
                let Recall::Entries(found) = topic.after(seq - 1, (10, LIVE_BYTES)) else {
                    panic!("what was just announced is in memory");
                };
                let [event] = found[0].events() else {
                    panic!("the entry has one event");
                };
                assert!(event.frame().len() > LARGE);
                assert_eq!(event.frame().as_ptr(), event.frame().as_ptr());
                most = most.max(hub.memory().bytes());
            }
        }
        assert!(most <= LIVE_BYTES, "{most}");
        assert!(most > LIVE_BYTES / 2, "large events are counted: {most}");
        // Nothing of it stays when nobody wants it any more.
        drop(topics);
        drop(hub.topic(4));
        assert_eq!(hub.memory().bytes(), 0);
        assert!(hub.topics().order.is_empty());
    }

    #[test]
    fn a_frame_that_does_not_fit_is_made_anew_for_each() {
        let hub = Hub::default();
        let topic = hub.topic(1);
        hub.publish([large(1, 1)]);
        let Recall::Entries(found) = topic.after(0, (1, 1)) else {
            panic!("it is in memory");
        };
        let charge = hub.memory().charge(LIVE_BYTES);
        let event = &found[0].events()[0];
        assert!(event.frame().len() > LARGE);
        assert!(event.frame.get().is_none());
        drop(charge);
        assert_eq!(event.json().get(), event.event.to_json().get());
        assert!(event.frame.get().is_some());
    }
}
