//! What the crate promises to others: the wire forms of the spec, their schemas, and their refusals.

mod files;
mod schema;
