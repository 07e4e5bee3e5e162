//! What is looked for: words, `"phrases"` and prefixes (`wor*`), all of which must occur.
//!
//! Everything else is literal. Each term goes to FTS5 as a quoted string, in which nothing has a
//! meaning but the quote itself, and that one only separates terms here; so `AND`, `NEAR`, `-` and
//! `text:` are what anybody would take them for.

use super::snippet::words_of;
use crate::error::{Error, Result};

/// A query that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// At least one.
    pub(super) terms: Vec<Term>,
}

/// Words that must follow each other; mostly only one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Term {
    literal: String,
    /// The words, folded as [`words_of`] folds a text's.
    pub(super) words: Vec<String>,
    /// Whether the last word may go on.
    pub(super) is_prefix: bool,
}

impl Query {
    /// Reads what somebody has typed.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut terms = Vec::new();
        // Every second piece is between quotes; one that is never closed goes to the end.
        for (at, piece) in text.split('"').enumerate() {
            let is_phrase = at % 2 == 1;
            if is_phrase {
                terms.extend(Term::of(piece, false));
            } else {
                let rest = star_after_phrase(piece, at > 0, &mut terms);
                terms.extend(rest.split_whitespace().filter_map(Term::of_word));
            }
        }
        if terms.is_empty() {
            return Err(Error::Invalid {
                path: "q",
                expected: "at least one word".to_owned(),
                found: format!("{text:?}"),
            });
        }
        Ok(Self { terms })
    }

    /// The terms in FTS5's language, without its column.
    pub(super) fn expression(&self) -> String {
        // Without `AND` between them FTS5 passes over terms in which it sees no word.
        let terms: Vec<String> = self.terms.iter().map(Term::expression).collect();
        terms.join(" ")
    }
}

/// Takes the `*` off that makes the phrase before it a prefix.
fn star_after_phrase<'t>(piece: &'t str, follows_phrase: bool, terms: &mut [Term]) -> &'t str {
    match (piece.strip_prefix('*'), terms.last_mut()) {
        (Some(rest), Some(phrase)) if follows_phrase => {
            phrase.is_prefix = true;
            rest
        }
        _ => piece,
    }
}

impl Term {
    fn of_word(word: &str) -> Option<Self> {
        let stem = word.trim_end_matches('*');
        let is_prefix = stem.len() < word.len() && stem.ends_with(char::is_alphanumeric);
        Self::of(stem, is_prefix)
    }

    fn of(literal: &str, is_prefix: bool) -> Option<Self> {
        let words: Vec<String> = words_of(literal).map(|(_, folded)| folded).collect();
        (!words.is_empty()).then(|| Self {
            // FTS5 reads its language up to the first NUL.
            literal: literal.replace('\0', " "),
            words,
            is_prefix,
        })
    }

    fn expression(&self) -> String {
        let star = if self.is_prefix { "*" } else { "" };
        format!("\"{}\"{star}", self.literal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let cases = [
            ("deploy", r#""deploy""#),
            ("  two   words ", r#""two" "words""#),
            (r#""two words" more"#, r#""two words" "more""#),
            (r#"never "closed at all"#, r#""never" "closed at all""#),
            (r#"12" pipe"#, r#""12" " pipe""#),
            ("dep*", r#""dep"*"#),
            ("dep**", r#""dep"*"#),
            (r#""two wor"*"#, r#""two wor"*"#),
            (r#""two wor" *"#, r#""two wor""#),
            ("a*b", r#""a*b""#),
            ("foo.*", r#""foo.""#),
            ("foo_bar src/main.rs", r#""foo_bar" "src/main.rs""#),
            ("a AND b OR NOT c", r#""a" "AND" "b" "OR" "NOT" "c""#),
            ("NEAR(a b, 2)", r#""NEAR(a" "b," "2)""#),
            (
                "facets:r1 -x ^y {text}:z",
                r#""facets:r1" "-x" "^y" "{text}:z""#,
            ),
            ("a -- && b", r#""a" "b""#),
            (r#"a "" "--" b"#, r#""a" "b""#),
            (r#"x" OR facets : "r1"#, r#""x" " OR facets : " "r1""#),
            ("a\0b", "\"a b\""),
            ("Füße", r#""Füße""#),
        ];
        for (typed, expected) in cases {
            let query = Query::parse(typed).unwrap();
            assert_eq!(query.expression(), expected, "{typed}");
        }
    }

    #[test]
    fn words_are_needed() {
        for typed in ["", "   ", "*", "\"\"", "\"", "-- :: ()", "\"*\"*", "\0"] {
            let refused = Query::parse(typed).unwrap_err();
            assert!(
                matches!(refused, Error::Invalid { path: "q", .. }),
                "{typed:?}: {refused}"
            );
        }
    }
}
