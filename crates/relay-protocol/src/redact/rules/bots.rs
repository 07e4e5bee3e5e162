//! Bot tokens without a prefix of their own: Telegram and Discord put a number first.

use crate::redact::{
    rules::{BY_LOOK, Secret},
    text::Text,
};

/// Finds `123456789:AA...`, given where `:AA` stands.
pub(super) fn check_telegram(text: &Text<'_>, at: usize) -> Option<Secret> {
    let start = text.run_back(at, 11, |byte| byte.is_ascii_digit());
    if !(8..=10).contains(&(at - start)) {
        return None;
    }
    let preceded_by_bot = text.run_back(start, 3, |byte| byte.is_ascii_alphabetic()) + 3 == start;
    if !text.word_may_start(start) && !preceded_by_bot {
        return None;
    }
    let end = text.run(at + 1, 64, is_url64);
    (end - at >= 36).then_some(Secret {
        start,
        end,
        kind: "telegram-token",
        rank: BY_LOOK,
    })
}

/// Finds a token of three parts, of which the first is a user number in base64.
pub(super) fn check_discord(text: &Text<'_>, at: usize) -> Option<Secret> {
    if !text.word_may_start(at) {
        return None;
    }
    let id = text.run(at, 40, |byte| byte.is_ascii_alphanumeric());
    if !(22..=28).contains(&(id - at)) || text.byte(id) != Some(b'.') {
        return None;
    }
    let time = text.run(id + 1, 16, is_url64);
    if time - id != 7 || text.byte(time) != Some(b'.') || !is_number(text.slice(at, id)) {
        return None;
    }
    let end = text.run(time + 1, 64, is_url64);
    (end - time > 25).then_some(Secret {
        start: at,
        end,
        kind: "discord-token",
        rank: BY_LOOK,
    })
}

/// How the base64 of any number begins: three characters settle the first two digits.
pub(super) fn discord_literals() -> impl Iterator<Item = String> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |index: u8| char::from(ALPHABET[usize::from(index & 63)]);
    let literals: std::collections::BTreeSet<String> = (b'1'..=b'9')
        .flat_map(|first| (b'0'..=b'9').map(move |second| (first, second)))
        .map(|(first, second)| {
            [
                letter(first >> 2),
                letter(first << 4 | second >> 4),
                letter(second << 2),
            ]
            .iter()
            .collect()
        })
        .collect();
    literals.into_iter()
}

fn is_number(base64: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(base64)
        .is_ok_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

fn is_url64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
