//! What an agent asks becomes the relay's question; the decision becomes the agent's answer.
//!
//! One question is a task of its own: it outlives whoever waits for the answer, so that a request that nobody needs any more is called
//! off. What is allowed for longer is a grant of the relay's; the agent is told of this one call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relay_harness::acp::event::ToolCall;
use relay_harness::acp::permission::{
    Decides, Deciding, PermissionAnswer, PermissionQuestion, choose,
};
use relay_harness::llm::permits::{PermitRequest, Permits, Settled, Strength, ToolAsk, Verdict};
use relay_harness::llm::run::{AskedShown, ResolvedShown};
use relay_protocol::permission::ToolParams;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the end of a question waits for the relay to know it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What is told of questions.
pub(super) enum News {
    /// Somebody has to decide.
    Asked(Box<AskedShown>),
    /// It was decided.
    Resolved(Box<ResolvedShown>),
    /// A call of the agent may run, and its start is written down.
    May {
        call: String,
        request: Arc<dyn PermitRequest>,
    },
    /// A call of the agent does not run, and this is its result.
    NotRun {
        call: String,
        output: Value,
        /// Whether the turn ends with it.
        stops: bool,
    },
}

/// Asks for an agent. Clones are the same.
#[derive(Clone)]
pub(super) struct Asker {
    shared: Arc<Shared>,
}

struct Shared {
    permits: Arc<dyn Permits>,
    news: mpsc::Sender<News>,
    cancel: CancellationToken,
    asking: TaskTracker,
    /// How often each id of a call was asked about: agents use them again, the relay decides about one once.
    asked: Mutex<HashMap<String, u32>>,
}

impl Asker {
    pub(super) fn new(
        permits: Arc<dyn Permits>,
        news: mpsc::Sender<News>,
        cancel: CancellationToken,
    ) -> Self {
        let shared = Arc::new(Shared {
            permits,
            news,
            cancel: cancel.child_token(),
            asking: TaskTracker::new(),
            asked: Mutex::default(),
        });
        Self { shared }
    }

    /// Calls off what is still asked.
    pub(super) async fn finish(self) {
        self.shared.cancel.cancel();
        self.shared.asking.close();
        self.shared.asking.wait().await;
    }
}

impl Decides for Asker {
    fn decide(&self, question: PermissionQuestion) -> Deciding<'_> {
        let (answer, answered) = oneshot::channel();
        let shared = self.shared.clone();
        self.shared.asking.spawn(async move {
            shared.ask(question, answer).await;
        });
        Box::pin(async move { answered.await.unwrap_or(PermissionAnswer::Cancelled) })
    }
}

