//! One pass over the text for all literals at once, then the rule of each literal found.
//!
//! The same scan serves whole texts and streams. For a stream it also says from where on the text
//! has to be held back, because more of it could change the decision.

use std::ops::Range;

use super::{
    limits::REACH,
    literals::{Literal, Literals},
    marker,
    rules::{self, BY_LOOK, Rule, Secret, pem},
    text::Text,
    values::{self, Occurrences, Values},
    view::View,
};

/// Finds secrets in plain text.
#[derive(Debug)]
pub(super) struct Scanner {
    literals: Literals,
    rules: Vec<Rule>,
    values: Option<Values>,
}

/// Which part of a text is looked at, and whether more will follow. Offsets are plain ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// Literals before this were dealt with earlier.
    pub(super) from: usize,
    /// Where the last secret ended.
    pub(super) wall: usize,
    /// Whether the text may go on.
    pub(super) unfinished: bool,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The secrets, in order and apart from each other.
    pub(super) secrets: Vec<Finding>,
    /// From here on nothing is decided yet, or a secret began that more text may lengthen.
    pub(super) hold: usize,
    /// From here on nothing is decided yet, whatever secrets that may cut.
    pub(super) undecided: usize,
    /// A private key that goes on beyond the text, with nothing undecided before it.
    pub(super) open_key: Option<pem::Key>,
}

/// A secret and the place from which a later scan would find it again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finding {
    /// What is to be removed.
    pub(super) secret: Secret,
    /// Where the literal stands that led to it.
    literal: usize,
}

impl Scanner {
    /// Prepares the search for the known rules and perhaps some registered values.
    pub(super) fn new(values: Option<Values>) -> Self {
        let (texts, rules): (Vec<String>, Vec<Rule>) = rules::literals().into_iter().unzip();
        let literals = texts.into_iter().enumerate().map(|(number, text)| Literal {
            text,
            any_case: rules[number].any_case(),
            number,
        });
        Self {
            literals: Literals::new(literals),
            rules,
            values,
        }
    }

    /// Finds the secrets of a span.
    pub(super) fn scan(&self, view: &View<'_>, span: Span) -> Findings {
        let plain = view.plain();
        let values = self.occurrences(plain, span.from);
        let text = Text::new(plain, view.escapes(), &values, span.wall);
        let mut progress = Progress::new(span, &values, plain.len());
        self.literals.find(plain, span.from, |number, at| {
            progress.check(&text, &values, self.rules[number], at);
        });
        let mut findings = progress.finish(plain);
        if span.unfinished {
            findings.hold_back(plain, span.from);
        } else {
            (findings.hold, findings.undecided) = (plain.len(), plain.len());
        }
        findings
    }

    /// Finds the registered values that start at or after `from`.
    pub(super) fn occurrences(&self, plain: &str, from: usize) -> Occurrences {
        self.values
            .as_ref()
            .map_or_else(Occurrences::default, |values| values.find(plain, from))
    }

    /// Says whether there is any secret at all.
    pub(super) fn any(&self, view: &View<'_>) -> bool {
        let span = Span {
            from: 0,
            wall: 0,
            unfinished: false,
        };
        !self.scan(view, span).secrets.is_empty()
    }
}

impl Findings {
    /// Adds a secret.
    pub(super) fn add(&mut self, finding: Option<Finding>) {
        if let Some(finding) = finding {
            self.secrets.push(finding);
            self.secrets = merge(std::mem::take(&mut self.secrets));
        }
    }

    /// Moves the hold back to the beginning of its word and of any secret it would cut.
    fn hold_back(&mut self, plain: &str, from: usize) {
        let mut hold = start_of_word(plain, self.undecided);
        self.undecided = hold.max(from);
        for finding in self.secrets.iter().rev() {
            if finding.secret.end > hold {
                hold = hold.min(start_of_word(
                    plain,
                    finding.literal.min(finding.secret.start),
                ));
            }
        }
        self.hold = hold.max(from);
    }
}

