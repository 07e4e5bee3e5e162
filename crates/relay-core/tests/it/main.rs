//! The integration tests of the engine: one binary, one module per subject.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod backstage;
mod backup;
mod beside;
mod child;
mod crash;
mod damage;
mod delivering;
mod depth;
mod disk_full;
mod errors;
mod faults;
mod formats;
mod layout;
mod live;
mod messaging;
mod observer;
mod opening;
mod power;
mod redaction;
mod search;
mod sim;
mod story;
mod support;
mod survival;
mod tampering;
mod vfs;
mod vfs_selftest;
mod waiting;
mod writers;
