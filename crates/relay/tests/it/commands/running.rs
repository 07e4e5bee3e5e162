//! `relay run` with an agent that plays a script: as whom it runs, what it is handed, what is shown, how it ends.

mod killed;
mod names;
mod restarts;
mod tools;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Desk, Runs, Setup, finish, processes_with, text, told};

/// No process of the agent is left.
fn nothing_left(log: &Path) {
    assert_eq!(processes_with(text(log)), [""; 0]);
}

fn asks() -> Value {
    json!({"ask": {
        "toolCall": {"toolCallId": "c", "kind": "execute", "title": "rm x", "rawInput": {"command": "rm x"}},
        "options": [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ],
    }})
}

#[tokio::test]
async fn a_message_becomes_a_turn_and_is_delivered() {
    let (desk, log) =
        Desk::with_fake(json!({"turns": [[{"text": "Heard."}, {"stop": "end_turn"}]]})).await;
    desk.register(&["ada"]).await;
    let mut runs = Runs::start(&desk, &["fake", "--as", "bob"]);
    let attached = runs.until("attached").await;
    assert_eq!(
        (&attached["agent"], &attached["name"]),
        (&json!("Fake"), &json!("bob"))
    );
    assert_eq!(attached["agentSessionId"], "session-1");
    let sessions = desk.json(&["session", "list"]).await;
    assert_eq!(sessions["items"][0]["harness"], "acp/fake");
    assert_eq!(sessions["items"][0]["sessionId"], attached["sessionId"]);

    // A prompt of its user.
    runs.enter("hello").await;
    let prompt = runs.until("prompt").await;
    assert_eq!(prompt["text"], "hello");
    runs.says("Heard.").await;
    runs.status("idle").await;

    // A message of somebody else.
    let sent = desk
        .json(&["send", "bob", "Shall we ship?", "--as", "ada"])
        .await;
    assert_eq!(sent["deliveries"][0]["state"], "delivered");
    let message = runs.until("message").await;
    assert_eq!(message["message"]["text"], "Shall we ship?");
    assert_eq!(message["message"]["from"]["name"], "ada");
    let id = sent["deliveries"][0]["deliveryId"].as_str().unwrap();
    let delivery = desk.json(&["delivery", "show", id]).await;
    let receipt = delivery["receipts"].as_array().unwrap().last().unwrap();
    assert_eq!(receipt["receipt"]["metadata"]["door"], "acp.prompt");
    let prompts = told(&log, "session/prompt");
    assert_eq!(prompts[0]["params"]["prompt"][0]["text"], "hello");
    let came = prompts[1]["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(
        came.contains("Shall we ship?") && came.contains("@ada"),
        "{came}"
    );

    assert_eq!(runs.end().await, (0, String::new()));
    nothing_left(&log);
    let sessions = desk.json(&["session", "list"]).await;
    assert_eq!(sessions["items"], json!([]));
}

