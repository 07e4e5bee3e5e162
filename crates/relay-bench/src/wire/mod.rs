//! Lean clients of HTTP and WebSocket, one connection each, that only speak to servers on this machine.
//!
//! By hand, because the load and the server share the cores: what a client library costs would be taken
//! for the server's slowness. They trust the server and understand no more than it says.

mod buffer;
mod http;
mod websocket;

pub(crate) use buffer::Incoming;
pub(crate) use http::{Answer, Http, request_bytes};
pub(crate) use websocket::WebSocket;
