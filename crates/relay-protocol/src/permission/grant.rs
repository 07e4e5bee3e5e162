//! Standing decisions: what `always` would grant, and what was granted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PermissionDecider;
use crate::ids::{GrantId, PermissionId, SessionId};
use crate::time::Timestamp;
use crate::wire::literals;

/// A rule that `always` would grant, shown before it is granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleSuggestion {
    /// The rule.
    pub rule: String,
    /// How far it reaches.
    pub scope: GrantScope,
    /// An example of what it covers.
    pub covers: String,
}

literals! {
    /// How far a grant reaches.
    pub enum GrantScope {
        /// This turn.
        Turn = "turn",
        /// This session.
        Session = "session",
        /// This agent.
        Agent = "agent",
        /// Every agent of the workspace.
        Workspace = "workspace",
    }
}

literals! {
    /// What a grant does with the calls that it covers.
    pub enum GrantEffect {
        /// They may run.
        Allow = "allow",
        /// They may not.
        Deny = "deny",
    }
}

/// A standing permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grant {
    /// The grant.
    pub grant_id: GrantId,
    /// What it is about.
    pub rule: String,
    /// Whether it allows or refuses.
    pub effect: GrantEffect,
    /// How far it reaches.
    pub scope: GrantScope,
    /// The agent it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The session it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The turn it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The request it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_id: Option<PermissionId>,
    /// Who granted it.
    pub by: PermissionDecider,
    /// When.
    pub created_at: Timestamp,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it last allowed something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// When it was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// Who took it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_by: Option<PermissionDecider>,
}
