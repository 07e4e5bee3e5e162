//! The words of Relay, as they are on the wire.

pub mod redact;
