//! Bodies about sessions: attaching, reporting, standing at a boundary, and their life.
//!
//! Session events carry `n`, counted from 1 per session. The server acks the highest it has stored,
//! drops repeats, and refuses a gap naming the `n` it expects; socket and HTTP share the counter.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::agent::AgentIdentity;
use crate::capability::AgentSessionCapabilities;
use crate::delivery::{DeliveryMode, MessageContext};
use crate::ids::{DeliveryId, SessionId};
use crate::link::{Link, LinkKind};
use crate::message::RelayMessage;
use crate::negotiation::Negotiated;
use crate::session_input::SessionEventInput;
use crate::socket::ControlFrame;
use crate::status::AgentStatus;
use crate::time::Timestamp;
use crate::wire::{self, literals};

/// The frame `attach`: the socket itself is the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attach {
    /// The agent's name.
    pub agent: String,
    /// What made it, such as `claude-code`.
    pub harness: String,
    /// What it can do.
    pub capabilities: AgentSessionCapabilities,
    /// The states in which `on-idle` is open; absent: idle, waiting, blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe_states: Option<Vec<AgentStatus>>,
    /// What it is doing; absent: `idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
    /// The resume token of the session that goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// True for a session that is one conversation among several of its agent. What is sent to the agent while it is the newest such
    /// session is for it alone, and so is what answers a message of it; both fail when it ends. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeps_messages: Option<bool>,
    /// Which attempt of the client this is; absent: what comes last is the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttachAttempt>,
}

/// One of a client's attempts to attach a session. A connection that broke may still bring what was said over it, after the client
/// has attached over the next one: by its number the server knows that it is the older one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachAttempt {
    /// The client: something that no other client, and no other run of the same program, calls itself.
    pub client: String,
    /// Rises with each of its attempts.
    pub number: u64,
}

impl AttachAttempt {
    /// Whether the same client has tried again since.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.client == other.client && self.number < other.number
    }
}

/// The body of `POST /v1/sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateSession {
    /// The agent's name.
    pub agent: String,
    /// What made it, such as `claude-code`.
    pub harness: String,
    /// What it can do.
    pub capabilities: AgentSessionCapabilities,
    /// The states in which `on-idle` is open; absent: idle, waiting, blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe_states: Option<Vec<AgentStatus>>,
    /// What it is doing; absent: `idle`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
    /// The resume token of the session that goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// True for a session that is one conversation among several of its agent. What is sent to the agent while it is the newest such
    /// session is for it alone, and so is what answers a message of it; both fail when it ends. Absent: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keeps_messages: Option<bool>,
    /// How the server reaches it.
    pub link: Link,
}

impl CreateSession {
    /// Separates the link from what every way of attaching says.
    #[must_use]
    pub fn into_parts(self) -> (Attach, Link) {
        let attach = Attach {
            agent: self.agent,
            harness: self.harness,
            capabilities: self.capabilities,
            safe_states: self.safe_states,
            status: self.status,
            resume: self.resume,
            keeps_messages: self.keeps_messages,
            attempt: None,
        };
        (attach, self.link)
    }
}

/// The answer to attaching.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attached {
    /// The session.
    pub session_id: SessionId,
    /// Lets the session go on after its link was lost.
    pub resume_token: String,
    /// What was agreed.
    pub negotiated: Negotiated,
    /// Deliveries that the session still owns.
    pub keep: Vec<DeliveryId>,
    /// The number of the last event that is stored.
    pub acked: u64,
    /// What signs the calls of a webhook link, when the session brought none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_secret: Option<String>,
}

/// A session, as others see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionSummary {
    /// The session.
    pub session_id: SessionId,
    /// The agent it is a body of.
    pub agent: AgentIdentity,
    /// What made it.
    pub harness: String,
    /// How the server reaches it.
    pub link: LinkKind,
    /// What it is doing.
    pub status: AgentStatus,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the agent's deliveries go to it.
    pub current: bool,
    /// What it can do.
    pub capabilities: AgentSessionCapabilities,
    /// The states in which `on-idle` is open.
    pub safe_states: Vec<AgentStatus>,
    /// The session it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// When it attached.
    pub created_at: Timestamp,
    /// When it was last heard of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// A report with its number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NumberedEvent {
    /// Its number in the session, counted from 1.
    pub n: u64,
    /// What happened.
    pub event: SessionEventInput,
}

