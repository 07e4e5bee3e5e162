//! A piece of a reply that says what time it is: whoever reads it knows how long it took to come, and how evenly it came.
//!
//! It has a schedule and keeps to it: a reader that is late once does not make all that follows late. However often the time is
//! told, the piece takes no more memory.

use std::time::{Duration, UNIX_EPOCH};

use tokio::time::{Instant, sleep_until};

/// How many characters a time has.
pub(crate) const CHARACTERS: usize = 19;

/// The time of day in nanoseconds, several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// How often it is told.
    pub times: u32,
    /// The time between two; nothing: as fast as it goes.
    pub every: Duration,
}

/// A clock that goes.
#[derive(Debug)]
pub struct Ticks {
    left: u32,
    every: Duration,
    due: Instant,
}

impl Clock {
    /// Begins now.
    #[must_use]
    pub fn start(self) -> Ticks {
        Ticks {
            left: self.times,
            every: self.every,
            due: Instant::now(),
        }
    }
}

impl Ticks {
    /// The next time to tell, once it has come; nothing when all were told.
    pub async fn next(&mut self) -> Option<String> {
        self.left = self.left.checked_sub(1)?;
        if !self.every.is_zero() {
            sleep_until(self.due).await;
            self.due += self.every;
        }
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        Some(now.as_nanos().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_is_told_as_often_as_wanted_and_not_earlier() {
        let every = Duration::from_millis(2);
        let mut ticks = Clock { times: 3, every }.start();
        let begun = Instant::now();
        let mut told = Vec::new();
        while let Some(time) = ticks.next().await {
            assert_eq!(time.len(), CHARACTERS);
            told.push(time.parse::<u64>().unwrap());
        }
        assert_eq!(told.len(), 3);
        assert!(begun.elapsed() >= every * 2);
        assert!(told.is_sorted());
    }
}
