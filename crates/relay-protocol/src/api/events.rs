//! Reading the log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::LoggedEvent;

/// Which part of the log is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct EventQuery {
    /// Events after this sequence number; absent: from the beginning, or, for a stream, from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Names or patterns such as `message.*`, with commas between; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<String>,
    /// Most events of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A part of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventList {
    /// Events that match and may be seen, oldest first. There may be none although `nextCursor` is there.
    pub items: Vec<LoggedEvent>,
    /// The last sequence number that was looked at: `after` of the next question.
    pub after: u64,
    /// The same, while the end of the log was not reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
