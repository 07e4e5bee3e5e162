//! Predicates as data: conditions on one event, combined by `and`, `or` and `not`.
//!
//! **To add a condition:** a field of [`Filter`], a line in `Condition`, and where its value is found
//! in each event, all in `facts.rs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::{Condition, Facts};
use super::{KnownAgent, SelectorError, check_pattern, pattern_matches};
use crate::limits::FILTER_NODES;
use crate::status::AgentStatus;

/// What is known of an event beside its name.
#[derive(Clone, Copy)]
pub(super) enum Content<'a> {
    /// All of it.
    Known(&'a Facts<'a>),
    /// Nothing, or only the status.
    Missing { status: Option<AgentStatus> },
}

impl Content<'_> {
    /// Nothing beside the name.
    pub(super) const NAME_ONLY: Self = Self::Missing { status: None };
}

/// A predicate over events: everything that is given must hold.
///
/// Agents and channels are named with or without `@` and `#`, in any case, or by their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct Filter {
    /// The event's name, or a pattern such as `action.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The agent that the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The status that the session took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
    /// The action's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The agent that called the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_by: Option<String>,
    /// The channel in which it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_channel: Option<String>,
    /// The author of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// An agent that the message addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mentions: Option<String>,
    /// All of these hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub and: Option<Vec<Filter>>,
    /// At least one of these holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub or: Option<Vec<Filter>>,
    /// This does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<Filter>>,
}

impl Filter {
    /// Events of this name or pattern.
    #[must_use]
    pub fn event(pattern: impl Into<String>) -> Self {
        Self {
            event: Some(pattern.into()),
            ..Self::default()
        }
    }

    /// An agent's session takes this status.
    #[must_use]
    pub fn status_becomes(agent: impl Into<String>, status: AgentStatus) -> Self {
        Self {
            status: Some(status),
            ..Self::event("agent.status.changed").for_agent(agent)
        }
    }

    /// Anything that happens to calls of an action.
    #[must_use]
    pub fn action(name: impl Into<String>) -> Self {
        Self {
            action: Some(name.into()),
            ..Self::event("action.*")
        }
    }

    /// An attempt at a delivery, or the delivery as a whole, fails.
    #[must_use]
    pub fn delivery_failed() -> Self {
        Self::event("delivery.failed")
    }

    /// A message is sent.
    #[must_use]
    pub fn message() -> Self {
        Self::event("message.created")
    }