#[tokio::test]
async fn the_agent_is_handed_its_own_tools_and_nothing_else() {
    let (desk, log) = Desk::with_fake(json!({})).await;
    let runs = Runs::attached(&desk, &["fake"]).await;
    let opened = &told(&log, "session/new")[0]["params"];
    let server = &opened["mcpServers"][0];
    let args = server["args"].as_array().unwrap();
    assert_eq!(
        (&server["name"], &args[0], &args[1], args.len()),
        (&json!("relay"), &json!("mcp"), &json!("--announce"), 3)
    );
    assert_eq!(server["command"], env!("CARGO_BIN_EXE_relay"));
    let variables = server["env"].as_array().unwrap().iter();
    let variables: std::collections::BTreeMap<&str, &str> = variables
        .map(|variable| {
            (
                variable["name"].as_str().unwrap(),
                variable["value"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        variables.keys().collect::<Vec<_>>(),
        [&"RELAY_TOKEN", &"RELAY_URL"]
    );
    let token = desk.json(&["token", "show", "--as", "fake"]).await;
    assert_eq!(variables["RELAY_TOKEN"], token["token"]);
    assert_eq!(variables["RELAY_URL"], desk.server.url);
    // Neither the data nor a key is anywhere in what it is told or given.
    let all = std::fs::read_to_string(&log).unwrap();
    assert!(!all.contains(text(&desk.setup.data())), "{all}");
    assert!(!all.contains("rk_"), "{all}");
    runs.end().await;
}

#[tokio::test]
async fn a_permission_is_asked_on_the_relay_and_decided_elsewhere() {
    let (desk, log) = Desk::with_fake(json!({"turns": [[asks(), {"stop": "end_turn"}]]})).await;
    let mut runs = Runs::attached(&desk, &["fake", "clean up"]).await;
    let asked = runs.until("asked").await;
    assert_eq!(asked["permission"]["tool"], "execute");
    assert_eq!(asked["permission"]["params"]["command"], "rm x");
    let sessions = desk.json(&["session", "list"]).await;
    // Nobody was reached.
    assert_eq!(sessions["items"][0]["status"], "blocked");
    desk.ok(&["permission", "approve"]).await;
    let decided = runs.until("decided").await;
    assert_eq!(decided["permission"]["outcome"]["via"], "cli");
    runs.says(r#""optionId":"yes""#).await;

    // The next one nobody needs: Ctrl-C cancels the turn, and the request with it.
    runs.enter("again").await;
    let asked = runs.until("asked").await;
    runs.running.interrupt();
    runs.status("idle").await;
    let decided = runs.until("decided").await;
    assert_eq!(decided["permission"]["state"], "cancelled");
    assert_eq!(
        decided["permission"]["permissionId"],
        asked["permission"]["permissionId"]
    );
    assert_eq!(told(&log, "session/cancel").len(), 1);
    // Nothing runs, and nobody sits there: the next one is the end.
    runs.running.interrupt();
    runs.until("released").await;
    assert_eq!(runs.running.end().await, (0, String::new()));
    nothing_left(&log);
}

#[tokio::test]
async fn people_read_it_in_words() {
    let (desk, _log) = Desk::with_fake(json!({"turns": [[
        {"text": "On "}, {"text": "it.\nNow"},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read", "title": "Read a.txt"}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}},
        {"stop": "end_turn"},
    ]]}))
    .await;
    let mut running = desk.start(&["run", "fake", "--cwd", "/", "look"]);
    let mut lines = Vec::new();
    while lines.last().map(String::as_str) != Some("is idle") || lines.len() < 5 {
        lines.push(running.line().await);
    }
    let expected = [
        "@fake runs Fake in /  session-1",
        "is idle",
        "> look",
        "is active",
        "On it.",
        "Now",
        "tool read: Read a.txt  called",
        "tool read: Read a.txt  completed",
        "is idle",
    ];
    assert_eq!(lines, expected);
    running.terminate();
    assert_eq!(running.line().await, "released");
    assert_eq!(running.end().await.0, 0);
}

#[tokio::test]
async fn somebody_else_may_release_it() {
    let (desk, log) = Desk::with_fake(json!({})).await;
    let mut runs = Runs::start(&desk, &["fake"]);
    let attached = runs.until("attached").await;
    let session = attached["sessionId"].as_str().unwrap();
    desk.ok(&["session", "release", session]).await;
    runs.until("released").await;
    assert_eq!(runs.running.end().await, (0, String::new()));
    nothing_left(&log);
}

#[tokio::test]
async fn what_can_not_be_run_is_told_before_anything_happens() {
    let desk = Desk::new().await;
    let (code, said) = desk.refused(&["run", "--", "vim"]).await;
    assert_eq!(code, 2);
    assert_eq!(
        said,
        "relay: expected an agent that speaks ACP before `--`; other programs can't be run on the relay yet\n\
         next: `relay acp agents` shows which there are\n"
    );
    let (code, said) = desk.refused(&["run"]).await;
    assert_eq!(
        (code, said.contains("expected an agent to run, found none")),
        (2, true),
        "{said}"
    );
    let (code, said) = desk.refused(&["run", "claude"]).await;
    assert_eq!(
        (code, said.contains("claude is not installed")),
        (4, true),
        "{said}"
    );
    // Nobody was registered for it.
    assert_eq!(desk.json(&["agent", "list"]).await["items"], json!([]));

    let alone = Setup::new();
    alone.fake(json!({}));
    let mut command = alone.relay();
    command
        .env("RELAY_DATA", alone.data())
        .args(["run", "fake"]);
    let done = finish(&mut command).await;
    assert_eq!(done.code, 3);
    assert!(
        done.err.contains("next: start a server: relay up"),
        "{done:?}"
    );
}
