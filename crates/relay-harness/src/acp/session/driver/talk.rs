//! A session that is there for one conversation. Its user's words come first; what comes meanwhile is put into its turns; and when
//! nothing is left it ends by itself.
//!
//! It also ends when it is cancelled, when somebody who decides stops its turn, and when a turn fails. Pure but for the token: the driver
//! says what happened, and looks whether it is over.

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::acp::host::CANCEL_WAIT;

/// One conversation.
#[derive(Debug)]
pub(super) struct Talk {
    cancel: CancellationToken,
    /// How many turns have begun.
    begun: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// Its turn was cancelled. An agent that does not end it by then is not waited for.
    Ending(Instant),
    Over,
}

impl Talk {
    pub(super) const fn new(cancel: CancellationToken) -> Self {
        Self {
            cancel,
            begun: 0,
            stage: Stage::Open,
        }
    }

    /// A turn has begun.
    pub(super) const fn began(&mut self) {
        self.begun += 1;
    }

    pub(super) const fn begun(&self) -> u64 {
        self.begun
    }

    /// It is to end: with the turn that runs, which is cancelled, or at once.
    pub(super) fn end(&mut self, in_turn: bool, now: Instant) {
        self.stage = match (self.stage, in_turn) {
            (Stage::Open, true) => Stage::Ending(now + CANCEL_WAIT),
            (Stage::Open, false) => Stage::Over,
            (stage, _) => stage,
        };
    }

    /// A turn has ended.
    pub(super) fn turn_over(&mut self, has_failed: bool) {
        if has_failed || self.stage != Stage::Open {
            self.stage = Stage::Over;
        }
    }

    /// Nothing has come since so many turns had begun, though there was time for it.
    pub(super) fn rested(&mut self, since: u64) {
        if since == self.begun {
            self.stage = Stage::Over;
        }
    }

    /// When the agent is not waited for any more.
    pub(super) const fn gives_up_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Ending(at) => Some(at),
            Stage::Open | Stage::Over => None,
        }
    }

    pub(super) fn tick(&mut self, now: Instant) {
        if self.gives_up_at().is_some_and(|at| at <= now) {
            self.stage = Stage::Over;
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }
}

/// Waits until a conversation is cancelled that goes on.
pub(super) async fn cancelled(talk: Option<&Talk>) {
    match talk.filter(|talk| talk.stage == Stage::Open) {
        Some(talk) => talk.cancel.cancelled().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Talk {
        let mut talk = Talk::new(CancellationToken::new());
        talk.began();
        talk
    }

    #[tokio::test]
    async fn it_goes_on_until_nothing_comes() {
        let mut talk = talk();
        talk.turn_over(false);
        assert!(!talk.is_over());
        // Something came while it rested.
        talk.began();
        talk.rested(1);
        assert!(!talk.is_over());
        talk.turn_over(false);
        talk.rested(2);
        assert!(talk.is_over());
    }

    #[tokio::test]
    async fn it_ends_with_a_turn_that_fails_or_was_cancelled() {
        let mut failed = talk();
        failed.turn_over(true);
        assert!(failed.is_over());
        let mut ended = talk();
        ended.end(true, Instant::now());
        assert!(!ended.is_over(), "the agent may end its turn");
        ended.turn_over(false);
        assert!(ended.is_over());
        let mut unbegun = Talk::new(CancellationToken::new());
        unbegun.end(false, Instant::now());
        assert!(unbegun.is_over());
    }

    #[tokio::test]
    async fn an_agent_that_does_not_end_its_turn_is_not_waited_for() {
        let mut talk = talk();
        let now = Instant::now();
        talk.end(true, now);
        // Asked twice, it has no more time than that.
        talk.end(true, now + CANCEL_WAIT / 2);
        talk.tick(now + CANCEL_WAIT / 2);
        assert!(!talk.is_over());
        talk.tick(now + CANCEL_WAIT);
        assert!(talk.is_over());
    }
}
