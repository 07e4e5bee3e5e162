//! Credentials in URLs: only the password goes, the rest of the address stays readable.

use crate::redact::{
    rules::{BY_CONTEXT, Secret},
    shape::{self, Form},
    text::Text,
};

/// The longest user and password that are looked for in front of a host.
const MAX_USER_INFO: usize = 512;

/// Finds the password of the URL whose `://` stands at `at`.
pub(super) fn check(text: &Text<'_>, at: usize) -> Option<Secret> {
    let start = at + "://".len();
    let info = user_info(text, start)?;
    let Some(colon) = info.find(':') else {
        return token_as_user(start, info);
    };
    let password = &info[colon + 1..];
    if password.is_empty() || info.starts_with('[') || shape::is_template(password) {
        return None;
    }
    Some(Secret {
        start: start + colon + 1,
        end: start + info.len(),
        kind: "url-password",
        rank: BY_CONTEXT + 1,
    })
}

/// What stands before the `@` of the host. An unescaped slash may be part of a password: what
/// follows the colon cannot be a port then.
fn user_info<'t>(text: &Text<'t>, start: usize) -> Option<&'t str> {
    let authority = text.slice(start, text.run(start, MAX_USER_INFO, is_authority));
    if let Some(at) = authority.rfind('@') {
        return Some(&authority[..at]);
    }
    let (_, port) = authority
        .split_once(':')
        .filter(|_| !authority.starts_with('['))?;
    if port.is_empty() || port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let wide = |byte| is_authority(byte) || matches!(byte, b'/' | b'?' | b'#');
    let longer = text.slice(start, text.run(start, MAX_USER_INFO, wide));
    longer.rfind('@').map(|at| &longer[..at])
}

/// A user without a password may be a token: `https://<token>@host`.
fn token_as_user(start: usize, user: &str) -> Option<Secret> {
    (user.len() >= 20 && shape::is_token(Form::Bare, user)).then_some(Secret {
        start,
        end: start + user.len(),
        kind: "url-credential",
        rank: BY_CONTEXT + 1,
    })
}

fn is_authority(byte: u8) -> bool {
    !matches!(
        byte,
        b'/' | b'?' | b'#' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\' | b'(' | b')' | 0
            ..=b' ' | 0x7f
    )
}
