//! What happens in a run, in the words of the chat contract: as JSON each is what a chat stream sends.
//!
//! All events of a run and of those below it go through one channel, in causal order: a nested run has ended before the call that
//! began it has a result.

use relay_protocol::delivery::{DeliveryMode, MessageContext};
use relay_protocol::ids::{DeliveryId, GrantId, MessageId};
use relay_protocol::message::{Attachment, MessageAuthor, RelayMessage, RelayMessageChannelRef};
use relay_protocol::permission::{
    PermissionDecider, PermissionOption, PermissionOutcome, PermissionRecord, PermissionState,
    RuleSuggestion, ToolParams,
};
use relay_protocol::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::llm::conversation::Media;
use crate::llm::provider::Usage;

/// Something that happened, and where.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    /// One agent: the outermost one, or one that a call began.
    pub agent_id: String,
    /// Its run.
    pub run_id: String,
    /// The tool call that began it; the outermost run has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Happening {
    /// A run begins.
    #[serde(rename = "harness_start")]
    Started {
        /// How many runs there are from the outermost to this one.
        depth: u32,
        /// What it may ask its model at most, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
    },
    /// The model says something. Pieces with the same id are one text.
    #[serde(rename = "text")]
    Text {
        /// The text it belongs to.
        id: String,
        /// More of it.
        content: String,
    },
    /// The model thinks something.
    #[serde(rename = "reasoning")]
    Reasoning {
        /// The text it belongs to.
        id: String,
        /// More of it.
        content: String,
    },
    /// A message of the relay has come into the conversation.
    #[serde(rename = "message")]
    Message(Box<MessageShown>),
    /// Something of what was said can't be given to whoever answers.
    #[serde(rename = "warning")]
    Warning {
        /// What is wrong.
        message: String,
        /// The parts that are left out.
        dropped: Vec<DroppedPart>,
    },
    /// What one question cost.
    #[serde(rename = "usage")]
    Usage(UsageShown),
    /// Somebody has to decide about a call.
    #[serde(rename = "relay")]
    Asked(Box<AskedShown>),
    /// It was decided.
    #[serde(rename = "relay_resolved")]
    Resolved(Box<ResolvedShown>),
    /// A tool runs.
    #[serde(rename = "tool_call")]
    Called {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// What it runs with.
        input: Value,
    },
    /// A tool shows something while it runs.
    #[serde(rename = "tool_progress")]
    Progress {
        /// This piece.
        id: String,
        /// The call.
        tool_call_id: String,
        /// The tool.
        name: String,
        /// What it shows.
        content: Value,
    },
    /// A call has ended, or never ran.
    #[serde(rename = "tool_result")]
    Result {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// `{context, result}`, `{error}`, or `{status, reason?}` where it did not run.
        output: Value,
    },
    /// What ends the run.
    #[serde(rename = "error")]
    Failed {
        /// What went wrong.
        message: String,
        /// Whether the same may succeed later.
        retryable: bool,
    },
    /// A run has ended.
    #[serde(rename = "harness_end")]
    Ended {
        /// Why.
        reason: EndReason,
        /// How often the model was asked.
        iterations: u32,
        /// What all of its questions cost.
        total_usage: UsageShown,
    },
}

impl Happening {
    /// The event's `type`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "harness_start",
            Self::Text { .. } => "text",
            Self::Reasoning { .. } => "reasoning",
            Self::Message(_) => "message",
            Self::Warning { .. } => "warning",
            Self::Usage(_) => "usage",
            Self::Asked(_) => "relay",
            Self::Resolved(_) => "relay_resolved",
            Self::Called { .. } => "tool_call",
            Self::Progress { .. } => "tool_progress",
            Self::Result { .. } => "tool_result",
            Self::Failed { .. } => "error",
            Self::Ended { .. } => "harness_end",
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The model has said all.
    Final,
    /// The model's answer reached its limit.
    Length,
    /// The model won't.
    Refusal,
    /// The model was asked as often as it may be.
    MaxIterations,
    /// A refusal ended the turn, or a question that nobody answered.
    Stopped,
    /// It was cancelled.
    Cancelled,
    /// Something went wrong.
    Error,
}

