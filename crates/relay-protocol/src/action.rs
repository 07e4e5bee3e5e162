//! Actions: named operations that agents can invoke.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::AgentType;
use crate::ids::AgentId;

/// The caller carried on action events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionCaller {
    /// The caller's name.
    pub name: String,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<AgentId>,
    /// What kind of participant it is.
    #[serde(rename = "type")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
}
