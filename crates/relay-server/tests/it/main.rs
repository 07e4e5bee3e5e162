//! The server's tests: one binary, a real listener, a small client that holds every answer against the
//! API's own description.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

mod actions;
mod attachments;
mod chat;
mod contents;
mod description;
mod doors;
mod events;
mod everywhere;
mod garbage;
mod inbound;
mod layout;
mod limits;
mod matrix;
mod messaging;
mod odd_input;
mod outbox;
mod permissions;
mod polling;
mod python;
mod revoking;
mod sessions;
mod shutdown;
mod socket;
mod support;
mod visibility;
mod webhooks;
mod workspace;
