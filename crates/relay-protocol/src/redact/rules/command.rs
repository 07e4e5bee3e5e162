//! Command lines that pass `user:password`: `curl -u user:password`, `--user`, `--proxy-user`.

use crate::redact::{
    limits::MAX_COMMAND,
    rules::{BY_CONTEXT, Secret},
    shape,
    text::Text,
};

const OPTIONS: &[&str] = &["-u", "--user", "-U", "--proxy-user"];

/// Finds the password in the command whose name stands at `at`.
///
/// Reading stops at the first word that cannot belong to the command, so that prose about the tool
/// is not followed, and where the next command begins.
pub(super) fn check(text: &Text<'_>, at: usize) -> Option<Secret> {
    let limit = at + MAX_COMMAND;
    let mut word = next_word(text, at + "curl".len())?;
    let mut after_option = false;
    while word < limit {
        if let Some(value) = value_of_user(text, word) {
            return password_in(text, value);
        }
        if text.literal(word, "curl") {
            return None;
        }
        let is_option = text.byte(word) == Some(b'-');
        if !is_option && !after_option && !is_argument(text, word) {
            return None;
        }
        after_option = is_option;
        word = next_word(text, end_of_word(text, word))?;
    }
    None
}

/// Where the value of a user option at `word` starts, if there is one.
fn value_of_user(text: &Text<'_>, word: usize) -> Option<usize> {
    OPTIONS.iter().find_map(|option| {
        if !text.literal(word, option) {
            return None;
        }
        let end = word + option.len();
        let attached = text.run(end, 1, |byte| byte == b'=');
        let value = text.skip_blanks(attached);
        let short = option.len() == 2;
        (value > end || short && !text.is(end, |byte| byte == b'-')).then_some(value)
    })
}

fn password_in(text: &Text<'_>, value: usize) -> Option<Secret> {
    let quote = text.byte(value).filter(|&byte| is_quote(byte));
    let user = value + usize::from(quote.is_some());
    let colon = text.run(user, 256, |byte| byte != b':' && !is_end(byte, quote));
    if text.byte(colon) != Some(b':') {
        return None;
    }
    let end = text.run(colon + 1, 1024, |byte| !is_end(byte, quote));
    let password = text.slice(colon + 1, end);
    let numeric_ids = is_number(text.slice(user, colon)) && is_number(password);
    let is_url = password.starts_with("//");
    if password.is_empty() || is_url || numeric_ids || shape::is_template(password) {
        return None;
    }
    Some(Secret {
        start: colon + 1,
        end,
        kind: "password",
        rank: BY_CONTEXT + 1,
    })
}

fn is_end(byte: u8, quote: Option<u8>) -> bool {
    match quote {
        Some(quote) => byte == quote || byte == b'\n',
        None => byte.is_ascii_whitespace() || is_quote(byte),
    }
}

/// The start of the next word of a command; a backslash continues it on the next line.
fn next_word(text: &Text<'_>, at: usize) -> Option<usize> {
    let mut word = text.skip_blanks(at);
    if word == at {
        return None;
    }
    while text.literal(word, "\\\n") {
        word = text.skip_blanks(word + 2);
    }
    text.is(word, |byte| {
        !matches!(byte, b'\n' | b'\r' | b'|' | b';' | b'&')
    })
    .then_some(word)
}

fn end_of_word(text: &Text<'_>, word: usize) -> usize {
    match text.byte(word).filter(|&byte| is_quote(byte)) {
        Some(quote) => text.run(word + 1, MAX_COMMAND, |byte| byte != quote && byte != b'\n') + 1,
        None => text.run(word, MAX_COMMAND, |byte| !byte.is_ascii_whitespace()),
    }
}

/// Whether a word can be what a command works on: quoted, an address, a file, a variable.
fn is_argument(text: &Text<'_>, word: usize) -> bool {
    let tells = |byte: u8| matches!(byte, b'/' | b':' | b'$' | b'[' | b'.') || is_quote(byte);
    let at = text.run(word, 256, |byte| {
        !byte.is_ascii_whitespace() && !tells(byte)
    });
    let ends_sentence = text.byte(at) == Some(b'.') && text.is(at + 1, |b| b.is_ascii_whitespace());
    text.is(at, tells) && !ends_sentence
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
