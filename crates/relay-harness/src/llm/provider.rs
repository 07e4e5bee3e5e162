//! What a provider is: something that answers a conversation with a stream of events.
//!
//! To add one: if it is asked over HTTP, an adapter in `adapters/`; otherwise an implementation of [`Provider`]. It makes
//! one call and no second; [`ask`](super::ask) goes around it, tries again and holds it to the rules.

use std::fmt;

use futures_util::stream::BoxStream;
use serde_json::Value;

use super::conversation::{Kept, Message};
use super::error::ProviderError;
use super::limits::AnswerLimits;

/// A stream of what a model says. Dropped, it ends the call.
pub type Answer = BoxStream<'static, Result<ProviderEvent, ProviderError>>;

/// Something that answers conversations.
pub trait Provider: Send + Sync + fmt::Debug {
    /// Begins one call. Events come in the order in which the model said them; [`ProviderEvent::Stop`] or an error is the last.
    fn answer(&self, request: ModelRequest) -> Answer;

    /// What is accepted of an answer.
    fn limits(&self) -> AnswerLimits {
        AnswerLimits::default()
    }
}

/// One question to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The model, as the provider calls it.
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
}

/// A tool as it is shown to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// What it is called by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// Something that a model says, or that is said about its answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderEvent {
    /// Words.
    Text(String),
    /// Thoughts.
    Reasoning(String),
    /// The end of a block of thoughts, and what the provider wants back with it.
    ReasoningEnd(Option<Kept>),
    /// A tool call begins. Several may be open at once.
    CallBegin {
        /// Tells the calls of one answer apart.
        call: usize,
        /// The provider's id of the call.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call.
        call: usize,
        /// To be added to what was there.
        text: String,
    },
    /// A call is whole.
    CallEnd {
        /// The call.
        call: usize,
    },
    /// What the call has cost so far.
    Usage(Usage),
    /// The answer is whole.
    Stop(StopReason),
}

/// Tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read, those from a cache and those written to one included.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_creation: u64,
}

impl Usage {
    /// Adds what came since `before`. Providers say the sum so far, sometimes several times; a smaller one adds nothing.
    pub fn add_since(&mut self, before: Self, now: Self) {
        self.input += now.input.saturating_sub(before.input);
        self.output += now.output.saturating_sub(before.output);
        self.cache_read += now.cache_read.saturating_sub(before.cache_read);
        self.cache_creation += now.cache_creation.saturating_sub(before.cache_creation);
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All was said.
    End,
    /// Tools are to be called.
    Tools,
    /// The limit of tokens was reached.
    Length,
    /// The model won't, or may not.
    Refusal,
    /// A reason in the provider's own words.
    Other(String),
}
