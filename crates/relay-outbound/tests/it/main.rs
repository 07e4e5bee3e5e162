//! The guard from outside: a server inside that must never be reached, and calls that try to.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod answers;
mod hostile;
#[path = "../../../relay-server/tests/it/layout.rs"]
mod layout;
mod lines;
mod names;
mod streams;
mod support;
