//! Names of agents and channels: which are allowed, how they compare, where text mentions them.

use crate::limits::NAME_CHARS;

/// Names that nobody may take.
pub const RESERVED: &[&str] = &["relay", "system", "all", "here", "everyone", "channel"];

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has no characters.
    #[error("expected 1 to {NAME_CHARS} characters of A-Z a-z 0-9 . _ -, found an empty name")]
    Empty,
    /// It has too many characters.
    #[error("expected at most {NAME_CHARS} characters, found {found}")]
    TooLong {
        /// How many it has.
        found: usize,
    },
    /// It has a character that names can't have.
    #[error("expected characters of A-Z a-z 0-9 . _ -, found {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
    /// It stands for something else.
    #[error("{name:?} is reserved; so are {}", RESERVED.join(", "))]
    Reserved {
        /// The name.
        name: String,
    },
}

/// Checks the form of a name.
pub fn check_form(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if let Some(found) = name.chars().find(|&c| !is_name_char(c)) {
        return Err(NameError::Character { found });
    }
    if name.len() > NAME_CHARS {
        return Err(NameError::TooLong { found: name.len() });
    }
    Ok(())
}

/// Checks that a name may be taken.
pub fn check(name: &str) -> Result<(), NameError> {
    check_form(name)?;
    if RESERVED.contains(&fold(name).as_str()) {
        return Err(NameError::Reserved {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// The form in which names compare: without regard to case.
#[must_use]
pub fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// The names that a text addresses with `@`, each once, in order, folded.
///
/// An `@` inside a word (a mail address) addresses nobody; dots and dashes at the end belong to the
/// sentence.
#[must_use]
pub fn mentions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('@') {
        if text[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_')
        {
            continue;
        }
        let rest = &text[at + 1..];
        let end = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
        let name = fold(rest[..end].trim_end_matches(['.', '-', '_']));
        if check_form(&name).is_ok() && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for good in ["a", "codex-1", "A.b_c", &"x".repeat(64)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let bad = [
            ("", NameError::Empty),
            ("a b", NameError::Character { found: ' ' }),
            ("@bob", NameError::Character { found: '@' }),
            ("bób", NameError::Character { found: 'ó' }),
            (&"x".repeat(65), NameError::TooLong { found: 65 }),
            (
                "Relay",
                NameError::Reserved {
                    name: "Relay".into(),
                },
            ),
            (
                "everyone",
                NameError::Reserved {
                    name: "everyone".into(),
                },
            ),
        ];
        for (name, error) in bad {
            assert_eq!(check(name), Err(error), "{name}");
        }
    }

    #[test]
    fn mentioned_names() {
        let cases: [(&str, &[&str]); 8] = [
            ("@Bob, look", &["bob"]),
            ("ask @bob and @codex-1.", &["bob", "codex-1"]),
            ("@bob @BOB", &["bob"]),
            ("mail me@example.com", &[]),
            ("(@v1.2-beta)", &["v1.2-beta"]),
            ("@ alone @", &[]),
            ("@@bob", &["bob"]),
            ("naïve@bob", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(mentions(text), expected, "{text}");
        }
    }
}
