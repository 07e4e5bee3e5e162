//! What a session reports about itself: the spec's event types and their payloads.
//!
//! To add one: a struct, a line in [`AgentSessionEvent`], a line in [`AgentSessionEventType`], and an
//! example in `tests/it/examples/sessions.rs`; the tests there fail until all of it is in place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Metadata;
use crate::ids::{DeliveryId, InvocationId, MessageId, SessionId};
use crate::status::AgentStatus;
use crate::time::Timestamp;
use crate::wire::{literals, tagged_union};

literals! {
    /// The names of everything a session can report.
    pub enum AgentSessionEventType {
        /// Any change of status.
        StatusChanged = "status.changed",
        /// The status became idle.
        StatusIdle = "status.idle",
        /// The status became active.
        StatusActive = "status.active",
        /// The status became blocked.
        StatusBlocked = "status.blocked",
        /// The status became waiting.
        StatusWaiting = "status.waiting",
        /// The status became offline.
        StatusOffline = "status.offline",
        /// A tool is about to run.
        ToolCalled = "tool.called",
        /// A tool has ended well.
        ToolCompleted = "tool.completed",
        /// A tool has failed.
        ToolFailed = "tool.failed",
        /// A tool printed something.
        ToolOutput = "tool.output",
        /// A message was seen.
        MessageReceived = "message.received",
        /// A message was sent.
        MessageSent = "message.sent",
        /// A delivery was taken over.
        DeliveryAccepted = "delivery.accepted",
        /// A delivery was surfaced.
        DeliveryDelivered = "delivery.delivered",
        /// A delivery was put off.
        DeliveryDeferred = "delivery.deferred",
        /// A delivery was not possible.
        DeliveryFailed = "delivery.failed",
        /// An action was called.
        ActionInvoked = "action.invoked",
        /// An action ended well.
        ActionCompleted = "action.completed",
        /// An action failed.
        ActionFailed = "action.failed",
        /// An action was refused.
        ActionDenied = "action.denied",
        /// A piece of the conversation.
        TranscriptChunk = "transcript.chunk",
        /// A file was created, changed or deleted.
        FileChanged = "file.changed",
        /// A command was started.
        CommandStarted = "command.started",
        /// A command has ended.
        CommandCompleted = "command.completed",
        /// A command could not run or failed.
        CommandFailed = "command.failed",
        /// A terminal printed something.
        TerminalOutput = "terminal.output",
        /// What a terminal shows.
        TerminalScreen = "terminal.screen",
        /// Tokens and cost so far.
        UsageUpdated = "usage.updated",
        /// The session began.
        SessionStarted = "session.started",
        /// The session was released.
        SessionReleased = "session.released",
        /// The session goes on.
        SessionResumed = "session.resumed",
        /// The session was forked from another.
        SessionForked = "session.forked",
        /// A line for the log.
        Log = "log",
        /// Something went wrong.
        Error = "error",
    }
}

tagged_union! {
    /// One report of a session. `status.idle` and its kin have no form of their own: as input they are
    /// read as `status.changed` (see [`crate::session_input`]).
    pub enum AgentSessionEvent by "type" {
        /// The status changed.
        "status.changed" => StatusChanged(StatusChanged),
        /// A tool is about to run.
        "tool.called" => ToolCalled(ToolCalled),
        /// A tool has ended well.
        "tool.completed" => ToolCompleted(ToolCompleted),
        /// A tool has failed.
        "tool.failed" => ToolFailed(ToolFailed),
        /// A tool printed something.
        "tool.output" => ToolOutput(ToolOutput),
        /// A message was seen.
        "message.received" => MessageReceived(MessageReceivedReport),
        /// A message was sent.
        "message.sent" => MessageSent(MessageSentReport),
        /// A delivery was taken over.
        "delivery.accepted" => DeliveryAccepted(DeliveryReport),
        /// A delivery was surfaced.
        "delivery.delivered" => DeliveryDelivered(DeliveryReport),
        /// A delivery was put off.
        "delivery.deferred" => DeliveryDeferred(DeliveryDeferredReport),
        /// A delivery was not possible.
        "delivery.failed" => DeliveryFailed(DeliveryFailedReport),
        /// An action was called.
        "action.invoked" => ActionInvoked(ActionInvokedReport),
        /// An action ended well.
        "action.completed" => ActionCompleted(ActionCompletedReport),
        /// An action failed.
        "action.failed" => ActionFailed(ActionFailedReport),
        /// An action was refused.
        "action.denied" => ActionDenied(ActionDeniedReport),
        /// A piece of the conversation.
        "transcript.chunk" => TranscriptChunk(TranscriptChunkReport),
        /// A file was created, changed or deleted.
        "file.changed" => FileChanged(FileChanged),
        /// A command was started.
        "command.started" => CommandStarted(CommandStarted),
        /// A command has ended.
        "command.completed" => CommandCompleted(CommandCompleted),
        /// A command could not run or failed.
        "command.failed" => CommandFailed(CommandFailed),
        /// A terminal printed something.
        "terminal.output" => TerminalOutput(TerminalOutput),
        /// What a terminal shows.
        "terminal.screen" => TerminalScreen(TerminalScreen),
        /// Tokens and cost so far.
        "usage.updated" => UsageUpdated(UsageUpdated),
        /// The session began.
        "session.started" => SessionStarted(SessionStarted),
        /// The session was released.
        "session.released" => SessionReleased(SessionReleased),
        /// The session goes on.
        "session.resumed" => SessionResumed(SessionResumed),
        /// The session was forked from another.
        "session.forked" => SessionForked(SessionForked),
        /// A line for the log.
        "log" => Log(LogLine),
        /// Something went wrong.
        "error" => Error(ErrorReport),
    }
}

