//! Basic credentials wherever they stand: base64 of `user:password`.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};

use crate::redact::{
    rules::{BY_LOOK, Secret},
    text::Text,
};

/// Finds the credentials after the word "basic" at `at`.
pub(super) fn check(text: &Text<'_>, at: usize) -> Option<Secret> {
    let blank = at + "basic".len();
    let start = text.skip_blanks(blank);
    if start == blank || !text.word_may_start(at) {
        return None;
    }
    let end = text.run(start, 1024, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
    });
    is_user_and_password(text.slice(start, end)).then_some(Secret {
        start,
        end,
        kind: "basic-auth",
        rank: BY_LOOK,
    })
}

fn is_user_and_password(base64: &str) -> bool {
    let Ok(decoded) = STANDARD_NO_PAD.decode(base64.trim_end_matches('=')) else {
        return false;
    };
    std::str::from_utf8(&decoded)
        .is_ok_and(|text| text.contains(':') && !text.contains(char::is_control))
}
