//! Text as a person sees it: without terminal colour sequences, but able to say where each byte was.
//!
//! Rules read the plain text, so a colour change between a name and its value, or in the middle of
//! a token, hides nothing. Only the usual CSI sequences (colour, erasing, moving, modes) and charset
//! selections are taken out. Others stay, so that a secret cannot pass as one, and so do the
//! contents of links and titles (OSC), which may carry secrets themselves.

use std::borrow::Cow;

use memchr::memchr;

use super::limits::MAX_ESCAPE;

const ESC: u8 = 0x1b;

/// One sequence that was taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Escape {
    /// Where it stood, counted in the plain text.
    pub(super) plain: usize,
    /// Where it starts in the original.
    start: usize,
    /// Where it ends in the original.
    end: usize,
}

/// Plain text with a map back to the original.
#[derive(Debug)]
pub(super) struct View<'t> {
    original: &'t str,
    plain: Cow<'t, str>,
    escapes: Vec<Escape>,
}

impl<'t> View<'t> {
    /// Views text that is complete: a cut-off sequence at its end is ordinary text.
    pub(super) fn whole(original: &'t str) -> Self {
        Self::build(original)
    }

    /// Views the beginning of longer text: a cut-off sequence at its end is left out.
    pub(super) fn beginning(original: &'t str) -> Self {
        let bytes = original.as_bytes();
        let tail = bytes.len().saturating_sub(MAX_ESCAPE);
        let cut = memchr::memrchr(ESC, &bytes[tail..])
            .map(|at| tail + at)
            .filter(|&at| matches!(sequence(&bytes[at..]), Sequence::Unfinished));
        Self::build(&original[..cut.unwrap_or(original.len())])
    }

    fn build(original: &'t str) -> Self {
        let bytes = original.as_bytes();
        let mut escapes = Vec::new();
        let mut plain = String::new();
        let (mut copied, mut from) = (0, 0);
        while let Some(at) = memchr(ESC, &bytes[from..]).map(|at| from + at) {
            let Sequence::Length(length) = sequence(&bytes[at..]) else {
                from = at + 1;
                continue;
            };
            plain.push_str(&original[copied..at]);
            escapes.push(Escape {
                plain: plain.len(),
                start: at,
                end: at + length,
            });
            copied = at + length;
            from = copied;
        }
        if escapes.is_empty() {
            return Self {
                original,
                plain: Cow::Borrowed(original),
                escapes,
            };
        }
        plain.push_str(&original[copied..]);
        Self {
            original,
            plain: Cow::Owned(plain),
            escapes,
        }
    }

    /// The text without sequences.
    pub(super) fn plain(&self) -> &str {
        &self.plain
    }

    /// The text as it was given, without a cut-off sequence at its end.
    pub(super) fn original(&self) -> &'t str {
        self.original
    }

    /// The sequences that were taken out, in order.
    pub(super) fn escapes(&self) -> &[Escape] {
        &self.escapes
    }

    /// The original offset of a plain one; sequences at that very place come after it.
    pub(super) fn before(&self, plain: usize) -> usize {
        self.original_offset(
            plain,
            self.escapes.partition_point(|escape| escape.plain < plain),
        )
    }

    /// The original offset of a plain one; sequences at that very place come before it.
    pub(super) fn after(&self, plain: usize) -> usize {
        self.original_offset(
            plain,
            self.escapes.partition_point(|escape| escape.plain <= plain),
        )
    }

    /// The plain offset of an original one that is not inside a sequence.
    pub(super) fn plain_offset(&self, original: usize) -> usize {
        let passed = self
            .escapes
            .partition_point(|escape| escape.start < original);
        match passed
            .checked_sub(1)
            .and_then(|last| self.escapes.get(last))
        {
            Some(last) => last.plain + original.saturating_sub(last.end),
            None => original,
        }
    }

    /// The sequences strictly inside a plain range, as written, and where they stand in the original.
    pub(super) fn inside(
        &self,
        start: usize,
        end: usize,
    ) -> impl Iterator<Item = (usize, &'t str)> {
        let first = self.escapes.partition_point(|escape| escape.plain <= start);
        let last = self
            .escapes
            .partition_point(|escape| escape.plain < end)
            .max(first);
        let original = self.original;
        self.escapes[first..last]
            .iter()
            .map(move |escape| (escape.start, &original[escape.start..escape.end]))
    }

    fn original_offset(&self, plain: usize, passed: usize) -> usize {
        match passed
            .checked_sub(1)
            .and_then(|last| self.escapes.get(last))
        {
            Some(last) => last.end + (plain - last.plain),
            None => plain,
        }
    }
}

enum Sequence {
    Length(usize),
    Unfinished,
    None,
}

/// Measures the sequence that starts with the escape character at the front of `bytes`.
fn sequence(bytes: &[u8]) -> Sequence {
    match bytes.get(1) {
        None => Sequence::Unfinished,
        Some(b'[') => control_sequence(bytes),
        Some(b'(' | b')') => match bytes.get(2) {
            None => Sequence::Unfinished,
            Some(b'A'..=b'Z' | b'0'..=b'9') => Sequence::Length(3),
            Some(_) => Sequence::None,
        },
        Some(_) => Sequence::None,
    }
}

fn control_sequence(bytes: &[u8]) -> Sequence {
    for (at, byte) in bytes.iter().enumerate().take(MAX_ESCAPE).skip(2) {
        match byte {
            b'0'..=b'9' | b';' | b':' | b'?' => {}
            b'm' | b'K' | b'J' | b'H' | b'A'..=b'D' | b'G' | b'h' | b'l' => {
                return Sequence::Length(at + 1);
            }
            _ => return Sequence::None,
        }
    }
    if bytes.len() < MAX_ESCAPE {
        Sequence::Unfinished
    } else {
        Sequence::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out_and_offsets_map_back() {
        let view = View::whole("KEY=\x1b[1;32mabc\x1b[0m done");
        assert_eq!(view.plain(), "KEY=abc done");
        assert_eq!((view.before(4), view.after(4)), (4, 11));
        assert_eq!((view.before(7), view.after(7)), (14, 18));
        assert_eq!(view.plain_offset(11), 4);
        assert_eq!(view.plain_offset(4), 4);
        assert_eq!(view.inside(2, 6).collect::<Vec<_>>(), [(4, "\x1b[1;32m")]);
        assert_eq!(view.inside(4, 7).count(), 0);
    }

    #[test]
    fn links_keep_their_address() {
        let text = "\x1b]8;;https://a.example\x1b\\here\x1b]8;;\x1b\\";
        assert_eq!(View::whole(text).plain(), text);
    }

    #[test]
    fn a_cut_off_sequence_waits_for_its_end() {
        assert_eq!(View::beginning("abc\x1b[3").original(), "abc");
        assert_eq!(View::beginning("abc\x1b").original(), "abc");
        assert_eq!(View::whole("abc\x1b[3").plain(), "abc\x1b[3");
    }
}
