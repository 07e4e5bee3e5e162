//! The frames of `GET /v1/ws`, the one live door: listeners, sessions and action handlers share it.
//!
//! **Form.** JSON text frames, one object each, told apart by `type`, at most 1 MiB. A frame of another
//! form is answered with `error` and does not end the connection; one that is too large ends it.
//!
//! **Order.** A client without the `Authorization` header says `hello` first; anything else before it
//! ends the connection. The server says `welcome` first. After that both sides speak when they
//! like. Frames of one connection are handled in the order in which they arrive, and so are their
//! answers. Every client frame may carry `ref`; the one answer to it (`ok`, `error`, `sent`, `attached`,
//! `ack`, `pong`) carries the same `ref`.
//!
//! **Events.** `event` frames of one connection have rising `seq`, each event once, however many
//! subscriptions match. A subscriber that reads too slowly is told `lagged` and gets the rest from
//! the log. Session events carry `n`, counted from 1 per session: repeats are acked and dropped, a
//! gap is refused naming the `n` that is expected.
//!
//! **Deliveries.** Each `deliver` is answered by a `receipt`, or by an `event` of type `delivery.*`.
//! `context.metadata.epoch` names the offer; a receipt for an older one changes nothing. The same
//! delivery may be offered again, under the same id.
//!
//! **Trust.** Who the client is comes from its credential only. What it may do as a session is
//! checked against that session's capabilities; a session belongs to the connection that attached
//! it, and no other connection may speak for it. Nothing that a frame claims about its sender is
//! believed. Secrets in session events are removed before these are stored or shown to anyone.

mod frame;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::action::{ActionCaller, RegisterAction};
use crate::api::messages::{MessageSent, SendMessage};
use crate::delivery::{DeliveryMode, MessageContext, MessageReceipt};
use crate::event::LoggedEvent;
use crate::ids::{ConnectionId, ControlId, DeliveryId, InvocationId, SessionId};
use crate::link::NoOptions;
use crate::message::RelayMessage;
use crate::problem::{ErrorCode, Problem};
use crate::selector::{Filter, Selector};
use crate::session::{Attach, Attached, BoundaryKind};
use crate::session_input::SessionEventInput;
use crate::time::Timestamp;
use crate::wire::{literals, tagged_union};

pub use frame::{ClientFrame, FrameRef, ServerFrame};

/// The version of the protocol that this crate speaks.
pub const PROTOCOL: u32 = 1;

/// The close code and reason when a session's resume token was used on another link.
pub const CLOSE_SUPERSEDED: (u16, &str) = (4001, "superseded");
/// The close code and reason when no valid credential came.
pub const CLOSE_UNAUTHORIZED: (u16, &str) = (4003, "unauthorized");
/// The close code and reason when the server stops.
pub const CLOSE_GOING_AWAY: (u16, &str) = (1001, "going_away");
/// The close code and reason when a frame is too large.
pub const CLOSE_TOO_LARGE: (u16, &str) = (1009, "frame_too_large");

tagged_union! {
    /// What a client can say.
    pub enum ClientRequest by "type" {
        /// The credential, for clients that cannot set a header; only as the first frame.
        "hello" => Hello(Hello),
        /// Sends a message; answered by `sent`.
        "send" => Send(SendMessage),
        /// Asks for events; answered by `ok`.
        "subscribe" => Subscribe(Subscribe),
        /// Asks for no more of them; answered by `ok`.
        "unsubscribe" => Unsubscribe(Unsubscribe),
        /// Makes this connection the link of a session; answered by `attached`.
        "attach" => Attach(Attach),
        /// Says what happened to a delivery; answered by `ok`.
        "receipt" => Receipt(ReceiptFrame),
        /// Reports something about a session; answered by `ack`.
        "event" => Event(SessionEventFrame),
        /// Says that a session stands at a boundary; answered by `deliver` frames and `ok`.
        "boundary" => Boundary(BoundaryFrame),
        /// Offers to run an action; answered by `ok`.
        "registerAction" => RegisterAction(RegisterAction),
        /// Says how an `invoke` ended; answered by `ok`.
        "invocationResult" => InvocationResult(InvocationResult),
        /// Says how a `control` ended; answered by `ok`.
        "controlResult" => ControlResult(ControlResult),
        /// Asks for a sign of life; answered by `pong`.
        "ping" => Ping(NoOptions),
    }
}

tagged_union! {
    /// What the server can say.
    pub enum ServerMessage by "type" {
        /// The first frame.
        "welcome" => Welcome(Welcome),
        /// A message was stored.
        "sent" => Sent(Box<MessageSent>),
        /// The connection is the link of a session.
        "attached" => Attached(Attached),
        /// Something happened.
        "event" => Event(Box<EventFrame>),
        /// The client reads too slowly; the rest comes from the log.
        "lagged" => Lagged(Lagged),
        /// A delivery for a session.
        "deliver" => Deliver(Box<DeliverFrame>),
        /// A call of an action for this process.
        "invoke" => Invoke(InvokeFrame),
        /// An operation on a session.
        "control" => Control(ControlFrame),
        /// Session events up to a number are stored.
        "ack" => Ack(Ack),
        /// It was done.
        "ok" => Ok(OkFrame),
        /// It was not done.
        "error" => Error(ErrorFrame),
        /// A sign of life.
        "pong" => Pong(NoOptions),
    }
}

