//! The loop and its nested agents, as a stream shows them.

use relay_harness::llm::limits::RunLimits;
use serde_json::{Value, json};

use crate::hall::{Hall, Plan, agent, all, bash, types};

/// A run's events, as `type`.
fn of_run<'e>(events: &'e [Value], run: &Value) -> Vec<&'e Value> {
    let own = events.iter().filter(|event| event["runId"] == *run);
    own.collect()
}

#[tokio::test]
async fn all_questions_of_a_turn_are_there_before_any_is_answered() {
    let hall = Hall::start(json!([[bash("a b"), bash("c d")], "done"])).await;
    let mut look = hall.begin(json!({})).await;
    let (first, second) = (look.until("relay").await, look.until("relay").await);
    hall.approve(&look, &second).await;
    look.until("relay_resolved").await;
    hall.approve(&look, &first).await;
    let events = look.end().await;
    let ids = |kind: &str| -> Vec<Value> {
        let found = all(&events, kind);
        found.iter().map(|event| event["id"].clone()).collect()
    };
    let calls = [first["toolCallId"].clone(), second["toolCallId"].clone()];
    assert_eq!(ids("tool_result"), calls);
    assert_eq!(ids("tool_call"), calls);
    assert_eq!(hall.ran.commands(), ["a b", "c d"]);
}

#[tokio::test]
async fn a_call_that_is_allowed_does_not_wait_for_one_that_is_not() {
    let hall = Hall::start(json!([[bash("ls a"), bash("rm b")], "done"])).await;
    let mut look = hall.begin(json!({ "allowlist": ["bash:ls *"] })).await;
    let result = look.until("tool_result").await;
    let relay = all(&look.seen, "relay")[0].clone();
    assert_ne!(relay["toolCallId"], result["id"]);
    assert_eq!(hall.ran.commands(), ["ls a"]);
    hall.approve(&look, &relay).await;
    look.end().await;
    assert_eq!(hall.ran.commands(), ["ls a", "rm b"]);
}

#[tokio::test]
async fn what_cant_run_is_asked_about_by_nobody_and_the_run_goes_on() {
    let ghost = json!({ "tool": "ghost", "arguments": {} });
    let broken = json!({ "tool": "bash", "arguments": "{\"command\": \"ls" });
    let list = json!({ "tool": "bash", "arguments": "[1]" });
    let rules = json!({ "allowlist": [{ "tool": "bash", "params": { "command": "ls *" } }] });
    for (call, why) in [(ghost, "ghost"), (broken, "JSON"), (list, "JSON object")] {
        let hall = Hall::start(json!([[call], "done"])).await;
        let events = hall.begin(rules.clone()).await.end().await;
        assert_eq!(
            types(&events)[2..],
            ["tool_call", "tool_result", "text", "harness_end"]
        );
        let error = all(&events, "tool_result")[0]["output"]["error"].as_str();
        assert!(error.unwrap().contains(why), "{error:?}");
        assert!(hall.ran.calls().is_empty());
    }
}

#[tokio::test]
async fn a_tool_that_breaks_is_the_end_of_its_call_only() {
    for (tool, why) in [("breaks", "it broke"), ("panics", "the tool broke down")] {
        let call = json!({ "tool": tool, "arguments": {} });
        let hall = Hall::start(json!([[call, bash("ls")], "done"])).await;
        let rules = json!({ "allowlist": [tool, "bash"] });
        let events = hall.begin(rules).await.end().await;
        let (calls, results) = (all(&events, "tool_call"), all(&events, "tool_result"));
        assert_eq!((calls.len(), results.len()), (2, 2));
        assert_eq!(results[0]["id"], calls[0]["id"]);
        assert_eq!(results[0]["output"], json!({ "error": why }));
        assert_eq!(results[1]["output"]["result"]["exitCode"], 0);
        assert!(all(&events, "error").is_empty());
        assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
    }
}

