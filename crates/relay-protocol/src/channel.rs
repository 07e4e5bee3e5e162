//! Channels, as others see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ChannelId;
use crate::time::Timestamp;

/// A named place that agents join and leave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Channel {
    /// The channel's id.
    pub id: ChannelId,
    /// The name, without the leading `#`.
    pub name: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was archived; nothing can be sent to it since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived_at: Option<Timestamp>,
    /// How many agents are in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_count: Option<u64>,
}
