//! A run with a scripted model, whose events a test reads one by one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_harness::child::ChildEnvironment;
use relay_harness::llm::conversation::Message;
use relay_harness::llm::limits::{EVENT_QUEUE, RunLimits};
use relay_harness::llm::models::{Model, Models};
use relay_harness::llm::permits::Permits;
use relay_harness::llm::provider::ToolSpec;
use relay_harness::llm::retry::RetryPolicy;
use relay_harness::llm::run::{RunEvent, RunOutcome, RunSetup, run};
use relay_harness::llm::scripted::Scripted;
use relay_harness::llm::tools::{Sharing, Shell, Tool, ToolContext, ToolOutput, Tools, Workspace};
use relay_protocol::permission::ToolParams;
use relay_script::Script;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Nothing here takes so long unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A run under way.
pub(crate) struct World {
    _directory: Arc<TempDir>,
    pub(crate) model: Scripted,
    pub(crate) cancel: CancellationToken,
    events: mpsc::Receiver<RunEvent>,
    running: JoinHandle<RunOutcome>,
    /// All events that were read, as JSON.
    pub(crate) seen: Vec<Value>,
}

/// What a run is started with.
pub(crate) struct Plan {
    pub(crate) script: Value,
    pub(crate) permits: Arc<dyn Permits>,
    pub(crate) limits: RunLimits,
    pub(crate) messages: Vec<Message>,
}

impl Plan {
    pub(crate) fn new(script: Value, permits: impl Permits + 'static) -> Self {
        Self {
            script,
            permits: Arc::new(permits),
            limits: RunLimits::default(),
            messages: vec![Message::System("be good".to_owned()), Message::user("go")],
        }
    }

    pub(crate) fn start(self) -> World {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        self.start_in(directory)
    }

    pub(crate) fn start_in(self, directory: Arc<TempDir>) -> World {
        let model = Scripted::new(Script::from_value(self.script).unwrap());
        let provider = Arc::new(model.clone());
        let workspace = Arc::new(Workspace::open(directory.path(), Vec::new()).unwrap());
        let shell = Shell {
            cwd: directory.path().to_owned(),
            environment: ChildEnvironment::for_agent(std::env::vars_os(), &[""; 0], [("", ""); 0]),
        };
        let setup = RunSetup {
            model: Model {
                provider: provider.clone(),
                name: "scripted".to_owned(),
            },
            models: Models::default().with("other", provider, ["clever".to_owned()]),
            tools: Tools::standard(&workspace, shell).with(Echo).with(Fails),
            permits: self.permits,
            limits: self.limits,
            retry: RetryPolicy::NEVER,
            agent_id: None,
            inbox: None,
        };
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        let cancel = CancellationToken::new();
        let running = tokio::spawn(run(setup, self.messages, sender, cancel.clone()));
        World {
            _directory: directory,
            model,
            cancel,
            events,
            running,
            seen: Vec::new(),
        }
    }
}

impl World {
    /// The next event; nothing at the end of the run.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let event = tokio::time::timeout(LONG, self.events.recv()).await;
        let event = serde_json::to_value(event.expect("an event, or the end")?).unwrap();
        self.seen.push(event.clone());
        Some(event)
    }

    /// Reads on to the next event of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            match self.next().await {
                Some(event) if event["type"] == kind => return event,
                Some(_) => {}
                None => panic!("{kind} did not come: {:#?}", self.seen),
            }
        }
    }

    /// Reads to the end.
    pub(crate) async fn end(mut self) -> (Vec<Value>, RunOutcome) {
        while self.next().await.is_some() {}
        let outcome = tokio::time::timeout(LONG, self.running).await;
        (self.seen, outcome.unwrap().unwrap())
    }
}

/// The types of events, in order, without what costs.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.filter(|kind| *kind != "usage").collect()
}

/// All events of a type.
pub(crate) fn all<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

/// Gives back what it gets.
struct Echo;

impl Tool for Echo {
    fn spec(&self) -> ToolSpec {
        spec("echo")
    }

    fn sharing(&self) -> Sharing {
        Sharing::Exclusive
    }

    fn check(&self, params: &ToolParams) -> Result<(), String> {
        match params.get("text").is_some_and(Value::is_string) {
            true => Ok(()),
            false => Err("expected a text".to_owned()),
        }
    }

    fn run(
        &self,
        params: ToolParams,
        _context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async move {
            let context = params["text"].as_str().unwrap().to_owned();
            let result = params["text"].clone();
            Ok(ToolOutput { context, result })
        }
        .boxed()
    }
}

/// Never works.
struct Fails;

impl Tool for Fails {
    fn spec(&self) -> ToolSpec {
        spec("fails")
    }

    fn check(&self, _params: &ToolParams) -> Result<(), String> {
        Ok(())
    }

    fn run(
        &self,
        _params: ToolParams,
        _context: ToolContext,
    ) -> BoxFuture<'_, Result<ToolOutput, String>> {
        async { Err("it broke".to_owned()) }.boxed()
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        schema: json!({ "type": "object" }),
    }
}
