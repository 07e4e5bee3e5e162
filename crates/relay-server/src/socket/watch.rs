//! When a connection is to be looked at: whether its client is still there, and still welcome.

use std::time::Duration;

use tokio::time::Instant;

use crate::config::Config;

/// The times of one connection. One timer serves for all of them, and a frame that comes does not move it.
pub(super) struct Watch {
    silence: Duration,
    recheck_every: Duration,
    heard: Instant,
    recheck_at: Instant,
}

/// What a look has shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The client has said nothing for too long.
    Silent,
    /// Its credential is to be checked again.
    Recheck,
    /// All is well.
    Nothing,
}

impl Watch {
    pub(super) fn new(config: &Config) -> Self {
        let now = Instant::now();
        Self {
            silence: config.silence,
            recheck_every: config.recheck_every,
            heard: now,
            recheck_at: now + config.recheck_every,
        }
    }

    /// The client has said something.
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// When to look next.
    pub(super) fn next(&self) -> Instant {
        self.recheck_at.min(self.heard + self.silence)
    }

    pub(super) fn look(&mut self, now: Instant) -> Seen {
        if now >= self.heard + self.silence {
            Seen::Silent
        } else if now >= self.recheck_at {
            self.recheck_at = now + self.recheck_every;
            Seen::Recheck
        } else {
            Seen::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_silent_only_when_nothing_came_for_all_that_time() {
        let config = Config {
            silence: Duration::from_secs(40),
            recheck_every: Duration::from_secs(60),
            ..Config::default()
        };
        let mut watch = Watch::new(&config);
        let begun = watch.heard;
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(watch.next(), at(40));
        watch.heard(at(30));
        assert_eq!(watch.look(at(40)), Seen::Nothing);
        assert_eq!(watch.next(), at(60));
        assert_eq!(watch.look(at(60)), Seen::Recheck);
        assert_eq!(watch.next(), at(70));
        assert_eq!(watch.look(at(70)), Seen::Silent);
    }
}
