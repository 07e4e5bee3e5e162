//! The SDK against a real server on a real listener.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod actions;
mod calls;
mod chats;
mod controls;
mod dedupe;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
mod listeners;
mod local;
mod network;
mod permission_faults;
mod permissions;
mod restart;
mod runner;
mod sessions;
mod support;
mod tls;
mod webhooks;
