//! The MCP server against a real Relay server: with the official client over a pipe in memory, and byte by byte over HTTP.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod actions;
mod client;
mod contents;
mod http;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
#[path = "../../../relay/src/mcp_door.rs"]
#[allow(dead_code, reason = "tests choose their own limits")]
mod mcp_door;
mod messages;
mod resources;
mod sessions;
mod settling;
#[path = "../../../relay-sdk/tests/it/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the SDK's tests use more of it")]
mod support;
mod tokens;
