//! Redaction of text that arrives in pieces, such as the output of a terminal or a model.
//!
//! Text goes out as soon as nothing that may follow can change it: usually all but the last word.
//! What may be the beginning of a secret waits for more text, for `flush` or for `finish`. Flushed
//! text stays in mind as context, so that the rest of a secret is removed even when its beginning
//! was shown. Of a private key nothing waits: its marker goes out and its lines are dropped.
//! Memory is bounded: rules decide within their limits, which sum up to less than `MAX_HELD`.
//!
//! Everything that comes out says from where in the input it comes, so that a caller can give each piece
//! its own part back. Offsets count the bytes of all pieces.

use super::{
    Redactor,
    limits::{MAX_HELD, MAX_JOINED, REACH},
    marker,
    rules::pem,
    scan::{Finding, Findings, Span},
    text::Text,
    values::Occurrences,
    view::View,
};

/// A part of what a [`Stream`] returns, and from where in its input it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPart<'t> {
    /// Text of the input.
    Kept {
        /// The offset of its first byte.
        at: u64,
        /// The text as it came in.
        text: &'t str,
    },
    /// A secret of the input. Its later parts produce nothing.
    Masked {
        /// The offset of its first byte that was not returned before.
        at: u64,
        /// What kind of secret it is.
        kind: &'static str,
    },
}

