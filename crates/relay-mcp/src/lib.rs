//! Relay for models, by the Model Context Protocol: three tools, every action as a tool of its own, channels and
//! threads as resources.
//!
//! [`McpServer`] is the handler. It acts as one agent, through a [`relay_sdk::AgentClient`], and so may do and see what
//! that agent may. It does not care how its client reaches it: [`McpServer::serve`] speaks over any pair of streams,
//! `relay mcp` gives it standard input and output. [`McpHttp`] makes one for each client that comes over HTTP; `relay serve` puts it
//! behind its own door.
//!
//! Everything that somebody else wrote goes to the model through [`relay_protocol::render`]. Whatever the model can do
//! something about is told in a result that says so, not as an error of the protocol, which clients hide from it.
//!
//! `check` settles messages only once its answer was written; `settling.rs` says how that is known. What is told to clients
//! without being asked, and why, is in `news.rs`. This crate reads no environment and prints nothing.

mod contents;
mod http;
mod limits;
mod news;
mod notify;
mod resources;
mod server;
mod settling;
mod tools;
mod witness;
mod words;

pub use http::{AnswerBody, Connect, Flushed, HttpLimits, McpHttp, Visitor};
pub use server::{McpServer, ServeError};
