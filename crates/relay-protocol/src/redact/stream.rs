//! Redaction of text that arrives in pieces, such as the output of a terminal or a model.
//!
//! Text goes out as soon as nothing that may follow can change it: usually all but the last word.
//! What may be the beginning of a secret waits for more text, for `flush` or for `finish`. Flushed
//! text stays in mind as context, so that the rest of a secret is removed even when its beginning
//! was shown. Of a private key nothing waits: its marker goes out and its lines are dropped.
//! Memory is bounded: rules decide within their limits, which sum up to less than `MAX_HELD`.

use super::{
    Redactor,
    limits::{MAX_HELD, MAX_JOINED, REACH},
    marker,
    rules::pem,
    scan::{Findings, Span},
    text::Text,
    values::Occurrences,
    view::View,
};

/// Redacts text piece by piece; made by [`Redactor::stream`].
///
/// Joined together, what the calls return is what [`Redactor::redact`] makes of the whole text.
#[derive(Clone)]
pub struct Stream {
    redactor: Redactor,
    /// Context that went out already, then what did not.
    buffer: String,
    /// Up to here everything is decided.
    decided: usize,
    /// Up to here everything went out; beyond `decided` only after a flush.
    emitted: usize,
    /// Where the last secret that went out ends.
    wall: usize,
    /// Whether the last thing that went out was the marker of a secret that may go on.
    marker_is_open: bool,
    /// Whether the buffer begins inside a private key.
    inside_key: bool,
}

