//! Permission requests: a tool call that waits for a decision, and the answer to it.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

mod binding;
mod execution;
mod grant;
mod run;

pub use self::binding::args_hash;
pub use self::execution::{ExecutionState, FinishPermission, PermissionExecution, StartPermission};
pub use self::grant::{Grant, GrantEffect, GrantScope, RuleSuggestion};
pub use self::run::{CreateRun, PermissionRun};
use crate::agent::Metadata;
use crate::ids::{AgentId, GrantId, MessageId, PermissionId, RunId, SessionId};
use crate::time::Timestamp;
use crate::wire::{literals, tagged_union, variant};

/// The parameters of a tool call.
pub type ToolParams = Metadata;

tagged_union! {
    /// What a chat stream sends when something needs a decision.
    pub enum RelayRequest by "kind" {
        /// A tool call needs permission.
        "permission" => Permission(RelayPermission),
    }
}

/// The body of a `relay` event of a chat stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RelayPermission {
    /// Always `relay`.
    #[serde(rename = "type")]
    pub event_type: RelayEventTag,
    /// The run that asks.
    pub run_id: String,
    /// The relay id, to be used in the answer's path.
    pub id: PermissionId,
    /// The agent that asks.
    pub agent_id: String,
    /// The provider's id of the call.
    pub tool_call_id: String,
    /// The tool's name.
    pub tool: String,
    /// What it would be called with.
    pub params: ToolParams,
    /// A line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it is taken as unanswered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Binds the answer to exactly these parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// The answers that can be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<PermissionOption>>,
    /// The rules that `always` would grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<RuleSuggestion>>,
}

literals! {
    /// The type of a `relay` event.
    pub enum RelayEventTag {
        /// The only one.
        Relay = "relay",
    }
}

/// One answer that can be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionOption {
    /// How the answer names it.
    pub option_id: String,
    /// What it does.
    pub kind: PermissionOptionKind,
    /// A line for people.
    pub name: String,
}

literals! {
    /// What an answer does.
    pub enum PermissionOptionKind {
        /// Allows this call.
        AllowOnce = "allow_once",
        /// Allows this call and those that the shown rule covers.
        AllowAlways = "allow_always",
        /// Refuses this call.
        RejectOnce = "reject_once",
        /// Refuses this call and those that the shown rule covers.
        RejectAlways = "reject_always",
    }
}

/// The decision about a permission request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionResponse {
    /// Whether the tool may run.
    pub approved: bool,
    /// Grants the rule that was shown, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always: Option<bool>,
    /// Why, for the agent to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One of the request's options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Parameters to run with instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_params: Option<ToolParams>,
    /// Ends the turn after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
    /// What to do instead, after a refusal; it comes as a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// The hash that the request showed; refused when it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
}

impl PermissionResponse {
    /// Allows the call, this time.
    #[must_use]
    pub fn approve() -> Self {
        Self {
            approved: true,
            ..Self::default()
        }
    }

    /// Allows the call and those that the shown rule covers.
    #[must_use]
    pub fn approve_always() -> Self {
        Self {
            always: Some(true),
            ..Self::approve()
        }
    }

    /// Refuses the call; the agent reads the reason, if there is one.
    #[must_use]
    pub fn deny(reason: Option<&str>) -> Self {
        Self {
            reason: reason.map(str::to_owned),
            ..Self::default()
        }
    }
}

/// The body of `POST /chat/relay/{relayId}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveRelay {
    /// The chat's session id.
    pub session_id: SessionId,
    /// The decision.
    pub response: PermissionResponse,
    /// Makes a repeated answer harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

literals! {
    /// Where a permission request stands.
    pub enum PermissionState {
        /// Waiting for a decision.
        Pending = "pending",
        /// Allowed.
        Approved = "approved",
        /// Refused.
        Denied = "denied",
        /// Nobody answered in time.
        Expired = "expired",
        /// No longer needed.
        Cancelled = "cancelled",
    }
}

/// A stored permission request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionRecord {
    /// The request.
    pub permission_id: PermissionId,
    /// Where it stands.
    pub state: PermissionState,
    /// The agent that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The session that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The tool's name.
    pub tool: String,
    /// What it would be called with, secrets removed.
    pub params: ToolParams,
    /// Whether secrets were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked: Option<bool>,
    /// The directory that relative paths are meant from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The run that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The turn in which it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// The provider's id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
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
    /// The message that tells those who may decide; its deliveries say who has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<PermissionOutcome>,
    /// What became of the call, once it was allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<PermissionExecution>,
}

/// How a permission request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionOutcome {
    /// The state it ended in.
    pub decision: PermissionState,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<PermissionDecider>,
    /// Through which door.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The grant that came of it or that decided it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<GrantId>,
    /// The rule that decided, or that was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The option that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Parameters to run with instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_params: Option<ToolParams>,
    /// The message with which the agent is told what to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance_message_id: Option<MessageId>,
    /// Whether the turn ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
}

impl PermissionOutcome {
    /// It ended like this, then; nothing else is said.
    #[must_use]
    pub const fn new(decision: PermissionState, at: Timestamp) -> Self {
        Self {
            decision,
            by: None,
            via: None,
            at,
            reason: None,
            grant_id: None,
            rule: None,
            option_id: None,
            updated_params: None,
            guidance_message_id: None,
            stop: None,
        }
    }
}

