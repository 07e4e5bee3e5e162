//! What the rules decide: reference cases, a corpus of commands, properties, and bash itself as a witness.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod corpus;
mod depth;
mod files;
mod kinds;
mod oracle;
mod order;
mod properties;
mod reference;
mod suggesting;
mod support;
