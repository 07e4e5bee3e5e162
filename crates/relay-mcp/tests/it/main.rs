//! The MCP server against a real Relay server, with the official client over a pipe in memory.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod actions;
mod client;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
mod messages;
mod resources;
mod sessions;
mod settling;
#[path = "../../../relay-sdk/tests/it/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the SDK's tests use more of it")]
mod support;
mod tokens;
