//! What a scripted model answers: a reply in pieces, or a refusal before the first of them.
//!
//! Pieces are played in order. Some are said, some take time, and some end the reply where no model should: those are how
//! failing providers are played.

use std::time::Duration;

use serde_json::Value;

use crate::Clock;

/// One answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// It speaks.
    Reply(Reply),
    /// The provider refuses the request.
    Refusal(Refusal),
}

/// A reply, piece by piece.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// What happens, in order.
    pub pieces: Vec<Piece>,
    /// What it cost.
    pub usage: Usage,
    /// Why it ended.
    pub stop: Stop,
    /// The connection is cut after so many bytes of the answer's body; only a server can do that.
    pub cut_at: Option<usize>,
}

/// A piece of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Words, sent as one.
    Text(String),
    /// The time, as often as wanted; only a stream can tell it.
    Clock(Clock),
    /// Thoughts, sent as one.
    Reasoning(String),
    /// A tool is called.
    ToolCall(ToolCall),
    /// Nothing for a while.
    Pause(Duration),
    /// Nothing until this gate is opened, see [`crate::Gates`].
    Wait(String),
    /// An error in the middle of the stream, which ends the reply.
    Fail(Failure),
    /// The stream ends here, as if the connection had been cut.
    Cut,
    /// Nothing more, without an end.
    Hang,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Names the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them: JSON, unless the script wants them broken.
    pub arguments: String,
}

/// Tokens that a reply cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read, those from a cache included.
    pub input: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Written.
    pub output: u64,
}

/// Why a reply ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// All was said.
    #[default]
    End,
    /// Tools are to be called.
    Tools,
    /// The limit of tokens was reached.
    Length,
    /// The model won't.
    Refusal,
    /// The stream ends in order, but gives no reason.
    Missing,
    /// A reason in the provider's own words.
    Other(String),
}

/// An error in the middle of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of error, in the provider's words, such as `overloaded_error`.
    pub kind: String,
    /// What is told about it.
    pub message: String,
}

/// An answer that is no reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// More headers, such as `retry-after`.
    pub headers: Vec<(String, String)>,
    /// The body; a string is sent as it is, anything else as JSON.
    pub body: Value,
}

impl ToolCall {
    /// The arguments as JSON, or as a string where they are broken.
    pub fn arguments_value(&self) -> Value {
        serde_json::from_str(&self.arguments)
            .unwrap_or_else(|_| Value::String(self.arguments.clone()))
    }
}

impl Reply {
    /// The calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}