/// The credential, for clients that cannot set a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hello {
    /// The token.
    pub token: String,
}

/// Asks for events, by a pattern or by a filter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscribe {
    /// The client's name for the subscription.
    pub id: String,
    /// An event name, `*`, or a prefix such as `message.*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// A filter instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// The stored events after this place come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl Subscribe {
    /// The selector that was meant, or why there is none.
    pub fn selector(&self) -> Result<Selector, Box<Problem>> {
        let selector = match (&self.pattern, &self.filter) {
            (Some(pattern), None) => Selector::parse(pattern),
            (None, Some(filter)) => Selector::from_filter(filter.clone()),
            _ => {
                let detail = "expected either `pattern` or `filter`";
                return Err(Box::new(Problem::new(ErrorCode::BadSelector, detail)));
            }
        };
        selector.map_err(|error| Box::new(error.into()))
    }
}

/// Asks for no more events of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unsubscribe {
    /// The subscription.
    pub id: String,
}

/// Says what happened to a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiptFrame {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The offer it answers; absent: the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// What happened.
    pub receipt: MessageReceipt,
}

/// Reports something about a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionEventFrame {
    /// The session.
    pub session_id: SessionId,
    /// The report's number in the session, counted from 1.
    pub n: u64,
    /// What happened.
    pub event: SessionEventInput,
}

/// Says that a session stands at a boundary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BoundaryFrame {
    /// The session.
    pub session_id: SessionId,
    /// Which boundary.
    pub kind: BoundaryKind,
}

/// Says how a call of an action ended: with `error` it failed, otherwise it is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvocationResult {
    /// The call.
    pub invocation_id: InvocationId,
    /// What the handler answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// Says how an operation on a session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlResult {
    /// The operation.
    pub control_id: ControlId,
    /// Whether it was done.
    pub ok: bool,
    /// What came of it, such as `{snapshotId}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it was not done. Any member may be missing, for example all but `detail`.
    #[serde(
        default,
        deserialize_with = "Problem::deserialize_reported",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "Problem::reported_schema")]
    pub problem: Option<Box<Problem>>,
}

/// The server's first frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Welcome {
    /// The version of the protocol.
    pub protocol: u32,
    /// The server's version.
    pub version: String,
    /// This connection.
    pub connection_id: ConnectionId,
    /// The server's clock.
    pub server_time: Timestamp,
    /// What it accepts.
    pub limits: SocketLimits,
}

/// What the server accepts on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SocketLimits {
    /// Most bytes of a frame.
    pub frame_bytes: u64,
    /// Most bytes of a message's text.
    pub text_bytes: u64,
    /// Most bytes of an attachment inside a send.
    pub inline_attachment_bytes: u64,
    /// Most subscriptions of a connection.
    pub subscriptions: u64,
    /// Silence after which the connection counts as dead.
    pub silence_ms: u64,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventFrame {
    /// The event's place in the log.
    pub seq: u64,
    /// The event.
    pub event: LoggedEvent,
}

/// The text of an [`EventFrame`] as the server sends it, from JSON that there is already.
#[must_use]
pub fn event_frame(seq: u64, event: &RawValue) -> String {
    format!(r#"{{"type":"event","seq":{seq},"event":{event}}}"#)
}

/// The client reads too slowly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lagged {
    /// The last event it was sent; what follows comes from the log.
    pub resume_after: u64,
}

/// A delivery for a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliverFrame {
    /// The session.
    pub session_id: SessionId,
    /// The message.
    pub message: RelayMessage,
    /// Why it exists and how to treat it.
    pub context: MessageContext,
}

/// A call of an action for this process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InvokeFrame {
    /// The call; the same one may come again after a lost connection.
    pub invocation_id: InvocationId,
    /// The action's name.
    pub action: String,
    /// Who calls.
    pub agent: ActionCaller,
    /// What it is called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

literals! {
    /// What the server can ask of a session.
    pub enum ControlOp {
        /// End.
        Release = "release",
        /// Hold.
        Pause = "pause",
        /// Go on.
        Resume = "resume",
        /// Make a second session.
        Fork = "fork",
        /// Write the session down.
        Snapshot = "snapshot",
        /// Surface what is held.
        Flush = "flush",
        /// Give a delivery back.
        Cancel = "cancel",
    }
}

/// An operation on a session; answered by `controlResult`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ControlFrame {
    /// The operation's own id.
    pub control_id: ControlId,
    /// The session.
    pub session_id: SessionId,
    /// What to do.
    pub op: ControlOp,
    /// The delivery that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
    /// Only what is held in this mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
    /// The new agent of a fork.
    #[serde(rename = "as")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_agent: Option<String>,
    /// The session that a fork makes, and how it attaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkGrant>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a fork needs to attach by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkGrant {
    /// The session.
    pub session_id: SessionId,
    /// The token for `resume` of its `attach`.
    pub resume_token: String,
}

/// Session events up to a number are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ack {
    /// The session.
    pub session_id: SessionId,
    /// The highest number that is stored.
    pub n: u64,
}

/// It was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct OkFrame {
    /// True: it had been done before, and nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// What the client should know all the same, such as that no session can satisfy a filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<Problem>>,
}

/// It was not done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorFrame {
    /// Why.
    pub problem: Box<Problem>,
}
