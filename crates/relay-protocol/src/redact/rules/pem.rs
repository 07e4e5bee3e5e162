//! Private keys in PEM armour: removed from `BEGIN` to `END`. Certificates and public keys stay.
//!
//! The one rule that spans lines. A key may be indented, quoted, numbered, put on a single line with
//! written-out `\n`, or cut off before its end; whatever comes after `BEGIN` is removed for as long
//! as it can be key material. A stream that has seen the beginning of a key goes on with [`resume`].

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

use crate::redact::{
    limits::{MAX_KEY_PREAMBLE, MAX_SECRET},
    rules::{BY_LOOK, Secret},
    text::Text,
};

/// What the marker says.
pub(in crate::redact) const KIND: &str = "private-key";

/// How keys begin.
pub(super) const HEADS: &[&str] = &["-----BEGIN", "Private-Lines:"];

/// What stands on both sides of `BEGIN ...` and `END ...`.
const DASHES: &str = "-----";

/// `-----BEGIN` in base64.
pub(super) const ENCODED_HEAD: &str = "LS0tLS1CRUdJT";

/// Less than this after `BEGIN` is an ellipsis or an example.
const SHORTEST_MATERIAL: usize = 16;

/// Words of key material on one line are at least this long, except for the last.
const SHORTEST_WORD: usize = 16;

/// Key material may be interrupted by this many lines without any.
const MAX_BLANK_LINES: usize = 3;

/// Indentation, quotes and the like around key material are not longer than this.
const LONGEST_DECORATION: usize = 256;

/// A private key, or as much of one as there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redact) struct Key {
    /// Where its first line begins.
    pub(in crate::redact) start: usize,
    /// Where its key material, or its last line, ends.
    pub(in crate::redact) end: usize,
    /// Up to where it will not change, whatever follows; `None` if it may turn out to be no key.
    pub(in crate::redact) settled: Option<usize>,
}

impl Key {
    /// The key as a secret.
    pub(in crate::redact) fn secret(self) -> Secret {
        Secret {
            start: self.start,
            end: self.end,
            kind: KIND,
            rank: usize::MAX,
        }
    }
}

/// Finds the key whose head stands at `at`.
pub(in crate::redact) fn check(text: &Text<'_>, at: usize) -> Option<Key> {
    let head = end_of_head(text, at)?;
    let body = body(text, head, head, 0);
    let settled = (body.settled_material >= SHORTEST_MATERIAL).then_some(body.settled);
    (body.material >= SHORTEST_MATERIAL).then_some(Key {
        start: at,
        end: body.end,
        settled,
    })
}

/// Finds a private key whose armour was base64-encoded once more, as in a kubeconfig.
pub(super) fn check_encoded(text: &Text<'_>, at: usize) -> Option<Secret> {
    let end = text.run(at, MAX_SECRET, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
    });
    let head = text.slice(at, at + (end - at).min(64) / 4 * 4);
    let head = STANDARD_NO_PAD.decode(head.trim_end_matches('=')).ok()?;
    let private = head.windows(11).any(|window| window == b"PRIVATE KEY");
    private.then_some(Secret {
        start: at,
        end,
        kind: KIND,
        rank: BY_LOOK,
    })
}

/// Reads on in a key whose beginning was read before.
pub(in crate::redact) fn resume(text: &Text<'_>) -> Body {
    body(text, 0, after_break(text, 0), SHORTEST_MATERIAL)
}

/// What was found of a key's contents.
#[derive(Debug, Clone, Copy)]
pub(in crate::redact) struct Body {
    /// Where the last line that belongs to the key ends.
    pub(in crate::redact) end: usize,
    /// Where the last complete line of key material ends.
    pub(in crate::redact) settled: usize,
    /// Whether the text ended before the key did.
    pub(in crate::redact) open: bool,
    material: usize,
    settled_material: usize,
}

