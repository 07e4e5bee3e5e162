//! The one vocabulary of events: in-process listeners, SDKs, sockets, webhooks and the stored log all
//! carry these objects.
//!
//! **To add an event:** a line in [`RelayEvent`] with its payload, an example in
//! `tests/it/examples/events.rs`, and, if it is bulky, its name in [`is_bulky`]. Payloads of two events may be
//! the same struct. The example test fails until every name has an example; `relay-core` needs no
//! change to store or stream it.

mod logged;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{ActionCaller, AvailableTo};
use crate::agent::{AgentIdentity, AgentType, Metadata};
use crate::channel::Channel;
use crate::delivery::{DeliveryMode, MessageReceipt, Surfaced};
use crate::ids::{
    AgentId, DeliveryId, EventId, InvocationId, MessageId, PermissionId, SessionId, TokenId,
    WebhookId,
};
use crate::message::{RelayEventEnvelope, RelayMessage, RelayMessageChannelRef};
use crate::permission::{
    Grant, PermissionDecider, PermissionExecution, PermissionOutcome, PermissionRecord,
};
use crate::problem::Problem;
use crate::session_event::AgentSessionEvent;
use crate::status::AgentStatus;
use crate::time::Timestamp;
use crate::wire::{literals, tagged_union};

pub use logged::LoggedEvent;

tagged_union! {
    /// Anything that can be observed.
    pub enum RelayEvent by "type" {
        /// A message was sent.
        "message.created" => MessageCreated(MessageEvent),
        /// A message was edited.
        "message.updated" => MessageUpdated(MessageEvent),
        /// A message answers another in a thread.
        "thread.reply" => ThreadReply(MessageEvent),
        /// A message between two participants.
        "dm.received" => DmReceived(MessageEvent),
        /// A message between more than two participants.
        "group_dm.received" => GroupDmReceived(MessageEvent),
        /// An agent has read a message, and all before it in the same place.
        "message.read" => MessageRead(MessageRead),
        /// A reaction was added or removed.
        "message.reacted" => MessageReacted(MessageReacted),

        /// An action was called.
        "action.invoked" => ActionInvoked(ActionEvent),
        /// An action ended well.
        "action.completed" => ActionCompleted(ActionEvent),
        /// An action failed.
        "action.failed" => ActionFailed(ActionEvent),
        /// An action was refused.
        "action.denied" => ActionDenied(ActionEvent),
        /// An action can be called, or is another than before.
        "action.registered" => ActionRegistered(ActionOffered),
        /// An action can't be called any more.
        "action.removed" => ActionRemoved(ActionOffered),

        /// A session's status changed.
        "agent.status.changed" => AgentStatusChanged(AgentStatusEvent),
        /// A session became idle.
        "agent.status.idle" => AgentStatusIdle(AgentStatusEvent),
        /// A session became active.
        "agent.status.active" => AgentStatusActive(AgentStatusEvent),
        /// A session became blocked.
        "agent.status.blocked" => AgentStatusBlocked(AgentStatusEvent),
        /// A session became waiting.
        "agent.status.waiting" => AgentStatusWaiting(AgentStatusEvent),
        /// A session became offline.
        "agent.status.offline" => AgentStatusOffline(AgentStatusEvent),

        /// A delivery was created with its message.
        "delivery.created" => DeliveryCreated(DeliveryCreated),
        /// A session has taken a delivery over.
        "delivery.accepted" => DeliveryAccepted(DeliveryAccepted),
        /// A session has seen a delivery.
        "delivery.delivered" => DeliveryDelivered(DeliveryDelivered),
        /// A delivery was put off.
        "delivery.deferred" => DeliveryDeferred(DeliveryDeferred),
        /// An attempt failed, or the delivery as a whole.
        "delivery.failed" => DeliveryFailed(DeliveryFailed),
        /// A delivery was called back.
        "delivery.cancelled" => DeliveryCancelled(DeliveryCancelled),
        /// A receipt came after the end.
        "delivery.late_receipt" => DeliveryLateReceipt(DeliveryLateReceipt),

        /// A channel was created.
        "channel.created" => ChannelCreated(ChannelEvent),
        /// A channel's topic changed or it was archived.
        "channel.updated" => ChannelUpdated(ChannelEvent),
        /// An agent joined a channel.
        "channel.member_joined" => ChannelMemberJoined(ChannelMemberEvent),
        /// An agent left a channel.
        "channel.member_left" => ChannelMemberLeft(ChannelMemberEvent),

        /// An agent was registered or adopted.
        "agent.registered" => AgentRegistered(AgentEvent),
        /// An agent was released.
        "agent.released" => AgentReleased(AgentEvent),

        /// A tool call needs a decision.
        "permission.requested" => PermissionRequested(PermissionRequested),
        /// A decision was made.
        "permission.resolved" => PermissionResolved(PermissionEnded),
        /// Nobody answered in time.
        "permission.expired" => PermissionExpired(PermissionEnded),
        /// The question is no longer needed.
        "permission.cancelled" => PermissionCancelled(PermissionEnded),
        /// Somebody who may decide has it before their eyes.
        "permission.seen" => PermissionSeen(PermissionTouched),
        /// Somebody answered who may not.
        "permission.refused" => PermissionRefused(PermissionTouched),
        /// What was allowed is about to run.
        "permission.started" => PermissionStarted(PermissionExecuted),
        /// What was allowed has run, or won't.
        "permission.finished" => PermissionFinished(PermissionExecuted),
        /// A standing decision was made.
        "grant.created" => GrantCreated(GrantEvent),
        /// A standing decision was taken back.
        "grant.revoked" => GrantRevoked(GrantEvent),

        /// A webhook attempt failed.
        "webhook.failed" => WebhookFailed(WebhookEvent),
        /// A webhook was switched off after too many failures.
        "webhook.disabled" => WebhookDisabled(WebhookEvent),

        /// A credential was made.
        "token.created" => TokenCreated(TokenEvent),
        /// A credential was replaced.
        "token.rotated" => TokenRotated(TokenEvent),
        /// A credential was withdrawn.
        "token.revoked" => TokenRevoked(TokenEvent),

        /// The workspace's name or policy changed.
        "workspace.updated" => WorkspaceUpdated(WorkspaceUpdated),
        /// Payloads were removed from the log.
        "audit.erased" => AuditErased(AuditErased),

        /// A session began.
        "session.started" => SessionStarted(SessionLifecycle),
        /// A session was released.
        "session.released" => SessionReleased(SessionLifecycle),
        /// A session goes on.
        "session.resumed" => SessionResumed(SessionLifecycle),
        /// A session was forked.
        "session.forked" => SessionForked(SessionLifecycle),

        /// A session was given a message.
        "message.received" => MessageReceived(SessionReport),
        /// A session sent a message.
        "message.sent" => MessageSent(SessionReport),
        /// A tool is about to run.
        "tool.called" => ToolCalled(SessionReport),
        /// A tool has ended well.
        "tool.completed" => ToolCompleted(SessionReport),
        /// A tool has failed.
        "tool.failed" => ToolFailed(SessionReport),
        /// A tool printed something.
        "tool.output" => ToolOutput(SessionReport),
        /// A piece of the conversation.
        "transcript.chunk" => TranscriptChunk(SessionReport),
        /// A file was created, changed or deleted.
        "file.changed" => FileChanged(SessionReport),
        /// A command was started.
        "command.started" => CommandStarted(SessionReport),
        /// A command has ended.
        "command.completed" => CommandCompleted(SessionReport),
        /// A command could not run or failed.
        "command.failed" => CommandFailed(SessionReport),
        /// A terminal printed something.
        "terminal.output" => TerminalOutput(SessionReport),
        /// What a terminal shows.
        "terminal.screen" => TerminalScreen(SessionReport),
        /// Tokens and cost so far.
        "usage.updated" => UsageUpdated(SessionReport),
        /// A line for the log.
        "log" => Log(SessionReport),
        /// Something went wrong in a session.
        "error" => Error(SessionReport),
    }
}

