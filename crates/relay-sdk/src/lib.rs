//! The Rust client of Relay: messages, listeners and sessions over one connection that looks after itself.
//!
//! ```no_run
//! # async fn example() -> relay_sdk::Result<()> {
//! use relay_sdk::{CallbackSession, Relay, delivered, events};
//!
//! let relay = Relay::open("http://127.0.0.1:4000", "rk_…").await?;
//! let alice = relay.register("alice").await?;
//! let bob = relay.register("bob").await?;
//!
//! relay
//!     .add_listener(events::MESSAGE_CREATED, |event| async move {
//!         println!("{} {}", event.event_type, event.message.message_id);
//!     })
//!     .await?;
//!
//! let session = CallbackSession::new(bob.identity().clone(), |message, ctx| async move {
//!     println!("bob gets {:?}", message.text);
//!     Ok(delivered(ctx.id))
//! });
//! let session = bob.attach(session).memory("bob.seen").await?;
//!
//! let sent = alice.send_message("@bob", "Shipping now").await?;
//! bob.reply(sent.message_id, "On it").await?;
//! bob.react(sent.message_id, ":rocket:").await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Relay`] is a workspace, an [`AgentClient`] an agent in it; both are [`Client`]s. Calls that read, and sends, are
//! repeated while the server can't be reached ([`Options::patience`]). Listeners and sessions come back by themselves: a
//! listener misses no event and gets none twice, a session goes on where it was. An [`Error`] says whether trying
//! again may help.
//!
//! This crate knows the wire ([`relay_protocol`]) and nothing of the server's inside. It reads no environment
//! and prints nothing.

mod action;
mod backoff;
mod chat;
mod client;
mod dial;
mod error;
mod http;
mod key;
mod listening;
mod options;
mod permission;
mod refusal;
mod session;
mod socket;
mod tls;
mod webhook;

pub use action::{Action, ActionCall, ActionError, Handling};
pub use chat::{Chat, ChatDecided, ChatEvent, Chats, NewChat};
pub use client::{
    AgentClient, Client, DeliverInput, DeliveryQuery, DeliveryRunner, DeliveryTarget, Download,
    FlushInput, GrantQuery, PermissionQuery, Permissions, Registering, Relay, Sending, Subscribing,
    Webhooks,
};
pub use dial::{Dial, Dialing, Stream};
pub use error::{Error, Result};
pub use listening::{
    After, AgentRef, Choice, DeliveryPredicates, Event, EventName, Events, Listen, Predicate,
    Status, Unsubscribe, after, events,
};
pub use options::Options;
pub use permission::{Decision, Question, Ran};
pub use session::{
    AgentDeliveryAdapter, AgentSession, AttachedSession, Attaching, CallbackSession, ControlError,
    EventHandler, Fork, SessionError, accepted, deferred, delivered, failed, failed_for_now,
};
pub use tls::RootCertificates;
pub use webhook::{WebhookError, WebhookVerifier};

pub use relay_protocol as protocol;
pub use relay_protocol::action::{
    ActionCaller, ActionInfo, AvailableTo, Invocation, InvocationState,
};
pub use relay_protocol::agent::{AgentIdentity, AgentType};
pub use relay_protocol::capability::AgentSessionCapabilities;
pub use relay_protocol::chat::ModelList;
pub use relay_protocol::delivery::{DeliveryMode, MessageContext, MessageReceipt, Priority};
pub use relay_protocol::event::{LoggedEvent, RelayEvent};
pub use relay_protocol::message::RelayMessage;
pub use relay_protocol::permission::{
    AskPermission, CreateRun, EvaluatePermission, Evaluation, ExecutionState, Grant, GrantScope,
    PermissionOutcome, PermissionRecord, PermissionResponse, PermissionRun, PermissionState,
    ResolvePermission, ToolParams,
};
pub use relay_protocol::problem::{ErrorCode, Problem};
pub use relay_protocol::selector::Filter;
pub use relay_protocol::session::BoundaryKind;
pub use relay_protocol::session_event::AgentSessionEvent;
pub use relay_protocol::status::AgentStatus;
pub use relay_protocol::time::Timestamp;
pub use relay_protocol::webhook::{
    InboundWebhookCreated, InboundWebhookInfo, WebhookAttempt, WebhookCreated, WebhookInfo,
    WebhookSecret, WebhookState,
};
pub use relay_signature::{InvalidSecret, VerifyError};
