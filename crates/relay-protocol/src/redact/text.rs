//! How rules read text: forward from a literal, remembering whether they came to the end.
//!
//! A rule that has looked at the end of unfinished text may decide differently once more arrives.
//! Because every read goes through [`Text`], the scanner learns this without help from the rules.
//! Registered values, which are found first, read like the bracket that will begin their marker.

use std::{cell::Cell, ops::Range};

use super::{values::Occurrences, view::Escape};

/// What a registered value reads like.
const HOLE: u8 = b'[';

/// Plain text with the place up to which it has already been redacted.
pub(super) struct Text<'t> {
    text: &'t str,
    escapes: &'t [Escape],
    holes: &'t [Range<usize>],
    /// From here on the text may still turn out to be a registered value.
    horizon: usize,
    wall: Cell<usize>,
    saw_end: Cell<bool>,
}

impl<'t> Text<'t> {
    /// Wraps plain text; rules do not look back beyond `wall`.
    pub(super) fn new(
        text: &'t str,
        escapes: &'t [Escape],
        values: &'t Occurrences,
        wall: usize,
    ) -> Self {
        Self {
            text,
            escapes,
            holes: &values.ranges,
            horizon: values.partial.unwrap_or(text.len()),
            wall: Cell::new(wall),
            saw_end: Cell::new(false),
        }
    }

    /// The same text with the registered values in it, which may be part of a private key.
    pub(super) fn with_values(&self) -> Self {
        Self {
            text: self.text,
            escapes: self.escapes,
            holes: &[],
            horizon: self.text.len(),
            wall: self.wall.clone(),
            saw_end: Cell::new(false),
        }
    }

    /// Moves the wall forward, to the end of a secret that was found.
    pub(super) fn raise_wall(&self, to: usize) {
        self.wall.set(self.wall.get().max(to));
    }

    /// Forgets earlier reads.
    pub(super) fn start_reading(&self) {
        self.saw_end.set(false);
    }

    /// Whether any read since `start_reading` depended on where the text ends.
    pub(super) fn saw_end(&self) -> bool {
        self.saw_end.get()
    }

