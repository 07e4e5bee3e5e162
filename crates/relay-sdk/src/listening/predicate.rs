//! Predicates in words: `engineer.status().becomes(idle)`, `relay.action("deploy").called_by(&engineer)`,
//! `relay.events().delivery().failed().for_agent(&engineer)`. Each is a filter that the server evaluates, together with the
//! type that its events have.

use relay_protocol::agent::AgentIdentity;
use relay_protocol::event::{
    ActionEvent, AgentStatusEvent, DeliveryFailed, LoggedEvent, MessageEvent, RelayEvent,
};
use relay_protocol::selector::Filter;
use relay_protocol::status::AgentStatus;

use super::{Choice, Event, Listen, Narrow, narrow};

/// Whatever names an agent: a name with or without `@`, an identity, a client.
pub trait AgentRef {
    /// The agent's name, or its id.
    fn agent_ref(&self) -> &str;
}

impl AgentRef for str {
    fn agent_ref(&self) -> &str {
        self
    }
}

impl AgentRef for String {
    fn agent_ref(&self) -> &str {
        self
    }
}

impl AgentRef for AgentIdentity {
    fn agent_ref(&self) -> &str {
        &self.name
    }
}

impl<T: AgentRef + ?Sized> AgentRef for &T {
    fn agent_ref(&self) -> &str {
        (**self).agent_ref()
    }
}

/// A filter whose events have this payload.
#[derive(Clone, Debug)]
pub struct Predicate<T> {
    filter: Filter,
    narrow: Narrow<T>,
}

impl<T> Predicate<T> {
    /// The filter as data, to combine it with others by `and`, `or` and `not`.
    #[must_use]
    pub fn filter(self) -> Filter {
        self.filter
    }

    fn with(mut self, change: impl FnOnce(Filter) -> Filter) -> Self {
        self.filter = change(self.filter);
        self
    }
}

impl<T> From<Predicate<T>> for Filter {
    fn from(predicate: Predicate<T>) -> Self {
        predicate.filter
    }
}

impl<T: Send + 'static> Listen for Predicate<T> {
    type Event = Event<T>;

    fn choice(&self) -> Choice {
        Choice::Filter(Box::new(self.filter.clone()))
    }

    fn narrow(&self) -> Box<dyn Fn(LoggedEvent) -> Option<Event<T>> + Send> {
        let payload = self.narrow;
        Box::new(move |event| narrow(event, payload))
    }
}

/// The status of an agent's sessions.
#[derive(Clone, Debug)]
pub struct Status {
    pub(crate) agent: String,
}

impl Status {
    /// A session of the agent takes this status.
    #[must_use]
    pub fn becomes(self, status: AgentStatus) -> Predicate<AgentStatusEvent> {
        Predicate {
            filter: Filter::status_becomes(self.agent, status),
            narrow: |event| match event {
                RelayEvent::AgentStatusChanged(status) => Some(status),
                _ => None,
            },
        }
    }
}

/// Calls of an action.
pub(crate) fn action(name: &str) -> Predicate<ActionEvent> {
    Predicate {
        filter: Filter::action(name),
        narrow: |event| match event {
            RelayEvent::ActionInvoked(action)
            | RelayEvent::ActionCompleted(action)
            | RelayEvent::ActionFailed(action)
            | RelayEvent::ActionDenied(action) => Some(action),
            _ => None,
        },
    }
}

impl Predicate<ActionEvent> {
    /// Only those called by this agent.
    #[must_use]
    pub fn called_by(self, agent: impl AgentRef) -> Self {
        self.with(|filter| filter.called_by(agent.agent_ref()))
    }

    /// Only when the action ended well.
    #[must_use]
    pub fn completed(self) -> Self {
        self.with(Filter::completed)
    }

    /// Only when the action failed.
    #[must_use]
    pub fn failed(self) -> Self {
        self.with(Filter::failed)
    }

    /// Only when the action was refused.
    #[must_use]
    pub fn denied(self) -> Self {
        self.with(Filter::denied)
    }
}

/// Predicates by what they are about.
#[derive(Clone, Copy, Debug)]
pub struct Events;

impl Events {
    /// Deliveries.
    #[must_use]
    pub const fn delivery(self) -> DeliveryPredicates {
        DeliveryPredicates
    }

    /// Messages that are sent.
    #[must_use]
    pub fn message(self) -> Predicate<MessageEvent> {
        Predicate {
            filter: Filter::message(),
            narrow: |event| match event {
                RelayEvent::MessageCreated(message) => Some(message),
                _ => None,
            },
        }
    }
}

/// Predicates about deliveries.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryPredicates;

impl DeliveryPredicates {
    /// An attempt at a delivery fails, or the delivery as a whole.
    #[must_use]
    pub fn failed(self) -> Predicate<DeliveryFailed> {
        Predicate {
            filter: Filter::delivery_failed(),
            narrow: |event| match event {
                RelayEvent::DeliveryFailed(failed) => Some(failed),
                _ => None,
            },
        }
    }
}

impl Predicate<DeliveryFailed> {
    /// Only those for this agent.
    #[must_use]
    pub fn for_agent(self, agent: impl AgentRef) -> Self {
        self.with(|filter| filter.for_agent(agent.agent_ref()))
    }
}

impl Predicate<MessageEvent> {
    /// Only in this channel.
    #[must_use]
    pub fn in_channel(self, channel: &str) -> Self {
        self.with(|filter| filter.in_channel(channel))
    }

    /// Only by this author.
    #[must_use]
    pub fn from(self, agent: impl AgentRef) -> Self {
        self.with(|filter| filter.from(agent.agent_ref()))
    }

    /// Only those that address this agent.
    #[must_use]
    pub fn mentions(self, agent: impl AgentRef) -> Self {
        self.with(|filter| filter.mentions(agent.agent_ref()))
    }
}
