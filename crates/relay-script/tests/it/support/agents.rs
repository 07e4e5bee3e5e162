//! How each agent is run without network and key: its command, environment and configuration files.
//!
//! `tests/agents` has the packages and, in its README, what was seen of each. Other crates that drive agents share this file.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// An agent that can be installed.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    /// The program in `node_modules/.bin`.
    program: &'static str,
    arguments: &'static [&'static str],
    /// Writes its configuration, and returns its environment.
    configure: fn(&Path, &str) -> Vec<(&'static str, String)>,
    /// The mode in which it asks before it runs a command, where it doesn't by default.
    pub(crate) mode: Option<&'static str>,
    /// How a turn ends in which a call was rejected.
    pub(crate) rejected: &'static str,
    /// What becomes of a prompt that comes during a turn.
    pub(crate) second_prompt: SecondPrompt,
    /// Whether words can be put into a running turn, by the steering extension.
    pub(crate) steers: bool,
    /// Whether a session of a process that was killed can be loaded.
    pub(crate) loads: bool,
}

/// What becomes of a prompt that comes during a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SecondPrompt {
    /// Both turns come to their end.
    Queued,
    /// The first turn is cancelled.
    CancelsFirst,
    /// The first turn fails.
    FailsFirst,
}

const fn agent(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    configure: fn(&Path, &str) -> Vec<(&'static str, String)>,
) -> Agent {
    Agent {
        name,
        program,
        arguments,
        configure,
        mode: None,
        rejected: "end_turn",
        second_prompt: SecondPrompt::Queued,
        steers: false,
        loads: true,
    }
}

/// Those that need no login to work.
pub(crate) const WORKING: &[Agent] = &[
    Agent {
        steers: true,
        ..agent("claude", "claude-agent-acp", &[], claude)
    },
    Agent {
        mode: Some("read-only"),
        rejected: "cancelled",
        steers: true,
        ..agent("codex", "codex-acp", &[], codex)
    },
    agent("opencode", "opencode", &["acp"], opencode),
    Agent {
        second_prompt: SecondPrompt::CancelsFirst,
        loads: false,
        ..agent("gemini", "gemini", &["--acp"], gemini)
    },
    Agent {
        mode: Some("default"),
        second_prompt: SecondPrompt::FailsFirst,
        ..agent("qwen", "qwen", &["--acp"], qwen)
    },
    Agent {
        second_prompt: SecondPrompt::CancelsFirst,
        ..agent("copilot", "copilot", &["--acp"], copilot)
    },
];

/// Those that shake hands, and then want a login or another program.
pub(crate) const GREETING: &[Agent] = &[
    agent("auggie", "auggie", &["--acp"], nothing),
    agent("pi", "pi-acp", &[], nothing),
    agent("claude-zed", "claude-code-acp", &[], claude),
    agent(
        "droid",
        "droid",
        &["exec", "--output-format", "acp"],
        nothing,
    ),
    agent("qoder", "qodercli", &["--acp"], nothing),
];

/// The agent of this name among those that work, if it is installed.
pub(crate) fn working(name: &str) -> Option<&'static Agent> {
    let agent = WORKING.iter().find(|agent| agent.name == name).unwrap();
    agent.installed().then_some(agent)
}

/// Where an agent lives: a home, and a folder that it works in.
pub(crate) struct Place {
    home: TempDir,
    work: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            home: TempDir::new().unwrap(),
            work: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn work(&self) -> &Path {
        self.work.path()
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }
}

/// How an agent is started, in a cleared environment.
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Agent {
    /// Whether it is there. If it should be and is not, says that its tests are skipped.
    pub(crate) fn installed(&self) -> bool {
        let there = self.path().exists();
        if !there {
            let name = format!("ACP agent {}", self.name);
            if self.is_default() || std::env::var("RELAY_TEST_DEPTH").is_ok_and(|is| is == "full") {
                let why = "`npm ci` was not run in crates/relay-script/tests/agents, or failed";
                skipped(&name, why);
            } else {
                eprintln!("{name}: installed by `scripts/test full` only");
            }
        }
        there
    }

    /// Writes its configuration for the model at this URL, and says how it is started.
    pub(crate) fn launch(&self, place: &Place, model: &str) -> Launch {
        let home = place.home.path();
        fs::create_dir_all(home.join("tmp")).unwrap();
        let mut environment = vec![
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("HOME", home.into()),
            ("TMPDIR", home.join("tmp").into()),
            ("XDG_CONFIG_HOME", home.join(".config").into()),
            ("XDG_DATA_HOME", home.join(".local/share").into()),
            ("XDG_CACHE_HOME", home.join(".cache").into()),
            ("XDG_STATE_HOME", home.join(".local/state").into()),
        ];
        let own = (self.configure)(home, model).into_iter();
        environment.extend(own.map(|(name, value)| (name, value.into())));
        Launch {
            program: self.path(),
            arguments: self.arguments,
            environment,
        }
    }

    /// Whether it comes with the packages of the default test command.
    fn is_default(&self) -> bool {
        let text = fs::read_to_string(folder().join("package.json")).unwrap();
        let packages: Value = serde_json::from_str(&text).unwrap();
        let mut names = packages["dependencies"].as_object().unwrap().keys();
        names.any(|name| name.contains(self.program))
    }

    fn path(&self) -> PathBuf {
        folder().join("node_modules/.bin").join(self.program)
    }
}

