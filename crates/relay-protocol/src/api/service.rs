//! What the server says about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::literals;

literals! {
    /// How the server is.
    pub enum ServiceStatus {
        /// It does what it should.
        Ok = "ok",
        /// It can't take work at the moment.
        Unavailable = "unavailable",
    }
}

/// The answer of `GET /health` and `GET /ready`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Health {
    /// How it is.
    pub status: ServiceStatus,
    /// The server's version.
    pub version: String,
    /// The version of the protocol.
    pub protocol: u32,
}