impl Stream {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            buffer: String::new(),
            decided: 0,
            emitted: 0,
            wall: 0,
            marker_is_open: false,
            inside_key: false,
        }
    }

    /// Takes the next piece and returns what is safe to show now.
    pub fn push(&mut self, piece: &str) -> String {
        self.buffer.push_str(piece);
        let mut out = String::with_capacity(self.buffer.len());
        self.advance(More::Follows, &mut out);
        if self.held() > MAX_HELD {
            self.give_up(&mut out);
        }
        out
    }

    /// Returns what was held back, because nothing has arrived for [`HOLD_MS`](super::HOLD_MS).
    ///
    /// The lines of a private key, and whatever is left of a secret that was already recognised,
    /// are still removed afterwards.
    pub fn flush(&mut self) -> String {
        let mut out = String::new();
        if self.inside_key && !self.skip_key(More::Paused) {
            return out;
        }
        let buffer = std::mem::take(&mut self.buffer);
        let view = View::whole(&buffer);
        let findings = self.scan(&view, More::Paused);
        self.write(&view, &findings, buffer.len(), &mut out);
        self.buffer = buffer;
        out
    }

    /// Ends the stream and returns the rest.
    pub fn finish(mut self) -> String {
        let mut out = String::new();
        self.advance(More::Never, &mut out);
        out
    }

    /// Emits what can be decided and forgets what is no longer needed as context.
    fn advance(&mut self, more: More, out: &mut String) {
        loop {
            if self.inside_key && !self.skip_key(more) {
                return;
            }
            if !self.emit(more, out) {
                return;
            }
        }
    }

    /// Emits decided text; says whether it came to a private key that goes on.
    fn emit(&mut self, more: More, out: &mut String) -> bool {
        let buffer = std::mem::take(&mut self.buffer);
        let view = more.view(&buffer);
        let findings = self.scan(&view, more);
        let key_end = findings.open_key.and_then(|key| key.settled);
        let hold = key_end.unwrap_or_else(|| hold(&findings));
        let all = hold == view.plain().len();
        let end = if all {
            view.original().len()
        } else {
            view.before(hold)
        };
        self.write(&view, &findings, end, out);
        let passed = findings.secrets.iter().rev().map(|found| found.secret.end);
        let wall = passed.into_iter().find(|&secret_end| secret_end <= hold);
        let wall = wall.unwrap_or_else(|| view.plain_offset(self.wall));
        self.inside_key = key_end.is_some();
        self.keep(&view, hold, wall, &buffer[end..]);
        self.emitted = self.decided + (self.emitted - end);
        self.inside_key
    }

    /// Keeps some plain text before `hold` as context, and what is not decided yet.
    fn keep(&mut self, view: &View<'_>, hold: usize, wall: usize, undecided: &str) {
        let reach = if self.inside_key { 0 } else { REACH };
        let context = view.plain().floor_char_boundary(hold.saturating_sub(reach));
        self.buffer.push_str(&view.plain()[context..hold]);
        self.decided = self.buffer.len();
        self.wall = wall.saturating_sub(context);
        self.buffer.push_str(undecided);
    }

    /// Writes the part of the text up to `end` that was not emitted yet, and of secrets that begin
    /// in it the marker.
    fn write(&mut self, view: &View<'_>, findings: &Findings, end: usize, out: &mut String) {
        let original = view.original();
        for secret in findings.secrets.iter().map(|found| found.secret) {
            let (start, stop) = (view.after(secret.start), view.before(secret.end));
            if stop <= self.emitted || start >= end {
                continue;
            }
            if start >= self.emitted {
                out.push_str(&original[self.emitted..start]);
            }
            if start >= self.emitted || !self.marker_is_open {
                marker::push(out, secret.kind);
            }
            out.extend(secret.colours(view));
            self.emitted = stop;
            self.marker_is_open = true;
        }
        if end > self.emitted {
            out.push_str(&original[self.emitted..end]);
            self.emitted = end;
            self.marker_is_open = false;
        }
    }

    /// Drops lines of a private key; says whether its end was found.
    fn skip_key(&mut self, more: More) -> bool {
        let view = more.view(&self.buffer);
        let none = Occurrences::default();
        let text = Text::new(view.plain(), view.escapes(), &none, 0);
        let body = pem::resume(&text);
        let values = self.redactor.scanner.occurrences(view.plain(), 0);
        let ended = match more {
            More::Never => true,
            More::Paused => !body.open,
            More::Follows => !text.saw_end() && values.partial.is_none_or(|at| at >= body.end),
        };
        let end = if ended {
            values
                .range_across(body.end)
                .map_or(body.end, |value| value.end)
        } else if values.cross(body.settled) {
            0
        } else {
            body.settled
        };
        self.buffer.drain(..view.before(end));
        (self.decided, self.emitted, self.wall) = (0, 0, 0);
        self.inside_key = !ended;
        self.marker_is_open = false;
        ended
    }

    /// Lets go of text that has grown too long without being decided. No text does that by itself,
    /// but colour changes without any text between them can.
    fn give_up(&mut self, out: &mut String) {
        if !self.inside_key {
            out.push_str(&self.flush());
        }
        self.buffer.clear();
        (self.decided, self.emitted, self.wall) = (0, 0, 0);
    }

    fn scan(&self, view: &View<'_>, more: More) -> Findings {
        let span = Span {
            from: view.plain_offset(self.decided),
            wall: view.plain_offset(self.wall),
            unfinished: !more.ends_text(),
        };
        self.redactor.scanner.scan(view, span)
    }

    /// Whether something waits for more text, for `flush` or for `finish`.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.buffer.len() > self.decided.max(self.emitted)
    }

    fn held(&self) -> usize {
        self.buffer.len() - self.decided
    }
}

impl std::fmt::Debug for Stream {
    /// Says how much is held, not what: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

/// What is known about the text after the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    /// It may come at any moment.
    Follows,
    /// It may come, but what is there has waited long enough.
    Paused,
    /// There is none.
    Never,
}

impl More {
    fn view(self, buffer: &str) -> View<'_> {
        if self.ends_text() {
            View::whole(buffer)
        } else {
            View::beginning(buffer)
        }
    }

    fn ends_text(self) -> bool {
        !matches!(self, Self::Follows)
    }
}

/// From where on text waits. A secret that others may lengthen waits too, but not for ever.
fn hold(findings: &Findings) -> usize {
    let joined = findings.undecided - findings.hold;
    if joined > MAX_JOINED {
        findings.undecided
    } else {
        findings.hold
    }
}
