//! What a program writes, bounded: the beginning and the end are kept, and characters that were cut in two are put together.

use std::collections::VecDeque;

/// The beginning and the end of an output.
#[derive(Debug)]
pub(super) struct Clipped {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_bytes: usize,
    tail_bytes: usize,
    /// Bytes that are neither in the beginning nor in the end.
    left_out: u64,
}

impl Clipped {
    pub(super) const fn new(head_bytes: usize, tail_bytes: usize) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_bytes,
            tail_bytes,
            left_out: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.head_bytes - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.tail_bytes);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    pub(super) const fn is_clipped(&self) -> bool {
        self.left_out > 0
    }

    /// What is left of it, with a note where something is missing.
    pub(super) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if !self.is_clipped() {
            let whole = [self.head.as_slice(), &tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let head = &self.head[..self.head.len() - cut_off(&self.head)];
        let begin = tail
            .iter()
            .take(3)
            .take_while(|byte| is_inner(**byte))
            .count();
        let left_out = self.left_out + (self.head.len() - head.len() + begin) as u64;
        format!(
            "{}\n[… {left_out} bytes left out …]\n{}",
            String::from_utf8_lossy(head),
            String::from_utf8_lossy(&tail[begin..])
        )
    }
}

/// Bytes to text, piece by piece: a character that is cut in two waits for its rest.
#[derive(Debug, Default)]
pub(super) struct Characters(Vec<u8>);

impl Characters {
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let rest = self.0.split_off(self.0.len() - cut_off(&self.0));
        let whole = std::mem::replace(&mut self.0, rest);
        String::from_utf8_lossy(&whole).into_owned()
    }

    pub(super) fn finish(self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

const fn is_inner(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// How many bytes at the end are the beginning of a character.
fn cut_off(bytes: &[u8]) -> usize {
    let inner = bytes
        .iter()
        .rev()
        .take(3)
        .take_while(|byte| is_inner(**byte))
        .count();
    let Some(first) = bytes.len().checked_sub(inner + 1).map(|at| bytes[at]) else {
        return 0;
    };
    let wanted = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return 0,
    };
    if inner + 1 < wanted { inner + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept_and_what_is_missing_is_said() {
        let mut all = Clipped::new(4, 4);
        all.push(b"abcd");
        all.push(b"efgh");
        assert_eq!((all.text().as_str(), all.is_clipped()), ("abcdefgh", false));
        all.push(b"ijk");
        assert_eq!(all.text(), "abcd\n[… 3 bytes left out …]\nhijk");
        assert!(all.is_clipped());

        let mut cut = Clipped::new(4, 4);
        cut.push("abcéxxxxé..d".as_bytes());
        assert_eq!(cut.text(), "abc\n[… 8 bytes left out …]\n..d");
    }

    #[test]
    fn characters_are_put_together_wherever_they_are_cut() {
        let text = "aé世🚀z";
        let bytes = text.as_bytes();
        for at in 0..=bytes.len() {
            let mut characters = Characters::default();
            let one = characters.push(&bytes[..at]);
            let other = characters.push(&bytes[at..]);
            assert!(
                !one.contains('\u{fffd}') && !other.contains('\u{fffd}'),
                "{at}"
            );
            assert_eq!(one + &other + &characters.finish(), text);
        }
        let mut broken = Characters::default();
        assert_eq!(broken.push(b"a\xff\x80b"), "a\u{fffd}\u{fffd}b");
        assert_eq!(broken.push(b"\xe4\xb8"), "");
        assert_eq!(broken.finish(), "\u{fffd}");
    }
}
