//! Delivery from the send to the receipt, with real sessions at the other end of real links, a store
//! that answers on the spot, and clocks that the tests move.

mod absence;
mod actions;
mod attaching;
mod callers;
mod cancelling;
mod claims;
mod clocks;
mod deadlines;
mod downgrade;
mod flushing;
mod forks;
mod inbox;
#[allow(dead_code, reason = "a toolkit for all tests of delivery")]
mod kit;
mod lifecycle;
mod links;
mod modes;
mod moments;
mod order;
mod pace;
mod permissions;
mod receipts;
mod reporting;
mod restart;
mod retries;
mod secrets;
mod statuses;
mod stories;
mod streams;
mod waits;

pub(crate) use self::kit::Prompt;
