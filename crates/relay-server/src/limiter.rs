//! Rates: a bucket per key that fills steadily and is emptied by use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::Rate;

/// Keys that are remembered before those at rest are forgotten.
const REMEMBERED: usize = 10_000;

/// A bucket for each key.
pub(crate) struct Limiter<K> {
    rate: Rate,
    buckets: Mutex<HashMap<K, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// What is left, as of `at`.
    left: f64,
    at: Instant,
}

impl<K: Eq + Hash> Limiter<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// Takes one, or says how long to wait for it.
    pub(crate) fn take(&self, key: K, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= REMEMBERED {
            buckets.retain(|_, bucket| !is_full(self.rate, *bucket, now));
        }
        let full = Bucket {
            left: f64::from(self.rate.at_once),
            at: now,
        };
        let bucket = buckets.entry(key).or_insert(full);
        let (after, taken) = take_one(self.rate, *bucket, now);
        *bucket = after;
        taken
    }

    /// Whether there is one to take.
    pub(crate) fn has_any(&self, key: &K, now: Instant) -> Result<(), Duration> {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets
            .get(key)
            .map_or(Ok(()), |bucket| take_one(self.rate, *bucket, now).1)
    }

    /// Whether this key took something not long ago.
    pub(crate) fn knows(&self, key: &K) -> bool {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.contains_key(key)
    }
}

fn left(rate: Rate, bucket: Bucket, now: Instant) -> f64 {
    let since = now.saturating_duration_since(bucket.at).as_secs_f64();
    (bucket.left + since * f64::from(rate.per_second)).min(f64::from(rate.at_once))
}

fn is_full(rate: Rate, bucket: Bucket, now: Instant) -> bool {
    left(rate, bucket, now) >= f64::from(rate.at_once)
}

/// What a bucket is after one was taken, or how long it takes until one can be.
fn take_one(rate: Rate, bucket: Bucket, now: Instant) -> (Bucket, Result<(), Duration>) {
    let left = left(rate, bucket, now);
    if left >= 1.0 {
        let left = left - 1.0;
        return (Bucket { left, at: now }, Ok(()));
    }
    let wait = (1.0 - left) / f64::from(rate.per_second.max(1));
    (Bucket { left, at: now }, Err(Duration::from_secs_f64(wait)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_steadily() {
        let limiter = Limiter::new(Rate {
            per_second: 2,
            at_once: 3,
        });
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        for _ in 0..3 {
            assert_eq!(limiter.take("a", start), Ok(()));
        }
        assert_eq!(limiter.take("a", start), Err(Duration::from_millis(500)));
        assert_eq!(limiter.take("b", start), Ok(()));
        assert_eq!(
            limiter.has_any(&"a", at(400)),
            Err(Duration::from_millis(100))
        );
        assert_eq!(limiter.take("a", at(500)), Ok(()));
        assert!(limiter.take("a", at(600)).is_err());
        for _ in 0..3 {
            assert_eq!(limiter.take("a", at(60_000)), Ok(()));
        }
        assert!(limiter.take("a", at(60_000)).is_err());
        assert!(limiter.knows(&"a") && !limiter.knows(&"c"));
    }

    #[test]
    fn keys_at_rest_are_forgotten() {
        let limiter = Limiter::new(Rate {
            per_second: 1,
            at_once: 1,
        });
        let start = Instant::now();
        for key in 0..REMEMBERED {
            assert!(limiter.take(key, start).is_ok());
        }
        let later = start + Duration::from_secs(5);
        assert!(limiter.take(REMEMBERED, later).is_ok());
        assert!(!limiter.knows(&0));
    }
}
