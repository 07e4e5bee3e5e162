//! Real agents whose model is a script: what they say about themselves, whole conversations through the host, and on the relay.
//!
//! They run without network and key, in a home of their own and a cleared environment (`crates/relay-script/tests/agents`).

#[path = "../../../../relay-script/tests/it/support/agents.rs"]
mod agents;
mod desk;
mod handshake;
mod hosted;
mod on_relay;
