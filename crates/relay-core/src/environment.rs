//! Time and randomness, which the engine gets from outside so that tests control them.

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use relay_protocol::time::Timestamp;

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// The wall clock's time.
    fn now(&self) -> Timestamp;

    /// Time that only goes forward, since any moment that stays the same.
    fn monotonic(&self) -> Duration;
}

/// Makes bits that nobody can foresee.
pub trait Random: Send + Sync {
    /// Fills the buffer.
    fn fill(&self, buffer: &mut [u8]);
}

/// What the engine knows of the world.
#[derive(Clone)]
pub struct Environment {
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its randomness.
    pub random: Arc<dyn Random>,
}

impl Environment {
    /// The machine's own clock and randomness.
    #[must_use]
    pub fn system() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            random: Arc::new(OsRandom),
        }
    }
}

impl dyn Random + '_ {
    /// Random bits for an id.
    pub fn bits(&self) -> u128 {
        let mut buffer = [0; 16];
        self.fill(&mut buffer);
        u128::from_le_bytes(buffer)
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

struct OsRandom;

impl Random for OsRandom {
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness no token and no salt is safe: stopping is the closed way to fail.
        #[expect(clippy::expect_used, reason = "see above")]
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }
}
