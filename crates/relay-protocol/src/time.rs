//! Points in time: RFC 3339, UTC, milliseconds on the wire; an integer inside.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since 1970, shown as `2026-11-15T21:54:20.123Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// From 1970, where version 7 UUIDs begin, to the last day that every time zone can write in RFC 3339.
const RANGE: (i64, i64) = (0, 253_402_207_199_999);

impl Timestamp {
    /// Takes milliseconds since 1970; times outside 1970 to 9999 become the nearest inside.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        if millis < RANGE.0 {
            Self(RANGE.0)
        } else if millis > RANGE.1 {
            Self(RANGE.1)
        } else {
            Self(millis)
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The time that many milliseconds later.
    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = jiff::Timestamp::from_millisecond(self.0).map_err(|_| fmt::Error)?;
        write!(f, "{time:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time: jiff::Timestamp = text.parse()?;
        Ok(Self::from_millis(time.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            de::Error::custom(format_args!(
                "expected an RFC 3339 time such as \"2026-11-15T21:54:20.123Z\", found \"{text}\""
            ))
        })
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_utc_milliseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_763_244_860_123, "2025-11-15T22:14:20.123Z"),
            (i64::MAX, "9999-12-30T21:59:59.999Z"),
            (i64::MIN, "1970-01-01T00:00:00.000Z"),
        ];
        for (millis, text) in cases {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
        }
    }

    #[test]
    fn reads_any_offset() {
        let time: Timestamp = "2025-11-15T23:14:20.1239+01:00".parse().unwrap();
        assert_eq!(time, Timestamp::from_millis(1_763_244_860_123));
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
