//! A turn of a session: what happens in it, until it is over.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::error::HostError;
use super::session::{CANCEL_WAIT, Session};
use super::state::{SessionState, Standing};
use crate::acp::event::{Event, SessionEvent, StopReason, Tokens};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// Why.
    pub stop_reason: StopReason,
    /// The tokens it took, where the agent says so.
    pub tokens: Option<Tokens>,
}

/// A turn that runs. Dropped before its end, it is cancelled.
pub struct Turn {
    session: Session,
    state: Arc<SessionState>,
    number: u64,
    over: bool,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Turn")
            .field(&self.session)
            .field(&self.number)
            .finish()
    }
}

impl Turn {
    pub(super) const fn new(session: Session, state: Arc<SessionState>, number: u64) -> Self {
        Self {
            session,
            state,
            number,
            over: false,
        }
    }

    /// Its number in the session, counted from 1.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Its session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The next thing that happens in the session; nothing after the end of the turn. That comes as an event, too.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        if self.over {
            return None;
        }
        let next = match self.state.standing() {
            Ok(Standing::Cancelling(since)) => self.next_until(since + CANCEL_WAIT).await,
            _ => self.next_or_cancelled().await,
        };
        let Some(next) = next else {
            self.over = true;
            return None;
        };
        self.over = next.turn == Some(self.number) && next.event.ends_turn();
        Some(next)
    }

    /// Reads on until the end.
    pub async fn finish(mut self) -> Result<TurnEnd, HostError> {
        while let Some(next) = self.next().await {
            if next.turn != Some(self.number) {
                continue;
            }
            match next.event {
                Event::TurnEnded {
                    stop_reason,
                    tokens,
                } => {
                    return Ok(TurnEnd {
                        stop_reason,
                        tokens,
                    });
                }
                Event::TurnFailed { .. } => return Err(self.failure()),
                _ => {}
            }
        }
        Err(self.failure())
    }

    /// Why the turn failed, after its end was read.
    #[must_use]
    pub fn failure(&self) -> HostError {
        let failure = self.state.failure(self.number);
        failure.unwrap_or(HostError::Stuck)
    }

    /// Cancels it.
    pub fn cancel(&self) {
        self.session.cancel();
    }

    /// Lets it run: its events are read from the session. Gives its number.
    pub fn detach(mut self) -> u64 {
        self.over = true;
        self.number
    }

    /// A cancel that comes while this waits begins the time that the agent has.
    async fn next_or_cancelled(&self) -> Option<SessionEvent> {
        let state = &self.state;
        loop {
            let cancelled = state.cancelled.notified();
            let mut cancelled = std::pin::pin!(cancelled);
            cancelled.as_mut().enable();
            if let Ok(Standing::Cancelling(since)) = state.standing() {
                return self.next_until(since + CANCEL_WAIT).await;
            }
            tokio::select! {
                next = state.queue.next() => return next,
                () = cancelled => {}
            }
        }
    }

    async fn next_until(&self, deadline: Instant) -> Option<SessionEvent> {
        let next = timeout_at(deadline, self.state.queue.next());
        next.await.unwrap_or_else(|_| {
            let error = HostError::Stuck.to_string();
            Some(SessionEvent {
                turn: Some(self.number),
                event: Event::TurnFailed { error },
            })
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.over && self.state.is_running(self.number) {
            self.session.cancel();
        }
    }
}
