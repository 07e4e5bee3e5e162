//! AWS key pairs: the id is known by its prefix, the secret only by what stands before it.

use crate::redact::{
    marker,
    rules::{BY_LOOK, Secret},
    shape::{self, Form},
    text::Text,
};

/// How ids of keys begin.
pub(super) const ID_PREFIXES: &[&str] = &["AKIA", "ASIA", "ABIA", "ACCA"];

const ID_LENGTH: usize = 20;
const SECRET_LENGTH: usize = 40;

/// How far after its id, or after the words for it, a secret may stand.
const GAP: usize = 32;

/// Finds an id, and a secret that directly follows it, as in a list of credentials.
pub(super) fn check_id(text: &Text<'_>, at: usize, found: &mut Vec<Secret>) {
    let capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    if !text.word_may_start(at) {
        return;
    }
    let end = text.run(at, 64, capital);
    let has_digit = text
        .slice(at, end)
        .bytes()
        .any(|byte| byte.is_ascii_digit());
    if end - at < ID_LENGTH || !has_digit {
        return;
    }
    found.push(Secret {
        start: at,
        end,
        kind: "aws-key-id",
        rank: BY_LOOK,
    });
    let next = text.run(end, 4, |byte| {
        matches!(byte, b',' | b':' | b' ' | b'\t' | b'"' | b'\'')
    });
    if next > end {
        found.extend(secret_at(text, next));
    }
}

/// Finds the secret after "secret access key", however it is set off; `at` is where "access" stands.
pub(super) fn check_phrase(text: &Text<'_>, at: usize) -> Option<Secret> {
    let separator = |byte: u8| matches!(byte, b' ' | b'_' | b'-');
    let before = text.run_back(at, 1, separator);
    let word = text.run_back(before, 6, |byte| byte.is_ascii_alphabetic());
    if !text.slice(word, before).eq_ignore_ascii_case("secret") {
        return None;
    }
    let key = text.run(at + "access".len(), 1, separator);
    if !text.literal_any_case(key, "key") {
        return None;
    }
    let after = key + "key".len();
    let end_of_gap = text.run(after, GAP, |byte| !matches!(byte, b'\n' | b'\r'));
    let gap = text.slice(after, end_of_gap);
    let end_of_gap = after + gap.find(marker::OPEN).unwrap_or(gap.len());
    (after + 1..=end_of_gap).find_map(|start| secret_at(text, start))
}

fn secret_at(text: &Text<'_>, start: usize) -> Option<Secret> {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    if text.byte_before(start).is_some_and(part) {
        return None;
    }
    let end = text.run(start, 2 * SECRET_LENGTH, part);
    let fits = end - start >= SECRET_LENGTH && shape::is_token(Form::Bare, text.slice(start, end));
    fits.then_some(Secret {
        start,
        end,
        kind: "aws-secret-key",
        rank: BY_LOOK,
    })
}
