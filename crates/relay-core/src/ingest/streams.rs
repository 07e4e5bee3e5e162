//! Redaction of text that comes in pieces, without moving any of it from one event to another.
//!
//! A session has one stream per kind of text (a terminal's output, a role's transcript, a tool's output).
//! A text event whose end may begin a secret is held as a whole, together with those that continue the same
//! stream, until the redactor has decided about all of its text or the hold is ended. Each event keeps its own
//! number, identity and remaining text. Pure: time comes in, nothing is stored here.
//!
//! A stream remembers the end of its text beyond a hold, so that a secret that goes on is removed there as well.
//! [`TextStreams::undo_from`] forgets what could not be stored.

use std::collections::{HashMap, VecDeque};

use relay_protocol::limits::{HELD_EVENTS, HELD_TEXT_BYTES, STREAMS_PER_SESSION};
use relay_protocol::redact::{HOLD_MS, Redactor, Stream, StreamPart};
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;

use crate::runner::Mono;

/// An event that is complete and may be stored, with its number.
pub(super) type Released = (u64, AgentSessionEvent);

/// The text streams of one session.
#[derive(Default)]
pub(super) struct TextStreams {
    by_kind: HashMap<String, TextStream>,
    hold: Option<TextHold>,
    /// How to forget the events that are not stored yet, oldest first.
    undo: VecDeque<Undo>,
}

struct TextStream {
    stream: Stream,
    /// The number of the newest event.
    newest: u64,
}

/// How a stream was before an event.
struct Undo {
    n: u64,
    kind: String,
    before: Option<Stream>,
}

/// Text events of one stream that wait for the redactor's decision.
struct TextHold {
    kind: String,
    since: Mono,
    bytes: usize,
    events: VecDeque<HeldEvent>,
}

struct HeldEvent {
    n: u64,
    /// The event without its text.
    event: AgentSessionEvent,
    /// Where its text ends in the stream.
    end: u64,
    /// The redacted text so far.
    text: String,
}

impl TextHold {
    /// Gives a part of the redacted text to the event that it came from.
    fn add(&mut self, part: StreamPart<'_>) {
        match part {
            StreamPart::Masked { at, .. } => {
                let event = self.events.iter_mut().find(|event| at < event.end);
                if let Some(event) = event {
                    part.write(&mut event.text);
                }
            }
            StreamPart::Kept { mut at, mut text } => {
                let first = self.events.partition_point(|event| event.end <= at);
                for event in self.events.iter_mut().skip(first) {
                    let room = usize::try_from(event.end.saturating_sub(at)).unwrap_or(usize::MAX);
                    let (own, rest) = text.split_at(text.floor_char_boundary(room));
                    event.text.push_str(own);
                    (at, text) = (event.end, rest);
                    if text.is_empty() {
                        break;
                    }
                }
            }
        }
    }

    fn is_full(&self) -> bool {
        self.bytes > HELD_TEXT_BYTES || self.events.len() >= HELD_EVENTS
    }
}

impl HeldEvent {
    /// The event with its text. A piece may look like a secret by itself that is none in its stream; it is
    /// removed all the same.
    fn release(mut self, redactor: &Redactor) -> Released {
        if let Some((_, text)) = piece(&mut self.event) {
            *text = redactor.redact(&self.text).into_owned();
        }
        (self.n, self.event)
    }
}

impl TextStreams {
    /// Lets a stream go on after the text that is stored of it.
    pub(super) fn recall(&mut self, redactor: &Redactor, kind: String, stored: &str) {
        let mut stream = redactor.stream();
        stream.resume_after(stored);
        self.make_room(&kind);
        self.by_kind.insert(kind, TextStream { stream, newest: 0 });
    }

    /// Takes the next text event; passes on the events that may be stored now.
    pub(super) fn push(
        &mut self,
        redactor: &Redactor,
        (n, mut event): Released,
        now: Mono,
        out: &mut Vec<Released>,
    ) {
        let Some((kind, text)) = piece(&mut event) else {
            self.end_hold(redactor, out);
            return out.push((n, event));
        };
        let text = std::mem::take(text);
        if self.hold.as_ref().is_some_and(|hold| hold.kind != kind) {
            self.end_hold(redactor, out);
        }
        self.make_room(&kind);
        let known = self.by_kind.get(&kind).map(|known| known.stream.clone());
        let known_bytes = known.as_ref().map_or(0, Stream::bytes);
        self.undo.push_back(Undo {
            n,
            kind: kind.clone(),
            before: known,
        });
        let hold = self.hold.get_or_insert_with(|| TextHold {
            kind: kind.clone(),
            since: now,
            bytes: 0,
            events: VecDeque::new(),
        });
        let entry = self.by_kind.entry(kind).or_insert_with(|| TextStream {
            stream: redactor.stream(),
            newest: n,
        });
        entry.newest = n;
        hold.bytes += text.len() + known_bytes;
        hold.events.push_back(HeldEvent {
            n,
            event,
            end: entry.stream.pushed() + text.len() as u64,
            text: String::new(),
        });
        entry.stream.push_parts(&text, &mut |part| hold.add(part));
        let passed = entry.stream.passed();
        while let Some(event) = hold.events.pop_front_if(|event| event.end <= passed) {
            out.push(event.release(redactor));
        }
        if hold.events.is_empty() {
            self.hold = None;
        } else if text.ends_with('\n') || hold.is_full() {
            self.end_hold(redactor, out);
        }
    }

