//! Text that comes in pieces, and the ends of pieces that wait because a secret may begin there.
//!
//! There is one stream per session and kind of text. Its end goes out with the next piece, before the
//! event that ends it, or after [`HOLD_MS`]. What waits is in memory only: a process that dies within
//! that time loses it, and no more.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::limits::STREAMS_PER_SESSION;
use relay_protocol::redact::{HOLD_MS, Redactor, Stream};
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;

use crate::runner::Mono;
use crate::store::SessionNo;

/// The streams of one session. Held while a report is stored, which keeps reports in order.
pub(crate) type SharedStreams = Arc<tokio::sync::Mutex<Streams>>;

/// The streams of one session, by kind.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    by_kind: HashMap<String, Held>,
    pushed: u64,
    /// Whether the session is among those to be looked at when their time has come.
    pub(super) queued: bool,
}

#[derive(Clone)]
struct Held {
    stream: Stream,
    /// The newest piece's event, without its text.
    like: AgentSessionEvent,
    /// Since when something waits.
    since: Option<Mono>,
    /// The number of the newest piece in the session.
    pushed: u64,
}

impl Held {
    fn tail(mut self) -> Option<AgentSessionEvent> {
        let text = self.stream.finish();
        with_text(&mut self.like, text)
    }
}

impl Streams {
    /// Lets a piece of text through its stream: the end of another one that made room for it, and the
    /// event with what is safe of its text, unless nothing is.
    pub(super) fn push(
        &mut self,
        redactor: &Redactor,
        mut event: AgentSessionEvent,
        now: Mono,
    ) -> (Option<AgentSessionEvent>, Option<AgentSessionEvent>) {
        let Some((kind, text)) = piece(&mut event) else {
            return (None, Some(event));
        };
        let text = std::mem::take(text);
        let is_full = self.by_kind.len() >= STREAMS_PER_SESSION;
        let ended = match is_full && !self.by_kind.contains_key(&kind) {
            true => self.end_oldest(),
            false => None,
        };
        self.pushed += 1;
        let held = self.by_kind.entry(kind).or_insert_with(|| Held {
            stream: redactor.stream(),
            like: event.clone(),
            since: None,
            pushed: 0,
        });
        held.like = event.clone();
        held.pushed = self.pushed;
        let safe = held.stream.push(&text);
        held.since = held.stream.has_waiting().then_some(now);
        let said = match text.is_empty() {
            true => Some(event),
            false => with_text(&mut event, safe),
        };
        (ended, said)
    }

    fn end_oldest(&mut self) -> Option<AgentSessionEvent> {
        let oldest = self.by_kind.iter().min_by_key(|(_, held)| held.pushed);
        let kind = oldest.map(|(kind, _)| kind.clone())?;
        self.by_kind.remove(&kind)?.tail()
    }

    /// The ends of the streams that an event ends.
    pub(super) fn ended_by(&mut self, event: &AgentSessionEvent) -> Vec<AgentSessionEvent> {
        let kind = match event {
            AgentSessionEvent::ToolCompleted(done) => tool_kind(&done.tool, done.run.as_deref()),
            AgentSessionEvent::ToolFailed(done) => tool_kind(&done.tool, done.run.as_deref()),
            AgentSessionEvent::StatusChanged(change) if is_end(change.status) => {
                return self.end_all();
            }
            AgentSessionEvent::SessionReleased(_) => return self.end_all(),
            _ => return Vec::new(),
        };
        let ended = self.by_kind.remove(&kind);
        ended.and_then(Held::tail).into_iter().collect()
    }

    fn end_all(&mut self) -> Vec<AgentSessionEvent> {
        let mut all: Vec<Held> = std::mem::take(&mut self.by_kind).into_values().collect();
        all.sort_unstable_by_key(|held| held.pushed);
        all.into_iter().filter_map(Held::tail).collect()
    }

    /// What has waited for long enough.
    pub(super) fn waited(&mut self, now: Mono) -> Vec<AgentSessionEvent> {
        let is_due = |held: &&mut Held| held.since.is_some_and(|since| since + HOLD_MS <= now);
        let mut due: Vec<&mut Held> = self.by_kind.values_mut().filter(is_due).collect();
        due.sort_unstable_by_key(|held| held.pushed);
        let tail = |held: &mut Held| {
            held.since = None;
            let text = held.stream.flush();
            with_text(&mut held.like.clone(), text)
        };
        due.into_iter().filter_map(tail).collect()
    }

    /// When the next end has waited for long enough.
    pub(super) fn next_due(&self) -> Option<Mono> {
        let since = self.by_kind.values().filter_map(|held| held.since).min();
        since.map(|since| since + HOLD_MS)
    }
}

const fn is_end(status: AgentStatus) -> bool {
    matches!(
        status,
        AgentStatus::Releasing | AgentStatus::Released | AgentStatus::Failed
    )
}

/// The event with this text; nothing without any.
fn with_text(event: &mut AgentSessionEvent, text: String) -> Option<AgentSessionEvent> {
    if text.is_empty() {
        return None;
    }
    *piece(event)?.1 = text;
    Some(event.clone())
}

/// The text of an event that comes in pieces, and the stream it belongs to.
fn piece(event: &mut AgentSessionEvent) -> Option<(String, &mut String)> {
    match event {
        AgentSessionEvent::TerminalOutput(output) => {
            let stream = output.stream.map_or("", |stream| stream.as_str());
            Some((format!("terminal {stream}"), &mut output.text))
        }
        AgentSessionEvent::TranscriptChunk(report) => {
            let role = report.chunk.role;
            Some((format!("transcript {role}"), &mut report.chunk.content))
        }
        AgentSessionEvent::ToolOutput(output) => {
            let kind = tool_kind(&output.tool, output.run.as_deref());
            Some((kind, &mut output.output))
        }
        _ => None,
    }
}

fn tool_kind(tool: &str, run: Option<&str>) -> String {
    format!("tool {tool} {}", run.unwrap_or_default())
}

/// Sessions in whose streams something waits, by when it has waited for long enough.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<BTreeMap<(Mono, SessionNo), SharedStreams>>);

impl Waiting {
    fn queue(&self) -> MutexGuard<'_, BTreeMap<(Mono, SessionNo), SharedStreams>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a session at this time.
    pub(super) fn put(&self, at: Mono, session: SessionNo, streams: SharedStreams) {
        self.queue().insert((at, session), streams);
    }

    /// A session whose time has come.
    pub(super) fn take(&self, now: Mono) -> Option<(SessionNo, SharedStreams)> {
        let mut queue = self.queue();
        let first = queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, session), streams) = first.remove_entry();
        Some((session, streams))
    }

    /// When the next one's has.
    pub(super) fn next_due(&self) -> Option<Mono> {
        let queue = self.queue();
        queue.first_key_value().map(|((at, _), _)| *at)
    }
}
