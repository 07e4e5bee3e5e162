//! Tests of the scripted model: by itself, through the providers' streams, and as the model of real coding agents.
//!
//! Agents are driven on Linux only: elsewhere nothing makes sure that they leave no process behind.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod by_hand;
#[cfg(target_os = "linux")]
mod handshake;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
mod scripts;
mod server;
mod streams;
mod support;
#[cfg(target_os = "linux")]
mod turns;
