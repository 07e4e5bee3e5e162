//! The harness against real processes.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

#[cfg(target_os = "linux")]
mod child;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
#[cfg(target_os = "linux")]
mod processes;
