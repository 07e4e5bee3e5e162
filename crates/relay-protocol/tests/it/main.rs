//! What the crate promises to others: the wire forms of the spec, their schemas, and their refusals.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod examples;
mod files;
mod schema;
mod selectors;
