//! Asking before a tool runs: what the loop needs of whoever decides.
//!
//! A call is asked about, decided, started and finished, in this order. `relay.rs` does it with the relay's stored records; tests bring
//! their own. Nothing here decides by itself: without an answer nothing runs.

mod relay;

use futures_util::future::BoxFuture;
use relay_protocol::permission::{
    PermissionOutcome, PermissionRecord, PermissionState, Permissions, ToolParams,
};
use std::sync::Arc;

pub use relay::RelayPermits;

/// Whoever decides about the calls of one run.
pub trait Permits: Send + Sync {
    /// The run, as events and records name it.
    fn run_id(&self) -> String;

    /// Asks about a call, and does not wait for the answer. Calls of one turn are asked about in their order.
    fn ask(&self, call: ToolAsk) -> BoxFuture<'_, Result<Arc<dyn PermitRequest>, PermitError>>;

    /// Begins a run below this one. It has the same rules; those that are brought along narrow them.
    fn nested(
        &self,
        narrower: Option<Permissions>,
    ) -> BoxFuture<'_, Result<Arc<dyn Permits>, PermitError>>;

    /// Ends the run: what it still asks is no longer needed.
    fn end(&self, reason: &'static str) -> BoxFuture<'_, ()>;
}

/// A tool call that was asked about.
pub trait PermitRequest: Send + Sync {
    /// What people are to be shown; nothing where rules decided at once.
    fn pending(&self) -> Option<PermissionRecord>;

    /// Waits for the answer.
    fn decided(&self) -> BoxFuture<'_, Result<Settled, PermitError>>;

    /// Has it written down that the tool is about to run with these parameters. Only then may it.
    fn start(&self, params: ToolParams) -> BoxFuture<'_, Result<(), PermitError>>;

    /// Says how the tool ended.
    fn finish(&self, ended: ToolEnd) -> BoxFuture<'_, ()>;

    /// Says that no answer is needed any more. What comes out is how it ended, as far as that is known: somebody may have decided
    /// a moment before.
    fn cancel(&self, reason: &'static str) -> BoxFuture<'_, Option<PermissionOutcome>>;
}

/// A call that wants to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAsk {
    /// The tool.
    pub tool: String,
    /// What it would be called with.
    pub params: ToolParams,
    /// Names the call within its run.
    pub tool_call_id: String,
    /// The turn in which it is asked.
    pub turn_id: String,
}

/// What was decided, and what is known about the decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// What was decided.
    pub verdict: Verdict,
    /// By whom, when and through which door.
    pub outcome: Option<PermissionOutcome>,
}

/// What was decided about a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It may run, with these parameters.
    Allowed(ToolParams),
    /// It may not.
    Denied {
        /// Why, for the model to read.
        reason: Option<String>,
        /// How much that means.
        strength: Strength,
    },
    /// Nobody answered in time.
    Expired,
    /// The question is no longer needed.
    Cancelled {
        /// Why.
        reason: Option<String>,
    },
}

impl Verdict {
    /// The state in which a request is then.
    pub(crate) const fn state(&self) -> PermissionState {
        match self {
            Self::Allowed(_) => PermissionState::Approved,
            Self::Denied { .. } => PermissionState::Denied,
            Self::Expired => PermissionState::Expired,
            Self::Cancelled { .. } => PermissionState::Cancelled,
        }
    }
}

/// How much a refusal means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strength {
    /// This call does not run; the model goes on.
    Call,
    /// The turn ends here.
    Turn,
    /// This call does not run, and the model is told this instead.
    Guidance(String),
}

/// How a tool ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolEnd {
    /// Well.
    Completed,
    /// Not well.
    Failed(String),
    /// Nobody can say.
    Unknown,
}

/// Nobody was asked. Nothing runs then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PermitError {
    /// Nobody can be asked about anything.
    #[error("permission could not be asked: {0}")]
    Unasked(String),
    /// Nobody is asked about this very call, because of what it is. Others may go on.
    #[error("nobody can be asked about this call: {0}")]
    NotThis(String),
}
