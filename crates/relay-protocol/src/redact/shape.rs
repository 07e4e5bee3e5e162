//! Whether a value looks like a secret, or like a word, a path, a placeholder or code.
//!
//! A secret-looking name alone is not enough: `token = parser.next_token()` must stay. How much a
//! value has to show depends on how sure its surroundings make us; see [`Form`].

use super::names::NameClass;

/// How plainly the surroundings say that a value follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// `name: value` or `name = value` without quotes: may be prose or code.
    Bare,
    /// A quoted string, `name=value`, an element of XML.
    Written,
    /// `NAME=value` or `--name=value`: environment and command line.
    Environment,
}

/// Values that stand for a secret without being one, or for no value at all.
const STAND_INS: &[&str] = &[
    "password",
    "passwd",
    "changeme",
    "change-me",
    "change_me",
    "secret",
    "example",
    "string",
    "required",
    "optional",
    "undefined",
    "null",
    "none",
    "true",
    "false",
    "default",
    "disabled",
    "enabled",
    "sha256",
    "sha512",
    "sha1sum",
    "argon2",
    "argon2id",
    "bcrypt",
    "pbkdf2",
    "base64",
    "utf8mb4",
    "int64",
    "uint64",
    "uint32",
    "float64",
    "string1",
    "env.local",
];

/// So much of a value tells what it is; the rest need not be looked at.
const TELLING_LEN: usize = 256;

/// A machine-made value has at least this many different characters.
const FEWEST_DIFFERENT: u32 = 6;

/// Says whether a value under a secret-looking name is to be removed.
pub(super) fn is_secret(class: NameClass, form: Form, value: &str) -> bool {
    let value = &value[..value.floor_char_boundary(TELLING_LEN)];
    if is_stand_in(value) || is_code(value) || is_location(value) {
        return false;
    }
    match class {
        NameClass::Password => is_password(form, value),
        _ => is_token(form, value) && !(form == Form::Bare && is_name(value)),
    }
}

/// Says whether a value was made by a machine: long enough, mixed, and not built of words.
pub(super) fn is_token(form: Form, value: &str) -> bool {
    let counts = Counts::of(value);
    let (shortest, digits) = match form {
        Form::Bare => (16, 2),
        Form::Written => (12, 1),
        Form::Environment => (8, 1),
    };
    let mixed = counts.digits >= digits && counts.letters() > 0;
    let unusual_case =
        form > Form::Bare && counts.upper > 2 && counts.lower > 2 && value.len() > 19;
    value.len() >= shortest
        && (mixed || unusual_case)
        && distinct(value) >= FEWEST_DIFFERENT
        && !is_wordy(value)
}

/// Whether a value is only a template: `$TOKEN`, `${token}`, `<token>`, `****`, `%s`.
pub(super) fn is_template(value: &str) -> bool {
    value.starts_with(['$', '<', '{', '*', '['])
        || value.starts_with('%') && !is_percent_encoded(value)
        || value.starts_with("&lt;")
        || value.contains("${")
        || value.contains("{{")
        || value.contains("...")
        || value.contains('…')
        || value.len() > 3 && distinct(value) < 3
}

/// Whether a value is built of words and small numbers: `my-secret-2024`, `getNextToken`.
pub(super) fn is_wordy(value: &str) -> bool {
    let segments = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|part| !part.is_empty());
    let mut several = 0;
    let mut all_simple = true;
    for segment in segments {
        several += 1;
        all_simple &= is_simple_segment(segment);
    }
    several == 0 || all_simple
}

fn is_percent_encoded(value: &str) -> bool {
    value
        .as_bytes()
        .get(1..3)
        .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

fn is_stand_in(value: &str) -> bool {
    is_template(value)
        || STAND_INS
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word))
}

fn is_code(value: &str) -> bool {
    value.contains(['(', '{', '<', '>', '`'])
        || value.contains("::")
        || value.contains("->")
        || value.contains("&&")
        || value.starts_with(['&', '*', '['])
        || value.ends_with([']', '['])
}

fn is_location(value: &str) -> bool {
    let rooted = ["/", "./", "../", "~/", "C:\\", "c:\\"]
        .iter()
        .any(|root| value.starts_with(root));
    value.contains("://")
        || rooted && value.trim_start_matches('/').contains(['/', '\\']) && !value.ends_with('=')
}

