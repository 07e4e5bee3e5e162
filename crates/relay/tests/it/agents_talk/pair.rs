//! Real agents as `relay run` runs them, each with a model that plays a script and a home of its own.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use relay_script::{Script, Server};
use serde_json::{Value, json};

use super::agents::{Agent, Place};
use crate::support::{Desk, PATIENCE, Runs, text};

/// How long it takes until processes are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An agent that runs.
pub(super) struct Played {
    pub(super) runs: Runs,
    pub(super) model: Server,
    pub(super) place: Place,
}

/// Two of them on one relay.
pub(super) struct Pair {
    pub(super) desk: Desk,
    pub(super) first: Played,
    pub(super) second: Played,
}

/// A piece that sends a message by the relay's tool, whatever the agent calls that.
pub(crate) fn calls_send(to: &str, text: &str, mode: Option<&str>) -> Value {
    let mut arguments = json!({ "to": to, "text": text });
    if let Some(mode) = mode {
        arguments["mode"] = mode.into();
    }
    json!({ "call": [{ "tool": "*send", "arguments": arguments }] })
}

impl Played {
    /// Runs it under its own name, and waits until it is on the relay.
    pub(super) async fn start(desk: &Desk, agent: &'static Agent, turns: Value) -> Self {
        let script = json!({ "turns": turns, "otherwise": "Fine." });
        let model = Server::start(Script::from_value(script).unwrap())
            .await
            .unwrap();
        let place = Place::new();
        let launch = agent.launch(&place, &model.url());
        let folder = launch.program.parent().unwrap().to_owned();
        let variables = launch.environment.iter().map(|(name, value)| match *name {
            "PATH" => ("PATH", with_folder(&folder, value)),
            name => (name, value.clone()),
        });
        let variables: Vec<(&str, OsString)> = variables.collect();
        // What the catalogue does not name, the user does.
        let names = variables.iter().flat_map(|(name, _)| ["--env", name]);
        let mut arguments = vec![agent.name, "--cwd", text(place.work())];
        arguments.extend(names);
        let mut runs = Runs::start_with(desk, &variables, &arguments);
        let attached = runs.until("attached").await;
        assert_eq!(attached["name"], agent.name);
        Self { runs, model, place }
    }

    /// How often the agent has asked its model about these words for the first time: not those in which they stand behind an answer.
    pub(super) fn times_prompted(&self, words: &str) -> usize {
        let requests = self.model.requests();
        let fresh = requests.iter().filter(|recorded| {
            let last = recorded.request.fresh_user();
            last.is_some_and(|said| said.words().contains(words))
        });
        fresh
            .filter(|recorded| !recorded.request.tools.is_empty())
            .count()
    }

    /// Ends it; no process is left. They are known by their home.
    pub(super) async fn end(self) {
        let (code, said) = self.runs.end().await;
        assert_eq!((code, said.as_str()), (0, ""));
        let home = format!("HOME={}", self.place.home().display());
        until_gone(|| with_entry(&home)).await;
    }
}

impl Pair {
    pub(super) async fn start(
        desk: Desk,
        first: (&'static Agent, Value),
        second: (&'static Agent, Value),
    ) -> Self {
        let first = Played::start(&desk, first.0, first.1).await;
        let second = Played::start(&desk, second.0, second.1).await;
        Self {
            desk,
            first,
            second,
        }
    }

    /// Both deliveries, once they have ended well, with everything that is known about them.
    pub(super) async fn deliveries(&self) -> Vec<Value> {
        let both = [
            "listen",
            "delivery.delivered",
            "--since",
            "0",
            "--count",
            "2",
        ];
        self.desk.ok(&both).await;
        let listed = self.desk.json(&["delivery", "list"]).await;
        let mut deliveries = Vec::new();
        for one in listed["items"].as_array().unwrap() {
            let id = one["deliveryId"].as_str().unwrap();
            deliveries.push(self.desk.json(&["delivery", "show", id]).await);
        }
        assert_eq!(deliveries.len(), 2);
        deliveries
    }

    pub(super) async fn end(self) {
        self.first.end().await;
        self.second.end().await;
    }
}

/// A search path with a folder before the others.
pub(crate) fn with_folder(folder: &Path, path: &OsStr) -> OsString {
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(path));
    std::env::join_paths(folders).unwrap()
}

/// Waits until there are no such processes. What an agent has started itself, such as `relay mcp`, ends when its pipe does, and that
/// takes a moment.
pub(crate) async fn until_gone(find: impl Fn() -> Vec<String>) {
    let gone = async {
        while !find().is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, gone).await;
    assert!(waited.is_ok(), "left: {:?}", find());
}

/// The processes that have this in their environment.
pub(crate) fn with_entry(entry: &str) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        if variables.any(|variable| variable == entry.as_bytes()) {
            let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&arguments).replace('\0', " "));
        }
    }
    found
}