#[tokio::test]
async fn after_so_many_turns_the_model_sums_up() {
    let limits = RunLimits {
        iterations: 2,
        ..RunLimits::default()
    };
    let script = json!([
        { "when": { "tools": true }, "reply": [bash("ls")] },
        { "when": { "tools": false }, "reply": "enough" },
    ]);
    let plan = Plan {
        limits,
        ..Plan::new(script)
    };
    let hall = plan.start().await;
    let events = hall
        .begin(json!({ "allowlist": ["bash"] }))
        .await
        .end()
        .await;
    assert_eq!(all(&events, "tool_result").len(), 2);
    assert_eq!(all(&events, "text")[0]["content"], "enough");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "max_iterations");
}

#[tokio::test]
async fn a_nested_agent_asks_for_itself_and_ends_before_its_call() {
    let script = json!([
        { "when": { "user": "go" }, "reply": [agent("t")] },
        { "when": { "user": "t" }, "reply": [bash("ls -la")] },
        "sub",
        "parent",
    ]);
    let hall = Hall::start(script).await;
    let mut look = hall.begin(json!({ "allowlist": ["agent"] })).await;
    let relay = look.until("relay").await;
    let call = all(&look.seen, "tool_call")[0].clone();
    let outer = look.seen[1].clone();
    assert_eq!(relay["parentId"], call["id"]);
    assert_ne!(relay["agentId"], outer["agentId"]);
    assert_ne!(relay["runId"], outer["runId"]);
    let (run, id) = (relay["runId"].as_str(), relay["toolCallId"].as_str());
    assert!(id.unwrap().starts_with(run.unwrap()), "{relay}");
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    for event in of_run(&events, &relay["runId"]) {
        assert_eq!(event["parentId"], call["id"], "{event}");
        assert_eq!(event["agentId"], relay["agentId"], "{event}");
    }
    for event in of_run(&events, &outer["runId"]) {
        assert!(event.get("parentId").is_none(), "{event}");
    }
    let result = events
        .iter()
        .position(|event| event["type"] == "tool_result" && event["id"] == call["id"]);
    let ended = events
        .iter()
        .position(|event| event["type"] == "harness_end" && event["runId"] == relay["runId"]);
    assert!(ended.unwrap() < result.unwrap());
    assert_eq!(events[result.unwrap()]["output"]["context"], "sub");
    assert_eq!(all(&events, "text").last().unwrap()["content"], "parent");
}

#[tokio::test]
async fn two_agents_ask_at_once_and_a_refusal_of_one_is_none_of_the_other() {
    let script = json!([
        { "when": { "user": "go" }, "reply": [agent("first"), agent("second")] },
        { "when": { "user": "first" }, "reply": [bash("one 1")] },
        { "when": { "user": "second" }, "reply": [bash("two 2")] },
        { "when": { "said": "first" }, "reply": "one done", "times": 1 },
        { "when": { "said": "second" }, "reply": "two done", "times": 1 },
        "all done",
    ]);
    let hall = Hall::start(script).await;
    let mut look = hall.begin(json!({ "allowlist": ["agent"] })).await;
    let relays = [look.until("relay").await, look.until("relay").await];
    let is_first = |relay: &&Value| relay["params"]["command"] == "one 1";
    let first = relays.iter().find(is_first).unwrap();
    let second = relays.iter().find(|relay| !is_first(relay)).unwrap();
    assert_ne!(first["agentId"], second["agentId"]);
    hall.deny(&look, second).await;
    look.until("relay_resolved").await;
    assert_eq!(hall.pending().await.len(), 1);
    hall.approve(&look, first).await;
    look.end().await;
    assert_eq!(hall.ran.commands(), ["one 1"]);
}

#[tokio::test]
async fn an_agent_that_is_given_no_rules_asks_too() {
    let task = json!({ "tool": "agent", "arguments": { "task": "t", "permissions": {} } });
    for call in [agent("t"), task] {
        let script = json!([
            { "when": { "user": "go" }, "reply": [call] },
            { "when": { "user": "t" }, "reply": [bash("ls")] },
            "sub",
            "parent",
        ]);
        let hall = Hall::start(script).await;
        let mut look = hall.begin(json!({ "allowlist": ["agent"] })).await;
        let relay = look.until("relay").await;
        assert_eq!(relay["tool"], "bash");
        assert!(hall.ran.calls().is_empty());
        hall.deny(&look, &relay).await;
        look.end().await;
        assert!(hall.ran.calls().is_empty());
    }
}