/// A part of what was said that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DroppedPart {
    /// `image` or `document`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What it is, such as `image/png`.
    pub media_type: String,
    /// Which of the messages it is in, counted from 0.
    pub message: usize,
    /// Which part of its content it is, counted from 0.
    pub part: usize,
}

impl DroppedPart {
    /// A part of this kind, by its place: message and part.
    #[must_use]
    pub fn new(kind: &'static str, media: &Media, (message, part): (usize, usize)) -> Self {
        Self {
            kind,
            media_type: media.media_type.clone(),
            message,
            part,
        }
    }
}

/// A message that has come into a conversation, as those who look at it see it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageShown {
    /// The message.
    pub id: MessageId,
    /// Its delivery to this conversation.
    pub delivery_id: DeliveryId,
    /// Its authenticated author.
    pub from: MessageAuthor,
    /// The channel, for posts and threads in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<RelayMessageChannelRef>,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<MessageId>,
    /// What it says.
    pub text: String,
    /// What comes with it, without the content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The boundary at which it came.
    pub mode: DeliveryMode,
}

impl MessageShown {
    /// A message as it was delivered.
    #[must_use]
    pub fn new(message: &RelayMessage, context: &MessageContext) -> Self {
        let attachments = message.attachments.iter().map(|attachment| Attachment {
            data: None,
            ..attachment.clone()
        });
        Self {
            id: message.id,
            delivery_id: context.id,
            from: message.from.clone(),
            channel: message.channel.clone(),
            parent: message.parent,
            text: message.text.clone(),
            attachments: attachments.collect(),
            mode: context.mode,
        }
    }
}

/// Tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageShown {
    /// Read, those of the cache included.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Read from a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// Written to a cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_creation_tokens: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<Usage> for UsageShown {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            output_tokens: usage.output,
            cache_read_tokens: usage.cache_read,
            cache_creation_tokens: usage.cache_creation,
        }
    }
}

/// A question that is shown to those who decide.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AskedShown {
    /// What kind of question it is.
    pub kind: &'static str,
    /// The relay id.
    pub id: String,
    /// The call.
    pub tool_call_id: String,
    /// The tool.
    pub tool: String,
    /// What it would run with, secrets removed.
    pub params: ToolParams,
    /// A line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it is taken as unanswered.
    pub expires_at: Timestamp,
    /// Binds the answer to exactly these parameters.
    pub args_hash: String,
    /// The answers that can be given.
    pub options: Vec<PermissionOption>,
    /// The rules that `always` would grant.
    pub suggestions: Vec<RuleSuggestion>,
}

impl AskedShown {
    /// A request about this call, as events name it.
    #[must_use]
    pub fn new(tool_call_id: &str, record: PermissionRecord) -> Self {
        Self {
            kind: "permission",
            id: record.permission_id.to_string(),
            tool_call_id: tool_call_id.to_owned(),
            tool: record.tool,
            params: record.params,
            title: record.title,
            created_at: record.created_at,
            expires_at: record.expires_at,
            args_hash: record.args_hash,
            options: record.options,
            suggestions: record.suggestions,
        }
    }
}

/// What was decided about a question that was shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedShown {
    /// The question.
    pub relay_id: String,
    /// The call.
    pub tool_call_id: String,
    /// The state it ended in.
    pub decision: PermissionState,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<PermissionDecider>,
    /// Through which door.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The grant that came of it or that decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<GrantId>,
}

impl ResolvedShown {
    /// What became of a request about this call, as events name it.
    #[must_use]
    pub fn new(
        relay_id: &str,
        tool_call_id: &str,
        decision: PermissionState,
        outcome: Option<&PermissionOutcome>,
    ) -> Self {
        Self {
            relay_id: relay_id.to_owned(),
            tool_call_id: tool_call_id.to_owned(),
            // What is written down counts: a call can be approved in the moment in which nobody needs it any more.
            decision: outcome.map_or(decision, |outcome| outcome.decision),
            by: outcome.and_then(|outcome| outcome.by.clone()),
            via: outcome.and_then(|outcome| outcome.via.clone()),
            at: outcome.map(|outcome| outcome.at),
            grant_id: outcome.and_then(|outcome| outcome.grant_id),
        }
    }
}
