//! Actions: named operations that agents can invoke, and the bodies of their routes and frames.
//!
//! Order: `register` → any number of `invoke` → each ends in one of completed, failed, denied.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use serde_json::Value;

use self::schema::check_schema;
use crate::agent::AgentType;
use crate::ids::{AgentId, InvocationId};
use crate::limits::{
    ACTION_DESCRIPTION_BYTES, ACTION_NAME_CHARS, ACTION_SELECTORS, ACTION_TIMEOUT_MAX_MS,
};
use crate::problem::{ErrorCode, Problem};
use crate::time::Timestamp;
use crate::wire::literals;

/// The caller carried on action events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionCaller {
    /// The caller's name.
    pub name: String,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<AgentId>,
    /// What kind of participant it is.
    #[serde(rename = "type")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
}

/// The body of `POST /v1/actions`, and of the frame `registerAction`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterAction {
    /// The name.
    pub name: String,
    /// What it does, for agents to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input.
    pub input_schema: Value,
    /// The JSON Schema of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Who may call it; absent: everyone, empty: nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_to: Option<Vec<AvailableTo>>,
    /// True: Relay tells the caller how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify_caller: Option<bool>,
    /// True: a call is not offered again when its handler is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_once: Option<bool>,
    /// How long a call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Agents that may call an action: everything that is given must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct AvailableTo {
    /// The agent with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent with this id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<AgentId>,
    /// Every participant of this kind.
    #[serde(rename = "type")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<AgentType>,
    /// Every member of this channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// An action, as those who may call it see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActionInfo {
    /// The name.
    pub name: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its input.
    pub input_schema: Value,
    /// The JSON Schema of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Who may call it; absent: everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_to: Option<Vec<AvailableTo>>,
    /// Whether Relay tells the caller how it ended.
    pub notify_caller: bool,
    /// Whether a call is offered at most once.
    pub at_most_once: bool,
    /// How long a call may take.
    pub timeout_ms: u64,
    /// The agent that registered it; absent: the workspace did, and no MCP tool comes of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How many processes can run it now.
    pub handlers: u32,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// The body of `POST /v1/actions/{name}/invoke`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct InvokeAction {
    /// What it is called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
}

/// The answer of an invoke: the call was recorded, not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Invoked {
    /// The call.
    pub invocation_id: InvocationId,
}

/// The body of `POST /v1/invocations/{id}/complete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[derive(Default)]
pub struct CompleteInvocation {
    /// What the handler answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// The body of `POST /v1/invocations/{id}/fail`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailInvocation {
    /// What went wrong.
    pub error: String,
    /// Whether trying again may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

literals! {
    /// Where a call stands.
    pub enum InvocationState {
        /// Recorded; a handler has it or will have it.
        Invoked = "invoked",
        /// Ended well.
        Completed = "completed",
        /// Failed.
        Failed = "failed",
        /// Refused.
        Denied = "denied",
    }
}

/// One call of an action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Invocation {
    /// The call.
    pub invocation_id: InvocationId,
    /// The action's name.
    pub action: String,
    /// Who called.
    pub agent: ActionCaller,
    /// Where it stands.
    pub state: InvocationState,
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
    /// How often it was given to a handler.
    pub offers: u32,
    /// When it was called.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Why an action cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct InvalidAction {
    /// The field, as a dotted path.
    pub path: &'static str,
    /// What it may be.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl From<InvalidAction> for Problem {
    fn from(error: InvalidAction) -> Self {
        let code = match error.path {
            "name" => ErrorCode::InvalidName,
            _ => ErrorCode::InvalidRequest,
        };
        Self {
            path: Some(error.path.to_owned()),
            expected: Some(error.expected.clone()),
            found: Some(error.found.clone()),
            ..Self::new(code, error.to_string())
        }
    }
}

impl RegisterAction {
    /// Refuses what the types cannot: a bad name, an unbounded or remote schema, an empty selector.
    pub fn check(&self) -> Result<(), InvalidAction> {
        check_name(&self.name)?;
        check_schema("inputSchema", &self.input_schema)?;
        if let Some(schema) = &self.output_schema {
            check_schema("outputSchema", schema)?;
        }
        let said = self.description.as_deref().unwrap_or_default().len();
        within("description", ACTION_DESCRIPTION_BYTES, "bytes", said)?;
        let selectors = self.available_to.as_deref().unwrap_or_default();
        within(
            "availableTo",
            ACTION_SELECTORS,
            "selectors",
            selectors.len(),
        )?;
        if selectors.iter().any(AvailableTo::is_empty) {
            let expected = "name, id, type or channel in each";
            return Err(refuse("availableTo", expected, "an empty object"));
        }
        match self.timeout_ms {
            Some(found) if found == 0 || found > ACTION_TIMEOUT_MAX_MS => {
                let expected = format!("1 to {ACTION_TIMEOUT_MAX_MS}");
                Err(refuse("timeoutMs", &expected, &found.to_string()))
            }
            _ => Ok(()),
        }
    }
}

fn within(path: &'static str, most: usize, unit: &str, found: usize) -> Result<(), InvalidAction> {
    if found <= most {
        return Ok(());
    }
    let expected = format!("at most {most} {unit}");
    Err(refuse(path, &expected, &found.to_string()))
}

/// Whether an action can have this name.
#[must_use]
pub fn is_action_name(name: &str) -> bool {
    check_name(name).is_ok()
}

fn check_name(name: &str) -> Result<(), InvalidAction> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=ACTION_NAME_CHARS).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    let expected = format!("1 to {ACTION_NAME_CHARS} characters of A-Z a-z 0-9 _ -");
    Err(refuse("name", &expected, &format!("{name:?}")))
}

fn refuse(path: &'static str, expected: &str, found: &str) -> InvalidAction {
    InvalidAction {
        path,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

/// Whether an agent may call an action; `is_member` tells whether it is in a channel.
#[must_use]
pub fn is_available(
    available_to: Option<&[AvailableTo]>,
    caller: &ActionCaller,
    is_member: impl Fn(&str) -> bool,
) -> bool {
    available_to.is_none_or(|selectors| {
        selectors
            .iter()
            .any(|selector| selector.selects(caller, &is_member))
    })
}

impl AvailableTo {
    const fn is_empty(&self) -> bool {
        let Self {
            name,
            id,
            agent_type,
            channel,
        } = self;
        name.is_none() && id.is_none() && agent_type.is_none() && channel.is_none()
    }

    fn selects(&self, caller: &ActionCaller, is_member: impl Fn(&str) -> bool) -> bool {
        let named = |name: &String| {
            let name = name.strip_prefix('@').unwrap_or(name);
            name.eq_ignore_ascii_case(&caller.name)
        };
        let in_channel = |name: &String| is_member(name.strip_prefix('#').unwrap_or(name));
        !self.is_empty()
            && self.name.as_ref().is_none_or(named)
            && self.id.is_none_or(|id| caller.id == Some(id))
            && self
                .agent_type
                .is_none_or(|kind| caller.agent_type == Some(kind))
            && self.channel.as_ref().is_none_or(in_channel)
    }
}

mod schema;
#[cfg(test)]
mod tests;
