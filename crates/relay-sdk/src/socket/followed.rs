//! The one subscription of a connection, and how it is replaced when the listeners change. No I/O.
//!
//! It is left before the next one begins, so that there are never two whose events could be mixed up. What
//! happens in between waits in the log. A listener that begins now, beside others that have their place, needs
//! to know where the log ends: a subscription that is left at once tells that.

use relay_protocol::problem::ErrorCode;
use relay_protocol::socket::{Subscribe, Unsubscribe};

use super::listeners::{Beginning, Listeners};
use crate::error::Error;
use crate::listening::Choice;

/// What is followed on one connection.
#[derive(Default)]
pub(super) struct Followed {
    state: State,
    /// The listeners changed while a change was under way.
    is_stale: bool,
    subscriptions: u64,
}

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    /// Asked for the end of the log.
    Finding,
    /// Asked to be left. Events still count if they are of a subscription, and not of a question.
    Leaving { counts: bool },
    /// Asked for.
    Beginning,
    /// Events come.
    Events,
}

/// What is to be said to the server.
#[derive(Debug, PartialEq)]
pub(super) enum Ask {
    Subscribe(Box<Subscribe>),
    Unsubscribe(Unsubscribe),
}

/// What follows from a refusal.
#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    /// To ask for something else.
    Instead(Ask),
    /// To connect again, later.
    Later,
    /// Nothing.
    Over,
}

impl Followed {
    /// The listeners have changed.
    pub(super) fn change(&mut self, listeners: &mut Listeners) -> Option<Ask> {
        match self.state {
            State::Nothing => self.begin(listeners),
            State::Events => {
                self.state = State::Leaving { counts: true };
                Some(self.leave())
            }
            _ => {
                self.is_stale = true;
                None
            }
        }
    }

    /// Whether an event that comes now is for listeners.
    pub(super) const fn counts(&self) -> bool {
        matches!(self.state, State::Events | State::Leaving { counts: true })
    }

    /// The server did what was asked; `after` is the place at which a subscription begins.
    pub(super) fn done(&mut self, after: Option<u64>, listeners: &mut Listeners) -> Option<Ask> {
        match self.state {
            State::Nothing | State::Events => None,
            State::Leaving { .. } => {
                self.state = State::Nothing;
                self.begin(listeners)
            }
            State::Finding => {
                listeners.begin_at(after.unwrap_or_default());
                self.state = State::Leaving { counts: false };
                Some(self.leave())
            }
            State::Beginning => {
                listeners.begin_at(after.unwrap_or_default());
                self.state = State::Events;
                self.settled(listeners)
            }
        }
    }

    /// Events come; if the listeners changed meanwhile, not for all of them.
    fn settled(&mut self, listeners: &mut Listeners) -> Option<Ask> {
        listeners.all_ready();
        if std::mem::take(&mut self.is_stale) {
            return self.change(listeners);
        }
        None
    }

    /// The server did not do it.
    pub(super) fn refused(&mut self, error: &Error, listeners: &mut Listeners) -> Refused {
        self.state = State::Nothing;
        if error.is_retryable() {
            // Whoever listens keeps its place: what happens meanwhile is in the log.
            return Refused::Later;
        }
        if listeners.has_new() {
            listeners.refuse_new(error);
        } else if error.code() == Some(ErrorCode::BadCursor) {
            tracing::warn!(%error, "events were lost: the log can't be read from where it was left");
            listeners.forget_places();
        } else {
            tracing::error!(%error, "the server lets nobody listen on this connection");
            return Refused::Over;
        }
        match self.begin(listeners) {
            Some(ask) => Refused::Instead(ask),
            None => Refused::Over,
        }
    }

    fn begin(&mut self, listeners: &mut Listeners) -> Option<Ask> {
        self.is_stale = false;
        let (state, after) = match listeners.beginning() {
            Beginning::Nowhere => return None,
            Beginning::Now => (State::Beginning, None),
            Beginning::After(place) => (State::Beginning, Some(place)),
            Beginning::Mixed => (State::Finding, None),
        };
        self.state = state;
        self.subscriptions += 1;
        let (pattern, filter) = match listeners.cover() {
            Choice::Pattern(pattern) => (Some(pattern), None),
            Choice::Filter(filter) => (None, Some(*filter)),
        };
        Some(Ask::Subscribe(Box::new(Subscribe {
            id: self.id(),
            pattern,
            filter,
            after,
        })))
    }

    fn leave(&self) -> Ask {
        Ask::Unsubscribe(Unsubscribe { id: self.id() })
    }

    fn id(&self) -> String {
        format!("s{}", self.subscriptions)
    }
}

#[cfg(test)]
mod tests {
    use relay_protocol::problem::Problem;
    use relay_protocol::selector::Selector;
    use tokio::sync::{mpsc, oneshot};

    use super::super::ListenerId;
    use super::*;
    use crate::listening::NewListener;

    /// Somebody who has had everything up to a place.
    fn listening(place: u64) -> Listeners {
        let mut listeners = Listeners::default();
        listeners.add(NewListener {
            id: ListenerId::next(),
            choice: Choice::Pattern("*".to_owned()),
            selector: Selector::all(),
            after: Some(place),
            queue: mpsc::channel(1).0,
            behind: std::sync::Arc::default(),
            ready: oneshot::channel().0,
        });
        let mut first = Followed::default();
        first.change(&mut listeners);
        first.done(Some(place), &mut listeners);
        listeners
    }

    /// Where a new connection begins.
    fn begins_after(listeners: &mut Listeners) -> Option<u64> {
        match Followed::default().change(listeners) {
            Some(Ask::Subscribe(subscribe)) => subscribe.after,
            other => panic!("{other:?}"),
        }
    }

    fn refused(listeners: &mut Listeners, code: ErrorCode) -> Refused {
        let mut followed = Followed::default();
        followed.change(listeners);
        let error = Error::from(Problem::new(code, "no"));
        followed.refused(&error, listeners)
    }

    #[test]
    fn a_refusal_for_now_keeps_the_place() {
        for code in [
            ErrorCode::StorageUnavailable,
            ErrorCode::StorageFull,
            ErrorCode::RateLimited,
            ErrorCode::Overloaded,
        ] {
            let mut listeners = listening(7);
            assert_eq!(refused(&mut listeners, code), Refused::Later, "{code}");
            assert_eq!(begins_after(&mut listeners), Some(7), "{code}");
        }
    }

    #[test]
    fn only_a_place_that_is_not_in_the_log_is_forgotten() {
        let mut listeners = listening(7);
        let instead = refused(&mut listeners, ErrorCode::BadCursor);
        assert!(matches!(instead, Refused::Instead(Ask::Subscribe(it)) if it.after.is_none()));
        let mut listeners = listening(7);
        assert_eq!(refused(&mut listeners, ErrorCode::Forbidden), Refused::Over);
        assert_eq!(begins_after(&mut listeners), Some(7));
    }
}
