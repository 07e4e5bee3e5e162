//! Agents that speak the Agent Client Protocol: which there are, what they can do, and how they are driven.
//!
//! The protocol is JSON-RPC in lines on standard input and output.

pub mod catalogue;
