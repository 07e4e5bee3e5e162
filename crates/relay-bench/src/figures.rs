//! What many measured values come to: percentiles, medians, ranges, ratios.
//!
//! The foundation benchmark of `relay-core` includes this file, so that both reckon alike.

use std::time::Duration;

/// Latencies of one round.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let index = (self.0.len() as f64 * percent / 100.0) as usize;
        self.0
            .get(index.min(self.0.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

/// The middle of several values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The least and the greatest of several values.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (least, most)
}

/// How one series of rounds compares with another, round by round.
pub(crate) fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}