/// Says so that nobody overlooks it that a test was left out: `scripts/test` repeats it in its summary.
fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(notes) = std::env::var_os("RELAY_SKIPPED") {
        let mut notes = std::fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{test}: {why}").unwrap();
    }
}

/// The same from every crate.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../relay-script/tests/agents")
}

/// What the shell is told to do when a tool is called.
pub(crate) const COMMAND: &str = "echo ran > made.txt && cat made.txt";

/// A piece that calls the agent's shell, whatever that is called.
pub(crate) fn shell_call() -> Value {
    let plain = json!({ "command": COMMAND, "description": "make a file" });
    let waits = json!({ "command": COMMAND, "description": "make a file", "is_background": false });
    // Only a call that wants out of the sandbox is asked about.
    let escalated = json!({
        "cmd": COMMAND, "sandbox_permissions": "require_escalated", "justification": "to test",
    });
    json!({ "call": [
        { "tool": "Bash", "arguments": plain },
        { "tool": "bash", "arguments": plain },
        { "tool": "run_shell_command", "arguments": waits },
        { "tool": "exec_command", "arguments": escalated },
    ] })
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn nothing(_home: &Path, _model: &str) -> Vec<(&'static str, String)> {
    Vec::new()
}

fn claude(_home: &Path, model: &str) -> Vec<(&'static str, String)> {
    vec![
        ("ANTHROPIC_API_KEY", "none".to_owned()),
        ("ANTHROPIC_BASE_URL", model.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        // Otherwise tools of MCP servers are hidden from the model.
        ("ENABLE_TOOL_SEARCH", "false".to_owned()),
    ]
}

fn codex(home: &Path, model: &str) -> Vec<(&'static str, String)> {
    let config = format!(
        r#"model = "scripted"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"#
    );
    let folder = home.join(".codex");
    write(folder.join("config.toml"), &config);
    vec![
        ("CODEX_HOME", folder.display().to_string()),
        ("SCRIPTED_KEY", "none".to_owned()),
    ]
}

fn opencode(home: &Path, model: &str) -> Vec<(&'static str, String)> {
    let config = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "enabled_providers": ["scripted"],
        "permission": { "bash": "ask", "edit": "ask" },
        "provider": { "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": { "baseURL": format!("{model}/v1"), "apiKey": "none" },
            "models": { "scripted": {
                "name": "Scripted", "tool_call": true,
                "limit": { "context": 100_000, "output": 8_000 },
            } },
        } },
    });
    let path = home.join(".config/opencode/opencode.json");
    write(path, &config.to_string());
    vec![
        ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
        ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
    ]
}

fn gemini(home: &Path, model: &str) -> Vec<(&'static str, String)> {
    let settings = json!({
        "security": { "auth": { "selectedType": "gemini-api-key" } },
        // By default a model is asked which model to take.
        "model": { "name": "gemini-2.5-flash" },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "general": { "enableAutoUpdate": false },
    });
    write(home.join(".gemini/settings.json"), &settings.to_string());
    vec![
        ("GEMINI_API_KEY", "none".to_owned()),
        ("GOOGLE_GEMINI_BASE_URL", model.to_owned()),
        ("GEMINI_CLI_TRUST_WORKSPACE", "true".to_owned()),
    ]
}

fn qwen(home: &Path, model: &str) -> Vec<(&'static str, String)> {
    let settings = json!({
        "security": { "auth": { "selectedType": "openai" } },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "general": { "enableAutoUpdate": false },
    });
    write(home.join(".qwen/settings.json"), &settings.to_string());
    vec![
        ("OPENAI_API_KEY", "none".to_owned()),
        ("OPENAI_BASE_URL", format!("{model}/v1")),
        ("OPENAI_MODEL", "scripted".to_owned()),
    ]
}

fn copilot(_home: &Path, model: &str) -> Vec<(&'static str, String)> {
    vec![
        ("COPILOT_PROVIDER_BASE_URL", format!("{model}/v1")),
        ("COPILOT_PROVIDER_API_KEY", "none".to_owned()),
        ("COPILOT_MODEL", "scripted".to_owned()),
        ("COPILOT_OFFLINE", "true".to_owned()),
        ("COPILOT_AUTO_UPDATE", "false".to_owned()),
    ]
}