    /// Whatever the other filter does not match.
    #[must_use]
    #[allow(
        clippy::should_implement_trait,
        reason = "reads as the word of the wire form"
    )]
    pub fn not(other: Self) -> Self {
        Self {
            not: Some(Box::new(other)),
            ..Self::default()
        }
    }

    /// Only those called by this agent.
    #[must_use]
    pub fn called_by(mut self, agent: impl Into<String>) -> Self {
        self.called_by = Some(agent.into());
        self
    }

    /// Only when the action ended well.
    #[must_use]
    pub fn completed(self) -> Self {
        self.on("action.completed")
    }

    /// Only when the action failed.
    #[must_use]
    pub fn failed(self) -> Self {
        self.on("action.failed")
    }

    /// Only when the action was refused.
    #[must_use]
    pub fn denied(self) -> Self {
        self.on("action.denied")
    }

    fn on(mut self, event: &str) -> Self {
        self.event = Some(event.to_owned());
        self
    }

    /// Only what is about this agent.
    #[must_use]
    pub fn for_agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Only in this channel.
    #[must_use]
    pub fn in_channel(mut self, channel: impl Into<String>) -> Self {
        self.in_channel = Some(channel.into());
        self
    }

    /// Only messages of this author.
    #[must_use]
    pub fn from(mut self, agent: impl Into<String>) -> Self {
        self.from = Some(agent.into());
        self
    }

    /// Only messages that address this agent.
    #[must_use]
    pub fn mentions(mut self, agent: impl Into<String>) -> Self {
        self.mentions = Some(agent.into());
        self
    }

    /// Both filters hold.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            and: Some(vec![self, other]),
            ..Self::default()
        }
    }

    /// One of the filters holds, or both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            or: Some(vec![self, other]),
            ..Self::default()
        }
    }

    /// Refuses unknown events, impossible conditions, empty lists and filters that are too large.
    pub(super) fn check(&self) -> Result<(), SelectorError> {
        let found = self.nodes();
        if found > FILTER_NODES {
            return Err(SelectorError::TooManyFilters { found });
        }
        self.check_names()
    }

    fn nodes(&self) -> usize {
        1 + self.parts().map(Self::nodes).sum::<usize>()
    }

    /// The filters directly inside this one.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        let lists = self.and.iter().chain(&self.or).flatten();
        lists.chain(self.not.as_deref())
    }

    fn check_names(&self) -> Result<(), SelectorError> {
        if let Some(pattern) = &self.event {
            check_pattern(pattern)?;
            self.check_conditions(pattern)?;
        }
        for (operator, list) in [("and", &self.and), ("or", &self.or)] {
            if list.as_ref().is_some_and(Vec::is_empty) {
                return Err(SelectorError::NoOperands { operator });
            }
        }
        self.parts().try_for_each(Self::check_names)
    }

    fn check_conditions(&self, pattern: &str) -> Result<(), SelectorError> {
        for condition in self.conditions() {
            let possible: Vec<_> = condition.event_types().collect();
            if !possible.iter().any(|name| pattern_matches(pattern, name)) {
                return Err(SelectorError::Impossible {
                    condition: condition.field(),
                    event: pattern.to_owned(),
                    possible,
                });
            }
        }
        Ok(())
    }

    /// The conditions on content that are given.
    fn conditions(&self) -> impl Iterator<Item = Condition> {
        [
            (self.agent.is_some(), Condition::Agent),
            (self.status.is_some(), Condition::Status),
            (self.action.is_some(), Condition::Action),
            (self.called_by.is_some(), Condition::CalledBy),
            (self.in_channel.is_some(), Condition::InChannel),
            (self.from.is_some(), Condition::From),
            (self.mentions.is_some(), Condition::Mentions),
        ]
        .into_iter()
        .filter_map(|(given, condition)| given.then_some(condition))
    }

    /// Every agent that is named anywhere in it, as it was written.
    pub(super) fn agents(&self) -> Vec<&str> {
        let here = [&self.agent, &self.called_by, &self.from, &self.mentions];
        let mut agents: Vec<&str> = here.into_iter().flatten().map(String::as_str).collect();
        agents.extend(self.parts().flat_map(Self::agents));
        agents.sort_unstable();
        agents.dedup();
        agents
    }

    /// Whether it holds for an event; nothing when that hangs on content that is not there.
    pub(super) fn holds(
        &self,
        event_type: &str,
        content: Content<'_>,
        agents: &[KnownAgent],
    ) -> Option<bool> {
        let named = self
            .event
            .as_ref()
            .is_none_or(|pattern| pattern_matches(pattern, event_type));
        if !named {
            return Some(false);
        }
        let inside = |part: &Self| part.holds(event_type, content, agents);
        all([
            self.content_holds(event_type, content, agents),
            all(self.and.iter().flatten().map(inside)),
            match &self.or {
                Some(parts) => any(parts.iter().map(inside)),
                None => Some(true),
            },
            match &self.not {
                Some(part) => inside(part).map(|holds| !holds),
                None => Some(true),
            },
        ])
    }

    fn content_holds(
        &self,
        event_type: &str,
        content: Content<'_>,
        agents: &[KnownAgent],
    ) -> Option<bool> {
        let facts = match content {
            Content::Known(facts) => facts,
            Content::Missing { status } => return self.may_hold(event_type, status),
        };
        let holds = given(&self.agent, |agent| facts.agent_is(agent, agents))
            && self
                .status
                .is_none_or(|status| facts.status == Some(status))
            && given(&self.action, |action| facts.action == Some(action))
            && given(&self.called_by, |agent| facts.called_by(agent, agents))
            && given(&self.in_channel, |channel| facts.in_channel(channel))
            && given(&self.from, |agent| facts.is_from(agent, agents))
            && given(&self.mentions, |agent| facts.mentions(agent, agents));
        Some(holds)
    }

    /// What can be said about the conditions without the content.
    fn may_hold(&self, event_type: &str, status: Option<AgentStatus>) -> Option<bool> {
        all(self.conditions().map(|condition| match condition {
            _ if !condition.can_hold_for(event_type) => Some(false),
            Condition::Status => status.map(|status| self.status == Some(status)),
            _ => None,
        }))
    }
}

/// True when nothing is asked for, or when what is asked for holds.
fn given(wanted: &Option<String>, holds: impl FnOnce(&str) -> bool) -> bool {
    wanted.as_deref().is_none_or(holds)
}

/// False if one is false, otherwise unknown if one is unknown.
fn all(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for part in parts {
        match part {
            Some(false) => return Some(false),
            None => result = None,
            Some(true) => {}
        }
    }
    result
}

/// True if one is true, otherwise unknown if one is unknown.
fn any(parts: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    all(parts.into_iter().map(|part| part.map(|holds| !holds))).map(|holds| !holds)
}
