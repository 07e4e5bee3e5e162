//! The beginning of a secret at the end of a text that breaks off.
//!
//! A rule needs the whole secret. Here the text is completed in the ways in which secrets usually go on; when
//! that makes a secret of its end, the end is the beginning of one. It relies on the rules alone and knows none.

use super::{
    rules::{BY_LOOK, Secret},
    scan::{Finding, Scanner, Span},
    shape, values,
    view::View,
};

/// How secrets go on: as hexadecimal digits, capitals, the password of a URL, the parts of a web token. The
/// longest token of the rules needs sixty characters.
const ENDINGS: [&str; 4] = [
    "b5f0c3a97e1d48268fd0b3c5a79e1f204d6c8b0a5e3f7192c4d6e8fa0b1c3d5e",
    "B7XQ2M9K4TZ6WJ3P8RNC5VHD1YGF0SLE7XQ2M9K4TZ6WJ3P8RNC5VHD1YGF0SLE",
    "b5f0c3a97e1d4826@host.example/",
    "b5f0c3a97e1d4826.eyJb5f0c3a97e1d4826.b5f0c3a97e1d48268fd0b3c5",
];

/// The beginning of a token with a look of its own is masked from this length on, prefix included.
const SHORTEST_TOKEN: usize = 8;

/// From this length on such a beginning is masked even if it reads like words.
const SHORTEST_WORDY_TOKEN: usize = 12;

/// The beginning of a value that is known by its name or place, or registered, is masked from this length on.
const SHORTEST_VALUE: usize = 4;

/// Digits alone are a number of something up to this length.
const LONGEST_NUMBER: usize = 6;

impl Scanner {
    /// Finds the secret that a text breaks off, if its beginning can be recognised.
    pub(super) fn cut_secret(&self, view: &View<'_>, span: Span) -> Option<Finding> {
        let plain = view.plain();
        let completed = ENDINGS.iter().filter_map(|ending| {
            let text = [plain, ending].concat();
            let secrets = self.scan(&View::whole(&text), span).secrets;
            let found = secrets.into_iter().map(|found| found.secret);
            let mut cut = found.filter(|secret| is_cut(secret, plain));
            cut.next()
        });
        let first = completed.min_by_key(|secret| secret.start);
        let registered = self.cut_value(plain, span);
        let starts = [first, registered].into_iter().flatten();
        let secret = starts.min_by_key(|secret| secret.start)?;
        let end = plain.len();
        Some(Finding::cut(Secret { end, ..secret }))
    }

    fn cut_value(&self, plain: &str, span: Span) -> Option<Secret> {
        let start = self.occurrences(plain, span.from).partial?;
        (plain.len() - start >= SHORTEST_VALUE).then_some(Secret {
            start,
            end: plain.len(),
            kind: values::KIND,
            rank: BY_LOOK - 1,
        })
    }
}

/// Whether a secret of the completed text begins in the text, and its beginning tells something.
fn is_cut(secret: &Secret, plain: &str) -> bool {
    let Some(beginning) = plain.get(secret.start..) else {
        return false;
    };
    if secret.end <= plain.len() {
        return false;
    }
    let length = beginning.len();
    if secret.rank >= BY_LOOK {
        let is_wordy = shape::is_wordy(beginning);
        return length >= SHORTEST_WORDY_TOKEN || length >= SHORTEST_TOKEN && !is_wordy;
    }
    if beginning.bytes().all(|byte| byte.is_ascii_digit()) {
        return length > LONGEST_NUMBER;
    }
    // Prose says `password: changed`; what is assigned in a shell may be a word and a secret.
    let is_assigned = plain[..secret.start].ends_with('=');
    length >= SHORTEST_VALUE && (is_assigned || !shape::is_wordy(beginning))
}

#[cfg(test)]
mod tests {
    use crate::redact::Redactor;

    fn interrupted(text: &str) -> String {
        let mut out = String::new();
        let mut stream = Redactor::new().stream();
        stream.push_parts(text, &mut |part| part.write(&mut out));
        stream.interrupt(&mut |part| part.write(&mut out));
        out
    }

    #[test]
    fn the_beginning_of_a_secret_is_masked_when_the_text_breaks_off() {
        let token = ["gh", "p_"].concat();
        let aws = ["AK", "IA"].concat();
        let cases = [
            (
                format!("see {token}a1B2c3D4"),
                "see [redacted:github-token]",
            ),
            (format!("id {aws}Q4ZT7"), "id [redacted:aws-key-id]"),
            (
                "DB_PASSWORD=hun7".to_owned(),
                "DB_PASSWORD=[redacted:password]",
            ),
            (
                "authorization: Bearer a8F3x".to_owned(),
                "authorization: Bearer [redacted:bearer-token]",
            ),
            (
                "postgres://app:s3cR".to_owned(),
                "postgres://app:[redacted:url-password]",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(interrupted(&text), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_text_that_breaks_off_stays() {
        let texts = [
            "the last word",
            "gh",
            "sk-learn",
            "enter the password",
            "the password: changed",
            "max_tokens: 4096",
            "http://localhost:8080",
            "see https://example.com/path",
            "PASSED: 12",
        ];
        for text in texts {
            assert_eq!(interrupted(text), text);
        }
    }
}
