//! Which registered values say nothing and are therefore left alone.

use super::{limits::MIN_REGISTERED_LEN, marker};

/// Variables that every environment has and that are never secret.
const HARMLESS_NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "SHELL",
    "USER",
    "USERNAME",
    "LOGNAME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "COLORTERM",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SHLVL",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "LS_COLORS",
    "MANPATH",
    "MAIL",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_AUTH_SOCK",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
    "NODE_ENV",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "CI",
    "_",
];

/// Values that stand in many places without being secret.
const TRIVIAL_VALUES: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "0.0.0.0",
    "development",
    "production",
    "disabled",
    "enabled",
    "undefined",
    "password",
    "changeme",
    "postgres",
    "postgresql",
    "truecolor",
    "xterm-256color",
    "screen-256color",
    "en_US.UTF-8",
    "C.UTF-8",
    "application/json",
    "us-east-1",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "administrator",
    "anonymous",
    "required",
    "optional",
];

/// What of a value is secret: all, nothing, or the password in an address.
pub(super) fn secret_part<'v>(name: &str, value: &'v str) -> Option<&'v str> {
    let value = value.trim();
    let harmless =
        HARMLESS_NAMES.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_");
    if harmless || is_trivial(value) {
        return None;
    }
    match value.split_once("://") {
        Some((_, rest)) => password_of(rest),
        None => Some(value),
    }
}

fn is_trivial(value: &str) -> bool {
    let is_path =
        value.starts_with(['/', '~', '.']) && value.contains('/') && !value.ends_with('=');
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
        && value.len() < 12;
    let repeats = value
        .bytes()
        .all(|byte| Some(&byte) == value.as_bytes().first());
    value.len() < MIN_REGISTERED_LEN
        || is_path
        || is_number
        || repeats
        || value.contains(marker::OPEN)
        || marker_contains(value)
        || TRIVIAL_VALUES
            .iter()
            .any(|trivial| trivial.eq_ignore_ascii_case(value))
}

/// Whether a marker could contain the value, which redacting again would then find.
fn marker_contains(value: &str) -> bool {
    value
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'[' | b']' | b':'))
        && value.len() <= 24
        && [
            "redacted",
            "-token",
            "-key",
            "-secret",
            "-password",
            "-value",
            "-auth",
            "-credential",
        ]
        .iter()
        .any(|word| value.contains(word) || word.contains(value))
}

fn password_of(rest: &str) -> Option<&str> {
    let authority = rest.split(['/', '?', '#']).next()?;
    let (info, _) = authority.rsplit_once('@')?;
    let (_, password) = info.split_once(':')?;
    (!is_trivial(password)).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trivial_values_have_no_secret_part() {
        for value in [
            "",
            "true",
            "localhost",
            "/usr/bin",
            "/usr/bin:/bin",
            "12345678",
            "short",
            "aaaaaaaaaaaa",
            "https://api.example.com/v1",
            "private-key",
        ] {
            assert_eq!(secret_part("X", value), None, "{value}");
        }
        assert_eq!(secret_part("HOME", "something-else"), None);
        assert_eq!(secret_part("X", "something-else"), Some("something-else"));
    }

    #[test]
    fn of_an_address_only_the_password_is_secret() {
        assert_eq!(
            secret_part("DB", "postgres://me:s3cr3t-word@db/x"),
            Some("s3cr3t-word")
        );
    }
}
