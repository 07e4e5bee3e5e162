//! A real agent at work: its model, its home, and how it is started.

use std::path::PathBuf;
use std::time::Duration;

use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::host::{Host, HostOptions, OpenSession, Session};
use relay_harness::child::ChildEnvironment;
use relay_script::{Script, Server};
use serde_json::{Value, json};

use super::agents::{Agent, Place, shell_call};

/// How long anything may take before a test gives up: much longer than it does on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for something that has to happen.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"))
}

/// Processes are known by their home.
pub(super) fn nothing_left_of(place: &Place) {
    let left = crate::processes::with_entry(&format!("HOME={}", place.home().display()));
    assert!(left.is_empty(), "processes that did not end: {left:?}");
}

/// An agent as the catalogue has it, but from where the tests have it; and its environment.
pub(super) fn definition(
    agent: &Agent,
    place: &Place,
    model: &str,
) -> (AgentDefinition, ChildEnvironment) {
    let launch = agent.launch(place, model);
    let environment =
        ChildEnvironment::for_agent([("", ""); 0], &[""; 0], launch.environment.clone());
    assert_eq!(environment.withheld(), &[]);
    let command = launch.program.to_str().unwrap();
    if let Ok(known) = Catalogue::built_in().get(agent.name) {
        assert_eq!(known.args, launch.arguments, "{}", agent.name);
        let definition = AgentDefinition {
            command: command.to_owned(),
            ..known.clone()
        };
        return (definition, environment);
    }
    let config = json!({"command": command, "args": launch.arguments});
    let config = serde_json::from_value(config).unwrap();
    let catalogue = Catalogue::with_configured([(agent.name.to_owned(), config)]).unwrap();
    (catalogue.get(agent.name).unwrap().clone(), environment)
}

/// An agent, its model, and where it works.
pub(super) struct Desk {
    pub(super) agent: &'static Agent,
    pub(super) model: Server,
    pub(super) place: Place,
}

impl Desk {
    pub(super) async fn new(agent: &'static Agent) -> Self {
        let place = Place::new();
        let script = json!({
            "turns": [
                { "when": { "tools": false }, "reply": "A title" },
                { "when": { "user": "say hello" },
                  "reply": [{ "reasoning": "They want a greeting." }, "Hello ", "there."] },
                { "when": { "user": "make a file" }, "reply": ["I will.", shell_call()] },
                { "when": { "user": "write a note" }, "reply": [note_call(&place)] },
                { "when": { "user": "talk on" }, "reply": ["First words", { "wait": "never" }] },
                { "when": { "user": "begin slowly" },
                  "reply": ["Slow words", { "wait": "slow" }, " and the end."] },
                { "when": { "user": "wait for me" }, "reply": ["Waiting", { "wait": "me" }] },
                { "when": { "user": "turn left" }, "reply": "Turning left." },
                { "when": { "result": "" }, "reply": "After the tool." },
            ],
            "otherwise": "Fine.",
        });
        Self {
            agent,
            model: Server::start(Script::from_value(script).unwrap())
                .await
                .unwrap(),
            place,
        }
    }

    pub(super) async fn start(&self, options: HostOptions) -> Host {
        let (definition, environment) = definition(self.agent, &self.place, &self.model.url());
        let host = Host::start(definition, environment, self.work(), options);
        soon("the handshake", host).await.unwrap()
    }

    /// A session in which the agent asks before it acts.
    pub(super) async fn open(&self, options: HostOptions) -> Session {
        let host = self.start(options).await;
        let session = host.new_session(OpenSession::new(self.work()));
        let session = soon("the session", session).await.unwrap();
        self.see_to_questions(&session).await;
        session
    }

    /// The session of before, in another process.
    pub(super) async fn load(&self, id: &str, options: HostOptions) -> Session {
        let host = self.start(options).await;
        let session = host.load_session(id, OpenSession::new(self.work()));
        soon("the old session", session).await.unwrap()
    }

    pub(super) async fn see_to_questions(&self, session: &Session) {
        let mode = session.host().agent().asking_mode.clone();
        assert_eq!(mode.as_deref(), self.agent.mode, "{}", self.agent.name);
        if let Some(mode) = mode {
            session.set_mode(&mode).await.unwrap();
        }
    }

    pub(super) fn work(&self) -> PathBuf {
        self.place.work().to_owned()
    }

    /// Where the note is written.
    pub(super) fn note(&self) -> PathBuf {
        note(&self.place)
    }

    /// What the command made, if it ran. The next turn finds nothing.
    pub(super) fn made(&self) -> Option<String> {
        let path = self.work().join("made.txt");
        let text = std::fs::read_to_string(&path).ok()?;
        std::fs::remove_file(path).unwrap();
        Some(text)
    }
}

fn note(place: &Place) -> PathBuf {
    place.work().join("note.txt")
}

/// A piece that calls the tool with which an agent writes a file, whatever that is called.
fn note_call(place: &Place) -> Value {
    let path = note(place);
    json!({ "call": [
        { "tool": "Write", "arguments": { "file_path": path, "content": "noted" } },
        { "tool": "write_file", "arguments": { "file_path": path, "content": "noted" } },
        { "tool": "write", "arguments": { "filePath": path, "content": "noted" } },
    ] })
}
