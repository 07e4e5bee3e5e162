//! Why a model's answer did not come, or is none.
//!
//! Whoever makes one gives it text of others only through `ProviderError::said`, which bounds it and takes secrets out: providers
//! repeat keys in their errors.

use std::fmt;
use std::time::Duration;

use relay_protocol::redact::Redactor;
use relay_protocol::sse::SseError;

use super::limits::ERROR_TEXT_BYTES;

/// Why a model's answer did not come, or is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What to tell people.
    pub message: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No connection, or it broke.
    Unreachable,
    /// Too many requests, or too much load: later it may work.
    Busy,
    /// The provider refuses the request.
    Refused,
    /// The provider reported an error in the middle of its answer.
    Reported,
    /// The answer is not in the provider's form, or ends without an end.
    Broken,
    /// A limit of ours was reached.
    Limit,
}

impl ProviderError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
        }
    }

    /// The answer is not what it should be.
    pub(crate) fn broken(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Broken, message)
    }

    /// More than is accepted.
    pub(crate) fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }

    /// An error that the provider describes in its own words.
    pub(crate) fn said(kind: ErrorKind, what: &str, text: &str) -> Self {
        let text = shown(text);
        match text.is_empty() {
            true => Self::new(kind, what),
            false => Self::new(kind, format!("{what}: {text}")),
        }
    }

    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable | ErrorKind::Busy)
    }

    /// Takes this value out of the text, whatever it looks like.
    pub(crate) fn without(mut self, secret: &str) -> Self {
        if !secret.is_empty() && self.message.contains(secret) {
            self.message = self.message.replace(secret, "[key]");
        }
        self
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProviderError {}

/// A text of others: bounded, in one line, without secrets and control characters.
fn shown(text: &str) -> String {
    let text = text.trim();
    let short = &text[..text.floor_char_boundary(ERROR_TEXT_BYTES)];
    let clean = Redactor::new().redact(short);
    let words = clean.split(|char: char| char.is_whitespace() || char.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

impl From<SseError> for ProviderError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::Line(_) | SseError::Event(_) => Self::limit(error.to_string()),
            SseError::NoText => Self::broken(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_short_plain_and_without_keys() {
        let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
        let said = ProviderError::said(
            ErrorKind::Refused,
            "401",
            &format!("Incorrect key {key}\r\n\u{1b}[31mred {}", "x".repeat(9999)),
        );
        assert!(!said.message.contains("abcdefghijkl"), "{said}");
        assert!(said.message.starts_with("401: Incorrect key"), "{said}");
        assert!(!said.message.contains('\u{1b}') && !said.message.contains('\n'));
        assert!(said.message.len() < ERROR_TEXT_BYTES + 100);
        let odd = ProviderError::said(ErrorKind::Refused, "401", "key hunter2 is bad");
        assert_eq!(odd.without("hunter2").message, "401: key [key] is bad");
        assert_eq!(
            ProviderError::said(ErrorKind::Refused, "401", " ").message,
            "401"
        );
    }
}
