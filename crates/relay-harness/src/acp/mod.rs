//! Agents that speak the Agent Client Protocol: which there are, what they can do, and how they are driven.
//!
//! The protocol is JSON-RPC in lines on standard input and output. This module has its own connection instead of a library's:
//! real agents send what no schema has, and a host must neither lose that nor be brought down by it, so
//! messages stay JSON at the edge and are read with tolerance where something is done with them.

pub mod capabilities;
pub mod catalogue;
pub mod content;
pub mod direct;
pub mod event;
pub mod host;
pub mod permission;
mod rpc;
pub mod session;
pub mod tools;
