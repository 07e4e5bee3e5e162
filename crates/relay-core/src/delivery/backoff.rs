//! How long to wait before the next attempt.

use relay_protocol::policy::RetryPolicy;

/// The wait after this many failed attempts: doubling from the least to the most, of which a random
/// half is taken off so that many that failed together do not come back together.
///
/// `jitter` is any number; its low bits decide how much is taken off.
#[must_use]
pub fn backoff_ms(retry: &RetryPolicy, attempts: u32, jitter: u64) -> u64 {
    let doublings = attempts.saturating_sub(1).min(63);
    let full = retry
        .min_ms
        .saturating_mul(1 << doublings)
        .clamp(retry.min_ms, retry.max_ms);
    let spread = full / 2;
    (full - spread + jitter % (spread + 1)).max(retry.min_ms.min(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: RetryPolicy = RetryPolicy {
        attempts: 8,
        min_ms: 1_000,
        max_ms: 300_000,
    };

    #[test]
    fn waits_double_within_their_bounds() {
        let longest = |attempts| {
            let waits = (0..=1_000_000).step_by(997);
            waits
                .map(|jitter| backoff_ms(&RETRY, attempts, jitter))
                .max()
        };
        for (attempts, most) in [(1, 1_000), (2, 2_000), (3, 4_000), (9, 256_000)] {
            assert!(longest(attempts) <= Some(most), "{attempts}");
            assert!(longest(attempts) > Some(most * 9 / 10), "{attempts}");
        }
        for attempts in [0, 1, 5, 64, u32::MAX] {
            for jitter in [0, 1, 499, u64::MAX] {
                let wait = backoff_ms(&RETRY, attempts, jitter);
                assert!((1_000..=300_000).contains(&wait), "{attempts} {jitter}");
            }
        }
    }

    #[test]
    fn jitter_takes_off_at_most_half() {
        let shortest = (0..4_000).map(|jitter| backoff_ms(&RETRY, 4, jitter)).min();
        assert_eq!(shortest, Some(4_000));
    }
}
