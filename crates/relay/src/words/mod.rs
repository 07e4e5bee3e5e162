//! Relay's things in words: a message, an event, how a delivery stands.

mod delivery;
mod event;
mod message;

pub(crate) use delivery::{colored, is_away, receipt, waiting};
pub(crate) use event::event;
pub(crate) use message::{heading, message};

/// A number of things.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}
