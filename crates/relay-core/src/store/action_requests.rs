//! What the engine asks of a store about actions, and the rows that come back.

use std::sync::Arc;

use relay_protocol::action::{ActionCaller, Invocation, InvocationState, RegisterAction};
use relay_protocol::ids::{InvocationId, WorkspaceId};
use relay_protocol::time::Timestamp;
use serde_json::Value;

use super::chain::Hash;
use super::position::{Position, id_at};
use super::records::{AgentNo, AgentRow};
use super::requests::{PageRequest, Viewer};

/// The row of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActionNo(pub i64);

/// An action as it is registered.
#[derive(Clone, Debug)]
pub struct ActionRow {
    /// Its row.
    pub no: ActionNo,
    /// How often it was registered; what it says changes with it.
    pub version: u32,
    /// The workspace.
    pub workspace_no: u32,
    /// The agent that registered it; none: the workspace.
    pub owner: Option<Arc<AgentRow>>,
    /// What was registered.
    pub body: RegisterAction,
    /// When it was registered first.
    pub created_at: Timestamp,
}

/// A call of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct InvocationRow {
    /// The place of its first event.
    pub position: Position,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// When it was called.
    pub at: Timestamp,
    /// The action.
    pub action: ActionNo,
    /// The action's name.
    pub name: String,
    /// Who may answer it; none: the workspace alone.
    pub owner: Option<AgentNo>,
    /// Who called; none: the workspace.
    pub caller_no: Option<AgentNo>,
    /// The same, as events tell it.
    pub caller: ActionCaller,
    /// Where it stands.
    pub state: InvocationState,
    /// What it was called with.
    pub input: Option<Value>,
    /// What the handler answered.
    pub output: Option<Value>,
    /// What went wrong, or why it was refused.
    pub error: Option<String>,
    /// Whether trying again may help.
    pub retryable: Option<bool>,
    /// How often it was given to a handler.
    pub offers: u32,
    /// Whether it may be given to a handler once only.
    pub at_most_once: bool,
    /// Whether the caller is told how it ended.
    pub notify_caller: bool,
    /// When it has to have ended.
    pub deadline: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl InvocationRow {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> InvocationId {
        id_at(self.workspace, self.position, self.at)
    }

    /// How long it took.
    #[must_use]
    pub fn duration_ms(&self) -> Option<u64> {
        let took = self.ended_at?.as_millis() - self.at.as_millis();
        Some(u64::try_from(took).unwrap_or(0))
    }

    /// The call, as those see it who may.
    #[must_use]
    pub fn to_invocation(&self) -> Invocation {
        let is_denied = self.state == InvocationState::Denied;
        Invocation {
            invocation_id: self.id(),
            action: self.name.clone(),
            agent: self.caller.clone(),
            state: self.state,
            input: self.input.clone(),
            output: self.output.clone(),
            error: self.error.clone().filter(|_| !is_denied),
            reason: self.error.clone().filter(|_| is_denied),
            retryable: self.retryable,
            offers: self.offers,
            created_at: self.at,
            ended_at: self.ended_at,
            duration_ms: self.duration_ms(),
        }
    }
}

/// An action to register.
pub struct NewAction {
    /// Who registers it.
    pub viewer: Viewer,
    /// What is registered.
    pub body: RegisterAction,
    /// When.
    pub at: Timestamp,
}

/// An action to take back.
pub struct ActionRemoval {
    /// Who takes it back.
    pub viewer: Viewer,
    /// Its name.
    pub name: String,
    /// When.
    pub at: Timestamp,
}

/// Which actions are wanted.
pub struct ActionQuery {
    /// Who asks.
    pub viewer: Viewer,
    /// Only those that agents registered.
    pub of_agents: bool,
    /// Which part of the list.
    pub page: PageRequest,
}

/// A call to write down.
pub struct NewInvocation {
    /// Who calls.
    pub viewer: Viewer,
    /// The action, as the input was checked against it.
    pub action: Arc<ActionRow>,
    /// What it is called with.
    pub input: Option<Value>,
    /// What is wrong with the input.
    pub fault: Option<String>,
    /// Whether a handler stands ready and gets it at once.
    pub offered: bool,
    /// The idempotency key and the hash of the request.
    pub idempotency: Option<(String, Hash)>,
    /// When.
    pub at: Timestamp,
}

/// What became of a call.
pub enum Invoked {
    /// It is written down, in whatever state.
    Stored(Arc<InvocationRow>),
    /// The same request was recorded before, under the same idempotency key.
    Repeated(InvocationId),
    /// The action is not what the input was checked against; look again.
    Changed,
}

/// How a call ends.
#[derive(Clone, Debug, PartialEq)]
pub enum InvocationOutcome {
    /// Well.
    Completed {
        /// What the handler answered.
        output: Option<Value>,
    },
    /// It failed.
    Failed {
        /// What went wrong.
        error: String,
        /// Whether trying again may help.
        retryable: Option<bool>,
    },
}

/// The end of a call to write down.
pub struct InvocationEnd {
    /// Who answers; none: Relay itself.
    pub viewer: Option<Viewer>,
    /// The call.
    pub call: Position,
    /// How it ends.
    pub outcome: InvocationOutcome,
    /// What the caller is told of it, where it is.
    pub told: Option<String>,
    /// When.
    pub at: Timestamp,
}
