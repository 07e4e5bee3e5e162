//! Times and durations as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relay_sdk::Timestamp;

/// The time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_millis(since.map_or(0, |since| since.as_millis() as i64))
}

/// Reads `90s`, `10m`, `2h` or `7d`; also `500ms`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    match number.parse::<u64>() {
        Ok(number) if millis > 0 => Ok(Duration::from_millis(number.saturating_mul(millis))),
        _ => Err("expected a duration such as 90s, 10m, 2h or 7d".to_owned()),
    }
}

/// A point in time: RFC 3339, or how long from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    At(Timestamp),
    Away(Duration),
}

impl Moment {
    /// Reads a deadline.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        parse_duration(text).map(Self::Away).map_err(|_| {
            "expected a duration such as 90s, 10m, 2h or 7d, or a time such as 2026-11-15T21:54:20Z"
                .to_owned()
        })
    }

    /// The time, if it is ahead.
    pub(crate) fn ahead(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Away(duration) => now().plus_millis(millis(duration)),
        }
    }

    /// The time, if it is in the past.
    pub(crate) fn ago(self) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Away(duration) => now().plus_millis(-millis(duration)),
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How long something took or takes, in the two coarsest words that say it.
pub(crate) fn span(millis: i64) -> String {
    let millis = millis.max(0);
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        60_000..3_600_000 => format!("{} min", millis / 60_000),
        3_600_000..172_800_000 => format!("{} h", millis / 3_600_000),
        _ => format!("{} days", millis / 86_400_000),
    }
}

/// How long ago something was.
pub(crate) fn ago(at: Timestamp) -> String {
    format!("{} ago", span(now().as_millis() - at.as_millis()))
}

/// The time of the day, in UTC.
pub(crate) fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.get(11..19).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        let cases = [
            ("500ms", 500),
            ("90s", 90_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for text in ["", "5", "s", "-5s", "5 s", "1w"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let noon = "2026-11-15T12:00:00Z".parse().unwrap();
        assert_eq!(Moment::parse("2026-11-15T12:00:00Z"), Ok(Moment::At(noon)));
        assert!(Moment::parse("soon").is_err());
    }

    #[test]
    fn spans_read_well() {
        let cases = [
            (41, "41 ms"),
            (1_250, "1.2 s"),
            (125_000, "2 min"),
            (7_200_000, "2 h"),
            (604_800_000, "7 days"),
        ];
        for (millis, text) in cases {
            assert_eq!(span(millis), text);
        }
    }
}