impl StreamPart<'_> {
    /// Appends the part as text.
    pub fn write(self, out: &mut String) {
        match self {
            Self::Kept { text, .. } => out.push_str(text),
            Self::Masked { kind, .. } => marker::push(out, kind),
        }
    }
}

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
    /// How many bytes have come in.
    pushed: u64,
    /// Whether what comes next may be the rest of a secret of which nothing else is known.
    after_mask: bool,
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
            pushed: 0,
            after_mask: false,
        }
    }

    /// Lets a stream to which nothing was pushed go on after text that another one returned. Where that ends in a
    /// mask, the rest of the secret is removed as far as it can be recognised without its beginning.
    pub fn resume_after(&mut self, returned: &str) {
        match marker::last_kind(returned) {
            Some(pem::KIND) => self.inside_key = true,
            Some(_) => self.after_mask = true,
            None => {
                returned.clone_into(&mut self.buffer);
                self.pushed = self.buffer.len() as u64;
                self.emitted = self.buffer.len();
            }
        }
    }

    /// Takes the next piece and returns what is safe to show now.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(self.buffer.len() + piece.len());
        self.push_parts(piece, &mut |part| part.write(&mut out));
        out
    }

    /// Takes the next piece and passes on the parts that are safe to show now.
    pub fn push_parts(&mut self, piece: &str, out: &mut impl FnMut(StreamPart<'_>)) {
        self.pushed += piece.len() as u64;
        let piece = self.skip_rest(piece);
        self.buffer.push_str(piece);
        self.advance(More::Follows, out);
        if self.held() > MAX_HELD {
            self.give_up(out);
        }
    }

    /// The piece without the rest of a secret whose beginning is not known any more.
    fn skip_rest<'p>(&mut self, piece: &'p str) -> &'p str {
        if !self.after_mask {
            return piece;
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-+/=.~%".contains(c);
        let rest = piece.trim_start_matches(is_part);
        self.after_mask = rest.is_empty();
        rest
    }

    /// Returns what was held back, because nothing has arrived for [`HOLD_MS`](super::HOLD_MS).
    ///
    /// The lines of a private key, and whatever is left of a secret that was already recognised,
    /// are still removed afterwards.
    pub fn flush(&mut self) -> String {
        let mut out = String::new();
        self.flush_parts(&mut |part| part.write(&mut out));
        out
    }

    fn flush_parts(&mut self, out: &mut impl FnMut(StreamPart<'_>)) {
        if self.inside_key && !self.skip_key(More::Paused) {
            return;
        }
        self.emit_all(None, out);
    }

    /// Passes on everything that was held back, because it can't wait any longer. A secret that the text breaks
    /// off is masked as far as it is there, and so is what follows of it.
    pub fn interrupt(&mut self, out: &mut impl FnMut(StreamPart<'_>)) {
        if self.inside_key && !self.skip_key(More::Paused) {
            self.emitted = self.buffer.len();
            return;
        }
        let cut = self.has_waiting().then(|| self.cut_secret()).flatten();
        self.emit_all(cut, out);
    }

    /// The secret that the text breaks off, if there is one.
    fn cut_secret(&self) -> Option<Finding> {
        let view = View::whole(&self.buffer);
        let span = self.span(&view, More::Paused);
        self.redactor.scanner.cut_secret(&view, span)
    }

    fn emit_all(&mut self, cut: Option<Finding>, out: &mut impl FnMut(StreamPart<'_>)) {
        let buffer = std::mem::take(&mut self.buffer);
        let view = View::whole(&buffer);
        let mut findings = self.scan(&view, More::Paused);
        findings.add(cut);
        self.write(&view, &findings, buffer.len(), self.base(&buffer), out);
        self.buffer = buffer;
    }

    /// Ends the stream and returns the rest.
    pub fn finish(self) -> String {
        let mut out = String::new();
        self.finish_parts(&mut |part| part.write(&mut out));
        out
    }

    /// Ends the stream and passes on the rest.
    pub fn finish_parts(mut self, out: &mut impl FnMut(StreamPart<'_>)) {
        self.advance(More::Never, out);
    }

    /// Emits what can be decided and forgets what is no longer needed as context.
    fn advance(&mut self, more: More, out: &mut impl FnMut(StreamPart<'_>)) {
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
    fn emit(&mut self, more: More, out: &mut impl FnMut(StreamPart<'_>)) -> bool {
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
        let before = self.emitted;
        self.write(&view, &findings, end, self.base(&buffer), out);
        let passed = findings.secrets.iter().rev().map(|found| found.secret.end);
        let wall = passed.into_iter().find(|&secret_end| secret_end <= hold);
        let wall = wall.unwrap_or_else(|| view.plain_offset(self.wall));
        self.inside_key = key_end.is_some();
        self.keep(&view, hold, wall, &buffer[end..]);
        // Whether the last line belongs to a key is decided anew once it is complete.
        let emitted = if self.inside_key {
            before
        } else {
            self.emitted
        };
        self.emitted = self.decided + emitted.saturating_sub(end);
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

    /// The offset in the input of a buffer's first byte that is not context.
    fn base(&self, buffer: &str) -> u64 {
        // Context is shorter than what it was, so only offsets behind it mean something.
        self.pushed.saturating_sub(buffer.len() as u64)
    }

    /// Writes the part of the text up to `end` that was not emitted yet, and of secrets that begin
    /// in it the marker. The buffer begins at offset `base` of the input.
    fn write(
        &mut self,
        view: &View<'_>,
        findings: &Findings,
        end: usize,
        base: u64,
        out: &mut impl FnMut(StreamPart<'_>),
    ) {
        let original = view.original();
        let offset = |at: usize| base + at as u64;
        let kept = |from: usize, to: usize| StreamPart::Kept {
            at: offset(from),
            text: &original[from..to],
        };
        for secret in findings.secrets.iter().map(|found| found.secret) {
            let (start, stop) = (view.after(secret.start), view.before(secret.end));
            if stop <= self.emitted || start >= end {
                continue;
            }
            if start > self.emitted {
                out(kept(self.emitted, start));
            }
            let begin = start.max(self.emitted);
            if start >= self.emitted || !self.marker_is_open {
                out(StreamPart::Masked {
                    at: offset(begin),
                    kind: secret.kind,
                });
            }
            for (at, text) in secret.colours(view) {
                let at = offset(at.max(begin));
                out(StreamPart::Kept { at, text });
            }
            self.emitted = stop;
            self.marker_is_open = true;
        }
        if end > self.emitted {
            out(kept(self.emitted, end));
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
        let dropped = view.before(end);
        self.buffer.drain(..dropped);
        (self.decided, self.wall) = (0, 0);
        self.emitted = self.emitted.saturating_sub(dropped);
        self.inside_key = !ended;
        self.marker_is_open = false;
        ended
    }

    /// Lets go of text that has grown too long without being decided. No text does that by itself,
    /// but colour changes without any text between them can.
    fn give_up(&mut self, out: &mut impl FnMut(StreamPart<'_>)) {
        if !self.inside_key {
            self.flush_parts(out);
        }
        self.buffer.clear();
        (self.decided, self.emitted, self.wall) = (0, 0, 0);
    }

    fn scan(&self, view: &View<'_>, more: More) -> Findings {
        let span = self.span(view, more);
        self.redactor.scanner.scan(view, span)
    }

    fn span(&self, view: &View<'_>, more: More) -> Span {
        Span {
            from: view.plain_offset(self.decided),
            wall: view.plain_offset(self.wall),
            unfinished: !more.ends_text(),
        }
    }

    /// Whether something waits for more text, for `flush` or for `finish`.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.waiting() > 0
    }

    /// The offset in the input up to which everything was passed on or removed.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.pushed - self.waiting() as u64
    }

    /// How many bytes have come in.
    #[must_use]
    pub const fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How many bytes of text this keeps in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    fn waiting(&self) -> usize {
        let passed = self.decided.max(self.emitted);
        self.buffer.len().saturating_sub(passed)
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
