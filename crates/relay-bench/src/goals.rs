//! Goals, and whether they are met. A goal is judged only where the machine was quiet: in other rounds even
//! ratios move by a factor of two.

use std::fmt;

use serde::Serialize;

/// Cores that others may use in a round that counts.
pub const QUIET_CORES: f64 = 0.2;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Goal {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// What became of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// It was reached.
    Met,
    /// It was not.
    #[serde(rename_all = "camelCase")]
    Missed {
        /// How far off, in hundredths of the goal.
        by_percent: f64,
    },
    /// Nobody can say: others used the machine.
    Unjudged,
}

impl Goal {
    /// Judges a figure.
    #[must_use]
    pub fn judge(self, value: f64, is_quiet: bool) -> Verdict {
        let (goal, is_met) = match self {
            Self::AtLeast(goal) => (goal, value >= goal),
            Self::AtMost(goal) => (goal, value <= goal),
        };
        match (is_quiet, is_met) {
            (false, _) => Verdict::Unjudged,
            (true, true) => Verdict::Met,
            (true, false) => Verdict::Missed {
                by_percent: ((value - goal) / goal * 100.0).abs(),
            },
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => f.write_str("met"),
            Self::Missed { by_percent } => write!(f, "MISSED by {by_percent:.0} %"),
            Self::Unjudged => f.write_str("not judged, others used the machine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_judged_where_it_was_quiet() {
        let cases = [
            (Goal::AtLeast(0.6), 0.6, true, "met"),
            (Goal::AtLeast(0.6), 0.45, true, "MISSED by 25 %"),
            (Goal::AtMost(1.5), 1.4, true, "met"),
            (Goal::AtMost(1.5), 1.8, true, "MISSED by 20 %"),
            (
                Goal::AtMost(1.5),
                1.4,
                false,
                "not judged, others used the machine",
            ),
            (
                Goal::AtMost(1.5),
                1.8,
                false,
                "not judged, others used the machine",
            ),
            (Goal::AtLeast(1.0), f64::NAN, true, "MISSED by NaN %"),
        ];
        for (goal, value, is_quiet, expected) in cases {
            let verdict = goal.judge(value, is_quiet);
            assert_eq!(verdict.to_string(), expected, "{goal:?} {value}");
        }
    }
}
