//! Redis as the thing to compare with: a private instance that syncs before it answers, as Relay does.
//!
//! The protocol is spoken by hand ([`resp`]): a few dozen lines, and as lean as the HTTP client beside which
//! it is measured. A library would bring its own connection handling, and with it a cost that the other side
//! does not have.

mod client;
mod instance;
mod resp;

pub(crate) use client::{Multi, PipelinedMulti, Redis, Xadd, command};
pub(crate) use instance::{Instance, StartError};
pub(crate) use resp::Reply;
