//! How the server reaches a session.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::delivery::MessageContext;
use crate::ids::SessionId;
use crate::message::RelayMessage;
use crate::socket::ControlFrame;
use crate::wire::{literals, tagged_union};

literals! {
    /// The kinds of way from the server to a session.
    pub enum LinkKind {
        /// A WebSocket that the session holds open.
        WebSocket = "websocket",
        /// The session asks, and the answer waits for work.
        Poll = "poll",
        /// The server calls a URL.
        Webhook = "webhook",
        /// The session lives in the server's process.
        InProcess = "in-process",
        /// None: the session comes by at its boundaries.
        None = "none",
    }
}

tagged_union! {
    /// The link that `POST /v1/sessions` asks for; a socket is its own link.
    pub enum Link by "kind" {
        /// The session asks `GET /v1/sessions/{id}/deliveries?wait=`.
        "poll" => Poll(NoOptions),
        /// The server calls a URL, and the answer's body is the receipt.
        "webhook" => Webhook(WebhookLink),
        /// The session calls `boundary` when it is at one.
        "none" => None(NoOptions),
    }
}

impl Link {
    /// The kind of this link.
    #[must_use]
    pub const fn kind(&self) -> LinkKind {
        match self {
            Self::Poll(_) => LinkKind::Poll,
            Self::Webhook(_) => LinkKind::Webhook,
            Self::None(_) => LinkKind::None,
        }
    }
}

/// An object without fields beside its tag.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct NoOptions {}

/// A session that is reached by a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookLink {
    /// What the server calls.
    pub url: String,
    /// Signs the calls; absent: one is made and shown in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

tagged_union! {
    /// The body of a call to a session's webhook.
    pub enum SessionCall by "type" {
        /// A delivery; the answer's body is the receipt.
        "deliver" => Deliver(Box<DeliverCall>),
        /// An operation on the session; the answer's body is its result.
        "control" => Control(Box<ControlFrame>),
    }
}

/// A delivery for a session that is reached by a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliverCall {
    /// The session.
    pub session_id: SessionId,
    /// The message.
    pub message: Arc<RelayMessage>,
    /// Why it exists and how to treat it.
    pub context: MessageContext,
    /// The message as text for a model.
    pub text: String,
}
