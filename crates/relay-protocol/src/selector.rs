//! Which events somebody wants: an exact name, `*`, a prefix such as `agent.status.*`, or a [`Filter`].
//!
//! Selectors are data, so the same ones work in process, on the socket and for webhooks, and one
//! evaluator decides for all of them. A [`Selector`] is always valid: its event names exist, it is
//! not too large, and each of its conditions can hold for at least one event it names.
//!
//! An event whose payload was erased is matched by its name alone; a condition on its content is
//! neither true nor false, and such an event is not matched.

mod facts;
mod filter;

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::event::{LoggedEvent, RelayEvent};
use crate::ids::AgentId;
use crate::limits::FILTER_NODES;
use crate::problem::{ErrorCode, Problem};
use crate::status::AgentStatus;
use crate::suggest::nearest;

use filter::Content;
pub use filter::Filter;

/// How many existing names an error offers.
const SUGGESTIONS: usize = 3;

/// A valid choice of events.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    choice: Choice,
    agents: Vec<KnownAgent>,
}

#[derive(Clone, Debug, PartialEq)]
enum Choice {
    Pattern(String),
    Filter(Box<Filter>),
}

/// An agent that a selector names, so that events which carry only its id or only its name match.
#[derive(Clone, Debug, PartialEq)]
struct KnownAgent {
    written: String,
    id: AgentId,
    name: String,
}

/// Why a selector is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// No event has this name, and none begins with it.
    #[error("there is no event `{name}`{}", did_you_mean(nearest))]
    UnknownEvent {
        /// What was given.
        name: String,
        /// The nearest names and prefixes.
        nearest: Vec<String>,
    },
    /// More filters than one selector may hold.
    #[error("a selector holds at most {FILTER_NODES} filters, found {found}")]
    TooManyFilters {
        /// How many there are.
        found: usize,
    },
    /// `and` or `or` of nothing.
    #[error("`{operator}` needs at least one filter")]
    NoOperands {
        /// Which of the two.
        operator: &'static str,
    },
    /// A condition that none of the named events can meet.
    #[error("`{condition}` can hold for no event of `{event}`; events that have it: {}", possible.join(", "))]
    Impossible {
        /// The condition's field.
        condition: &'static str,
        /// The event name or pattern beside it.
        event: String,
        /// Event names for which it can hold.
        possible: Vec<&'static str>,
    },
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        String::new()
    } else {
        format!("; the nearest are {}", nearest.join(", "))
    }
}

impl From<SelectorError> for Problem {
    fn from(error: SelectorError) -> Self {
        let detail = error.to_string();
        match error {
            SelectorError::UnknownEvent { name, nearest } => Self {
                found: Some(name),
                suggestions: Some(nearest),
                ..Self::new(ErrorCode::UnknownEvent, detail)
            },
            _ => Self::new(ErrorCode::BadSelector, detail),
        }
    }
}

impl Selector {
    /// Every event.
    #[must_use]
    pub fn all() -> Self {
        Self::of(Choice::Pattern("*".to_owned()))
    }

    /// Reads an event name, `*`, or a prefix such as `message.*`.
    pub fn parse(pattern: &str) -> Result<Self, SelectorError> {
        check_pattern(pattern)?;
        Ok(Self::of(Choice::Pattern(pattern.to_owned())))
    }

    /// Takes a filter after checking it.
    pub fn from_filter(filter: Filter) -> Result<Self, SelectorError> {
        filter.check()?;
        Ok(Self::of(Choice::Filter(Box::new(filter))))
    }

    const fn of(choice: Choice) -> Self {
        Self {
            choice,
            agents: Vec::new(),
        }
    }

    /// Learns the ids and names of the agents it mentions, so that it also matches events that carry
    /// only one of the two, such as `tool.called`. `find` gets a name or an id as it was written.
    #[must_use]
    pub fn with_agents(mut self, find: impl Fn(&str) -> Option<(AgentId, String)>) -> Self {
        if let Choice::Filter(filter) = &self.choice {
            self.agents = filter
                .agents()
                .into_iter()
                .filter_map(|written| {
                    let (id, name) = find(written)?;
                    let written = written.to_owned();
                    Some(KnownAgent { written, id, name })
                })
                .collect();
        }
        self
    }

