//! What the tests need: an ACP client, the agents that it drives, and their ends.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod processes;

use std::io::Write as _;
use std::time::Duration;

use relay_script::Script;
use serde_json::{Value, json};

/// How long anything may take before a test gives up: much longer than it does on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for something that has to happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"))
}

/// Says so that nobody overlooks it that a test was left out: `scripts/test` repeats it in its summary.
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(notes) = std::env::var_os("RELAY_SKIPPED") {
        let mut notes = std::fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{test}: {why}").unwrap();
    }
}

pub(crate) fn script(value: Value) -> Script {
    Script::from_value(value).unwrap()
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
