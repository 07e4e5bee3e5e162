//! Workspaces, agents and channels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentIdentity, AgentType, Metadata};
use crate::event::TokenKind;
use crate::ids::{TokenId, WorkspaceId};
use crate::time::Timestamp;
use crate::wire::literals;

/// The body of `POST /v1/workspaces`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWorkspace {
    /// What people call it.
    pub name: String,
}

/// The answer of `POST /v1/workspaces`. The key is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceCreated {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// The credential for everything in it.
    pub workspace_key: String,
}

/// A workspace, as its members see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workspace {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// The body of `PATCH /v1/workspace`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct UpdateWorkspace {
    /// What people call it from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The answer of `GET /v1/me`: what the credential stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Me {
    /// The kind of credential.
    pub kind: TokenKind,
    /// The workspace it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// The agent it acts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentIdentity>,
    /// What it may see, for an observer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ObserverScope>,
}

/// What an observer token may see. Without limits that is everything but what has to be granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct ObserverScope {
    /// Only what happens in these channels: names, or patterns such as `team-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<String>>,
    /// Only events of these names or patterns, and nothing but events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<String>>,
    /// What it may see beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Vec<ObserverGrant>>,
}

literals! {
    /// What observers see only when it was granted.
    pub enum ObserverGrant {
        /// What agents said and thought, and what tools were called with and answered.
        Transcript = "transcript",
        /// What terminals show, and the commands that are run in them.
        Terminal = "terminal",
        /// What tool calls that wait for a decision would be made with.
        Permissions = "permissions",
    }
}

/// The body of `POST /v1/observer-tokens`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct CreateObserverToken {
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may see; absent: everything but what has to be granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ObserverScope>,
}

/// An observer token, without the secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObserverToken {
    /// How it is named without showing it.
    pub token_id: TokenId,
    /// What people call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may see.
    pub scope: ObserverScope,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The answer of `POST /v1/observer-tokens`. The token is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObserverTokenCreated {
    /// The credential.
    pub token: String,
    /// What it is.
    pub observer: ObserverToken,
}

/// The body of `POST /v1/agents`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterAgent {
    /// The name to take.
    pub name: String,
    /// What kind of participant it is; absent: `agent`.
    #[serde(rename = "type")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// What others may know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// True: takes over the agent that has this name, with a new token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopt: Option<bool>,
}

/// The answer of `POST /v1/agents`. The token is shown this once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRegistered {
    /// The agent.
    pub agent: AgentIdentity,
    /// The credential to act as it.
    pub token: String,
}

/// The answer of `POST /v1/agents/{name}/token`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenRotated {
    /// The new credential, shown this once.
    pub token: String,
    /// When the old one stops working.
    pub grace_until: Timestamp,
}

/// The body of `PATCH /v1/agents/{name}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateAgent {
    /// Replaces what others may know about it.
    pub metadata: Metadata,
}

/// The body of `POST /v1/channels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateChannel {
    /// The name, without `#`.
    pub name: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

/// The body of `PATCH /v1/channels/{name}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct UpdateChannel {
    /// What it is about; an empty text removes the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// True closes the channel for messages, false opens it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
}

/// The body of `POST /v1/channels/{name}/invite`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InviteAgents {
    /// Names, with or without `@`.
    pub agents: Vec<String>,
}

/// A member of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelMember {
    /// The agent.
    pub agent: AgentIdentity,
    /// When it joined.
    pub joined_at: Timestamp,
}
