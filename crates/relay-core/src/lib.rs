//! The engine of Relay: workspaces, agents, channels, messages, and the log of all that happened.
//!
//! The engine decides, the [`store`] keeps. Nothing here opens a socket or reads the environment; time
//! and randomness come in with [`environment::Environment`].

pub mod environment;
pub mod error;
pub mod recipients;
pub mod store;
