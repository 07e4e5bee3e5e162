//! How long to wait before trying again: longer each time, and never all clients at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// The waits between attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = wait(self.attempts, random());
        self.attempts = self.attempts.saturating_add(1);
        wait
    }

    /// Begins anew, after a success.
    pub(crate) const fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// The wait after this many attempts: between a half and the whole of a span that doubles.
fn wait(attempts: u32, random: u32) -> Duration {
    let span = FIRST.saturating_mul(1 << attempts.min(16)).min(LONGEST);
    let share = f64::from(random) / f64::from(u32::MAX);
    span.mul_f64(0.5 + share / 2.0)
}

/// Random bits; without any, clients wait equally long, which is no harm.
fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let cases = [
            (0, 0, 25),
            (0, u32::MAX, 50),
            (1, u32::MAX, 100),
            (3, 0, 200),
            (7, u32::MAX, 5_000),
            (60, u32::MAX, 5_000),
            (60, 0, 2_500),
        ];
        for (attempts, random, millis) in cases {
            let found = wait(attempts, random).as_millis();
            assert_eq!(found, millis, "{attempts} {random}");
        }
    }

    #[test]
    fn a_success_begins_anew() {
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            backoff.next();
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
