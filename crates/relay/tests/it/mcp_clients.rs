//! MCP clients of others: the official SDK of another language, and the official conformance suite, over both transports.
//!
//! They are in `tests/mcp-clients`; `npm ci` there installs them, which `scripts/test` does. Which scenarios of the suite can't hold here is
//! in `expected-failures.yaml`, with the reason; the suite fails if one of them holds after all.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use relay_sdk::{Action, ActionCall, AgentClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{Desk, finish, node, soon, text};

/// Where the clients are.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp-clients")
}

/// Node, if it is there and the clients are installed.
fn node_with_clients() -> Option<PathBuf> {
    node("MCP clients", &folder(), "@modelcontextprotocol/sdk")
}

/// How a client reaches Relay.
#[derive(Clone, Copy, Debug)]
enum Way {
    Http,
    Stdio,
}

impl Way {
    /// What the scripts are told.
    fn arguments(self, desk: &Desk, agent: &AgentClient) -> Vec<String> {
        let told: &[&str] = match self {
            Self::Http => &["http", &format!("{}/mcp", desk.server.url), agent.token()],
            Self::Stdio => &[
                "stdio",
                env!("CARGO_BIN_EXE_relay"),
                "mcp",
                "--as",
                &agent.identity().name,
            ],
        };
        told.iter().map(|word| (*word).to_owned()).collect()
    }
}

fn script(node: &Path, desk: &Desk, name: &str) -> Command {
    let mut command = Command::new(node);
    command.arg(folder().join(name));
    command.env("RELAY_DATA", desk.setup.data());
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// A client that tells what it sees.
struct Told {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Told {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What it says at a step.
    async fn step(&mut self, name: &str) -> Value {
        let line = soon(name, self.lines.next_line()).await.unwrap();
        let told: Value = serde_json::from_str(&line.expect("it goes on")).unwrap();
        assert_eq!(told["step"], name, "{told}");
        told
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_another_language_lists_hears_calls_and_reads_over_http() {
    a_client_lists_hears_calls_and_reads(Way::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_another_language_lists_hears_calls_and_reads_over_stdio() {
    a_client_lists_hears_calls_and_reads(Way::Stdio).await;
}

async fn a_client_lists_hears_calls_and_reads(way: Way) {
    let Some(node) = node_with_clients() else {
        return;
    };
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let (ada, bob) = (desk.agent("ada").await, desk.agent("bob").await);
    let mut command = script(&node, &desk, "client.mjs");
    command.args(way.arguments(&desk, &ada));
    let mut client = Told::start(command);
    let server = client.step("server").await;
    assert_eq!(server["name"], "relay");
    assert!(server["instructions"].as_str().unwrap().contains("@ada"));
    let tools = client.step("tools").await;
    assert_eq!(tools["names"], json!(["send", "check", "people"]));
    let schema = json!({
        "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
    });
    let classify = Action::with_schema("classify", schema).notify_caller();
    let handling = bob.register_action(classify, |call: ActionCall| async move {
        Ok(json!({ "label": call.input["text"] }))
    });
    let _handling = handling.await.unwrap();
    let tools = client.step("changed").await;
    assert_eq!(
        tools["names"],
        json!(["send", "check", "people", "classify"])
    );
    let called = client.step("called").await;
    assert!(called["structured"]["invocationId"].is_string(), "{called}");
    let outcome = client.step("outcome").await;
    assert!(
        outcome["text"]
            .as_str()
            .unwrap()
            .contains(r#"{"label":"hello"}"#)
    );
    let refused = client.step("refused").await;
    assert_eq!(refused["isError"], true);
    assert!(refused["text"].as_str().unwrap().contains("input.text"));
    assert_eq!(client.step("sent").await["isError"], false);
    assert_eq!(
        client.step("updated").await["uri"],
        "relay://channel/general"
    );
    let read = client.step("read").await;
    assert!(
        read["text"]
            .as_str()
            .unwrap()
            .contains("from another language")
    );
    client.step("end").await;
    assert!(
        soon("the end", client.child.wait())
            .await
            .unwrap()
            .success()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_finds_what_it_may_over_http() {
    the_conformance_suite_finds_what_it_may(Way::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_finds_what_it_may_over_stdio() {
    the_conformance_suite_finds_what_it_may(Way::Stdio).await;
}

async fn the_conformance_suite_finds_what_it_may(way: Way) {
    let Some(node) = node_with_clients() else {
        return;
    };
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let (ada, bob) = (desk.agent("ada").await, desk.agent("bob").await);
    // What the suite wants to find in the list of tools can be an action.
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": {
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
        } },
        "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
        "additionalProperties": false,
    });
    let action = Action::with_schema("json_schema_2020_12_tool", schema);
    let handling = bob.register_action(action, |_| async { Ok(Value::Null) });
    let _handling = handling.await.unwrap();
    let mut command = script(&node, &desk, "conformance.mjs");
    command.arg(text(&folder().join("expected-failures.yaml")));
    command.args(way.arguments(&desk, &ada));
    let done = finish(&mut command).await;
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
}