/// True for the kinds that fill the log and are the first to lose their payload to retention.
#[must_use]
pub fn is_bulky(event_type: &str) -> bool {
    event_type.starts_with("terminal.") || matches!(event_type, "transcript.chunk" | "tool.output")
}

/// A message event: the message and its flat envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageEvent {
    /// The whole message.
    pub message: Arc<RelayMessage>,
    /// Its routing.
    pub envelope: RelayEventEnvelope,
}

impl MessageEvent {
    /// Puts the envelope beside a message.
    #[must_use]
    pub fn of(message: Arc<RelayMessage>) -> Self {
        let envelope = message.envelope();
        Self { message, envelope }
    }
}

/// An agent has read a message, and all before it in the same place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageRead {
    /// The last message it has read.
    pub message_id: MessageId,
    /// Who.
    pub agent_name: String,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
}

/// A reaction was added or removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageReacted {
    /// The message.
    pub message_id: MessageId,
    /// The reaction, such as `:rocket:`.
    pub emoji: String,
    /// Who.
    pub agent_name: String,
    /// What was done.
    pub action: ReactionChange,
}

literals! {
    /// What happened to a reaction.
    pub enum ReactionChange {
        /// It is new.
        Added = "added",
        /// It is gone.
        Removed = "removed",
    }
}

/// A step in the life of an action's call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionEvent {
    /// The action's name.
    pub action: String,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<InvocationId>,
    /// Who called.
    pub agent: ActionCaller,
    /// What it was called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// What the handler answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// When.
    pub at: Timestamp,
}

/// An action came, changed or went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionOffered {
    /// The action's name.
    pub action: String,
    /// Whose it is; absent: the workspace's, and no MCP tool comes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<ActionCaller>,
    /// Who may call it, or could; absent: everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_to: Option<Vec<AvailableTo>>,
    /// When.
    pub at: Timestamp,
}

