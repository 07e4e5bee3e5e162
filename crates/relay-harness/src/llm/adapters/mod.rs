//! The providers' ways of being asked: what a question looks like, and what their streams say. Pure: JSON out, bytes in.
//!
//! To add one: a folder with `body` and a [`Decoder`], a variant of [`Api`].
//!
//! Written here instead of taken from a crate. The one that fits best (`genai`) costs 156 packages and loses tool calls, usage and
//! failures of a Responses stream whose last frame leaves out fields that it does not need; the typed ones refuse what many
//! servers send (`finish_reason: ""`, no `created`). So JSON is read field by field here, and what is not needed may be missing.

pub(crate) mod anthropic;
pub(crate) mod chat;
mod json;
pub(crate) mod responses;

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::Value;

use super::conversation::Api;
use super::error::ProviderError;
use super::provider::{ModelRequest, ProviderEvent};
use relay_protocol::sse::SseEvent;

/// The version of Anthropic's API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// How questions are asked, beside what they ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyOptions {
    /// Most tokens of an answer; absent: as the provider likes, which not every provider lets be.
    pub max_output_tokens: Option<u32>,
    /// Whether OpenAI's Responses are asked for thoughts in a form that can be given back. Models that don't think refuse that.
    pub encrypted_reasoning: bool,
}

/// Reads the events of one answer.
pub(crate) trait Decoder: Send + Sync + std::fmt::Debug {
    /// The next event. What it means is added, also before an error.
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError>;
    /// The end of the stream, where the answer is not whole yet.
    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError>;
    /// Whether the answer is whole: nothing more is read.
    fn is_whole(&self) -> bool;
}

impl Api {
    /// Where this is asked below a base URL.
    pub(crate) fn path(self, base: &str) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
            // Others' base URLs have the version in them.
            Self::Anthropic if base.ends_with("/v1") => "/messages",
            Self::Anthropic => "/v1/messages",
        }
    }

    /// The base URL of whoever invented it.
    pub(crate) const fn default_base(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
        }
    }

    pub(crate) fn body(self, request: &ModelRequest, options: &BodyOptions) -> Value {
        match self {
            Self::Chat => chat::body(request, options),
            Self::Responses => responses::body(request, options),
            Self::Anthropic => anthropic::body(request, options),
        }
    }

    pub(crate) fn decoder(self) -> Box<dyn Decoder> {
        match self {
            Self::Chat => Box::<chat::ChatDecoder>::default(),
            Self::Responses => Box::<responses::ResponsesDecoder>::default(),
            Self::Anthropic => Box::<anthropic::AnthropicDecoder>::default(),
        }
    }

    /// The header that has the key, and how it is written there.
    pub(crate) fn key_header(self, key: &str) -> (HeaderName, String) {
        match self {
            Self::Chat | Self::Responses => (AUTHORIZATION, format!("Bearer {key}")),
            Self::Anthropic => (HeaderName::from_static("x-api-key"), key.to_owned()),
        }
    }

    /// Headers that every question has.
    pub(crate) fn headers(self) -> Vec<(HeaderName, HeaderValue)> {
        match self {
            Self::Chat | Self::Responses => Vec::new(),
            Self::Anthropic => vec![(
                HeaderName::from_static("anthropic-version"),
                HeaderValue::from_static(ANTHROPIC_VERSION),
            )],
        }
    }
}
