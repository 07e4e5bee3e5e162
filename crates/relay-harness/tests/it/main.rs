//! The harness against real processes: shells, an agent that plays scripts, and agents of others.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod acp;
mod child;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
mod processes;
mod real;
