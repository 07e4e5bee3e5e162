//! Relay over the network: HTTP, WebSocket, long poll and server-sent events over one engine.
//!
//! [`serve`] takes a listener, an engine, a [`Config`] and a shutdown signal; programs and tests call the same
//! function. `routes/` has the handlers, `table` what a route is, `access` who may ask, `guard` what keeps
//! browsers out, `socket/` the live door, `poll` the link of sessions that ask, `webhook` that of sessions that
//! are called, `mcp` the place for MCP, which somebody else speaks. `docs/protocol.md` is the contract for clients.
//!
//! Nothing here decides about messages or deliveries: that is the engine's. Nothing here reads the
//! environment or prints.

mod access;
mod call;
mod chat;
mod config;
mod guard;
mod guarded;
mod limiter;
mod local;
mod mcp;
mod metrics;
mod openapi;
mod outbox;
mod poll;
mod refusal;
mod routes;
mod serve;
mod socket;
mod stream;
mod table;
mod webhook;
mod written;

pub use axum::body::Body;
pub use chat::{Chat, ChatCall, ChatPlace, ChatService, ChatVisitor};
pub use config::{Config, Rate};
pub use local::{Doors, LocalDoor, LocalListener, local};
pub use mcp::{Mcp, McpAnswer, McpService, McpVisit};
pub use routes::{RouteInfo, openapi_document, route_list};
pub use serve::{ServeError, serve, serve_announced};
pub use written::Written;
