//! The log as evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The body of `POST /v1/audit/erase`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EraseEvents {
    /// The sequence numbers of the events whose content goes, at most as many as a page has items. What was
    /// written in one change goes together.
    pub seqs: Vec<u64>,
    /// Why; it is logged.
    pub reason: String,
}

/// The answer of `POST /v1/audit/erase`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventsErased {
    /// How many entries of the log lost their content; those that had none any more are not counted.
    pub erased: u64,
}
