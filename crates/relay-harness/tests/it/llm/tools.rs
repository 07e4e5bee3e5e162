//! The tools in runs: real programs and real files.

use std::sync::Arc;

use relay_harness::llm::run::EndReason;
use serde_json::{Value, json};

use super::desk::Desk;
use super::world::{Plan, World, all};
use crate::processes;

fn bash(command: &str) -> Value {
    json!({ "tool": "bash", "arguments": { "command": command } })
}

/// The outputs of some calls, one after the other.
async fn outputs(calls: Value) -> (Vec<Value>, Vec<Value>) {
    let (events, _) = Plan::new(json!([calls, "done"]), Desk::open())
        .start()
        .end()
        .await;
    let outputs = all(&events, "tool_result").into_iter();
    let outputs = outputs.map(|event| event["output"].clone()).collect();
    (outputs, events)
}

#[tokio::test]
async fn commands_give_their_output_as_it_comes_and_how_they_ended() {
    let (outputs, events) = outputs(json!([
        bash("echo out; echo err >&2; echo 👋"),
        bash("echo no; exit 3"),
        bash("kill -9 $$"),
        { "tool": "bash", "arguments": { "command": "pwd; cat", "cwd": "/" } },
        { "tool": "bash", "arguments": { "command": "pwd", "cwd": "/nowhere/at/all" } },
        bash("echo $RELAY_TOKEN$SECRET_OF_PARENT"),
    ]))
    .await;
    assert_eq!(outputs[0]["context"], "out\nerr\n👋\n");
    assert_eq!(outputs[0]["result"]["exitCode"], 0);
    assert_eq!(outputs[1]["context"], "no\n[exit status: 3]");
    assert_eq!(outputs[1]["result"]["exitCode"], 3);
    assert_eq!(outputs[2]["result"]["exitCode"], Value::Null);
    assert!(
        outputs[2]["context"]
            .as_str()
            .unwrap()
            .contains("signal: 9")
    );
    // Standard input is closed: nothing waits for what nobody types.
    assert_eq!(outputs[3]["context"], "/\n");
    assert!(
        outputs[4]["error"]
            .as_str()
            .unwrap()
            .contains("expected a directory")
    );
    assert_eq!(outputs[5]["context"], "\n");
    let shown: String = all(&events, "tool_progress")
        .iter()
        .filter(|event| event["toolCallId"] == "run-1/call_1")
        .map(|event| event["content"]["data"].as_str().unwrap())
        .collect();
    assert_eq!(shown, "out\nerr\n👋\n");
}

#[tokio::test]
async fn a_secret_that_is_printed_in_two_pieces_is_not_shown() {
    // The second piece comes when the first was read: the pipe between is empty then.
    let command =
        "printf 'key: sk-proj-abcdefghijkl'; sleep 0.02; echo mnopqrstuvwxyz0123456789; echo after";
    let (_, events) = outputs(json!([bash(command)])).await;
    let shown: String = all(&events, "tool_progress")
        .iter()
        .map(|event| event["content"]["data"].as_str().unwrap())
        .collect();
    assert!(
        shown.starts_with("key: ") && shown.ends_with("after\n"),
        "{shown}"
    );
    assert!(!shown.contains("mnopqrst"), "{shown}");
}

#[tokio::test]
async fn of_much_output_the_beginning_and_the_end_are_kept() {
    let (outputs, _) = outputs(json!([bash("echo first; seq 1 100000; echo last")])).await;
    let text = outputs[0]["context"].as_str().unwrap();
    assert!(text.starts_with("first\n1\n2\n") && text.ends_with("100000\nlast\n"));
    assert!(text.contains("bytes left out"));
    assert!(text.len() < 70 * 1024, "{}", text.len());
    assert_eq!(outputs[0]["result"]["truncated"], true);
}

#[tokio::test]
async fn a_command_that_is_too_slow_is_ended_with_all_that_it_started() {
    let call = json!({ "tool": "bash", "arguments": {
        "command": "echo begun; sleep 987 & sleep 987", "timeoutMs": 300,
    } });
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let mark = format!("MARKED={}", directory.path().display());
    let leaves = bash(&format!(
        "export {mark}; setsid sleep 987 & sleep 987 & echo left"
    ));
    let script = json!([[call, leaves], "done"]);
    let world = Plan::new(script, Desk::open()).start_in(directory.clone());
    let (events, _) = world.end().await;
    let outputs: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["output"])
        .collect();
    assert_eq!(outputs[0]["result"]["timedOut"], true);
    assert_eq!(outputs[0]["context"], "begun\n[ended after 300 ms]");
    assert_eq!(outputs[1]["context"], "left\n");
    assert!(processes::with_entry(&mark).is_empty());
}

#[tokio::test]
async fn a_cancelled_run_ends_its_commands() {
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let mark = format!("MARKED={}", directory.path().display());
    let command = format!("export {mark}; setsid sleep 987 & echo here; sleep 987");
    let script = json!([[bash(&command)], "never"]);
    let desk = Desk::open();
    let mut world: World = Plan::new(script, desk.clone()).start_in(directory.clone());
    world.until("tool_progress").await;
    world.cancel.cancel();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Cancelled);
    assert_eq!(
        all(&events, "tool_result")[0]["output"]["status"],
        "cancelled"
    );
    assert!(desk.log().contains(&"failed run-1/call_1".to_owned()));
    assert!(processes::with_entry(&mark).is_empty());
}

#[tokio::test]
async fn files_are_written_patched_and_read_in_order() {
    let patch = "*** Begin Patch\n*** Update File: a/b.txt\n-two\n+2\n*** End Patch";
    let (outputs, _) = outputs(json!([
        { "tool": "write", "arguments": { "path": "a/b.txt", "content": "one\ntwo\n" } },
        { "tool": "patch", "arguments": { "patch": patch } },
        { "tool": "read", "arguments": { "path": "a/b.txt" } },
        { "tool": "read", "arguments": { "path": "../outside" } },
        bash("cat a/b.txt"),
    ]))
    .await;
    assert_eq!(outputs[0]["context"], "created a/b.txt, 8 bytes");
    assert_eq!(outputs[1]["context"], "M a/b.txt");
    assert_eq!(outputs[2]["context"], "one\n2\n");
    assert!(outputs[3]["error"].as_str().unwrap().contains("outside"));
    assert_eq!(outputs[4]["context"], "one\n2\n");
}
