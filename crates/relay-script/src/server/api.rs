//! The providers' ways of asking, and what each of them has to be able to do.
//!
//! To add one: a file with `request` and an [`Encoder`], a variant here, a route in `routes.rs`.

use serde_json::Value;

use super::{anthropic, chat, gemini, responses};
use crate::{Failure, Reply, Request, Stop, ToolCall, Usage};

/// A way of asking a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's `generateContent`.
    Gemini,
}

/// The frame of one answer.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Makes ids; no two answers of a server have the same.
    pub(super) number: usize,
    /// The name by which the model was asked for.
    pub(super) model: String,
    /// What the answer costs; some streams say it at their start.
    pub(super) usage: Usage,
}

/// Writes an answer as a stream of events.
pub(super) trait Encoder: Send {
    /// What comes before the first piece.
    fn begin(&mut self, out: &mut Vec<u8>);
    /// Words.
    fn text(&mut self, text: &str, out: &mut Vec<u8>);
    /// Thoughts.
    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>);
    /// A whole tool call, in fragments.
    fn call(&mut self, call: &ToolCall, out: &mut Vec<u8>);
    /// An orderly end.
    fn end(&mut self, stop: &Stop, out: &mut Vec<u8>);
    /// An error instead of an end.
    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>);
}

impl Api {
    /// What a body asks.
    pub(super) fn request(self, body: &Value) -> Request {
        match self {
            Self::Anthropic => anthropic::request(body),
            Self::Chat => chat::request(body),
            Self::Responses => responses::request(body),
            Self::Gemini => gemini::request(body),
        }
    }

    pub(super) fn encoder(self, frame: Frame, body: &Value) -> Box<dyn Encoder> {
        match self {
            Self::Anthropic => Box::new(anthropic::Stream::new(frame)),
            Self::Chat => Box::new(chat::Stream::new(frame, body)),
            Self::Responses => Box::new(responses::Stream::new(frame, body)),
            Self::Gemini => Box::new(gemini::Stream::new(frame)),
        }
    }

    /// The answer in one piece.
    pub(super) fn whole(self, frame: &Frame, reply: &Reply, body: &Value) -> Value {
        match self {
            Self::Anthropic => anthropic::whole(frame, reply),
            Self::Chat => chat::whole(frame, reply),
            Self::Responses => responses::whole(frame, reply, body),
            Self::Gemini => gemini::whole(frame, reply),
        }
    }

    /// An error body in this provider's form, whatever the script left out of it.
    pub(super) fn error_body(self, mut body: Value) -> Value {
        if let (Self::Anthropic, Some(fields)) = (self, body.as_object_mut()) {
            fields.entry("type").or_insert_with(|| Value::from("error"));
        }
        body
    }
}
