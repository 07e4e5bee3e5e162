//! The log as evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

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

/// The body of `POST /v1/audit/retain`: what the log need not keep any longer. At least one of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetainEvents {
    /// Terminal output, transcripts and output of tools from before this time lose their content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulky_before: Option<Timestamp>,
    /// Entries from before this time go, as far as they are the oldest. Messages stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_before: Option<Timestamp>,
}

/// The answer of `POST /v1/audit/retain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventsRetained {
    /// How many entries lost their content.
    pub erased: u64,
    /// How many entries were cut off the beginning of the log.
    pub cut: u64,
}
