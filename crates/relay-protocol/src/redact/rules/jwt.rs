//! JSON web tokens: three or five base64url parts, the first of which is a JSON object.

use crate::redact::{
    limits::MAX_SECRET,
    rules::{BY_LOOK, Secret},
    text::Text,
};

/// The shortest header (`{"alg":"none"}`) and payload worth the name.
const SHORTEST_PART: usize = 10;

/// Finds the token whose first `eyJ` stands at `at`.
pub(super) fn check(text: &Text<'_>, at: usize) -> Option<Secret> {
    if !text.word_may_start(at) {
        return None;
    }
    let mut ends = Vec::with_capacity(5);
    let mut part = at;
    loop {
        let end = text.run(part, MAX_SECRET.saturating_sub(part - at), is_url64);
        ends.push((part, end));
        if ends.len() == 5 || text.byte(end) != Some(b'.') {
            break;
        }
        part = end + 1;
    }
    let end = end_of_token(text, &ends)?;
    Some(Secret {
        start: at,
        end,
        kind: "jwt",
        rank: BY_LOOK,
    })
}

fn end_of_token(text: &Text<'_>, parts: &[(usize, usize)]) -> Option<usize> {
    let long = |index: usize| {
        parts
            .get(index)
            .is_some_and(|(start, end)| end - start >= SHORTEST_PART)
    };
    let signed = long(0) && long(1) && parts.len() > 2 && text.literal(parts[1].0, "eyJ");
    let encrypted = parts.len() == 5 && long(0) && long(3) && parts[4].1 > parts[4].0;
    match (encrypted, signed) {
        (true, _) => Some(parts[4].1),
        (_, true) => Some(parts[2].1),
        _ => None,
    }
}

fn is_url64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
