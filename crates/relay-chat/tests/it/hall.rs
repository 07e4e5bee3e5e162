//! Chats with a scripted model over a real relay.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_chat::{Agents, Connect, Gateway, ModelChats, Refusal, Viewer, Visitor, Workshop};
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine};
use relay_harness::llm::limits::RunLimits;
use relay_harness::llm::models::Models;
use relay_harness::llm::retry::RetryPolicy;
use relay_harness::llm::scripted::Scripted;
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{PermissionRecord, ResolvePermission};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_rules::RealFiles;
use relay_script::Script;
use relay_sdk::{AgentClient, GrantQuery, PermissionQuery, Permissions, Relay};
use relay_server::{Config, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::puppet::{at, seen};
use crate::tools::{Ran, real, recording};

/// Nothing here takes so long unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// What chats are to be like.
pub(crate) struct Plan {
    pub(crate) script: Value,
    pub(crate) limits: RunLimits,
    /// How long questions wait.
    pub(crate) expires: Option<Duration>,
    pub(crate) has_real_tools: bool,
    pub(crate) default_model: Option<&'static str>,
    pub(crate) agents: Option<Agents>,
}

impl Plan {
    /// Chats with a model that plays this.
    pub(crate) fn new(script: Value) -> Self {
        Self {
            script,
            limits: RunLimits::default(),
            expires: None,
            has_real_tools: false,
            default_model: Some("lab/clever"),
            agents: None,
        }
    }

    /// With the tools that a user has.
    pub(crate) fn with_real_tools(script: Value) -> Self {
        Self {
            has_real_tools: true,
            ..Self::new(script)
        }
    }

    pub(crate) async fn start(self) -> Hall {
        let directory = tempfile::tempdir().unwrap();
        let (url, key) = relay_server(&directory, self.expires).await;
        let relay = Relay::open(&url, &key).await.unwrap();
        let agent = relay.register("chat").await.unwrap();
        let model = Scripted::new(Script::from_value(self.script).unwrap());
        let files = tempfile::tempdir().unwrap();
        let ran = Ran::default();
        let workshop = Workshop {
            models: Models::default().with(
                "lab",
                Arc::new(model.clone()),
                ["clever".to_owned(), "quick".to_owned()],
            ),
            warnings: Vec::new(),
            default_model: self.default_model.map(str::to_owned),
            tools: match self.has_real_tools {
                true => real(files.path()),
                false => recording(&ran, files.path()),
            },
            cwd: files.path().to_str().map(str::to_owned),
            limits: self.limits,
            retry: RetryPolicy::NEVER,
        };
        let connecting = relay.clone();
        let connect: Connect = Box::new(move |token| {
            let relay = connecting.clone();
            async move { relay.reconnect(&token).await }.boxed()
        });
        Hall {
            gateway: Gateway::new(match self.agents {
                Some(agents) => ModelChats::with_agents(connect, workshop, agents),
                None => ModelChats::new(connect, workshop),
            }),
            relay,
            agent,
            model,
            ran,
            files,
            _directory: directory,
        }
    }
}

async fn relay_server(directory: &TempDir, expires: Option<Duration>) -> (String, String) {
    let system = Environment::system();
    let mut options = SqliteOptions::new(directory.path().join("relay.db"));
    options.synchronous = Synchronous::Off;
    let store = SqliteStore::open(&options, system.random.clone()).unwrap();
    let mut engine = Engine::new(Arc::new(store), system).with_files(Arc::new(RealFiles));
    if let Some(expires) = expires {
        engine = engine.with_permissions_expiring(expires);
    }
    let engine = Arc::new(engine);
    let owner = Caller::process_owner();
    let made = engine.create_workspace(&owner, "lab").await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let config = Config {
        drain_timeout: Duration::ZERO,
        ..Config::default()
    };
    tokio::spawn(serve(listener, engine, config, std::future::pending()));
    (url, made.workspace_key)
}

/// A relay, and the door to its chats.
pub(crate) struct Hall {
    pub(crate) gateway: Gateway<ModelChats<Guest>>,
    pub(crate) relay: Relay,
    /// As whom chats run.
    pub(crate) agent: AgentClient,
    pub(crate) model: Scripted,
    pub(crate) ran: Ran,
    /// Where tools work.
    pub(crate) files: TempDir,
    _directory: TempDir,
}

impl Hall {
    /// With a model that plays this.
    pub(crate) async fn start(script: Value) -> Self {
        Plan::new(script).start().await
    }

    /// Whoever has the workspace key.
    pub(crate) fn owner(&self) -> Guest {
        self.guest(Decider::Relay(self.relay.permissions()))
    }

    pub(crate) fn guest(&self, decider: Decider) -> Guest {
        Guest {
            agent_token: self.agent.token().to_owned(),
            decider,
        }
    }

    /// Begins a chat under these rules.
    pub(crate) async fn begin(&self, permissions: Value) -> Look {
        self.begin_with(json!({ "permissions": permissions })).await
    }

    /// Begins a chat; `more` is added to what is asked for.
    pub(crate) async fn begin_with(&self, more: Value) -> Look {
        self.begin_as(self.owner(), more).await
    }

    pub(crate) async fn begin_as(&self, guest: Guest, more: Value) -> Look {
        let mut body = json!({ "messages": [{ "role": "user", "content": "go" }] });
        for (field, value) in more.as_object().into_iter().flatten() {
            body[field] = value.clone();
        }
        let body = body.to_string();
        let begun = self.gateway.begin(body.as_bytes(), guest, at()).await;
        let mut look = Look {
            viewer: begun.unwrap(),
            session: String::new(),
            last: None,
            seen: Vec::new(),
        };
        let connected = look.next().await.unwrap();
        look.session = connected["sessionId"].as_str().unwrap().to_owned();
        look
    }

    /// Why a body begins no chat.
    pub(crate) async fn refusal(&self, body: &str) -> Refusal {
        let begun = self
            .gateway
            .begin(body.as_bytes(), self.owner(), at())
            .await;
        begun.unwrap_err()
    }

    /// Decides about a question of a chat.
    pub(crate) async fn resolve(
        &self,
        look: &Look,
        relay: &Value,
        response: Value,
    ) -> Result<Value, Refusal> {
        let body = json!({ "sessionId": look.session, "response": response });
        self.post(relay, &body).await
    }

    pub(crate) async fn post(&self, relay: &Value, body: &Value) -> Result<Value, Refusal> {
        let id = relay["id"].as_str().unwrap();
        let body = body.to_string();
        self.gateway.resolve(id, body.as_bytes()).await
    }

    pub(crate) async fn approve(&self, look: &Look, relay: &Value) {
        let success = self.resolve(look, relay, json!({ "approved": true })).await;
        assert_eq!(success.unwrap(), json!({ "success": true }));
    }

    pub(crate) async fn deny(&self, look: &Look, relay: &Value) {
        let success = self
            .resolve(look, relay, json!({ "approved": false }))
            .await;
        assert_eq!(success.unwrap(), json!({ "success": true }));
    }

    /// Allows a call, and what the shown rule covers.
    pub(crate) async fn always(&self, look: &Look, relay: &Value) {
        let response = json!({ "approved": true, "always": true });
        let success = self.resolve(look, relay, response).await;
        assert_eq!(success.unwrap(), json!({ "success": true }));
    }

    /// Looks at a chat again.
    pub(crate) fn look_again(&self, session: &str, seen: Option<u64>) -> Look {
        let seen = seen.map(|seen| seen.to_string());
        let viewer = self.gateway.look(session, seen.as_deref()).unwrap();
        Look {
            viewer,
            session: session.to_owned(),
            last: None,
            seen: Vec::new(),
        }
    }

    /// The stored request.
    pub(crate) async fn record(&self, relay: &Value) -> PermissionRecord {
        self.relay.permissions().get(id_of(relay)).await.unwrap()
    }

    /// Requests that wait.
    pub(crate) async fn pending(&self) -> Vec<PermissionRecord> {
        let pending = PermissionQuery::pending();
        self.relay.permissions().list(&pending).await.unwrap().items
    }

    /// The rules that are granted.
    pub(crate) async fn grants(&self) -> Vec<relay_protocol::permission::Grant> {
        let query = GrantQuery::default();
        self.relay.permissions().grants(&query).await.unwrap().items
    }
}

/// The id of a question.
pub(crate) fn id_of(relay: &Value) -> PermissionId {
    relay["id"].as_str().unwrap().parse().unwrap()
}

/// Whoever begins chats.
pub(crate) struct Guest {
    agent_token: String,
    decider: Decider,
}

/// What carries a guest's decisions.
pub(crate) enum Decider {
    /// The relay, as whoever these are of.
    Relay(Permissions),
    /// A relay that can write nothing.
    Unwritable,
}

impl Visitor for Guest {
    fn agent_token(&self) -> &str {
        &self.agent_token
    }

    fn decide(
        &self,
        id: PermissionId,
        decision: ResolvePermission,
    ) -> BoxFuture<'_, Result<(), Box<Problem>>> {
        async move {
            let problem = |code, why: &str| Box::new(Problem::new(code, why));
            match &self.decider {
                Decider::Unwritable => Err(problem(
                    ErrorCode::StorageUnavailable,
                    "nothing can be written",
                )),
                Decider::Relay(permissions) => match permissions.resolve(id, decision).await {
                    Ok(_) => Ok(()),
                    Err(relay_sdk::Error::Problem(problem)) => Err(problem),
                    Err(other) => Err(problem(ErrorCode::Overloaded, &other.to_string())),
                },
            }
        }
        .boxed()
    }
}

/// Somebody who looks at a chat.
pub(crate) struct Look {
    viewer: Viewer,
    pub(crate) session: String,
    /// The number of the last event that was seen.
    pub(crate) last: Option<u64>,
    /// All events that were seen.
    pub(crate) seen: Vec<Value>,
}

impl Look {
    /// The next event; nothing at the end of the chat.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let event = tokio::time::timeout(LONG, seen(&mut self.viewer)).await;
            let (number, event) = event.expect("an event, or the end")?;
            if event.is_null() {
                continue;
            }
            self.last = number.or(self.last);
            self.seen.push(event.clone());
            return Some(event);
        }
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
    pub(crate) async fn end(mut self) -> Vec<Value> {
        while self.next().await.is_some() {}
        self.seen
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

/// A call of `bash`.
pub(crate) fn bash(command: &str) -> Value {
    json!({ "tool": "bash", "arguments": { "command": command } })
}

/// A call of `agent`.
pub(crate) fn agent(task: &str) -> Value {
    json!({ "tool": "agent", "arguments": { "task": task } })
}
