//! The value of an assignment: a string in some kind of quotes, or what follows without any.

use crate::redact::{limits::MAX_ASSIGNED, shape::Form, text::Text};

/// A value, without its quotes.
pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    /// How sure we are that it is one.
    pub(super) form: Form,
}

/// What opens a string.
pub(super) struct Quote {
    mark: u8,
    backslashes: usize,
    /// Where the string begins.
    pub(super) content: usize,
}

/// Reads the value that starts at `at`; a string with blanks in it is a sentence, not a value.
pub(super) fn read(text: &Text<'_>, at: usize, form: Form) -> Option<Value> {
    if let Some(quote) = opening_quote(text, at) {
        let end = end_of_string(text, &quote)?;
        return Some(Value {
            start: quote.content,
            end,
            form: form.max(Form::Written),
        });
    }
    if text.byte(at) == Some(b'#') {
        return None;
    }
    let end = text.run(at, MAX_ASSIGNED, |byte| is_bare(byte, form));
    let length = without_punctuation(text.slice(at, end)).len();
    Some(Value {
        start: at,
        end: at + length,
        form,
    })
}

/// Skips the quote (and bracket) that closes a name: `"token"`, `'token'`, `\"token\"`, `["token"]`.
pub(super) fn after_closing_quote(text: &Text<'_>, at: usize) -> usize {
    let backslashes = text.run(at, 4, |byte| byte == b'\\');
    if !text.is(backslashes, is_quote) {
        return at;
    }
    text.run(backslashes + 1, 1, |byte| byte == b']')
}

/// Skips what opens a string, if one is opened.
pub(super) fn after_opening_quote(text: &Text<'_>, at: usize) -> usize {
    opening_quote(text, at).map_or(at, |quote| quote.content)
}

/// Reads what opens a string, with any prefix such as the `b` of `b"..."`.
pub(super) fn opening_quote(text: &Text<'_>, at: usize) -> Option<Quote> {
    let prefix = text.run(at, 2, |byte| {
        matches!(byte, b'b' | b'r' | b'f' | b'u' | b'@')
    });
    let mark = text.run(prefix, 4, |byte| byte == b'\\');
    let byte = text.byte(mark).filter(|&byte| is_quote(byte))?;
    Some(Quote {
        mark: byte,
        backslashes: mark - prefix,
        content: mark + 1,
    })
}

fn end_of_string(text: &Text<'_>, quote: &Quote) -> Option<usize> {
    let plain = |byte: u8| byte != quote.mark && byte != b'\\' && !byte.is_ascii_whitespace();
    let mut at = quote.content;
    while at - quote.content < MAX_ASSIGNED {
        at = text.run(at, MAX_ASSIGNED, plain);
        match text.byte(at) {
            Some(b'\\') => {
                let after = text.run(at, 8, |byte| byte == b'\\');
                if after - at == quote.backslashes && text.byte(after) == Some(quote.mark) {
                    return Some(at);
                }
                at = text.run(after, 1, |byte| !byte.is_ascii_whitespace());
            }
            Some(b' ' | b'\t') => return None,
            _ => return Some(at),
        }
    }
    Some(at)
}

/// Whether an unquoted value goes on. In an environment only the shell's own marks end it.
fn is_bare(byte: u8, form: Form) -> bool {
    let ends_anywhere =
        byte.is_ascii_whitespace() || is_quote(byte) || matches!(byte, b'<' | b'\\' | b'\x1b');
    let ends_elsewhere =
        form < Form::Environment && matches!(byte, b',' | b';' | b'&' | b'|' | b'}');
    !ends_anywhere && !ends_elsewhere
}

/// Leaves out the punctuation after a value, but not the bracket that closes one in it.
fn without_punctuation(value: &str) -> &str {
    value.trim_end_matches(|end: char| match end {
        ')' => !value.contains('('),
        ']' => !value.contains('['),
        '}' => !value.contains('{'),
        _ => matches!(end, '.' | ',' | ';' | ':'),
    })
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}
