//! Redaction against a corpus of secrets, a corpus of ordinary text, and properties.

mod corpus;
mod properties;
mod registered;
mod streaming;