    /// The nearest character boundary at or before an offset.
    pub(super) fn floor_boundary(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at)
    }

    /// The byte at an offset.
    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.look(at);
        let is_hole = self.next_hole(at).is_some_and(|hole| hole.start == at);
        if is_hole {
            Some(HOLE)
        } else {
            self.text.as_bytes().get(at).copied()
        }
    }

    /// Whether the byte at an offset is in a class.
    pub(super) fn is(&self, at: usize, class: impl Fn(u8) -> bool) -> bool {
        self.byte(at).is_some_and(class)
    }

    /// Where a run of bytes of one class ends; it is cut after `most` bytes.
    pub(super) fn run(&self, at: usize, most: usize, class: impl Fn(u8) -> bool) -> usize {
        let bytes = self.text.as_bytes();
        let limit = bytes.len().min(at.saturating_add(most)).max(at);
        let mut from = at;
        while from < limit {
            let hole = self.next_hole(from).filter(|hole| hole.start < limit);
            let until = hole.map_or(limit, |hole| hole.start);
            if let Some(length) = bytes[from..until].iter().position(|&byte| !class(byte)) {
                self.look(from + length);
                return from + length;
            }
            match hole {
                Some(hole) if class(HOLE) => from = hole.end.min(limit),
                Some(hole) => {
                    self.look(hole.start);
                    return hole.start;
                }
                None => break,
            }
        }
        if limit - at < most {
            self.saw_end.set(true);
        } else if limit > at {
            self.look(limit - 1);
        }
        self.text.floor_char_boundary(limit).max(at)
    }

    /// Where blanks (spaces and tabs) end.
    pub(super) fn skip_blanks(&self, at: usize) -> usize {
        self.run(at, 64, |byte| matches!(byte, b' ' | b'\t'))
    }

    /// Whether a literal stands at an offset.
    pub(super) fn literal(&self, at: usize, literal: &str) -> bool {
        self.compare(at, literal.as_bytes(), |a, b| a == b)
    }

    /// Whether a literal stands at an offset, in any case.
    pub(super) fn literal_any_case(&self, at: usize, literal: &str) -> bool {
        self.compare(at, literal.as_bytes(), |a, b| a.eq_ignore_ascii_case(&b))
    }

    /// The text between two offsets that are character boundaries.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// The byte before an offset, unless a removed secret ends there.
    pub(super) fn byte_before(&self, at: usize) -> Option<u8> {
        if at == 0 || at == self.wall.get() || self.hole_before(at) == at {
            return None;
        }
        self.text.as_bytes().get(at - 1).copied()
    }

    /// Where a run of one class that ends at `at` begins, looking back at most `most` bytes.
    pub(super) fn run_back(&self, at: usize, most: usize, class: impl Fn(u8) -> bool) -> usize {
        let wall = Some(self.wall.get())
            .filter(|&wall| wall <= at)
            .unwrap_or(0);
        let floor = wall.max(self.hole_before(at)).max(at.saturating_sub(most));
        let window = self.text.as_bytes().get(floor..at).unwrap_or_default();
        at - window.iter().rev().take_while(|&&byte| class(byte)).count()
    }

    /// Whether a token may begin here: nothing of a word directly precedes it.
    ///
    /// The `n` of a written-out `\n`, the digits of `%20` and a colour change end a word too.
    pub(super) fn word_may_start(&self, at: usize) -> bool {
        let Some(previous) = self.byte_before(at) else {
            return true;
        };
        if !previous.is_ascii_alphanumeric() {
            return true;
        }
        self.after_written_escape(at, previous)
            || self
                .escapes
                .binary_search_by_key(&at, |escape| escape.plain)
                .is_ok()
    }

    /// Notes that what stands at an offset matters.
    fn look(&self, at: usize) {
        if at >= self.horizon {
            self.saw_end.set(true);
        }
    }

    /// The first registered value that starts at or after an offset.
    fn next_hole(&self, at: usize) -> Option<&Range<usize>> {
        self.holes
            .get(self.holes.partition_point(|hole| hole.start < at))
    }

    /// Where the last registered value that ends at or before an offset ends, or 0.
    fn hole_before(&self, at: usize) -> usize {
        let passed = self.holes.partition_point(|hole| hole.end <= at);
        passed
            .checked_sub(1)
            .and_then(|last| self.holes.get(last))
            .map_or(0, |hole| hole.end)
    }

    fn after_written_escape(&self, at: usize, previous: u8) -> bool {
        let earlier = |back: usize| self.text.as_bytes().get(at.wrapping_sub(back)).copied();
        let backslash = matches!(previous, b'n' | b'r' | b't') && earlier(2) == Some(b'\\');
        let percent = previous.is_ascii_hexdigit()
            && earlier(2).is_some_and(|byte| byte.is_ascii_hexdigit())
            && earlier(3) == Some(b'%');
        backslash || percent
    }

    fn compare(&self, at: usize, literal: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
        for (offset, &expected) in literal.iter().enumerate() {
            match self.byte(at + offset) {
                Some(found) if same(found, expected) => {}
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_up_to_the_end_is_remembered() {
        let values = Occurrences::default();
        let text = Text::new("abc def", &[], &values, 0);
        assert_eq!(text.run(0, 10, |byte| byte.is_ascii_alphabetic()), 3);
        assert!(!text.saw_end());
        assert_eq!(text.run(4, 10, |byte| byte.is_ascii_alphabetic()), 7);
        assert!(text.saw_end());
        text.start_reading();
        assert!(!text.literal(4, "dex"));
        assert!(!text.saw_end());
        assert!(!text.literal(4, "define"));
        assert!(text.saw_end());
    }

    #[test]
    fn words_start_after_punctuation_and_written_escapes() {
        let values = Occurrences::default();
        let text = Text::new(r"xsk \nsk %20sk ask", &[], &values, 0);
        assert!(!text.word_may_start(1));
        assert!(text.word_may_start(6));
        assert!(text.word_may_start(12));
        assert!(!text.word_may_start(16));
    }
}
