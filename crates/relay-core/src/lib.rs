//! The engine of Relay.