    /// The filter, where it is one.
    #[must_use]
    pub fn filter(&self) -> Option<&Filter> {
        match &self.choice {
            Choice::Pattern(_) => None,
            Choice::Filter(filter) => Some(filter),
        }
    }

    /// Decides whether an event is one of those wanted.
    #[must_use]
    pub fn matches(&self, event: &LoggedEvent) -> bool {
        match &self.choice {
            Choice::Pattern(pattern) => pattern_matches(pattern, &event.event_type),
            Choice::Filter(filter) => {
                let facts = event.event.as_ref().map(facts::of);
                let content = facts.as_ref().map_or(Content::NAME_ONLY, Content::Known);
                filter.holds(&event.event_type, content, &self.agents) == Some(true)
            }
        }
    }

    /// Decides by the name alone: false means that no event of this name can match.
    #[must_use]
    pub fn matches_type(&self, event_type: &str) -> bool {
        match &self.choice {
            Choice::Pattern(pattern) => pattern_matches(pattern, event_type),
            Choice::Filter(filter) => {
                filter.holds(event_type, Content::NAME_ONLY, &[]) != Some(false)
            }
        }
    }

    /// Decides by the name and the status: false means that no such event can match.
    pub(crate) fn may_match_status(&self, event_type: &str, status: AgentStatus) -> bool {
        match &self.choice {
            Choice::Pattern(pattern) => pattern_matches(pattern, event_type),
            Choice::Filter(filter) => {
                let status = Some(status);
                filter.holds(event_type, Content::Missing { status }, &[]) != Some(false)
            }
        }
    }

    /// The names of all events that can match.
    pub fn event_types(&self) -> impl Iterator<Item = &'static str> + '_ {
        RelayEvent::TAGS
            .iter()
            .copied()
            .filter(|name| self.matches_type(name))
    }
}

/// Accepts names that exist and prefixes of names that exist.
fn check_pattern(pattern: &str) -> Result<(), SelectorError> {
    if RelayEvent::TAGS
        .iter()
        .any(|name| pattern_matches(pattern, name))
    {
        return Ok(());
    }
    let prefixes = RelayEvent::TAGS.iter().flat_map(|name| prefixes(name));
    let names = RelayEvent::TAGS.iter().map(|name| (*name).to_owned());
    Err(SelectorError::UnknownEvent {
        name: pattern.to_owned(),
        nearest: nearest(pattern, names.chain(prefixes), SUGGESTIONS),
    })
}

/// `agent.status.idle` has the prefixes `agent.*` and `agent.status.*`.
fn prefixes(name: &str) -> impl Iterator<Item = String> + '_ {
    name.match_indices('.')
        .map(|(dot, _)| format!("{}.*", &name[..dot]))
}

fn pattern_matches(pattern: &str, event_type: &str) -> bool {
    match pattern.strip_suffix('*') {
        None => pattern == event_type,
        Some("") => true,
        Some(prefix) => prefix.ends_with('.') && event_type.starts_with(prefix),
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        Self::parse(pattern)
    }
}

impl TryFrom<&str> for Selector {
    type Error = SelectorError;

    fn try_from(pattern: &str) -> Result<Self, Self::Error> {
        Self::parse(pattern)
    }
}

impl TryFrom<Filter> for Selector {
    type Error = SelectorError;

    fn try_from(filter: Filter) -> Result<Self, Self::Error> {
        Self::from_filter(filter)
    }
}

impl Serialize for Selector {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.choice {
            Choice::Pattern(pattern) => pattern.serialize(serializer),
            Choice::Filter(filter) => filter.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SelectorVisitor)
    }
}

struct SelectorVisitor;

impl<'de> Visitor<'de> for SelectorVisitor {
    type Value = Selector;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event name, a pattern such as \"message.*\", or a filter object")
    }

    fn visit_str<E: de::Error>(self, pattern: &str) -> Result<Selector, E> {
        Selector::parse(pattern).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Selector, A::Error> {
        let filter = Filter::deserialize(MapAccessDeserializer::new(members))?;
        Selector::from_filter(filter).map_err(de::Error::custom)
    }
}

impl JsonSchema for Selector {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Selector".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An event name, `*`, a prefix such as `message.*`, or a filter.",
            "anyOf": [{ "type": "string" }, generator.subschema_for::<Filter>()],
        })
    }
}

#[cfg(test)]
mod tests;
