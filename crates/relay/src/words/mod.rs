//! Relay's things in words: a message, an event, how a delivery stands.

mod call;
mod delivery;
mod doing;
mod event;
mod message;
mod permission;

pub(crate) use call::{dangers, shell_text, summary, value};
pub(crate) use delivery::{colored, receipt, waiting};
pub(crate) use doing::{Doing, Told};
pub(crate) use event::event;
pub(crate) use message::{heading, message};
pub(crate) use permission::{
    colored_state, countdown, decided_by, decider, ended, executed, offer, reach,
};

/// A number of things.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{number} {word}")
}
