//! The agent that plays a script (`relay-harness/fake-agent`), as an agent of the configuration.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::{Desk, Setup};

/// The program. A test of the whole workspace has built it; for this package alone it is built once.
pub(crate) fn fake_agent() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_relay")).parent().unwrap();
        let program = folder.join("relay-fake-agent");
        if !program.exists() {
            let mut cargo = std::process::Command::new(env!("CARGO"));
            cargo.args([
                "build",
                "-q",
                "-p",
                "relay-harness",
                "--bin",
                "relay-fake-agent",
            ]);
            let target = folder.parent().unwrap();
            let built = cargo.arg("--target-dir").arg(target).status();
            assert!(built.unwrap().success(), "the fake agent can't be built");
        }
        program
    })
}

/// The settings of an agent that plays a script.
fn settings(script: &Value) -> toml::Value {
    let settings = [
        ("command", fake_agent().display().to_string().into()),
        ("args", toml::Value::Array(vec![script.to_string().into()])),
        ("title", "Fake".into()),
    ];
    let settings = settings.map(|(name, value): (_, toml::Value)| (name.to_owned(), value));
    toml::Value::Table(settings.into_iter().collect())
}

impl Setup {
    /// Configures agents that play scripts.
    pub(crate) fn agents(&self, scripts: &[(&str, &Value)]) {
        let agents = scripts.iter();
        let agents = agents.map(|(id, script)| ((*id).to_owned(), settings(script)));
        let agents = toml::Value::Table(agents.collect());
        let file = toml::Table::from_iter([("agents".to_owned(), agents)]);
        std::fs::create_dir_all(self.data()).unwrap();
        let text = toml::to_string(&file).unwrap();
        std::fs::write(self.data().join("relay.toml"), text).unwrap();
    }

    /// Configures the agent `fake` with a log of what it is told; where that is.
    pub(crate) fn fake(&self, mut script: Value) -> PathBuf {
        let log = self.file("agent-log");
        script["log"] = log.display().to_string().into();
        self.agents(&[("fake", &script)]);
        log
    }
}

impl Desk {
    /// A server, and the agent `fake` that plays a script; where its log is.
    pub(crate) async fn with_fake(script: Value) -> (Self, PathBuf) {
        let desk = Self::new().await;
        let log = desk.setup.fake(script);
        (desk, log)
    }
}

/// What an agent was told, of one method.
pub(crate) fn told(log: &Path, method: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|message: &Value| message["method"] == method)
        .collect()
}

/// The processes on this machine that were started with this in their arguments.
pub(crate) fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        if arguments.contains(text) {
            found.push(arguments);
        }
    }
    found
}
