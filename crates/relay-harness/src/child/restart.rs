//! When a child that has ended is started again: a policy as data, and the count that it is applied to.
//!
//! Pure: the time comes in as a parameter.

use std::time::{Duration, Instant};

/// When a child that has ended by itself is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Most restarts within the window; zero: never.
    pub attempts: u32,
    /// How long to wait before the first one; each further one waits twice as long.
    pub first_delay: Duration,
    /// The longest wait.
    pub longest_delay: Duration,
    /// After this long without a failure the count begins anew.
    pub window: Duration,
}

impl RestartPolicy {
    /// Never.
    pub const NEVER: Self = Self {
        attempts: 0,
        first_delay: Duration::ZERO,
        longest_delay: Duration::ZERO,
        window: Duration::ZERO,
    };

    /// Three times within ten minutes, after half a second, one, and two.
    pub const STANDARD: Self = Self {
        attempts: 3,
        first_delay: Duration::from_millis(500),
        longest_delay: Duration::from_secs(30),
        window: Duration::from_secs(600),
    };

    /// How long to wait before the restart after this many earlier ones; nothing: it is not restarted.
    #[must_use]
    pub fn delay_after(&self, earlier: u32) -> Option<Duration> {
        if earlier >= self.attempts {
            return None;
        }
        let factor = 2_u32.saturating_pow(earlier);
        Some(
            self.first_delay
                .saturating_mul(factor)
                .min(self.longest_delay),
        )
    }
}

/// The restarts of one child so far.
#[derive(Clone, Debug)]
pub struct Restarts {
    policy: RestartPolicy,
    count: u32,
    last: Option<Instant>,
}

impl Restarts {
    /// None so far.
    #[must_use]
    pub const fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            count: 0,
            last: None,
        }
    }

    /// The child has ended by itself: how long to wait before it is started again; nothing: it stays ended.
    pub fn decide(&mut self, now: Instant) -> Option<Duration> {
        let calm = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) >= self.policy.window);
        if calm {
            self.count = 0;
        }
        let delay = self.policy.delay_after(self.count)?;
        self.count += 1;
        self.last = Some(now);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let policy = RestartPolicy::STANDARD;
        let waits: Vec<_> = (0..4).map(|earlier| policy.delay_after(earlier)).collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(waits, [ms(500), ms(1000), ms(2000), None]);
        assert_eq!(RestartPolicy::NEVER.delay_after(0), None);
        let patient = RestartPolicy {
            attempts: u32::MAX,
            ..policy
        };
        assert_eq!(patient.delay_after(60), Some(policy.longest_delay));
    }

    #[test]
    fn a_calm_time_forgives() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut restarts = Restarts::new(RestartPolicy::STANDARD);
        let decided: Vec<bool> = [0, 1, 2, 3, 601, 602, 1203]
            .map(|seconds| restarts.decide(at(seconds)).is_some())
            .to_vec();
        // The window runs from the last restart, which was at 2 s, so 601 s is one second early.
        assert_eq!(decided, [true, true, true, false, false, true, true]);
    }
}
