//! Who takes part: agents, people and the system itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::AgentId;
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