/// The state of one scan.
struct Progress {
    unfinished: bool,
    secrets: Vec<Finding>,
    fresh: Vec<Secret>,
    undecided: usize,
    key_end: usize,
    open_key: Option<pem::Key>,
}

impl Progress {
    fn new(span: Span, values: &Occurrences, length: usize) -> Self {
        let secrets = values
            .ranges
            .iter()
            .map(|range| Finding::registered(range.clone()));
        Self {
            unfinished: span.unfinished,
            secrets: secrets.collect(),
            fresh: Vec::new(),
            undecided: values.partial.unwrap_or(length),
            key_end: 0,
            open_key: None,
        }
    }

    fn check(&mut self, text: &Text<'_>, values: &Occurrences, rule: Rule, at: usize) {
        if at < self.key_end {
            return;
        }
        if let Rule::Pem = rule {
            return self.check_key(text, values, at);
        }
        text.start_reading();
        rule.check(text, at, &mut self.fresh);
        self.fresh
            .retain(|secret| !marker::touches(text, secret.start, secret.end));
        if self.unfinished && text.saw_end() {
            self.undecided = self.undecided.min(at);
        }
        for secret in self.fresh.drain(..) {
            text.raise_wall(secret.end);
            self.secrets.push(Finding {
                secret,
                literal: at,
            });
        }
    }

    fn check_key(&mut self, text: &Text<'_>, values: &Occurrences, at: usize) {
        let whole = text.with_values();
        let key = pem::check(&whole, at);
        if let Some(key) = key {
            self.key_end = key.end;
            text.raise_wall(key.end);
            self.secrets.push(Finding {
                secret: key.secret(),
                literal: at,
            });
        }
        if self.unfinished && whole.saw_end() {
            match key.filter(|key| key.settled.is_some_and(|settled| !values.cross(settled))) {
                Some(key) => self.open_key = Some(key),
                None => self.undecided = self.undecided.min(at),
            }
        }
    }

    fn finish(self, plain: &str) -> Findings {
        let open_key = self.open_key.filter(|key| self.undecided >= key.start);
        let key_start = self.open_key.map_or(plain.len(), |key| key.start);
        let undecided = self.undecided.min(key_start);
        Findings {
            secrets: merge(self.secrets),
            hold: undecided,
            undecided,
            open_key,
        }
    }
}

/// Joins overlapping secrets; the one of the highest rank gives its kind.
fn merge(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort_by_key(|finding| (finding.secret.start, finding.secret.end));
    let mut merged: Vec<Finding> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.secret.start < last.secret.end => last.join(next),
            _ => merged.push(next),
        }
    }
    merged
}

impl Finding {
    /// A secret of which the text has only the beginning.
    pub(super) const fn cut(secret: Secret) -> Self {
        Self {
            secret,
            literal: secret.start,
        }
    }

    fn registered(range: Range<usize>) -> Self {
        let Range { start, end } = range;
        let secret = Secret {
            start,
            end,
            kind: values::KIND,
            rank: BY_LOOK - 1,
        };
        Self {
            secret,
            literal: start,
        }
    }

    fn join(&mut self, other: Self) {
        self.literal = self.literal.min(other.literal);
        self.secret.end = self.secret.end.max(other.secret.end);
        if other.secret.rank > self.secret.rank {
            self.secret.kind = other.secret.kind;
            self.secret.rank = other.secret.rank;
        }
    }
}

/// Where the word around an offset begins, unless that is too far back for any rule to look.
fn start_of_word(plain: &str, at: usize) -> usize {
    let floor = at.saturating_sub(REACH);
    let window = &plain.as_bytes()[floor..at];
    let back = window
        .iter()
        .rev()
        .take_while(|byte| !byte.is_ascii_whitespace())
        .count();
    plain.floor_char_boundary(at - back)
}