    /// Passes on what is held. A secret that breaks off there is masked as far as it has come.
    pub(super) fn end_hold(&mut self, redactor: &Redactor, out: &mut Vec<Released>) {
        let Some(mut hold) = self.hold.take() else {
            return;
        };
        if let Some(known) = self.by_kind.get_mut(&hold.kind) {
            known.stream.interrupt(&mut |part| hold.add(part));
        }
        let events = hold.events.into_iter();
        out.extend(events.map(|event| event.release(redactor)));
    }

    /// Passes on what is held before an event that is no text, and ends the streams that the event ends.
    pub(super) fn end_by(
        &mut self,
        redactor: &Redactor,
        n: u64,
        ends: &StreamEnd,
        out: &mut Vec<Released>,
    ) {
        match ends {
            StreamEnd::None => self.end_hold(redactor, out),
            StreamEnd::One(kind) => {
                self.finish(redactor, n, kind, out);
                self.end_hold(redactor, out);
            }
            StreamEnd::All => {
                let kinds: Vec<String> = self.by_kind.keys().cloned().collect();
                for kind in kinds {
                    self.finish(redactor, n, &kind, out);
                }
            }
        }
    }

    /// Ends a stream. Nothing follows, so nothing has to be masked because of what might follow.
    fn finish(&mut self, redactor: &Redactor, n: u64, kind: &str, out: &mut Vec<Released>) {
        let Some(known) = self.by_kind.remove(kind) else {
            return;
        };
        self.undo.push_back(Undo {
            n,
            kind: kind.to_owned(),
            before: Some(known.stream.clone()),
        });
        if let Some(mut hold) = self.hold.take_if(|hold| hold.kind == kind) {
            known.stream.finish_parts(&mut |part| hold.add(part));
            let events = hold.events.into_iter();
            out.extend(events.map(|event| event.release(redactor)));
        }
    }

    /// Forgets the stream that was not used for longest when there are too many. Nothing of it is held.
    fn make_room(&mut self, kind: &str) {
        if self.by_kind.len() < STREAMS_PER_SESSION || self.by_kind.contains_key(kind) {
            return;
        }
        let oldest = self.by_kind.iter().min_by_key(|(_, known)| known.newest);
        if let Some(oldest) = oldest.map(|(kind, _)| kind.clone()) {
            self.by_kind.remove(&oldest);
        }
    }

    /// When the hold has to be ended at the latest.
    pub(super) fn due(&self) -> Option<Mono> {
        self.hold.as_ref().map(|hold| hold.since + HOLD_MS)
    }

    /// Everything up to this number is stored.
    pub(super) fn confirm(&mut self, n: u64) {
        while self.undo.pop_front_if(|undo| undo.n <= n).is_some() {}
    }

    /// Forgets the events from this number on; those before it are stored or on their way.
    pub(super) fn undo_from(&mut self, n: u64) {
        self.hold = None;
        while let Some(undo) = self.undo.pop_back_if(|undo| undo.n >= n) {
            match undo.before {
                Some(stream) => {
                    let newest = n.saturating_sub(1);
                    let before = TextStream { stream, newest };
                    self.by_kind.insert(undo.kind, before);
                }
                None => {
                    self.by_kind.remove(&undo.kind);
                }
            }
        }
        // What waits in a stream now belongs to events that were passed on already.
        for known in self.by_kind.values_mut() {
            if known.stream.has_waiting() {
                known.stream.interrupt(&mut |_| {});
            }
        }
    }
}

/// Which streams an event ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    None,
    One(String),
    All,
}

impl StreamEnd {
    /// The streams that an event ends which is no text itself.
    pub(super) fn of(event: &AgentSessionEvent) -> Self {
        match event {
            AgentSessionEvent::ToolCompleted(done) => {
                Self::One(tool_kind(&done.tool, done.run.as_deref()))
            }
            AgentSessionEvent::ToolFailed(done) => {
                Self::One(tool_kind(&done.tool, done.run.as_deref()))
            }
            AgentSessionEvent::StatusChanged(change) if is_end(change.status) => Self::All,
            AgentSessionEvent::SessionReleased(_) => Self::All,
            _ => Self::None,
        }
    }
}