/// Who decided about a permission request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PermissionDecider {
    /// A person, the workspace, a policy, or the holder of the chat.
    pub kind: DeciderKind,
    /// The name, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

literals! {
    /// What kind of party decided.
    pub enum DeciderKind {
        /// A person.
        Human = "human",
        /// The workspace key.
        Workspace = "workspace",
        /// A rule or a grant.
        Policy = "policy",
        /// Whoever holds the chat's session id.
        Chat = "chat",
        /// An agent, which decides about nothing: it appears where it tried to.
        Agent = "agent",
    }
}

/// The body of `POST /v1/permissions/{id}/resolve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolvePermission {
    /// Whether the tool may run.
    pub approved: bool,
    /// Grants the rule that was shown, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always: Option<bool>,
    /// One of the request's options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option_id: Option<String>,
    /// Why, for the agent to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Parameters to run with instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_params: Option<ToolParams>,
    /// Ends the turn after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<bool>,
    /// What the agent should do instead; it gets this as a message, after a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guidance: Option<String>,
    /// The hash that the request showed; refused when it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// The rule to grant: one that was shown, or a narrower or wider one that covers the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// How far the grant reaches; absent: as the rule was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<GrantScope>,
    /// How long the grant holds; absent: until it is revoked or its scope ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_expires_in_ms: Option<u64>,
    /// Through which door it comes, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The policy that decided in the caller's place, for the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Makes a repeated answer harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

impl ResolvePermission {
    /// Allows the call, this time.
    #[must_use]
    pub fn approve() -> Self {
        PermissionResponse::approve().into()
    }

    /// Allows the call and those that the shown rule covers.
    #[must_use]
    pub fn approve_always() -> Self {
        PermissionResponse::approve_always().into()
    }

    /// Refuses the call; the agent reads the reason.
    #[must_use]
    pub fn deny(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::default()
        }
    }
}

impl From<PermissionResponse> for ResolvePermission {
    fn from(response: PermissionResponse) -> Self {
        Self {
            approved: response.approved,
            always: response.always,
            option_id: response.option_id,
            reason: response.reason,
            updated_params: response.updated_params,
            stop: response.stop,
            guidance: response.guidance,
            args_hash: response.args_hash,
            ..Self::default()
        }
    }
}

/// The body of `POST /v1/permissions/{id}/cancel`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelPermission {
    /// Why the question is no longer needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `POST /v1/permissions`: an agent asks through its session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskPermission {
    /// The tool's name.
    pub tool: String,
    /// What it would be called with.
    pub params: ToolParams,
    /// The provider's id of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The answers that can be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<Vec<PermissionOption>>,
    /// A line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How long to wait for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// The directory that relative paths are meant from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The run that asks, if it has rules of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The turn in which it is asked; grants for a turn hold in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// Which tool calls need no question, and which must have one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct Permissions {
    /// Calls that may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowlist: Option<Vec<PermissionRule>>,
    /// Calls that a person must see.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Vec<PermissionRule>>,
    /// Calls that may not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Vec<DenyRule>>,
    /// Calls that may run one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_once: Option<Vec<PermissionRule>>,
}

/// A rule: an object, `"tool"`, or `"tool:pattern"`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PermissionRule {
    /// `"tool"` or `"tool:pattern"`.
    Short(String),
    /// The long form.
    Tool(ToolRule),
}

impl<'de> Deserialize<'de> for PermissionRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(rule) => Ok(Self::Short(rule)),
            rule => variant(rule).map(Self::Tool),
        }
    }
}

/// A rule about one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolRule {
    /// The tool's name.
    pub tool: String,
    /// A pattern for each parameter that matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<std::collections::BTreeMap<String, String>>,
}

/// A rule that refuses: as [`PermissionRule`], or one very call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DenyRule {
    /// `"tool"` or `"tool:pattern"`.
    Short(String),
    /// The long form.
    Tool(ToolRule),
    /// One call, by its id.
    Call(CallRule),
}

impl<'de> Deserialize<'de> for DenyRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(rule) => Ok(Self::Short(rule)),
            // Which of the two is meant shows in the field that only one of them has.
            rule if rule.get("toolCallId").is_some() => variant(rule).map(Self::Call),
            rule => variant(rule).map(Self::Tool),
        }
    }
}

/// A rule about one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallRule {
    /// The provider's id of the call.
    pub tool_call_id: String,
    /// Why, for the agent to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of `POST /v1/permissions/evaluate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EvaluatePermission {
    /// The tool's name.
    pub tool: String,
    /// What it would be called with.
    pub params: ToolParams,
    /// The rules to try; absent: those in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// The session whose rules are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The run whose rules are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The directory that relative paths are meant from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

literals! {
    /// What the rules say about a call.
    pub enum RuleDecision {
        /// It may run.
        Allow = "allow",
        /// A person must decide.
        Ask = "ask",
        /// It may not run.
        Deny = "deny",
    }
}

/// The answer of `POST /v1/permissions/evaluate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evaluation {
    /// What the rules say.
    pub decision: RuleDecision,
    /// The rule that said it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why.
    pub reason: String,
    /// The rules that `always` would grant.
    pub suggestions: Vec<RuleSuggestion>,
}
