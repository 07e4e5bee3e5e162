//! The chat gateway: `POST /chat` begins a run and streams what happens, `POST /chat/relay/{relayId}` decides about a call.
//!
//! Bodies come in, bodies and streams go out; how they travel is the server's matter, and who may begin a chat is checked before. What
//! runs is behind [`Drives`]: a loop around a model, or a coding agent. Events are numbered and written once, as they are sent
//! (`log.rs`); viewers read them from there, each at its own pace (`viewer.rs`). Chats and those who look at them are kept in
//! `chats.rs`. docs/chat.md has the contract.

mod agent;
mod answer;
mod chats;
mod clients;
mod gateway;
mod log;
mod model;
mod refusal;
mod request;
mod viewer;

pub use agent::{Agents, StartAgent};
pub use answer::RelayAnswer;
pub use chats::Chat;
pub use gateway::{Begun, Decides, Deciding, Drives, Gateway, Starting};
pub use model::{Connect, ModelChats, Visitor, Workshop};
pub use refusal::Refusal;
pub use request::{ChatRequest, OnDisconnect, With};
pub use viewer::Viewer;
