//! One question of an agent: may this tool run?

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use relay_protocol::ids::{PermissionId, SessionId};
use relay_protocol::limits::REASON_BYTES;
use relay_protocol::permission::{
    AskPermission, ExecutionState, FinishPermission, PermissionRecord, StartPermission, ToolParams,
    args_hash,
};
use serde::Serialize;

use super::{Decision, Ran, Waiting, cancel, path};
use crate::error::Result;
use crate::http::{Call, Http};
use crate::key::new_key;

/// A tool call that an agent asked permission for. Clones are the same question.
///
/// ```no_run
/// # async fn example(agent: relay_sdk::AgentClient) -> relay_sdk::Result<()> {
/// use relay_sdk::protocol::permission::AskPermission;
/// use relay_sdk::{Decision, Ran};
///
/// let question = agent
///     .ask_permission(AskPermission {
///         tool: "bash".to_owned(),
///         params: serde_json::Map::from_iter([("command".to_owned(), "cargo test".into())]),
///         ..AskPermission::default()
///     })
///     .await?;
/// let ran = question
///     .run(|params| async move { run_bash(&params["command"]).await })
///     .await?;
/// match ran {
///     Ran::Ran { output, .. } => println!("{output:?}"),
///     Ran::NotAllowed(Decision::Denied { reason, .. }) => println!("no: {reason:?}"),
///     Ran::NotAllowed(decision) => println!("{decision:?}"),
/// }
/// # async fn run_bash(_: &serde_json::Value) -> std::io::Result<String> { Ok(String::new()) }
/// # Ok(())
/// # }
/// ```
///
/// It is the server that remembers it. Whoever asks again with the same `toolCallId`, for example after a restart, gets the
/// same question, with what was decided meanwhile; and what was started once is not started again.
#[derive(Clone)]
pub struct Question {
    inner: Arc<Inner>,
}

struct Inner {
    http: Arc<Http>,
    id: PermissionId,
    tool: String,
    /// As they were asked about: the record's are without secrets.
    params: ToolParams,
    record: Mutex<PermissionRecord>,
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("id", &self.inner.id)
            .field("tool", &self.inner.tool)
            .finish_non_exhaustive()
    }
}

impl Question {
    /// Asks, through a session if one is named.
    pub(crate) async fn ask(
        http: Arc<Http>,
        through: Option<SessionId>,
        mut body: AskPermission,
    ) -> Result<Self> {
        if body.tool_call_id.is_none() {
            body.tool_call_id = new_key();
        }
        // Who asks again under the same id is asking the same.
        let call = Call::post("/v1/permissions", &body).repeatable_if(body.tool_call_id.is_some());
        let record: PermissionRecord = http.json(call.through(through)).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                id: record.permission_id,
                tool: body.tool,
                params: body.params,
                record: Mutex::new(record),
                http,
            }),
        })
    }

    /// The request's id.
    #[must_use]
    pub fn id(&self) -> PermissionId {
        self.inner.id
    }

    /// The request, as it was when it was seen last.
    #[must_use]
    pub fn record(&self) -> PermissionRecord {
        self.known().clone()
    }

    fn known(&self) -> MutexGuard<'_, PermissionRecord> {
        let record = &self.inner.record;
        record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, record: PermissionRecord) -> PermissionRecord {
        *self.known() = record.clone();
        record
    }

    fn decision(&self) -> Option<Decision> {
        Decision::of(&self.known(), &self.inner.params)
    }

    /// Waits until it is decided, across lost connections and restarts of the server.
    pub async fn wait(&self) -> Result<Decision> {
        loop {
            if let Some(decision) = self.decision() {
                return Ok(decision);
            }
            self.look(None).await?;
        }
    }

    /// Waits no longer than this; nothing if it is not decided by then.
    pub async fn wait_within(&self, within: Duration) -> Result<Option<Decision>> {
        if self.decision().is_none() {
            self.look(Some(within)).await?;
        }
        Ok(self.decision())
    }

    async fn look(&self, within: Option<Duration>) -> Result<()> {
        let waiting = Waiting::new(&self.inner.http, self.inner.id, Some(self.record()));
        self.note(waiting.wait(within).await?);
        Ok(())
    }

    /// Has it written down that the tool is about to run with these parameters, which have to be those that were allowed.
    ///
    /// Only after this may the tool run. It succeeds once: whoever asks a second time is refused with
    /// `already_started`, also in another process.
    pub async fn start(&self, params: &ToolParams) -> Result<PermissionRecord> {
        let body = StartPermission {
            args_hash: args_hash(&self.inner.tool, params),
            start_id: new_key(),
        };
        let repeatable = body.start_id.is_some();
        let call = self.post("/start", &body).repeatable_if(repeatable);
        self.inner.http.json(call).await.map(|it| self.note(it))
    }

    /// Says how the tool ended.
    pub async fn finish(
        &self,
        state: ExecutionState,
        error: Option<&str>,
    ) -> Result<PermissionRecord> {
        let body = FinishPermission {
            state,
            error: error.map(str::to_owned),
        };
        let call = self.post("/finish", &body).repeatable();
        self.inner.http.json(call).await.map(|it| self.note(it))
    }

    /// Says that the question is no longer needed. Whoever waits for it is told.
    pub async fn cancel(&self, reason: Option<&str>) -> Result<PermissionRecord> {
        let cancelled = cancel(&self.inner.http, self.inner.id, reason).await;
        cancelled.map(|it| self.note(it))
    }

    fn post(&self, rest: &str, body: &impl Serialize) -> Call {
        Call::post(path(self.inner.id, rest), body)
    }

    /// Waits for the decision and, if the tool may run, has its start written down, runs it, and says how it ended.
    ///
    /// The tool gets the parameters to run with, which may be others than those that were asked about. It runs
    /// at most once, however often and wherever this is called for one request: an error means that it did not run. When
    /// this is dropped while the tool runs, the server learns no end and will say `unknown`.
    pub async fn run<F, Fut, T, E>(&self, tool: F) -> Result<Ran<T, E>>
    where
        F: FnOnce(ToolParams) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        E: fmt::Display,
    {
        let params = match self.wait().await? {
            Decision::Approved { params, .. } => params,
            decision => return Ok(Ran::NotAllowed(decision)),
        };
        self.start(&params).await?;
        let running = AssertUnwindSafe(async { tool(params).await });
        let output = match running.catch_unwind().await {
            Ok(output) => output,
            Err(panic) => {
                let _ = self.finish(ExecutionState::Failed, Some(PANICKED)).await;
                resume_unwind(panic);
            }
        };
        let finished = match &output {
            Ok(_) => self.finish(ExecutionState::Completed, None).await,
            Err(error) => {
                let error = error.to_string();
                let error = beginning(&error, REASON_BYTES);
                self.finish(ExecutionState::Failed, Some(error)).await
            }
        };
        Ok(Ran::Ran {
            output,
            reported: finished.map(drop),
        })
    }
}

/// The beginning of a text: what a tool says may be more than the server keeps.
fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// What the server is told of a tool that panicked.
const PANICKED: &str = "the tool panicked";
