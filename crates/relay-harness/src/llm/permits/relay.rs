//! Permission by the relay: a stored record for each call, and a run whose rules those of nested runs can only narrow.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::ids::RunId;
use relay_protocol::limits::REASON_BYTES;
use relay_protocol::permission::{
    AskPermission, CreateRun, ExecutionState, PermissionRecord, PermissionState, Permissions,
    ToolParams,
};
use relay_sdk::{AgentClient, Decision, Question};

use super::{PermitError, PermitRequest, Permits, Settled, Strength, ToolAsk, ToolEnd, Verdict};

/// The permission runs of an agent on the relay.
#[derive(Clone)]
pub struct RelayPermits {
    agent: AgentClient,
    run: RunId,
    cwd: Option<String>,
}

impl RelayPermits {
    /// Begins an outermost run. `cwd` is what relative paths of the tools are meant from.
    pub async fn begin(
        agent: AgentClient,
        permissions: Option<Permissions>,
        cwd: Option<String>,
    ) -> Result<Self, PermitError> {
        Self::create(agent, None, permissions, cwd).await
    }

    async fn create(
        agent: AgentClient,
        parent_run_id: Option<RunId>,
        permissions: Option<Permissions>,
        cwd: Option<String>,
    ) -> Result<Self, PermitError> {
        let new = CreateRun {
            parent_run_id,
            permissions,
        };
        let run = agent
            .create_run(&new)
            .await
            .map_err(|error| failed(&error))?;
        Ok(Self {
            agent,
            run: run.run_id,
            cwd,
        })
    }

    /// The run's id.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.run
    }
}

impl Permits for RelayPermits {
    fn run_id(&self) -> String {
        self.run.to_string()
    }

    fn ask(&self, call: ToolAsk) -> BoxFuture<'_, Result<Arc<dyn PermitRequest>, PermitError>> {
        let ask = AskPermission {
            tool: call.tool,
            params: call.params,
            tool_call_id: Some(call.tool_call_id),
            turn_id: Some(call.turn_id),
            run_id: Some(self.run),
            cwd: self.cwd.clone(),
            ..AskPermission::default()
        };
        async move {
            let asked = self.agent.ask_permission(ask).await;
            let question = asked.map_err(|error| failed(&error))?;
            Ok(Arc::new(Asked(question)) as Arc<dyn PermitRequest>)
        }
        .boxed()
    }

    fn nested(
        &self,
        narrower: Option<Permissions>,
    ) -> BoxFuture<'_, Result<Arc<dyn Permits>, PermitError>> {
        async move {
            let (agent, cwd) = (self.agent.clone(), self.cwd.clone());
            let run = Self::create(agent, Some(self.run), narrower, cwd).await?;
            Ok(Arc::new(run) as Arc<dyn Permits>)
        }
        .boxed()
    }

    fn end(&self, reason: &'static str) -> BoxFuture<'_, ()> {
        async move {
            let permissions = self.agent.permissions();
            if let Err(error) = permissions.end_run(self.run, Some(reason)).await {
                tracing::warn!(run.id = %self.run, %error, "the relay does not know that a run has ended");
            }
        }
        .boxed()
    }
}

struct Asked(Question);

impl PermitRequest for Asked {
    fn pending(&self) -> Option<PermissionRecord> {
        let record = self.0.record();
        (record.state == PermissionState::Pending).then_some(record)
    }

    fn decided(&self) -> BoxFuture<'_, Result<Settled, PermitError>> {
        async move {
            let decision = self.0.wait().await.map_err(|error| failed(&error))?;
            Ok(Settled {
                verdict: verdict(decision),
                outcome: self.0.record().outcome,
            })
        }
        .boxed()
    }

    fn start(&self, params: ToolParams) -> BoxFuture<'_, Result<(), PermitError>> {
        async move {
            let started = self.0.start(&params).await;
            started.map(drop).map_err(|error| failed(&error))
        }
        .boxed()
    }

    fn finish(&self, ended: ToolEnd) -> BoxFuture<'_, ()> {
        async move {
            let (state, error) = match &ended {
                ToolEnd::Completed => (ExecutionState::Completed, None),
                ToolEnd::Failed(why) => {
                    let why = &why[..why.floor_char_boundary(REASON_BYTES)];
                    (ExecutionState::Failed, Some(why))
                }
                ToolEnd::Unknown => (ExecutionState::Unknown, None),
            };
            if let Err(error) = self.0.finish(state, error).await {
                tracing::warn!(permission.id = %self.0.id(), %error, "the relay does not know how a tool ended");
            }
        }
        .boxed()
    }

    fn cancel(&self, reason: &'static str) -> BoxFuture<'_, ()> {
        async move {
            if let Err(error) = self.0.cancel(Some(reason)).await {
                tracing::warn!(permission.id = %self.0.id(), %error, "a question was not withdrawn");
            }
        }
        .boxed()
    }
}

/// Guidance comes as a message of its own, from whoever decided.
fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Approved { params, .. } => Verdict::Allowed(params),
        Decision::Denied { reason, stop, .. } => Verdict::Denied {
            reason,
            strength: match stop {
                true => Strength::Turn,
                false => Strength::Call,
            },
        },
        Decision::Expired => Verdict::Expired,
        Decision::Cancelled { reason } => Verdict::Cancelled { reason },
    }
}

fn failed(error: &relay_sdk::Error) -> PermitError {
    PermitError(error.to_string())
}