impl Shared {
    async fn ask(
        &self,
        question: PermissionQuestion,
        mut answer: oneshot::Sender<PermissionAnswer>,
    ) {
        let call = question.tool_call.id.clone();
        let ask = ToolAsk {
            tool: question.tool_call.tool().to_owned(),
            params: params(&question.tool_call),
            tool_call_id: self.unused(&call),
            turn_id: format!(
                "{}/{}",
                question.session_id,
                question.turn.unwrap_or_default()
            ),
        };
        let wanted = ask.params.clone();
        let request = match self.permits.ask(ask).await {
            Ok(request) => request,
            Err(error) => {
                let output = json!({ "error": error.to_string() });
                return self.refuse(call, output, false, answer).await;
            }
        };
        let full_id = format!("{}/{call}", self.permits.run_id());
        let relay = request.pending().map(|record| {
            let id = record.permission_id.to_string();
            (id, AskedShown::new(&full_id, record))
        });
        let relay_id = match relay {
            Some((id, shown)) => {
                self.tell(News::Asked(Box::new(shown))).await;
                Some(id)
            }
            None => None,
        };
        let decided = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            () = answer.closed() => None,
            decided = request.decided() => Some(decided),
        };
        let settled = match decided {
            Some(Ok(settled)) => settled,
            Some(Err(error)) => {
                let output = json!({ "error": error.to_string() });
                return self.refuse(call, output, true, answer).await;
            }
            None => Settled {
                verdict: Verdict::Cancelled { reason: None },
                outcome: call_off(request.as_ref()).await,
            },
        };
        if let Some(id) = relay_id {
            let shown = ResolvedShown::new(&id, &full_id, &settled);
            self.tell(News::Resolved(Box::new(shown))).await;
        }
        let was_allowed = matches!(settled.verdict, Verdict::Allowed(_));
        let verdict = fitting(settled.verdict, &wanted, &question);
        if let Verdict::Allowed(params) = verdict {
            return self.allow(call, request, params, answer).await;
        }
        if was_allowed {
            // It will never start.
            call_off(request.as_ref()).await;
        }
        let (output, stops) = not_run(verdict);
        self.refuse(call, output, stops, answer).await;
    }

    async fn allow(
        &self,
        call: String,
        request: Arc<dyn PermitRequest>,
        params: ToolParams,
        answer: oneshot::Sender<PermissionAnswer>,
    ) {
        if let Err(error) = request.start(params).await {
            let output = json!({ "error": error.to_string() });
            return self.refuse(call, output, true, answer).await;
        }
        self.tell(News::May { call, request }).await;
        // The turn may have ended in this very moment; then nothing runs.
        let _ = answer.send(PermissionAnswer::AllowOnce);
    }

    async fn refuse(
        &self,
        call: String,
        output: Value,
        stops: bool,
        answer: oneshot::Sender<PermissionAnswer>,
    ) {
        let news = News::NotRun {
            call,
            output,
            stops,
        };
        self.tell(news).await;
        let _ = answer.send(PermissionAnswer::Reject);
    }

    async fn tell(&self, news: News) {
        // The chat has ended.
        let _ = self.news.send(news).await;
    }

    /// An id under which nothing was asked yet.
    fn unused(&self, call: &str) -> String {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let times = asked.entry(call.to_owned()).or_default();
        *times += 1;
        match *times {
            1 => call.to_owned(),
            times => format!("{call}#{times}"),
        }
    }
}

async fn call_off(
    request: &dyn PermitRequest,
) -> Option<relay_protocol::permission::PermissionOutcome> {
    let cancelling = request.cancel("the turn has ended");
    timeout(LAST_WORDS, cancelling).await.ok().flatten()
}

/// What it would be called with. The title is not among it: the model may have written it, and rules would believe it.
fn params(call: &ToolCall) -> ToolParams {
    match &call.input {
        Some(Value::Object(input)) => input.clone(),
        Some(input) => ToolParams::from_iter([("input".to_owned(), input.clone())]),
        None => match call.locations.as_slice() {
            [] => ToolParams::new(),
            [path] => ToolParams::from_iter([("path".to_owned(), path.as_str().into())]),
            paths => ToolParams::from_iter([("paths".to_owned(), paths.into())]),
        },
    }
}

/// An approval that the agent can't follow is none: the protocol has no way to run a call with other parameters, and some questions
/// can't be answered by yes.
fn fitting(verdict: Verdict, wanted: &ToolParams, question: &PermissionQuestion) -> Verdict {
    let why = match &verdict {
        Verdict::Allowed(params) if params != wanted => {
            "it was approved with other parameters, which an agent can't be given"
        }
        Verdict::Allowed(_)
            if choose(&PermissionAnswer::AllowOnce, &question.options).is_none() =>
        {
            "the agent has no option to be allowed this once"
        }
        _ => return verdict,
    };
    Verdict::Denied {
        reason: Some(why.to_owned()),
        strength: Strength::Call,
    }
}

/// The result of a call that does not run, and whether the turn ends with it.
fn not_run(verdict: Verdict) -> (Value, bool) {
    let (status, reason, stops) = match verdict {
        Verdict::Denied { reason, strength } => match strength {
            Strength::Call => ("denied", reason, false),
            Strength::Turn => ("denied", reason, true),
            Strength::Guidance(text) => ("denied", Some(reason.unwrap_or(text)), false),
        },
        Verdict::Expired => ("expired", Some("nobody answered in time".to_owned()), true),
        Verdict::Cancelled { reason } => ("cancelled", reason, false),
        Verdict::Allowed(_) => ("cancelled", None, false),
    };
    match reason {
        Some(reason) => (json!({ "status": status, "reason": reason }), stops),
        None => (json!({ "status": status }), stops),
    }
}
