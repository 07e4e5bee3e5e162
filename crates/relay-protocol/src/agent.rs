//! Who takes part: agents, people and the system itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{AgentId, SessionId};
use crate::status::AgentStatus;
use crate::time::Timestamp;
use crate::wire::literals;

/// Free-form data that Relay keeps and hands on without reading it.
pub type Metadata = Map<String, Value>;

literals! {
    /// What kind of participant a name stands for.
    pub enum AgentType {
        /// A program.
        Agent = "agent",
        /// A person.
        Human = "human",
        /// Relay or a service that speaks through it.
        System = "system",
    }
}

/// A named participant, as others see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentIdentity {
    /// The agent's id.
    pub id: AgentId,
    /// The name as it was registered.
    pub name: String,
    /// The name with `@` in front.
    pub handle: String,
    /// What kind of participant this is.
    #[serde(rename = "type")]
    pub agent_type: AgentType,
    /// What was given at registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Whether an agent can be reached now: its current session, or the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentPresence {
    /// What it is doing; `offline` without a session.
    pub status: AgentStatus,
    /// Since when; absent if it never had a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Its open session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// An agent in a list: who it is, and whether it can be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSummary {
    /// The agent's id.
    pub id: AgentId,
    /// The name as it was registered.
    pub name: String,
    /// The name with `@` in front.
    pub handle: String,
    /// What kind of participant this is.
    #[serde(rename = "type")]
    pub agent_type: AgentType,
    /// What was given at registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// Whether it can be reached now.
    pub presence: AgentPresence,
}

impl AgentSummary {
    /// Puts an agent and its presence together.
    #[must_use]
    pub fn new(agent: AgentIdentity, presence: AgentPresence) -> Self {
        let AgentIdentity {
            id,
            name,
            handle,
            agent_type,
            metadata,
        } = agent;
        Self {
            id,
            name,
            handle,
            agent_type,
            metadata,
            presence,
        }
    }
}