const fn is_end(status: AgentStatus) -> bool {
    matches!(
        status,
        AgentStatus::Releasing | AgentStatus::Released | AgentStatus::Failed
    )
}

/// The text of an event that comes in pieces, and the stream it belongs to.
pub(super) fn piece(event: &mut AgentSessionEvent) -> Option<(String, &mut String)> {
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

/// Whether an event is text that comes in pieces.
pub(super) const fn comes_in_pieces(event: &AgentSessionEvent) -> bool {
    matches!(
        event,
        AgentSessionEvent::TerminalOutput(_)
            | AgentSessionEvent::TranscriptChunk(_)
            | AgentSessionEvent::ToolOutput(_)
    )
}

fn tool_kind(tool: &str, run: Option<&str>) -> String {
    format!("tool {tool} {}", run.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use relay_protocol::session_event::TerminalOutput;

    use super::*;

    fn terminal(text: &str) -> AgentSessionEvent {
        AgentSessionEvent::TerminalOutput(TerminalOutput {
            stream: None,
            text: text.to_owned(),
        })
    }

    fn texts(released: &mut Vec<Released>) -> Vec<(u64, String)> {
        let text = |(n, mut event)| (n, piece(&mut event).unwrap().1.clone());
        released.drain(..).map(text).collect()
    }

    struct Fixture {
        redactor: Redactor,
        streams: TextStreams,
        out: Vec<Released>,
    }

    impl Fixture {
        fn new() -> Self {
            Self {
                redactor: Redactor::new(),
                streams: TextStreams::default(),
                out: Vec::new(),
            }
        }

        fn push(&mut self, n: u64, text: &str) -> Vec<(u64, String)> {
            let event = (n, terminal(text));
            self.streams.push(&self.redactor, event, n, &mut self.out);
            texts(&mut self.out)
        }

        fn end(&mut self) -> Vec<(u64, String)> {
            self.streams.end_hold(&self.redactor, &mut self.out);
            texts(&mut self.out)
        }
    }

    fn owned(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
        let own = |(n, text): &(u64, &str)| (*n, (*text).to_owned());
        expected.iter().map(own).collect()
    }

    #[test]
    fn a_secret_over_events_is_masked_where_it_begins() {
        let mut kit = Fixture::new();
        let token = ["gh", "p_"].concat();
        assert_eq!(kit.push(1, &format!("a {token}")), []);
        assert_eq!(kit.push(2, &"x7".repeat(18)), []);
        assert_eq!(kit.streams.due(), Some(1 + HOLD_MS));
        let expected = [(1, "a [redacted:github-token]"), (2, ""), (3, " b ")];
        assert_eq!(kit.push(3, " b "), owned(&expected));
        assert_eq!(kit.streams.due(), None);
    }

    #[test]
    fn a_hold_that_is_ended_masks_what_breaks_off_and_what_follows() {
        let mut kit = Fixture::new();
        let token = ["gh", "p_x7x7x7x7"].concat();
        assert_eq!(kit.push(1, &format!("a {token}")), []);
        assert_eq!(kit.end(), owned(&[(1, "a [redacted:github-token]")]));
        assert_eq!(kit.push(2, &"x7".repeat(18)), []);
        assert_eq!(kit.push(3, "\nb\n"), owned(&[(2, ""), (3, "\nb\n")]));
    }

    #[test]
    fn what_could_not_be_stored_is_forgotten() {
        let mut kit = Fixture::new();
        let token = ["gh", "p_"].concat();
        assert_eq!(kit.push(1, "a "), owned(&[(1, "a ")]));
        kit.streams.confirm(1);
        assert_eq!(kit.push(2, &token), []);
        kit.streams.undo_from(2);
        assert_eq!(kit.streams.due(), None);
        assert_eq!(kit.push(2, &"x7".repeat(18)), []);
        assert_eq!(kit.end(), owned(&[(2, &"x7".repeat(18))]));
    }

    #[test]
    fn a_hold_has_bounds() {
        let mut kit = Fixture::new();
        let mut released = 0;
        for n in 1..=HELD_EVENTS as u64 {
            assert_eq!(released, 0);
            released += kit.push(n, "word").len();
        }
        assert_eq!(released, HELD_EVENTS);
        let long = "w".repeat(HELD_TEXT_BYTES + 1);
        let n = HELD_EVENTS as u64 + 1;
        assert_eq!(kit.push(n, &long).len(), 1);
    }
}
