//! Which names promise a secret: `DB_PASSWORD` does, `max_tokens`, `primary_key` and `token_url` do not.

/// What a secret-looking name says about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameClass {
    /// Chosen by a person, so almost any text may be one.
    Password,
    /// Made by a machine; the value must look like it.
    Secret,
    /// Made by a machine; the value must look like it.
    Token,
    /// Made by a machine; the value must look like it.
    Key,
    /// The secret half of an AWS key pair.
    AwsSecret,
    /// The key of an Azure storage account or message bus.
    AzureKey,
}

impl NameClass {
    /// The kind shown in the marker.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Secret => "secret",
            Self::Token => "token",
            Self::Key => "key",
            Self::AwsSecret => "aws-secret-key",
            Self::AzureKey => "azure-key",
        }
    }
}

/// Pieces of text that every secret-looking name contains, lower case.
pub(super) const KEYWORDS: &[&str] = &[
    "key",
    "token",
    "secret",
    "passw",
    "passphrase",
    "pass",
    "pwd",
    "credential",
    "auth",
];

/// Words that may follow the telling word without changing what the name means.
const SUFFIXES: &[&str] = &[
    "base",
    "value",
    "prod",
    "production",
    "dev",
    "development",
    "test",
    "staging",
    "live",
    "main",
    "old",
    "new",
    "primary",
    "secondary",
    "b64",
    "base64",
    "text",
    "string",
    "plain",
    "raw",
];

/// What makes a key a secret one.
const KEY_OWNERS: &[&str] = &[
    "api",
    "app",
    "access",
    "secret",
    "private",
    "auth",
    "encryption",
    "encrypt",
    "signing",
    "master",
    "session",
    "service",
    "account",
    "storage",
    "client",
    "deploy",
    "webhook",
    "admin",
    "root",
    "license",
    "role",
    "shared",
    "subscription",
    "write",
    "jwt",
    "hmac",
    "openai",
    "anthropic",
    "stripe",
    "sendgrid",
    "mailgun",
    "datadog",
    "dd",
    "gemini",
    "google",
    "aws",
    "azure",
    "github",
    "gitlab",
    "twilio",
    "segment",
    "algolia",
];

/// Tokens that point at something instead of opening it.
const HARMLESS_TOKENS: &[&str] = &[
    "next",
    "page",
    "continuation",
    "cancellation",
    "cancel",
    "stop",
    "pad",
    "eos",
    "bos",
    "unk",
    "sep",
    "cls",
    "mask",
    "start",
    "end",
    "special",
    "first",
    "last",
    "current",
    "prev",
    "previous",
    "peek",
    "resume",
    "sync",
    "design",
    "color",
    "theme",
    "delimiter",
];

/// Names written as one word.
const JOINED: &[(&str, NameClass)] = &[
    ("secretaccesskey", NameClass::AwsSecret),
    ("accountkey", NameClass::AzureKey),
    ("sharedaccesskey", NameClass::AzureKey),
    ("apikey", NameClass::Key),
    ("accesskey", NameClass::Key),
    ("secretkey", NameClass::Key),
    ("privatekey", NameClass::Key),
    ("signingkey", NameClass::Key),
    ("authkey", NameClass::Key),
    ("masterkey", NameClass::Key),
    ("encryptionkey", NameClass::Key),
    ("password", NameClass::Password),
    ("passwd", NameClass::Password),
    ("passphrase", NameClass::Password),
    ("secret", NameClass::Secret),
    ("token", NameClass::Token),
];

/// Says what a name promises, or `None` for an ordinary one.
pub(super) fn classify(name: &str) -> Option<NameClass> {
    let words = Words::of(name);
    let mut rest = words.as_slice();
    while let Some((last, before)) = rest.split_last() {
        if before.is_empty() || !is_suffix(last) {
            break;
        }
        rest = before;
    }
    let (last, before) = rest.split_last()?;
    let owner = before.last().map(String::as_str);
    classify_words(last, owner, before.iter().rev().nth(1).map(String::as_str))
}

