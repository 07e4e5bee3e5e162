//! A language model in a loop with tools.
//!
//! A [`Provider`](provider::Provider) answers a conversation with a stream of events; [`ask`](ask::ask) tries it again and holds
//! it to the rules. Adapters (`adapters/`, `decode.rs`) are pure and have thin input and output around them (`http.rs`); `scripted.rs`
//! needs neither network nor key. [`run`](run::run) asks a model, makes the calls that it wants ([`tools`]) after asking whoever decides
//! ([`permits`]), and tells what happens in the words of the chat contract; [`session`] puts such a model on the relay, with a
//! mailbox. docs/llm.md says why it is so.

mod adapters;
pub mod ask;
pub mod conversation;
pub mod decode;
pub mod error;
pub mod guard;
pub mod http;
mod ids;
pub mod key;
pub mod limits;
pub mod models;
pub mod permits;
pub mod provider;
pub mod retry;
pub mod run;
pub mod scripted;
pub mod session;
pub mod tools;

pub use adapters::BodyOptions;
pub use ids::new_id;
