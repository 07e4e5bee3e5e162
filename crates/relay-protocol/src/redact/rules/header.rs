//! Authorization headers, in HTTP, in code and on command lines.

use crate::redact::{
    limits::MAX_SECRET,
    rules::{BY_CONTEXT, Secret, value},
    shape::{self, Form},
    text::Text,
};

/// Schemes followed by credentials, with what the marker calls them.
const SCHEMES: &[(&str, &str)] = &[
    ("bearer", "bearer-token"),
    ("basic", "basic-auth"),
    ("token", "token"),
    ("bot", "token"),
    ("apikey", "key"),
    ("api-key", "key"),
    ("negotiate", "token"),
];

/// Finds the credentials after the word "authorization" at `at`.
pub(super) fn check_authorization(text: &Text<'_>, at: usize) -> Option<Secret> {
    let separator = value::after_closing_quote(text, at + "authorization".len());
    let separator = text.skip_blanks(separator);
    if !text.is(separator, |byte| matches!(byte, b':' | b'=' | b',')) {
        return None;
    }
    let value = text.skip_blanks(text.run(separator, 2, |byte| {
        matches!(byte, b':' | b'=' | b',' | b'>')
    }));
    let value = value::after_opening_quote(text, value);
    let (start, kind) = after_scheme(text, value);
    let end = text.run(start, MAX_SECRET, is_credential);
    let credentials = text.slice(start, end);
    let known = start > value && end - start >= 6 && !shape::is_template(credentials);
    let secret = known
        && (has_digit(credentials) || end - start >= 16 && !shape::is_wordy(credentials))
        || shape::is_token(Form::Written, credentials);
    secret.then_some(Secret {
        start,
        end,
        kind,
        rank: BY_CONTEXT + 1,
    })
}

/// Finds the credentials after the word "bearer" at `at`.
pub(super) fn check_bearer(text: &Text<'_>, at: usize) -> Option<Secret> {
    let blank = at + "bearer".len();
    let start = after_blank(text, blank);
    if start == blank || !text.word_may_start(at) {
        return None;
    }
    let end = text.run(start, MAX_SECRET, is_credential);
    shape::is_token(Form::Written, text.slice(start, end)).then_some(Secret {
        start,
        end,
        kind: "bearer-token",
        rank: BY_CONTEXT + 1,
    })
}

fn after_scheme(text: &Text<'_>, value: usize) -> (usize, &'static str) {
    for &(scheme, kind) in SCHEMES {
        if text.literal_any_case(value, scheme) {
            let end = value + scheme.len();
            let start = after_blank(text, end);
            if start > end {
                return (start, kind);
            }
        }
    }
    (value, "authorization")
}

fn after_blank(text: &Text<'_>, at: usize) -> usize {
    if text.literal(at, "%20") {
        at + 3
    } else {
        text.skip_blanks(at)
    }
}

fn is_credential(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b':' | b'|'
        )
}

fn has_digit(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit())
}