/// Reads lines from `line`, where so far the key ends `at` and `material` bytes of it were seen.
fn body(text: &Text<'_>, at: usize, mut line: usize, material: usize) -> Body {
    let mut body = Body {
        end: at,
        settled: at,
        open: false,
        material,
        settled_material: material,
    };
    let mut blank_lines = 0;
    loop {
        let (content, line_end) = read_line(text, line, body.material);
        let room = body.material >= SHORTEST_MATERIAL || line_end - at < MAX_KEY_PREAMBLE;
        match content {
            Line::End(length) => {
                return Body {
                    end: line_end,
                    material: body.material + length,
                    ..body
                };
            }
            Line::Material(length) => {
                body.material += length;
                body.end = line_end;
                blank_lines = 0;
            }
            Line::Header if room => {}
            Line::Blank if room && blank_lines < MAX_BLANK_LINES => blank_lines += 1,
            _ => return body,
        }
        if text.byte(line_end).is_none() {
            return Body { open: true, ..body };
        }
        (body.settled, body.settled_material) = (body.end, body.material);
        line = after_break(text, line_end);
    }
}

enum Line {
    /// So many bytes of key material.
    Material(usize),
    /// The closing line, after so many bytes of key material.
    End(usize),
    /// `Proc-Type: 4,ENCRYPTED` and the like.
    Header,
    /// Nothing but decoration.
    Blank,
    /// Something that is no part of a key.
    Other,
}

/// Says what a line is and where it ends. Gives up at the first sign that it is ordinary text.
fn read_line(text: &Text<'_>, line: usize, material: usize) -> (Line, usize) {
    if material == 0 && is_header(text, line) {
        let end = text.run(line, MAX_KEY_PREAMBLE, |byte| {
            !is_break(byte) && byte != b'['
        });
        let removed = text.byte(end) == Some(b'[');
        return (if removed { Line::Other } else { Line::Header }, end);
    }
    let (mut at, mut length, mut was_short) = (line, 0, false);
    while at - line < MAX_SECRET {
        let start = text.run(at, LONGEST_DECORATION, is_decoration);
        let end = text.run(start, MAX_SECRET, is_material);
        let word = text.slice(start, end);
        at = end;
        if word == "END" && text.slice(start.saturating_sub(DASHES.len()), start) == DASHES {
            return (Line::End(length), end_of_marker(text, end));
        }
        if word.is_empty() {
            return match text.byte(end) {
                Some(byte) if !is_break(byte) => (Line::Other, end),
                _ if length == 0 => (Line::Blank, end),
                _ => (Line::Material(length), end),
            };
        }
        if is_line_number(word) || !word.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            continue;
        }
        if was_short {
            return (Line::Other, end);
        }
        length += word.len();
        was_short = word.len() < SHORTEST_WORD;
    }
    (Line::Material(length), at)
}

/// Reads `-----BEGIN RSA PRIVATE KEY-----` and its relatives.
fn end_of_head(text: &Text<'_>, at: usize) -> Option<usize> {
    if text.literal(at, "Private-Lines:") {
        return Some(text.run(at, 24, |byte| byte != b'\n'));
    }
    let label = at + DASHES.len();
    if !text.literal(label, "BEGIN ") {
        return None;
    }
    let end = text.run(label, 64, is_label);
    let private = text.slice(label, end).contains("PRIVATE KEY");
    (private && text.literal(end, DASHES)).then_some(end + DASHES.len())
}

/// Where the closing line ends, from behind its `END`.
fn end_of_marker(text: &Text<'_>, at: usize) -> usize {
    text.run(text.run(at, 64, is_label), DASHES.len(), |byte| {
        byte == b'-'
    })
}

/// Skips a line break or a written-out one; elsewhere, where a line was too long, nothing.
fn after_break(text: &Text<'_>, at: usize) -> usize {
    let backslashes = text.run(at, 8, |byte| byte == b'\\');
    match text.byte(backslashes) {
        Some(b'\n' | b'\r') => backslashes + 1,
        Some(b'n' | b'r') if backslashes > at => backslashes + 1,
        _ => backslashes,
    }
}

fn is_header(text: &Text<'_>, line: usize) -> bool {
    let name = text.run(line, LONGEST_DECORATION, is_decoration);
    let end = text.run(name, 24, |byte| {
        byte.is_ascii_alphanumeric() || byte == b'-'
    });
    text.is(name, |byte| byte.is_ascii_uppercase()) && text.literal(end, ": ")
}

fn is_label(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
}

/// A line ends at a line break, or where one is written out.
fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'\\')
}

fn is_line_number(word: &str) -> bool {
    word.len() <= 6 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_material(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_decoration(byte: u8) -> bool {
    !byte.is_ascii()
        || matches!(
            byte,
            b' ' | b'\t' | b'>' | b'|' | b'#' | b'*' | b':' | b'"' | b'\'' | b',' | b'.' | b'-'
        )
}