/// Several reports in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventBatch {
    /// The reports, their numbers rising by one.
    pub events: Vec<NumberedEvent>,
}

/// The body of `POST /v1/sessions/{id}/events`: one report, or a batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ReportEvents {
    /// `{n, event}`.
    One(Box<NumberedEvent>),
    /// `{events: [{n, event}, …]}`.
    Batch(EventBatch),
}

impl ReportEvents {
    /// The reports in order.
    #[must_use]
    pub fn into_events(self) -> Vec<NumberedEvent> {
        match self {
            Self::One(event) => vec![*event],
            Self::Batch(batch) => batch.events,
        }
    }
}

impl<'de> Deserialize<'de> for ReportEvents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        let batch = members.contains_key("events");
        let body = Value::Object(members);
        if batch {
            wire::variant(body).map(Self::Batch)
        } else {
            wire::variant(body).map(Self::One)
        }
    }
}

impl JsonSchema for ReportEvents {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ReportEvents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One report, or a batch.",
            "anyOf": [
                generator.subschema_for::<NumberedEvent>(),
                generator.subschema_for::<EventBatch>(),
            ],
        })
    }
}

/// The answer to reports: everything up to this number is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Acked {
    /// The highest number that is stored.
    pub acked: u64,
}

literals! {
    /// The boundaries at which a session can stand.
    pub enum BoundaryKind {
        /// It is about to send the next user-level message.
        NextMessage = "next-message",
        /// It is about to run a tool.
        NextToolCall = "next-tool-call",
        /// It is about to end its turn.
        OnIdle = "on-idle",
    }
}

impl BoundaryKind {
    /// The delivery mode that opens here.
    #[must_use]
    pub const fn mode(self) -> DeliveryMode {
        match self {
            Self::NextMessage => DeliveryMode::NextMessage,
            Self::NextToolCall => DeliveryMode::NextToolCall,
            Self::OnIdle => DeliveryMode::OnIdle,
        }
    }
}

/// The body of `POST /v1/sessions/{id}/boundary`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AtBoundary {
    /// Which boundary.
    pub kind: BoundaryKind,
    /// Most deliveries to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Most bytes of text to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u32>,
}

/// What a session is given at a boundary, or when it asks by long poll.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DueDeliveries {
    /// In the order in which they are to be surfaced; each is settled by a receipt.
    pub deliveries: Vec<DueDelivery>,
    /// Whether more is due.
    pub more: bool,
}

/// The answer of `GET /v1/sessions/{id}/deliveries`: what came for a session that asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Polled {
    /// In the order in which they are to be surfaced; each is settled by a receipt.
    pub deliveries: Vec<DueDelivery>,
    /// Operations on the session; each is answered by `POST /v1/sessions/{id}/control`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controls: Option<Vec<ControlFrame>>,
    /// Whether more is there already.
    pub more: bool,
}

/// One delivery, ready to be surfaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DueDelivery {
    /// The message.
    pub message: RelayMessage,
    /// Why it exists and how to treat it.
    pub context: MessageContext,
    /// The message as text for a model.
    pub text: String,
}

/// The body of `POST /v1/sessions/{id}/release`, `…/pause` and `…/resume`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct LifecycleRequest {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `POST /v1/sessions/{id}/fork`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct ForkSession {
    /// The new agent whose session the fork is; absent: it gets only what names its session.
    #[serde(rename = "as")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_agent: Option<String>,
}

/// The answer of a fork.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionForkedAnswer {
    /// The new session.
    pub session_id: SessionId,
    /// The agent it is a body of.
    pub agent: AgentIdentity,
}

/// The answer of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SnapshotTaken {
    /// Names what was written down; opaque.
    pub snapshot_id: String,
}
