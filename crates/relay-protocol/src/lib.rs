//! The words of Relay, exactly as they are on the wire.
//!
//! This crate holds types and pure functions only: what a message, a session, a delivery or an event
//! is, which changes are legal, and how text becomes safe to store or to show to a model. It knows
//! no storage, no network and no clock.

pub mod acp;
pub mod action;
pub mod agent;
pub mod api;
pub mod capability;
pub mod channel;
pub mod chat;
pub mod delivery;
pub mod delivery_record;
pub mod delivery_state;
pub mod event;
pub mod ids;
pub mod limits;
pub mod link;
pub mod message;
pub mod names;
pub mod negotiation;
pub mod permission;
pub mod policy;
pub mod problem;
pub mod redact;
pub mod render;
pub mod schema;
pub mod selector;
pub mod session;
pub mod session_event;
pub mod session_input;
pub mod socket;
pub mod sse;
pub mod status;
pub mod suggest;
pub mod time;
pub mod webhook;
pub mod wire;
