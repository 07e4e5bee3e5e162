//! The engine of Relay: workspaces, agents, channels, messages, and the log of all that happened.
//!
//! The engine decides, the [`store`] keeps. Nothing here opens a socket or reads the environment; time
//! and randomness come in with [`environment::Environment`].

mod actions;
mod agents;
mod attachments;
mod audit;
mod caller;
mod callers;
mod channels;
mod deliveries;
pub mod delivery;
mod engine;
pub mod environment;
pub mod error;
mod events;
mod ingest;
mod messages;
mod observers;
mod permissions;
mod platform;
mod reading;
pub mod recipients;
mod runner;
mod sessions;
pub mod store;
mod visibility;
mod webhooks;
mod workspaces;

pub use attachments::Upload;
pub use audit::{KeepFor, KeepSince};
pub use caller::Caller;
pub use callers::CredentialWatch;
pub use deliveries::ReceiptStored;
pub use engine::{Engine, PageQuery};
pub use error::{Error, Result};
pub use events::{EventPage, Followed, Subscription, Wanted};
pub use runner::{HandlerId, link};
pub use sessions::{Reach, WebhookSession};
pub use store::{GrantQuery, PermissionQuery, Reading};