/// A session's status, seen from outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentStatusEvent {
    /// The agent.
    pub agent_id: AgentId,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// What it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentStatus>,
    /// What it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_status: Option<AgentStatus>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A delivery was created with its message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryCreated {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The message itself.
    pub message: Arc<RelayMessage>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The mode that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<DeliveryMode>,
}

/// A session has taken a delivery over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryAccepted {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The session's form of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<AgentSessionEvent>,
    /// The door and the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A session has seen a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDelivered {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The session's form of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<AgentSessionEvent>,
    /// True: nothing follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    /// The door and the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A delivery was put off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDeferred {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that put it off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// When it is tried again.
    pub available_at: Timestamp,
    /// Why not now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The session's form of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<AgentSessionEvent>,
}

/// An attempt failed (`retryable: true`), or the delivery as a whole (`terminal: true`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryFailed {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The message itself, as it was when the attempt failed.
    pub message: Arc<RelayMessage>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Why; it names the layer.
    pub reason: String,
    /// Whether it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Which attempt it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// When the next one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// True: nothing follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    /// Whether the message may have been seen all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surfaced: Option<Surfaced>,
    /// The structured problem behind the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<Problem>>,
    /// The session's form of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<AgentSessionEvent>,
}

/// A delivery was called back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryCancelled {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// True: nothing follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    /// Whether the message may have been seen all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surfaced: Option<Surfaced>,
}

/// A receipt changed nothing: it came after the end, or says that the message was shown for an older offer
/// than the newest one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryLateReceipt {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// For whom.
    pub agent: AgentIdentity,
    /// The same agent's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// What it said.
    pub receipt: MessageReceipt,
}

/// Something about a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelEvent {
    /// The channel as it is now.
    pub channel: Channel,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Something about a member of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChannelMemberEvent {
    /// The channel.
    pub channel: RelayMessageChannelRef,
    /// The member.
    pub agent_id: AgentId,
    /// Its name.
    pub agent_name: String,
    /// Who did it, when it was somebody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Something about an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentEvent {
    /// The agent.
    pub agent: AgentIdentity,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who did it: an agent's name, or `relay` for the workspace key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A tool call needs a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionRequested {
    /// The request.
    pub permission: Box<PermissionRecord>,
}

/// A permission request has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionEnded {
    /// The request.
    pub permission_id: PermissionId,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// How it ended.
    pub outcome: PermissionOutcome,
}

/// Somebody has looked at a permission request, or tried to decide about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionTouched {
    /// The request.
    pub permission_id: PermissionId,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Who.
    pub by: PermissionDecider,
    /// Why they may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What became of a call that was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionExecuted {
    /// The request.
    pub permission_id: PermissionId,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// The session that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The hash of what runs.
    pub args_hash: String,
    /// How far it has got.
    pub execution: PermissionExecution,
}

/// A standing decision was made or taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantEvent {
    /// The decision.
    pub grant: Box<Grant>,
    /// The agent it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
}

/// Something about a webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookEvent {
    /// The webhook.
    pub webhook_id: WebhookId,
    /// The event it was to carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// Which attempt it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What went wrong.
    pub reason: String,
    /// When the next attempt is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
}

/// Something about a credential, which is never shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenEvent {
    /// The credential.
    pub token_id: TokenId,
    /// What it allows.
    pub kind: TokenKind,
    /// The agent it acts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// When the old one stops working.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_until: Option<Timestamp>,
    /// Who did it: an agent's name, or `relay` for the workspace key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

literals! {
    /// What a credential allows.
    pub enum TokenKind {
        /// Everything on the server.
        Admin = "admin",
        /// Everything in a workspace.
        Workspace = "workspace",
        /// Acting as one agent.
        Agent = "agent",
        /// Reading.
        Observer = "observer",
        /// Posting into one channel from outside.
        Webhook = "webhook",
    }
}

/// The workspace's name or policy changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkspaceUpdated {
    /// The name.
    pub name: String,
    /// The policy's version.
    pub policy_version: u64,
}

/// Payloads were removed from the log; their places and hashes stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditErased {
    /// How many entries lost their payload.
    pub entries: u64,
    /// The first event of them.
    pub from_seq: u64,
    /// The last event of them.
    pub to_seq: u64,
    /// Exactly which events, where there are others between the first and the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<SeqRange>,
    /// Why.
    pub reason: String,
}

/// Events of a log that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeqRange {
    /// The first.
    pub from_seq: u64,
    /// The last.
    pub to_seq: u64,
}

/// Something in the life of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionLifecycle {
    /// The session.
    pub session_id: SessionId,
    /// The session it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent.
    pub agent_id: AgentId,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// What kind of participant it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// The session's form of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<AgentSessionEvent>,
}

/// What a session reported, as listeners get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionReport {
    /// The agent.
    pub agent_id: AgentId,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The report as the session gave it.
    pub event: AgentSessionEvent,
}
