//! What becomes of a call that was allowed: it is written down before it runs, and once it has.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::wire::literals;

literals! {
    /// How far a call that was allowed has got.
    pub enum ExecutionState {
        /// It runs, or did when its process was last heard of.
        Started = "started",
        /// It has ended well.
        Completed = "completed",
        /// It ran and failed.
        Failed = "failed",
        /// It was started and nobody can say how it ended. It is not run again.
        Unknown = "unknown",
        /// It was never started and won't be.
        Cancelled = "cancelled",
    }
}

/// What became of a call that was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionExecution {
    /// How far it has got.
    pub state: ExecutionState,
    /// When it was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The body of `POST /v1/permissions/{id}/start`: the last question before a tool runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartPermission {
    /// The hash of what is about to run; refused when that is not what was allowed.
    pub args_hash: String,
    /// Makes a repeated call harmless: only the start with this id may be repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_id: Option<String>,
}

/// The body of `POST /v1/permissions/{id}/finish`: how the tool ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FinishPermission {
    /// `completed`, `failed`, `unknown`, or `cancelled` for one that was never started.
    pub state: ExecutionState,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
