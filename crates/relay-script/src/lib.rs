//! A language model that says what a script tells it to say.
//!
//! [`Script`] is a file of turns, [`Player`] chooses the turn that answers a [`Request`], and a [`Turn`] is what a model would
//! have said: text, reasoning, tool calls, usage, or a failure at a chosen place. None of these knows a provider. [`Server`]
//! puts them behind the streams of real providers, so that programs of others can be driven without network or key.

mod clock;
mod format;
mod gates;
mod player;
mod request;
mod script;
mod server;
mod turn;

pub use clock::{Clock, Ticks};
pub use gates::Gates;
pub use player::{Player, inline_script};
pub use request::{Message, Part, Request, Role, Tool};
pub use script::{Condition, Rule, Script, ScriptError};
pub use server::{Api, Ending, Recorded, Server};
pub use turn::{Failure, Piece, Refusal, Reply, Stop, ToolCall, Turn, Usage};
