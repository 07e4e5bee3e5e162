//! What happened in a chat: numbered, written once as it is sent, kept up to a limit.
//!
//! Viewers read by the number of the last event they have. Whoever has fallen behind the oldest that is kept is told so. Questions that
//! wait for a decision are kept beside the log, so that they can be shown first, and however long ago they were asked.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use relay_protocol::limits::{CHAT_LOG_BYTES, CHAT_LOG_EVENTS};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// The log of one chat.
#[derive(Debug)]
pub(crate) struct ChatLog {
    state: Mutex<State>,
    /// The number of the last event, and whether there will be more.
    head: watch::Sender<Head>,
}

/// How far a chat is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of the last event; nothing has happened at 0.
    pub(crate) last: u64,
    /// No more will come.
    pub(crate) is_over: bool,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first that is kept.
    first: u64,
    /// Questions that wait, by the number of their event.
    waiting: BTreeMap<u64, Waiting>,
    /// All questions there were.
    asked: HashSet<String>,
}

#[derive(Debug)]
struct Waiting {
    relay_id: String,
    frame: Bytes,
}

/// What comes after an event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// These, with the number of the first. None at the moment if it is empty.
    Events(u64, Vec<Bytes>),
    /// What came next is not kept any more; this is the number of the first that is.
    Gone(u64),
}

impl ChatLog {
    pub(crate) fn new() -> Self {
        let state = State {
            first: 1,
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            head: watch::Sender::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here stops half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub(crate) fn add(&self, kind: &str, event: &impl Serialize) {
        self.put(kind, &json_of(event), None);
    }

    /// Adds a question that waits for a decision.
    pub(crate) fn ask(&self, relay_id: &str, event: &impl Serialize) {
        let mut again = serde_json::to_value(event).unwrap_or_default();
        again["replay"] = Value::Bool(true);
        let waiting = Waiting {
            relay_id: relay_id.to_owned(),
            frame: frame(None, "relay", &again.to_string()),
        };
        self.put("relay", &json_of(event), Some(waiting));
    }

    /// A question waits no more.
    pub(crate) fn settle(&self, relay_id: &str) {
        let mut state = self.state();
        state
            .waiting
            .retain(|_, waiting| waiting.relay_id != relay_id);
    }

    fn put(&self, kind: &str, data: &str, waiting: Option<Waiting>) {
        let mut state = self.state();
        let number = state.first + state.kept.len() as u64;
        let frame = frame(Some(number), kind, data);
        state.bytes += frame.len();
        state.kept.push_back(frame);
        if let Some(waiting) = waiting {
            state.asked.insert(waiting.relay_id.clone());
            state.waiting.insert(number, waiting);
        }
        while state.kept.len() > CHAT_LOG_EVENTS || state.bytes > CHAT_LOG_BYTES {
            let Some(oldest) = state.kept.pop_front() else {
                break;
            };
            state.bytes -= oldest.len();
            state.first += 1;
        }
        drop(state);
        self.head.send_modify(|head| head.last = number);
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&self) {
        self.head.send_modify(|head| head.is_over = true);
    }

    /// How far it is, now and from now on.
    pub(crate) fn head(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    /// At most so many of the events after one. The last event ever is known by [`Head::is_over`].
    pub(crate) fn after(&self, seen: u64, most: usize) -> After {
        let state = self.state();
        if seen + 1 < state.first {
            return After::Gone(state.first);
        }
        let skip = usize::try_from(seen + 1 - state.first).unwrap_or(usize::MAX);
        let kept = state.kept.iter().skip(skip).take(most);
        After::Events(seen + 1, kept.cloned().collect())
    }

    /// The questions that wait, with the numbers of their events.
    pub(crate) fn waiting(&self) -> Vec<(u64, Bytes)> {
        let state = self.state();
        let waiting = state.waiting.iter();
        waiting
            .map(|(number, waiting)| (*number, waiting.frame.clone()))
            .collect()
    }

    /// Whether a question is one of this chat.
    pub(crate) fn has_asked(&self, relay_id: &str) -> bool {
        self.state().asked.contains(relay_id)
    }
}

/// Events are plain data, which can always be written.
fn json_of(event: &impl Serialize) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

/// An event as it is sent. JSON has no line ends, so it is one line.
pub(crate) fn frame(number: Option<u64>, kind: &str, data: &str) -> Bytes {
    let mut text = String::with_capacity(data.len() + kind.len() + 40);
    if let Some(number) = number {
        text.push_str("id: ");
        text.push_str(&number.to_string());
        text.push('\n');
    }
    for part in ["event: ", kind, "\ndata: ", data, "\n\n"] {
        text.push_str(part);
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(after: After) -> (u64, Vec<String>) {
        match after {
            After::Events(first, frames) => {
                let text = |frame: &Bytes| String::from_utf8(frame.to_vec()).unwrap();
                (first, frames.iter().map(text).collect())
            }
            After::Gone(first) => panic!("gone: {first}"),
        }
    }

    #[test]
    fn events_have_numbers() {
        let log = ChatLog::new();
        log.add(
            "text",
            &json!({ "type": "text", "content": "a\n\u{2028}b" }),
        );
        log.add("text", &json!({ "type": "text", "content": "c" }));
        let (first, frames) = texts(log.after(0, 10));
        assert_eq!(first, 1);
        assert_eq!(
            frames[0],
            "id: 1\nevent: text\ndata: {\"type\":\"text\",\"content\":\"a\\n\u{2028}b\"}\n\n"
        );
        assert!(frames[1].starts_with("id: 2\n"));
        assert_eq!(texts(log.after(1, 10)).1.len(), 1);
        assert_eq!(texts(log.after(2, 10)).1.len(), 0);
        assert_eq!(texts(log.after(0, 1)).1.len(), 1);
        assert_eq!(log.head().borrow().last, 2);
    }

    #[test]
    fn what_is_too_old_is_gone() {
        let log = ChatLog::new();
        for number in 0..=CHAT_LOG_EVENTS {
            log.add("text", &number);
        }
        assert_eq!(log.after(0, 1), After::Gone(2));
        assert_eq!(texts(log.after(1, 1)).0, 2);
        let large = "x".repeat(CHAT_LOG_BYTES / 4);
        for _ in 0..4 {
            log.add("text", &large);
        }
        let last = log.head().borrow().last;
        // Four quarters and what is written around them are more than the whole.
        assert_eq!(log.after(0, 1), After::Gone(last - 2));
    }

    #[test]
    fn questions_are_kept_until_they_are_settled() {
        let log = ChatLog::new();
        log.ask("r1", &json!({ "type": "relay", "id": "r1" }));
        for number in 0..=CHAT_LOG_EVENTS {
            log.add("text", &number);
        }
        let waiting = log.waiting();
        assert_eq!(waiting.len(), 1);
        assert_eq!(waiting[0].0, 1);
        let text = String::from_utf8(waiting[0].1.to_vec()).unwrap();
        assert!(text.starts_with("event: relay\ndata: "), "{text}");
        assert!(text.contains("\"replay\":true"), "{text}");
        log.settle("r1");
        assert!(log.waiting().is_empty());
        assert!(log.has_asked("r1"));
        assert!(!log.has_asked("r2"));
    }
}
