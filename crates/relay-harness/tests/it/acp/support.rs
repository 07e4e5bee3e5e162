//! Hosts with a script, and what is read from them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::event::{Event, SessionEvent};
use relay_harness::acp::host::{Host, HostError, HostOptions, OpenSession, Session, Turn};
use relay_harness::child::ChildEnvironment;
use serde_json::{Value, json};

/// The agent that plays a script.
pub(crate) fn agent(script: &Value) -> AgentDefinition {
    let config = json!({
        "command": env!("CARGO_BIN_EXE_relay-fake-agent"),
        "args": [script.to_string()],
    });
    let config = serde_json::from_value(config).unwrap();
    let catalogue = Catalogue::with_configured([("fake".to_owned(), config)]).unwrap();
    catalogue.get("fake").unwrap().clone()
}

pub(crate) fn environment() -> ChildEnvironment {
    ChildEnvironment::for_agent(std::env::vars_os(), &[""; 0], [("", ""); 0])
}

pub(crate) fn folder() -> PathBuf {
    std::env::temp_dir()
}

pub(crate) async fn try_start(script: &Value, options: HostOptions) -> Result<Host, HostError> {
    Host::start(agent(script), environment(), folder(), options).await
}

pub(crate) async fn start(script: Value) -> Host {
    try_start(&script, HostOptions::default()).await.unwrap()
}

/// A host with one session.
pub(crate) async fn session(script: Value) -> Session {
    session_with(script, HostOptions::default()).await
}

pub(crate) async fn session_with(script: Value, options: HostOptions) -> Session {
    let host = try_start(&script, options).await.unwrap();
    host.new_session(OpenSession::new(folder())).await.unwrap()
}

/// A handshake that advertises these session capabilities.
pub(crate) fn handshake(session: &[&str], more: Value) -> Value {
    let mut capabilities = json!({"loadSession": true, "sessionCapabilities": {}});
    for name in session {
        capabilities["sessionCapabilities"][*name] = json!({});
    }
    for (name, value) in more.as_object().into_iter().flatten() {
        capabilities[name] = value.clone();
    }
    json!({"protocolVersion": 1, "agentCapabilities": capabilities})
}

/// All events of a turn.
pub(crate) async fn all(mut turn: Turn) -> Vec<SessionEvent> {
    let mut events = Vec::new();
    while let Some(event) = turn.next().await {
        events.push(event);
    }
    events
}

/// The text that is in events.
pub(crate) fn text(events: &[SessionEvent]) -> String {
    let texts = events.iter().filter_map(|event| match &event.event {
        Event::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Prompts, and gives the text of the turn and how it ended.
pub(crate) async fn ask(session: &Session) -> (String, String) {
    let events = all(session.prompt(["go"]).await.unwrap()).await;
    let end = match &events.last().unwrap().event {
        Event::TurnEnded { stop_reason, .. } => stop_reason.as_str().to_owned(),
        event => format!("{event:?}"),
    };
    (text(&events), end)
}

/// Waits until a turn has said something.
pub(crate) async fn until_text(turn: &mut Turn, wanted: &str) {
    let mut said = String::new();
    while !said.contains(wanted) {
        let event = turn.next().await.unwrap();
        assert!(!event.event.ends_turn(), "{event:?} after {said:?}");
        said += &text(&[event]);
    }
}

/// A chunk of text, as an update.
pub(crate) fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

/// Warnings that are collected.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    pub(crate) fn options(&self) -> HostOptions {
        let warnings = self.0.clone();
        HostOptions {
            on_warning: Some(Arc::new(move |warning| {
                warnings.lock().unwrap().push(warning.to_owned());
            })),
            ..HostOptions::default()
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// What an agent that keeps a log has received, without the question by which a host finds out whether to believe it.
pub(crate) fn received(log: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(log).unwrap_or_default();
    lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|message| message["method"] != "_relay/no_such_method")
        .collect()
}

pub(crate) fn methods(log: &Path) -> Vec<String> {
    let received = received(log);
    let methods = received
        .iter()
        .filter_map(|message| message["method"].as_str());
    methods.map(str::to_owned).collect()
}

/// Longer than anything here takes when it works.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Fails when something takes for ever.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what)
        .await
        .expect("it takes for ever")
}