/// The status changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusChanged {
    /// What it is now.
    pub status: AgentStatus,
    /// What it was before; the server fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_status: Option<AgentStatus>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A tool is about to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCalled {
    /// One call's own id, the same in all its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// What it was called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// A tool has ended well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolCompleted {
    /// One call's own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// What it answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A tool has failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolFailed {
    /// One call's own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// What went wrong.
    pub error: String,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// A tool printed something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolOutput {
    /// One call's own id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The tool's name.
    pub tool: String,
    /// What it printed.
    pub output: String,
}

/// A message was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageReceivedReport {
    /// The message.
    pub message_id: MessageId,
    /// The delivery that brought it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
}

/// A message was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MessageSentReport {
    /// The message.
    pub message_id: MessageId,
}

/// A delivery was taken over or surfaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryReport {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    pub message_id: MessageId,
}

/// A delivery was put off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryDeferredReport {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    pub message_id: MessageId,
    /// When to try again.
    pub available_at: Timestamp,
    /// Why not now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A delivery was not possible.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliveryFailedReport {
    /// The delivery.
    pub delivery_id: DeliveryId,
    /// The message it carries.
    pub message_id: MessageId,
    /// Why.
    pub reason: String,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// An action was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionInvokedReport {
    /// The action's name.
    pub action: String,
    /// The call.
    pub invocation_id: InvocationId,
}

/// An action ended well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionCompletedReport {
    /// The action's name.
    pub action: String,
    /// The call.
    pub invocation_id: InvocationId,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// An action failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionFailedReport {
    /// The action's name.
    pub action: String,
    /// The call.
    pub invocation_id: InvocationId,
    /// What went wrong.
    pub error: String,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// An action was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionDeniedReport {
    /// The action's name.
    pub action: String,
    /// The call.
    pub invocation_id: InvocationId,
    /// Why.
    pub reason: String,
}

/// Carries a piece of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TranscriptChunkReport {
    /// The piece.
    pub chunk: TranscriptChunk,
}

/// A piece of the conversation between a model and its surroundings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TranscriptChunk {
    /// The provider's id of the piece.
    pub id: String,
    /// When it was said.
    pub at: Timestamp,
    /// Who said it.
    pub role: TranscriptRole,
    /// What was said.
    pub content: String,
    /// Its place in the conversation.
    pub sequence: u64,
    /// What the harness adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

literals! {
    /// Who speaks in a transcript.
    pub enum TranscriptRole {
        /// The model.
        Agent = "agent",
        /// The person or program that prompts it.
        User = "user",
        /// Instructions.
        System = "system",
        /// A tool's answer.
        Tool = "tool",
    }
}

/// A file was created, changed or deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileChanged {
    /// The file.
    pub path: String,
    /// What happened to it.
    pub operation: FileOperation,
    /// The change as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

literals! {
    /// What happened to a file.
    pub enum FileOperation {
        /// It is new.
        Create = "create",
        /// Its content changed.
        Update = "update",
        /// It is gone.
        Delete = "delete",
    }
}

/// A command was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandStarted {
    /// The command line.
    pub command: String,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A command has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandCompleted {
    /// The command line.
    pub command: String,
    /// Its exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// A command could not run or failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CommandFailed {
    /// The command line.
    pub command: String,
    /// What went wrong.
    pub error: String,
    /// Its exit code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
}

/// A terminal printed something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalOutput {
    /// Which stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<TerminalStream>,
    /// What was printed.
    pub text: String,
}

literals! {
    /// A stream of a terminal program.
    pub enum TerminalStream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
        /// Both, as a terminal shows them.
        Combined = "combined",
    }
}

/// What a terminal shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TerminalScreen {
    /// The screen's text.
    pub text: String,
    /// Its height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// Its width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u32>,
}

/// Tokens and cost so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UsageUpdated {
    /// Tokens used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the provider adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// The session began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionStarted {
    /// The session.
    pub session_id: SessionId,
}

/// The session was released.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionReleased {
    /// The session.
    pub session_id: SessionId,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The session goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionResumed {
    /// The session.
    pub session_id: SessionId,
}

/// The session was forked from another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionForked {
    /// The session.
    pub session_id: SessionId,
    /// The session it came from.
    pub parent_session_id: SessionId,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// The line.
    pub message: String,
}

literals! {
    /// How much a log line matters.
    pub enum LogLevel {
        /// For finding faults.
        Debug = "debug",
        /// Good to know.
        Info = "info",
        /// May need attention.
        Warn = "warn",
        /// Needs attention.
        Error = "error",
    }
}

/// Something went wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorReport {
    /// What went wrong.
    pub error: String,
    /// A stable name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}
