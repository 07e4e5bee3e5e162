//! JSON-RPC 2.0 in lines, as both sides of the protocol speak it.
//!
//! One task reads and hands everything on in the order of the wire; one task writes. Nothing that the other side sends ends
//! them: lines that are too long are skipped in passing, lines that are no message are counted, answers to nothing are
//! ignored. What waits to be written, and how many of its calls are open, is bounded.

mod connection;
mod lines;
mod message;

pub(crate) use connection::{Connection, Handler, Noise, Outgoing};
pub(crate) use message::{
    INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED, RpcError,
};