fn is_password(form: Form, value: &str) -> bool {
    let counts = Counts::of(value);
    if value.len() < 6 || value.chars().any(char::is_whitespace) || is_email(value) {
        return false;
    }
    if counts.letters() == 0 {
        return counts.digits == value.len();
    }
    if form < Form::Environment && (is_variable(value) || is_number(value)) {
        return false;
    }
    let words = value.split(['-', '_', '.', ' ']).count();
    counts.digits > 0 || counts.symbols > 0 || form > Form::Bare && words > 3
}

/// Whether a value is a name in a program: `D3D_PRESENT_0`, `ed25519.Ed25519PrivateKey`.
fn is_name(value: &str) -> bool {
    let constant = value.contains('_') && !value.bytes().any(|byte| byte.is_ascii_lowercase());
    let lower = value.to_ascii_lowercase();
    constant
        || ["key", "token", "secret", "password"]
            .iter()
            .any(|word| lower.ends_with(word))
}

/// Whether a value is a number in a program: `0x08000000`, `512u32`.
fn is_number(value: &str) -> bool {
    let hexadecimal = value.starts_with("0x") || value.starts_with("0X");
    let digits = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let suffix = digits.strip_prefix(['u', 'i']);
    hexadecimal || suffix.is_some_and(|size| ["8", "16", "32", "64", "128", "size"].contains(&size))
}

/// Whether a value is a name in a program: `pass1`, `user.password2`, `secret_v2`.
fn is_variable(value: &str) -> bool {
    let identifier = value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    let lower = value.to_ascii_lowercase();
    identifier
        && ["pass", "pwd", "pw", "secret", "self.", "this."]
            .iter()
            .any(|w| lower.contains(w))
}

fn is_email(value: &str) -> bool {
    value.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty()
            && host.contains('.')
            && host
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
    })
}

/// Whether a segment is one word, a small number, or a word with a small number: `v2`, `db01`, `20b`.
fn is_simple_segment(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let first_digit = bytes.iter().position(u8::is_ascii_digit);
    match first_digit {
        None => is_words(bytes),
        Some(0) => {
            let digits = bytes
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let rest = &bytes[digits..];
            digits <= 4 && rest.len() <= 3 && rest.iter().all(u8::is_ascii_alphabetic)
        }
        Some(at) => {
            let digits = &bytes[at..];
            digits.len() <= 4 && digits.iter().all(u8::is_ascii_digit) && is_words(&bytes[..at])
        }
    }
}

/// Whether letters form words: all of one case, or capitals each followed by a few small letters.
fn is_words(letters: &[u8]) -> bool {
    let upper = letters
        .iter()
        .filter(|byte| byte.is_ascii_uppercase())
        .count();
    let lower = letters.len() - upper;
    upper == 0 || lower == 0 || lower >= upper * 3
}

/// How many different bytes a value has.
fn distinct(value: &str) -> u32 {
    let mut seen = [0_u64; 4];
    for byte in value.bytes() {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|word| word.count_ones()).sum()
}

#[derive(Default)]
struct Counts {
    lower: usize,
    upper: usize,
    digits: usize,
    symbols: usize,
}

impl Counts {
    fn of(value: &str) -> Self {
        let mut counts = Self::default();
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' => counts.lower += 1,
                b'A'..=b'Z' => counts.upper += 1,
                b'0'..=b'9' => counts.digits += 1,
                b'-' | b'_' | b'.' | b'/' | b':' | b',' | b';' | b'\\' | b'=' | b'?' | b'|' => {}
                _ => counts.symbols += 1,
            }
        }
        counts
    }

    fn letters(&self) -> usize {
        self.lower + self.upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_made_values() {
        for value in [
            "4f9aT2kLq0ZxW81bVn",
            "550e8400-e29b-41d4-a716-446655440000",
            "JBSWY3DPEHPK3PXP",
        ] {
            assert!(is_token(Form::Written, value), "{value}");
        }
        for value in [
            "my-secret-2024",
            "getNextToken",
            "your-api-key-here",
            "xxxxxxxxxxxxxxxx12",
            "db-credentials-v2",
        ] {
            assert!(!is_token(Form::Written, value), "{value}");
        }
    }

    #[test]
    fn passwords_people_choose() {
        let secret = |form, value| is_secret(NameClass::Password, form, value);
        assert!(secret(Form::Bare, "hunter2"));
        assert!(secret(Form::Written, "p@ssw0rd!"));
        assert!(secret(Form::Written, "correct-horse-battery-staple"));
        for value in [
            "see",
            "String",
            "${DB_PASSWORD}",
            "getpass()",
            "Option<String>",
            "pass1",
            "******",
            "user.password",
        ] {
            assert!(!secret(Form::Bare, value), "{value}");
        }
    }
}
