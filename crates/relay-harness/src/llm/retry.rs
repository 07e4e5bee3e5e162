//! Whether and when a provider is asked again: pure.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::error::ProviderError;

/// How often, and how long it is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often it is asked, the first time counted. Default: 4.
    pub attempts: u32,
    /// How long is waited before the second time; twice as long before each that follows. Default: 1 s.
    pub first: Duration,
    /// The longest wait that a provider may ask for; with a longer one nothing is tried again. Default: 60 s.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 4,
            first: Duration::from_secs(1),
            patience: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// Asks once.
    pub const NEVER: Self = Self {
        attempts: 1,
        first: Duration::ZERO,
        patience: Duration::ZERO,
    };

    /// How long to wait after this failure of the nth attempt, counted from 1; nothing where it is final. `jitter` is any number
    /// and spreads those who failed together.
    #[must_use]
    pub fn wait(&self, attempt: u32, error: &ProviderError, jitter: u8) -> Option<Duration> {
        if attempt >= self.attempts || !error.is_retryable() {
            return None;
        }
        if let Some(wanted) = error.retry_after {
            return (wanted <= self.patience).then_some(wanted);
        }
        let doubled = self
            .first
            .saturating_mul(1 << attempt.saturating_sub(1).min(16));
        // Between half of it and all of it.
        let spread = doubled / 2 + doubled / 2 * u32::from(jitter) / u32::from(u8::MAX);
        Some(spread.min(self.patience))
    }
}

/// What a `Retry-After` header says: seconds, or a date.
#[must_use]
pub(crate) fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let at = DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date in the past means now.
    Some(at.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::error::ErrorKind;

    fn failed(kind: ErrorKind, retry_after: Option<u64>) -> ProviderError {
        ProviderError {
            retry_after: retry_after.map(Duration::from_secs),
            ..ProviderError::new(kind, "x")
        }
    }

    #[test]
    fn what_is_tried_again_and_when() {
        use ErrorKind::{Broken, Busy, Limit, Refused, Reported, Unreachable};
        let policy = RetryPolicy::default();
        let table = [
            // attempt, failure, jitter, how long is waited in milliseconds
            (1, failed(Busy, None), 255, Some(1000)),
            (1, failed(Busy, None), 0, Some(500)),
            (2, failed(Unreachable, None), 255, Some(2000)),
            (3, failed(Busy, None), 255, Some(4000)),
            (4, failed(Busy, None), 255, None),
            (1, failed(Busy, Some(7)), 9, Some(7000)),
            (1, failed(Busy, Some(0)), 9, Some(0)),
            (1, failed(Busy, Some(61)), 9, None),
            (4, failed(Busy, Some(1)), 9, None),
            (1, failed(Refused, Some(1)), 9, None),
            (1, failed(Broken, None), 9, None),
            (1, failed(Limit, None), 9, None),
            (1, failed(Reported, None), 9, None),
        ];
        for (attempt, error, jitter, expected) in table {
            let wait = policy.wait(attempt, &error, jitter);
            let expected = expected.map(Duration::from_millis);
            assert_eq!(wait, expected, "{attempt} {error:?}");
        }
        let busy = failed(Busy, Some(0));
        assert_eq!(RetryPolicy::NEVER.wait(1, &busy, 0), None);
    }

    #[test]
    fn how_long_a_provider_wants_to_be_left_alone() {
        let now: Timestamp = "2026-11-06T08:49:37Z".parse().unwrap();
        let table = [
            ("3", Some(3000)),
            (" 0.5 ", Some(500)),
            ("-1", Some(0)),
            ("Fri, 06 Nov 2026 08:49:57 GMT", Some(20_000)),
            ("Fri, 06 Nov 2026 08:49:00 GMT", Some(0)),
            ("soon", None),
            ("", None),
            ("inf", None),
            ("nan", Some(0)),
        ];
        for (value, expected) in table {
            let found = retry_after(value, now);
            assert_eq!(found, expected.map(Duration::from_millis), "{value:?}");
        }
    }
}
