//! Assignments to secret-looking names, in the forms of shells, configuration, JSON, code and XML.

use crate::redact::{
    limits::MAX_NAME,
    names,
    rules::{
        BY_CONTEXT, Secret,
        value::{self, after_closing_quote, opening_quote},
    },
    shape::{self, Form},
    text::Text,
};

/// Finds the secret assigned to the name that has one of the keywords at `at`.
pub(super) fn check(text: &Text<'_>, at: usize) -> Option<Secret> {
    let name_end = text.run(at, MAX_NAME, is_name);
    let separator = separator(text, name_end)?;
    let name = Name {
        start: start_of_name(text, at),
        end: name_end,
    };
    let (value, form) = start_of_value(text, &name, &separator)?;
    let class = names::classify(text.slice(name.start, name.end))?;
    let value = value::read(text, value, form)?;
    if separator.mark == b'>' && !text.literal(value.end, "</") || is_user_of_url(text, &name) {
        return None;
    }
    let secret = shape::is_secret(class, value.form, text.slice(value.start, value.end));
    secret.then_some(Secret {
        start: value.start,
        end: value.end,
        kind: class.kind(),
        rank: BY_CONTEXT,
    })
}

struct Name {
    start: usize,
    end: usize,
}

/// What stands between a name and its value.
struct Separator {
    mark: u8,
    at: usize,
    /// Whether the name was in quotes.
    quoted: bool,
    /// Whether blanks come before it.
    spaced: bool,
}

/// In `https://token:...@host` the name is a user, and the rule for URLs knows where it ends.
fn is_user_of_url(text: &Text<'_>, name: &Name) -> bool {
    let before = text.run_back(name.start, 3, |byte| matches!(byte, b':' | b'/'));
    text.slice(before, name.start) == "://"
}

/// Extends the name to the left; "API key" and "secret key" are names too.
fn start_of_name(text: &Text<'_>, at: usize) -> usize {
    let start = text.run_back(at, MAX_NAME, is_name);
    if start < at || text.byte_before(at) != Some(b' ') {
        return start;
    }
    let owner = text.run_back(at - 1, 8, |byte| byte.is_ascii_alphabetic());
    let words = ["api", "access", "secret", "private"];
    let known = words
        .iter()
        .any(|word| text.slice(owner, at - 1).eq_ignore_ascii_case(word));
    if known { owner } else { start }
}

/// Reads what follows a name; most often that is the next word of a sentence.
fn separator(text: &Text<'_>, name_end: usize) -> Option<Separator> {
    let closed = after_closing_quote(text, name_end);
    let at = text.skip_blanks(closed);
    let mark = text.byte(at)?;
    let (quoted, spaced) = (closed > name_end, at > closed);
    let separates = matches!(mark, b'=' | b':' | b'?' | b'!' | b',' | b'>' | b'(');
    (separates || spaced).then_some(Separator {
        mark,
        at,
        quoted,
        spaced,
    })
}

/// Says where the value starts, and how sure the separator makes us that one follows.
fn start_of_value(text: &Text<'_>, name: &Name, separator: &Separator) -> Option<(usize, Form)> {
    let next = separator.at + 1;
    match separator.mark {
        b'=' => Some(after_equals(text, name, separator)),
        b':' => after_colon(text, next, separator.quoted),
        b'?' | b'!' if text.byte(next) == Some(b':') => after_colon(text, next + 1, false),
        b',' if separator.quoted => after_value_member(text, next),
        b'>' if text.byte_before(name.start) == Some(b'<') => Some((next, Form::Written)),
        b'(' if opening_quote(text, next).is_some() && !is_passing(text, name) => {
            Some((next, Form::Bare))
        }
        b'-' | b'>' | b'(' => None,
        _ if separator.spaced && is_flag(text, name) => Some((separator.at, Form::Written)),
        _ => None,
    }
}

fn is_flag(text: &Text<'_>, name: &Name) -> bool {
    text.slice(name.start, name.end).starts_with("--")
}

/// Functions called `pass` seldom take a password.
fn is_passing(text: &Text<'_>, name: &Name) -> bool {
    let name = text.slice(name.start, name.end);
    name.ends_with("pass") || name.ends_with("PASS") || name.ends_with("Pass")
}

fn after_equals(text: &Text<'_>, name: &Name, separator: &Separator) -> (usize, Form) {
    let after = text.run(separator.at, 2, |byte| matches!(byte, b'=' | b'>'));
    let value = text.skip_blanks(after);
    let environment = is_flag(text, name) || is_upper(text.slice(name.start, name.end));
    let form = match (separator.spaced || value > after, environment) {
        (true, _) => Form::Bare,
        (false, true) => Form::Environment,
        (false, false) => Form::Written,
    };
    (value, form)
}

/// After a colon comes a value, or a type and then a string: `token: &str = "..."`.
fn after_colon(text: &Text<'_>, at: usize, quoted: bool) -> Option<(usize, Form)> {
    let value = text.skip_blanks(text.run(at, 1, |byte| byte == b'='));
    let form = if quoted { Form::Written } else { Form::Bare };
    if opening_quote(text, value).is_some() {
        return Some((value, form));
    }
    let equals = text.skip_blanks(end_of_type(text, value));
    if equals > value && text.byte(equals) == Some(b'=') {
        let value = text.skip_blanks(equals + 1);
        return opening_quote(text, value).map(|_| (value, Form::Bare));
    }
    (text.byte(value) != Some(b':')).then_some((value, form))
}

/// `{"name": "API_KEY", "value": "..."}`, as environment variables are often listed.
fn after_value_member(text: &Text<'_>, at: usize) -> Option<(usize, Form)> {
    let member = opening_quote(text, text.skip_blanks(at))?.content;
    if !text.literal(member, "value") {
        return None;
    }
    let colon = text.skip_blanks(after_closing_quote(text, member + "value".len()));
    (text.byte(colon) == Some(b':')).then(|| (text.skip_blanks(colon + 1), Form::Written))
}

fn is_upper(name: &str) -> bool {
    !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// A type is one word, or two after an ampersand: `&'static str`.
fn end_of_type(text: &Text<'_>, at: usize) -> usize {
    let end = text.run(at, 48, is_type);
    if text.byte(at) == Some(b'&') {
        text.run(text.skip_blanks(end), 16, is_type)
    } else {
        end
    }
}

fn is_type(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'&' | b'\'' | b'<' | b'>' | b'[' | b']' | b'|')
}
