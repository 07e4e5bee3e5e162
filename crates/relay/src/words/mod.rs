//! Relay's things in words: a message, an event, how a delivery stands.

mod delivery;
mod event;
mod message;

pub(crate) use delivery::{colored, receipt};
pub(crate) use event::event;
pub(crate) use message::{heading, message};
