//! Listeners: which events somebody wants, in what form, and the task that hands them over.
//!
//! There is one entry point, [`Client::add_listener`](crate::Client::add_listener), and three ways to say what is wanted, all of which are
//! [`Listen`]: an event's name from [`events`](crate::events), whose handler gets that event's own type; a pattern such as
//! `"action.*"`; or a predicate such as `engineer.status().becomes(AgentStatus::Idle)`.

pub mod events;
mod predicate;
mod task;

use std::ops::Deref;

use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::ids::{EventId, WorkspaceId};
use relay_protocol::selector::{Filter, Selector, SelectorError};
use relay_protocol::time::Timestamp;

pub use events::EventName;
pub(crate) use predicate::action;
pub use predicate::{AgentRef, DeliveryPredicates, Events, Predicate, Status};
pub use task::Unsubscribe;
pub(crate) use task::{NewListener, listener};

/// An event with its place in the log, narrowed to one kind of payload, whose fields it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<T> {
    /// Its number in the workspace's log.
    pub seq: u64,
    /// Its id.
    pub id: EventId,
    /// When it was written.
    pub at: Timestamp,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Its name.
    pub event_type: String,
    /// What happened.
    pub payload: T,
}

impl<T> Deref for Event<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

/// How a kind of payload is taken out of an event.
pub(crate) type Narrow<T> = fn(RelayEvent) -> Option<T>;

/// Narrows an event; nothing if it is of another kind, or its payload was erased.
fn narrow<T>(logged: LoggedEvent, narrow: Narrow<T>) -> Option<Event<T>> {
    Some(Event {
        payload: narrow(logged.event?)?,
        seq: logged.seq,
        id: logged.id,
        at: logged.at,
        workspace_id: logged.workspace_id,
        event_type: logged.event_type,
    })
}

/// A choice of events.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// An event's name, `*`, or a prefix such as `message.*`.
    Pattern(String),
    /// A predicate.
    Filter(Box<Filter>),
}

impl Choice {
    /// The choice as something that can be evaluated, if it is valid.
    pub(crate) fn selector(&self) -> Result<Selector, SelectorError> {
        match self {
            Self::Pattern(pattern) => Selector::parse(pattern),
            Self::Filter(filter) => Selector::from_filter((**filter).clone()),
        }
    }
}

/// What can be listened to.
pub trait Listen {
    /// What the handler gets.
    type Event: Send + 'static;

    /// Which events are wanted.
    fn choice(&self) -> Choice;

    /// The last event that is not wanted because it was before; nothing: only what happens from now on.
    fn begins_after(&self) -> Option<u64> {
        None
    }

    /// Turns an event of the log into what the handler gets.
    fn narrow(&self) -> Box<dyn Fn(LoggedEvent) -> Option<Self::Event> + Send>;
}

impl Listen for &str {
    type Event = LoggedEvent;

    fn choice(&self) -> Choice {
        Choice::Pattern((*self).to_owned())
    }

    fn narrow(&self) -> Box<dyn Fn(LoggedEvent) -> Option<LoggedEvent> + Send> {
        Box::new(Some)
    }
}

impl Listen for Filter {
    type Event = LoggedEvent;

    fn choice(&self) -> Choice {
        Choice::Filter(Box::new(self.clone()))
    }

    fn narrow(&self) -> Box<dyn Fn(LoggedEvent) -> Option<LoggedEvent> + Send> {
        Box::new(Some)
    }
}

/// Listens to stored events, too: those after a place in the log, then those that come.
#[must_use]
pub const fn after<L: Listen>(seq: u64, listen: L) -> After<L> {
    After { seq, listen }
}

/// What [`after`] makes.
#[derive(Clone, Debug)]
pub struct After<L> {
    seq: u64,
    listen: L,
}

impl<L: Listen> Listen for After<L> {
    type Event = L::Event;

    fn choice(&self) -> Choice {
        self.listen.choice()
    }

    fn begins_after(&self) -> Option<u64> {
        Some(self.seq)
    }

    fn narrow(&self) -> Box<dyn Fn(LoggedEvent) -> Option<L::Event> + Send> {
        self.listen.narrow()
    }
}