fn is_suffix(word: &str) -> bool {
    SUFFIXES.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

fn classify_words(last: &str, owner: Option<&str>, earlier: Option<&str>) -> Option<NameClass> {
    match (last, owner) {
        ("key", Some("access")) if earlier == Some("secret") => Some(NameClass::AwsSecret),
        ("key", Some("access")) if earlier == Some("shared") => Some(NameClass::AzureKey),
        ("key", Some("account")) => Some(NameClass::AzureKey),
        ("key", Some(owner)) => KEY_OWNERS.contains(&owner).then_some(NameClass::Key),
        ("key", None) => None,
        ("token", Some(owner)) if HARMLESS_TOKENS.contains(&owner) => None,
        ("pwd" | "pass" | "dbpass" | "userpass", _) => Some(NameClass::Password),
        ("credential" | "credentials" | "auth", _) => Some(NameClass::Secret),
        _ => joined(last),
    }
}

fn joined(word: &str) -> Option<NameClass> {
    JOINED
        .iter()
        .find(|(ending, _)| word.ends_with(ending))
        .map(|&(_, class)| class)
}

/// The last words of a name, lower case: `myApiKey`, `MY_API_KEY` and `my-api-key` are the same.
struct Words {
    words: Vec<String>,
}

impl Words {
    fn of(name: &str) -> Self {
        let bytes = name.as_bytes();
        let mut words = vec![String::new()];
        for (at, &byte) in bytes.iter().enumerate() {
            if !byte.is_ascii_alphanumeric() {
                words.push(String::new());
                continue;
            }
            if starts_word(bytes, at) {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.push(char::from(byte.to_ascii_lowercase()));
            }
        }
        words.retain(|word| !word.is_empty());
        Self { words }
    }

    fn as_slice(&self) -> &[String] {
        &self.words
    }
}

/// Whether a capital begins a new word: `apiKey`, `APIKey`, but not `APIKEY`.
fn starts_word(bytes: &[u8], at: usize) -> bool {
    let Some(&previous) = at.checked_sub(1).and_then(|before| bytes.get(before)) else {
        return false;
    };
    let here = bytes[at];
    let next_is_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
    let digit_edge = here.is_ascii_digit() != previous.is_ascii_digit();
    digit_edge || here.is_ascii_uppercase() && (previous.is_ascii_lowercase() || next_is_lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_promise_a_secret() {
        for (name, class) in [
            ("API_KEY", NameClass::Key),
            ("apiKey", NameClass::Key),
            ("OPENAI_API_KEY", NameClass::Key),
            ("x-api-key", NameClass::Key),
            ("openaiAPIKey", NameClass::Key),
            ("APIKEY", NameClass::Key),
            ("PGPASSWORD", NameClass::Password),
            ("db.password", NameClass::Password),
            ("DB_PASS", NameClass::Password),
            ("client_secret", NameClass::Secret),
            ("clientSecret", NameClass::Secret),
            ("SECRET_KEY_BASE", NameClass::Key),
            ("API_KEY_2", NameClass::Key),
            ("GITHUB_TOKEN", NameClass::Token),
            ("_authToken", NameClass::Token),
            ("aws_secret_access_key", NameClass::AwsSecret),
            ("SecretAccessKey", NameClass::AwsSecret),
            ("AccountKey", NameClass::AzureKey),
        ] {
            assert_eq!(classify(name), Some(class), "{name}");
        }
    }

    #[test]
    fn ordinary_names() {
        for name in [
            "key",
            "primary_key",
            "foreignKey",
            "cache_key",
            "idempotencyKey",
            "public_key",
            "max_tokens",
            "tokens",
            "token_count",
            "token_url",
            "tokenType",
            "nextPageToken",
            "cancellationToken",
            "secret_santa",
            "secretName",
            "password_file",
            "passed",
            "compass",
            "bypass",
            "key_id",
            "author",
            "keyboard",
            "passport",
            "pad_token",
            "",
        ] {
            assert_eq!(classify(name), None, "{name}");
        }
    }
}
