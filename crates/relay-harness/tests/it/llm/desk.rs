//! Somebody who decides about tool calls as a test wants: at once by a rule, or when the test says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_harness::llm::permits::{
    PermitError, PermitRequest, Permits, Settled, ToolAsk, ToolEnd, Verdict,
};
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{
    PermissionOutcome, PermissionRecord, PermissionState, Permissions, ToolParams, args_hash,
};
use relay_protocol::time::Timestamp;
use tokio::sync::watch;

type Rule = Box<dyn Fn(&ToolAsk) -> Option<Verdict> + Send + Sync>;

/// The desk of one run.
#[derive(Clone)]
pub(crate) struct Desk {
    run: String,
    office: Arc<Office>,
}

struct Office {
    /// What is decided at once; nothing: somebody has to.
    rule: Rule,
    open: Mutex<HashMap<String, watch::Sender<Option<Verdict>>>>,
    log: Mutex<Vec<String>>,
    runs: AtomicUsize,
    asked: AtomicUsize,
}

impl Desk {
    pub(crate) fn new(rule: impl Fn(&ToolAsk) -> Option<Verdict> + Send + Sync + 'static) -> Self {
        Self {
            run: "run-1".to_owned(),
            office: Arc::new(Office {
                rule: Box::new(rule),
                open: Mutex::default(),
                log: Mutex::default(),
                runs: AtomicUsize::new(1),
                asked: AtomicUsize::new(0),
            }),
        }
    }

    /// Everything may run.
    pub(crate) fn open() -> Self {
        Self::new(|ask| Some(Verdict::Allowed(ask.params.clone())))
    }

    /// Somebody has to decide about everything.
    pub(crate) fn asking() -> Self {
        Self::new(|_| None)
    }

    /// Only these tools may run without a question.
    pub(crate) fn allowing(tools: &'static [&'static str]) -> Self {
        Self::new(|ask| {
            let allowed = tools.contains(&ask.tool.as_str());
            allowed.then(|| Verdict::Allowed(ask.params.clone()))
        })
    }

    /// Decides about a call that was shown, by the id that events have.
    pub(crate) fn decide(&self, call: &str, verdict: Verdict) {
        let open = self.office.open.lock().unwrap();
        open[call].send_replace(Some(verdict));
    }

    /// What was asked, started, finished and withdrawn, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        self.office.log.lock().unwrap().clone()
    }

    fn note(&self, line: String) {
        self.office.log.lock().unwrap().push(line);
    }
}

impl Permits for Desk {
    fn run_id(&self) -> String {
        self.run.clone()
    }

    fn ask(&self, call: ToolAsk) -> BoxFuture<'_, Result<Arc<dyn PermitRequest>, PermitError>> {
        async move {
            if call.params.get("text").is_some_and(|text| text == "down") {
                return Err(PermitError::Unasked("the relay is gone".to_owned()));
            }
            let id = format!("{}/{}", self.run, call.tool_call_id);
            self.note(format!("ask {id} {}", call.tool));
            let decided = (self.office.rule)(&call);
            let number = self.office.asked.fetch_add(1, Ordering::SeqCst) as u128;
            let record = decided.is_none().then(|| record(&call, number));
            let sender = watch::Sender::new(decided);
            let answer = sender.subscribe();
            self.office.open.lock().unwrap().insert(id.clone(), sender);
            Ok(Arc::new(Asked {
                desk: self.clone(),
                id,
                record,
                answer,
            }) as Arc<dyn PermitRequest>)
        }
        .boxed()
    }

    fn nested(
        &self,
        narrower: Option<Permissions>,
    ) -> BoxFuture<'_, Result<Arc<dyn Permits>, PermitError>> {
        async move {
            let number = self.office.runs.fetch_add(1, Ordering::SeqCst) + 1;
            let run = format!("run-{number}");
            let how = if narrower.is_some() { " narrower" } else { "" };
            self.note(format!("nested {} {run}{how}", self.run));
            let office = self.office.clone();
            Ok(Arc::new(Self { run, office }) as Arc<dyn Permits>)
        }
        .boxed()
    }

    fn end(&self, _reason: &'static str) -> BoxFuture<'_, ()> {
        async move { self.note(format!("end {}", self.run)) }.boxed()
    }
}

fn record(call: &ToolAsk, number: u128) -> PermissionRecord {
    PermissionRecord {
        permission_id: PermissionId::new(Timestamp::from_millis(1), number),
        state: PermissionState::Pending,
        agent_id: None,
        agent_name: None,
        session_id: None,
        tool: call.tool.clone(),
        params: call.params.clone(),
        masked: None,
        cwd: None,
        run_id: None,
        turn_id: Some(call.turn_id.clone()),
        tool_call_id: Some(call.tool_call_id.clone()),
        title: None,
        created_at: Timestamp::from_millis(1),
        expires_at: Timestamp::from_millis(2),
        args_hash: args_hash(&call.tool, &call.params),
        options: Vec::new(),
        suggestions: Vec::new(),
        message_id: None,
        outcome: None,
        execution: None,
    }
}

struct Asked {
    desk: Desk,
    id: String,
    record: Option<PermissionRecord>,
    answer: watch::Receiver<Option<Verdict>>,
}

impl PermitRequest for Asked {
    fn pending(&self) -> Option<PermissionRecord> {
        self.record.clone()
    }

    fn decided(&self) -> BoxFuture<'_, Result<Settled, PermitError>> {
        async move {
            let mut answer = self.answer.clone();
            let verdict = answer.wait_for(Option::is_some).await.unwrap().clone();
            Ok(Settled {
                verdict: verdict.unwrap(),
                outcome: None,
            })
        }
        .boxed()
    }

    fn start(&self, _params: ToolParams) -> BoxFuture<'_, Result<(), PermitError>> {
        async move {
            self.desk.note(format!("start {}", self.id));
            Ok(())
        }
        .boxed()
    }

    fn finish(&self, ended: ToolEnd) -> BoxFuture<'_, ()> {
        async move {
            let how = match ended {
                ToolEnd::Completed => "completed",
                ToolEnd::Failed(_) => "failed",
                ToolEnd::Unknown => "unknown",
            };
            self.desk.note(format!("{how} {}", self.id));
        }
        .boxed()
    }

    fn cancel(&self, _reason: &'static str) -> BoxFuture<'_, Option<PermissionOutcome>> {
        async move {
            self.desk.note(format!("cancel {}", self.id));
            None
        }
        .boxed()
    }
}
