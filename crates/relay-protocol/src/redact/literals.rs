//! Finds a few hundred short literals in one pass.
//!
//! Nearly every place in ordinary text is ruled out by a table of byte pairs, which knows with which
//! two pairs of bytes literals begin; the few others are compared. On such text this is several
//! times as fast as an automaton, which has to follow every near miss, and it reports literals in
//! the order in which they start.

/// A set of literals of at least three bytes.
pub(super) struct Literals {
    /// For each pair of bytes, in the low half a set of families that begin with it, in the high
    /// half a set of families that have it as their second and third byte.
    families: Box<[u16; PAIRS]>,
    /// For each pair of bytes the number of the group that begins with it, or 0.
    groups_of: Box<[u16; PAIRS]>,
    groups: Vec<Vec<Literal>>,
}

/// What to look for.
#[derive(Debug, Clone)]
pub(super) struct Literal {
    /// The text itself, at least three bytes.
    pub(super) text: String,
    /// Whether it may be written in any case.
    pub(super) any_case: bool,
    /// What is reported.
    pub(super) number: usize,
}

const PAIRS: usize = 1 << 16;

/// Families keep literals apart that begin differently; a set of them is half a table entry.
const FAMILIES: usize = 8;

impl Literals {
    /// Prepares the search.
    pub(super) fn new(literals: impl IntoIterator<Item = Literal>) -> Self {
        let mut new = Self {
            families: Box::new([0; PAIRS]),
            groups_of: Box::new([0; PAIRS]),
            groups: vec![Vec::new()],
        };
        for literal in literals {
            new.add(&literal);
        }
        new
    }

    /// Calls `report` with the number and the start of every literal that starts at or after `from`.
    pub(super) fn find(&self, text: &str, from: usize, mut report: impl FnMut(usize, usize)) {
        let bytes = text.as_bytes().get(from..).unwrap_or_default();
        let mut begun = 0;
        for (at, pair) in bytes.windows(2).enumerate() {
            let families = self.families[pair_of(pair[0], pair[1])];
            if begun & (families >> FAMILIES) != 0 {
                self.compare(&bytes[at - 1..], |number| report(number, from + at - 1));
            }
            begun = families & 0xff;
        }
    }

    fn add(&mut self, literal: &Literal) {
        let &[first, second, third, ..] = literal.text.as_bytes() else {
            return;
        };
        let family = 1 << (usize::from(first ^ second.rotate_left(3)) % FAMILIES);
        for first in cases(first, literal.any_case) {
            for second in cases(second, literal.any_case) {
                self.add_to_group(pair_of(first, second), literal);
                self.families[pair_of(first, second)] |= family;
                for third in cases(third, literal.any_case) {
                    self.families[pair_of(second, third)] |= family << FAMILIES;
                }
            }
        }
    }

    fn add_to_group(&mut self, pair: usize, literal: &Literal) {
        let number = &mut self.groups_of[pair];
        if *number == 0 {
            *number = u16::try_from(self.groups.len()).unwrap_or(0);
            self.groups.push(Vec::new());
        }
        let group = &mut self.groups[usize::from(*number)];
        if !group
            .iter()
            .any(|other| other.number == literal.number && other.text == literal.text)
        {
            group.push(literal.clone());
        }
    }

    /// Reports the literals that `bytes` begin with.
    #[inline(never)]
    fn compare(&self, bytes: &[u8], mut report: impl FnMut(usize)) {
        let &[first, second, ..] = bytes else { return };
        for literal in &self.groups[usize::from(self.groups_of[pair_of(first, second)])] {
            let expected = literal.text.as_bytes();
            let Some(found) = bytes.get(..expected.len()) else {
                continue;
            };
            if found == expected || literal.any_case && found.eq_ignore_ascii_case(expected) {
                report(literal.number);
            }
        }
    }
}

impl std::fmt::Debug for Literals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Literals")
            .field("groups", &self.groups.len())
            .finish_non_exhaustive()
    }
}

fn pair_of(first: u8, second: u8) -> usize {
    usize::from(u16::from_be_bytes([first, second]))
}

fn cases(byte: u8, any_case: bool) -> impl Iterator<Item = u8> {
    let (lower, upper) = match any_case {
        true => (byte.to_ascii_lowercase(), byte.to_ascii_uppercase()),
        false => (byte, byte),
    };
    std::iter::once(lower).chain((upper != lower).then_some(upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(literals: &[&str], any_case: bool, text: &str, from: usize) -> Vec<(usize, usize)> {
        let literals = literals.iter().enumerate();
        let literals = literals.map(|(number, &text)| Literal {
            text: text.to_owned(),
            any_case,
            number,
        });
        let mut found = Vec::new();
        Literals::new(literals).find(text, from, |number, at| found.push((number, at)));
        found
    }

    #[test]
    fn literals_may_overlap() {
        let literals = ["key", "keyboard", "eyj", "://"];
        let text = "a KeyBoard keyJ x://";
        assert_eq!(
            found(&literals, true, text, 0),
            [(0, 2), (1, 2), (0, 11), (2, 12), (3, 17)]
        );
        assert_eq!(found(&literals, false, text, 0), [(0, 11), (3, 17)]);
    }

    #[test]
    fn the_search_starts_where_it_is_told() {
        assert_eq!(found(&["key"], true, "key key", 1), [(0, 4)]);
        assert_eq!(found(&["key"], true, "ke", 0), []);
        assert_eq!(found(&["key"], true, "key", 7), []);
        assert_eq!(found(&["żółć"], false, "a żółć", 0), [(0, 2)]);
    }
}
