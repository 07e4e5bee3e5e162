//! What stands in the place of a removed secret: `[redacted:<kind>]`.

use super::text::Text;

/// How every marker begins. Text that contains it is never redacted again.
pub(super) const OPEN: &str = "[redacted:";

/// The longest marker, with room for kinds to come.
const MAX_LEN: usize = 48;

/// Says whether a stretch of text has a marker in it or begins inside one.
pub(super) fn touches(text: &Text<'_>, start: usize, end: usize) -> bool {
    let from = text.floor_boundary(start.saturating_sub(MAX_LEN));
    let mut rest = text.slice(from, end);
    while let Some(open) = rest.find(OPEN) {
        let kind = end - rest.len() + open + OPEN.len();
        let close = text.run(kind, MAX_LEN, |byte| {
            byte.is_ascii_lowercase() || byte == b'-'
        });
        if close >= start && text.byte(close) == Some(b']') {
            return true;
        }
        rest = &rest[open + OPEN.len()..];
    }
    false
}

/// The kind of the marker with which a text ends.
pub(super) fn last_kind(text: &str) -> Option<&str> {
    let (_, kind) = text.strip_suffix(']')?.rsplit_once(OPEN)?;
    let is_kind = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    kind.bytes().all(is_kind).then_some(kind)
}

/// Writes the marker of one kind of secret.
pub(super) fn push(out: &mut String, kind: &str) {
    out.push_str(OPEN);
    out.push_str(kind);
    out.push(']');
}
