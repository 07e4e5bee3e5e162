//! Exact values to remove, such as those of an agent's environment, in every form they may take.
//!
//! They are looked for before the rules are, which then read the text as if the values were gone
//! already: what a rule decides must not depend on text that will not be there.

use std::ops::Range;

use super::{
    forms,
    limits::{MAX_SECRET, MIN_REGISTERED_LEN},
    literals::{Literal, Literals},
    trivial,
};

/// What the marker says.
pub(super) const KIND: &str = "registered-value";

/// How much of a form is looked for before the rest is compared.
const TRIGGER_LEN: usize = 8;

/// The forms of all registered values.
pub(super) struct Values {
    forms: Vec<String>,
    triggers: Literals,
}

/// Where values stand in a text.
#[derive(Debug, Default)]
pub(super) struct Occurrences {
    /// In order of their starts, and apart from each other.
    pub(super) ranges: Vec<Range<usize>>,
    /// Where the end of the text may be the beginning of a value.
    pub(super) partial: Option<usize>,
}

impl Values {
    /// Registers the values of an environment; `None` if there is nothing secret in them.
    pub(super) fn new<N: AsRef<str>, V: AsRef<str>>(
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Option<Self> {
        let mut forms = Vec::new();
        for (name, value) in values {
            if let Some(secret) = trivial::secret_part(name.as_ref(), value.as_ref()) {
                forms::add_forms(&mut forms, secret);
            }
        }
        forms.retain(|form| form.len() >= MIN_REGISTERED_LEN && form.len() <= MAX_SECRET);
        forms.sort_unstable();
        forms.dedup();
        let literals = forms.iter().enumerate().map(|(number, form)| Literal {
            text: trigger(form).to_owned(),
            any_case: false,
            number,
        });
        let triggers = Literals::new(literals);
        (!forms.is_empty()).then_some(Self { forms, triggers })
    }

    /// Finds the values that start at or after `from`.
    pub(super) fn find(&self, text: &str, from: usize) -> Occurrences {
        let mut found = Occurrences {
            ranges: Vec::new(),
            partial: self.partial_trigger(text, from),
        };
        self.triggers.find(text, from, |number, at| {
            let rest = &text.as_bytes()[at..];
            let form = self.forms[number].as_bytes();
            if rest.starts_with(form) {
                found.add(at..at + form.len());
            } else if form.starts_with(rest) {
                found.partial = Some(found.partial.map_or(at, |partial| partial.min(at)));
            }
        });
        found
    }

    /// Where the end of the text may be the beginning of a trigger.
    fn partial_trigger(&self, text: &str, from: usize) -> Option<usize> {
        let end = text.len();
        let first = end.saturating_sub(TRIGGER_LEN - 1).max(from);
        let begins = |at: &usize| {
            let tail = &text.as_bytes()[*at..];
            self.forms
                .iter()
                .any(|form| trigger(form).as_bytes().starts_with(tail))
        };
        (first..end)
            .find(begins)
            .map(|at| text.floor_char_boundary(at))
    }
}

impl Occurrences {
    /// Whether a value, or what may become one, stands on both sides of an offset.
    pub(super) fn cross(&self, at: usize) -> bool {
        self.partial.is_some_and(|partial| partial < at) || self.range_across(at).is_some()
    }

    /// The value that stands on both sides of an offset.
    pub(super) fn range_across(&self, at: usize) -> Option<&Range<usize>> {
        let range = self
            .ranges
            .get(self.ranges.partition_point(|range| range.end <= at))?;
        (range.start < at).then_some(range)
    }

    fn add(&mut self, range: Range<usize>) {
        match self.ranges.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => self.ranges.push(range),
        }
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Values")
            .field("forms", &self.forms.len())
            .finish()
    }
}

fn trigger(form: &str) -> &str {
    &form[..form.floor_char_boundary(TRIGGER_LEN)]
}
