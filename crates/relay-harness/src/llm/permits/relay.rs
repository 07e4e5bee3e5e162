//! Permission by the relay: a stored record for each call, and a run whose rules those of nested runs can only narrow.
//!
//! An agent that is a session asks through it, so that people see it wait. Its guidance comes to its mailbox. Who has none would never
//! read it, and who is one of several conversations of an agent might not be the one that gets it: for those it is fetched, and said
//! with the refusal.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::ids::RunId;
use relay_protocol::limits::REASON_BYTES;
use relay_protocol::permission::{
    AskPermission, CreateRun, ExecutionState, PermissionOutcome, PermissionRecord, PermissionState,
    Permissions, ToolParams,
};
use relay_protocol::problem::ErrorCode;
use relay_sdk::{AgentClient, AttachedSession, Decision, Question};

use super::{PermitError, PermitRequest, Permits, Settled, Strength, ToolAsk, ToolEnd, Verdict};
use crate::guidance;

/// The permission runs of an agent on the relay.
#[derive(Clone)]
pub struct RelayPermits {
    asker: Asker,
    run: RunId,
    /// What relative paths of the tools are meant from.
    cwd: Option<String>,
}

/// Who asks.
#[derive(Clone)]
struct Asker {
    agent: AgentClient,
    session: Option<Arc<AttachedSession>>,
    /// Whether what is sent to the agent is read here.
    reads_mail: bool,
}

impl Asker {
    async fn create_run(&self, run: &CreateRun) -> relay_sdk::Result<RunId> {
        let run = match &self.session {
            Some(session) => session.create_run(run).await,
            None => self.agent.create_run(run).await,
        };
        run.map(|run| run.run_id)
    }

    async fn ask(&self, ask: AskPermission) -> relay_sdk::Result<Question> {
        match &self.session {
            Some(session) => session.ask_permission(ask).await,
            None => self.agent.ask_permission(ask).await,
        }
    }
}

impl RelayPermits {
    /// Begins an outermost run of an agent that is no session. `cwd` is what relative paths of the tools are meant from.
    pub async fn begin(
        agent: AgentClient,
        permissions: Option<Permissions>,
        cwd: Option<String>,
    ) -> Result<Self, PermitError> {
        let asker = Asker {
            agent,
            session: None,
            reads_mail: false,
        };
        Self::create(asker, None, permissions, cwd).await
    }

    /// Begins an outermost run in a session of the agent, which is its only one.
    pub async fn begin_in(
        agent: AgentClient,
        session: Arc<AttachedSession>,
        permissions: Option<Permissions>,
        cwd: Option<String>,
    ) -> Result<Self, PermitError> {
        let asker = Asker {
            agent,
            session: Some(session),
            reads_mail: true,
        };
        Self::create(asker, None, permissions, cwd).await
    }

    /// Begins an outermost run in one of several sessions of the agent.
    pub async fn begin_beside(
        agent: AgentClient,
        session: Arc<AttachedSession>,
        permissions: Option<Permissions>,
        cwd: Option<String>,
    ) -> Result<Self, PermitError> {
        let asker = Asker {
            agent,
            session: Some(session),
            reads_mail: false,
        };
        Self::create(asker, None, permissions, cwd).await
    }

    async fn create(
        asker: Asker,
        parent_run_id: Option<RunId>,
        permissions: Option<Permissions>,
        cwd: Option<String>,
    ) -> Result<Self, PermitError> {
        let new = CreateRun {
            parent_run_id,
            permissions,
        };
        let run = asker.create_run(&new).await;
        let run = run.map_err(|error| failed(&error))?;
        Ok(Self { asker, run, cwd })
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
            let asked = self.asker.ask(ask).await;
            let question = asked.map_err(|error| not_asked(&error))?;
            let asker = self.asker.clone();
            Ok(Arc::new(Asked { question, asker }) as Arc<dyn PermitRequest>)
        }
        .boxed()
    }

    fn nested(
        &self,
        narrower: Option<Permissions>,
    ) -> BoxFuture<'_, Result<Arc<dyn Permits>, PermitError>> {
        async move {
            let (asker, cwd) = (self.asker.clone(), self.cwd.clone());
            let run = Self::create(asker, Some(self.run), narrower, cwd).await?;
            Ok(Arc::new(run) as Arc<dyn Permits>)
        }
        .boxed()
    }

    fn end(&self, reason: &'static str) -> BoxFuture<'_, ()> {
        async move {
            let permissions = self.asker.agent.permissions();
            if let Err(error) = permissions.end_run(self.run, Some(reason)).await {
                tracing::warn!(run.id = %self.run, %error, "the relay does not know that a run has ended");
            }
        }
        .boxed()
    }
}

struct Asked {
    question: Question,
    asker: Asker,
}

impl Asked {
    /// What whoever refused wants to be done instead, for those who don't get it as a message.
    async fn guidance(&self, outcome: Option<&PermissionOutcome>) -> Option<String> {
        match self.asker.reads_mail {
            true => None,
            false => guidance::fetch(&self.asker.agent, outcome).await,
        }
    }
}

impl PermitRequest for Asked {
    fn pending(&self) -> Option<PermissionRecord> {
        let record = self.question.record();
        (record.state == PermissionState::Pending).then_some(record)
    }

    fn decided(&self) -> BoxFuture<'_, Result<Settled, PermitError>> {
        async move {
            let decision = self.question.wait().await;
            let decision = decision.map_err(|error| failed(&error))?;
            let outcome = self.question.record().outcome;
            let guidance = self.guidance(outcome.as_ref()).await;
            Ok(Settled {
                verdict: verdict(decision, guidance),
                outcome,
            })
        }
        .boxed()
    }

    fn start(&self, params: ToolParams) -> BoxFuture<'_, Result<(), PermitError>> {
        async move {
            let started = self.question.start(&params).await;
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
            if let Err(error) = self.question.finish(state, error).await {
                tracing::warn!(permission.id = %self.question.id(), %error, "the relay does not know how a tool ended");
            }
        }
        .boxed()
    }

    fn cancel(&self, reason: &'static str) -> BoxFuture<'_, Option<PermissionOutcome>> {
        async move {
            match self.question.cancel(Some(reason)).await {
                Ok(record) => record.outcome,
                Err(error) => {
                    tracing::warn!(permission.id = %self.question.id(), %error, "a question was not withdrawn");
                    error.outcome().cloned()
                }
            }
        }
        .boxed()
    }
}

fn verdict(decision: Decision, guidance: Option<String>) -> Verdict {
    match decision {
        Decision::Approved { params, .. } => Verdict::Allowed(params),
        Decision::Denied { reason, stop, .. } => Verdict::Denied {
            reason,
            strength: match (stop, guidance) {
                (true, _) => Strength::Turn,
                (false, Some(guidance)) => Strength::Guidance(guidance),
                (false, None) => Strength::Call,
            },
        },
        Decision::Expired => Verdict::Expired,
        Decision::Cancelled { reason } => Verdict::Cancelled { reason },
    }
}

fn failed(error: &relay_sdk::Error) -> PermitError {
    PermitError::Unasked(error.to_string())
}

/// A call that is too large, or one too many, is the model's mistake; it is told, and may do something else.
fn not_asked(error: &relay_sdk::Error) -> PermitError {
    match error.code() {
        Some(ErrorCode::LimitExceeded | ErrorCode::BodyTooLarge | ErrorCode::InvalidRequest) => {
            PermitError::NotThis(error.to_string())
        }
        _ => failed(error),
    }
}
