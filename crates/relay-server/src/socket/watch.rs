//! When a connection is to be looked at: whether its client is still there.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Config;

/// The time of one connection. A frame that comes does not move its timer.
pub(super) struct Watch {
    silence: Duration,
    heard: Instant,
}

impl Watch {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            silence: config.silence,
            heard: Instant::now(),
        }
    }

    /// The client has said something.
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.heard + self.silence
    }

    /// Whether the client has said nothing for too long.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        now >= self.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_silent_only_when_nothing_came_for_all_that_time() {
        let config = Config {
            silence: Duration::from_secs(40),
            ..Config::default()
        };
        let mut watch = Watch::new(&config);
        let begun = watch.heard;
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(watch.next(), at(40));
        watch.heard(at(30));
        assert!(!watch.is_silent(at(40)));
        assert_eq!(watch.next(), at(70));
        assert!(watch.is_silent(at(70)));
    }
}
