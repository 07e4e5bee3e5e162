//! The real program, as people start it, in a process of its own.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

#[cfg(target_os = "linux")]
mod agents_talk;
mod browser;
mod chats;
mod commands;
mod crowd;
#[path = "../../../relay-core/tests/it/depth.rs"]
mod depth;
mod hostile;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
mod mcp_clients;
mod outcomes;
mod permission_deaths;
mod readme;
mod serve;
mod support;
mod survival;
mod terminal;
mod verifier;
