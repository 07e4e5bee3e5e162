//! Runs: what asks for permission under rules of its own, and hands them down to what it starts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Permissions;
use crate::ids::{RunId, SessionId};
use crate::time::Timestamp;

/// The body of `POST /v1/permissions/runs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateRun {
    /// The run that starts it; its rules hold here, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// Rules of its own. Under a parent they can narrow, never widen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
}

/// A run that asks for permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionRun {
    /// The run.
    pub run_id: RunId,
    /// The agent whose run it is.
    pub agent_name: String,
    /// The session in which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The run that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// How many runs are above it.
    pub depth: u32,
    /// Its own rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}
