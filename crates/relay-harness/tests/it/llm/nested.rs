//! Agents that start agents: what they may do, how deep they go, and in which order it is told.

use relay_harness::llm::limits::RunLimits;
use relay_harness::llm::permits::{Strength, Verdict};
use relay_harness::llm::run::EndReason;
use serde_json::{Value, json};

use super::desk::Desk;
use super::world::{Plan, all, types};

fn agent(task: &str) -> Value {
    json!({ "tool": "agent", "arguments": { "task": task } })
}

fn echo(text: &str) -> Value {
    json!({ "tool": "echo", "arguments": { "text": text } })
}

fn when_user(words: &str, reply: Value) -> Value {
    json!({ "when": { "user": words }, "reply": reply })
}

#[tokio::test]
async fn a_nested_run_asks_for_itself_and_ends_before_its_call_has_a_result() {
    let desk = Desk::allowing(&["agent"]);
    let script = json!([
        when_user("go", json!([agent("the task")])),
        when_user("the task", json!([echo("inner")])),
        "sub",
        "parent",
    ]);
    let mut world = Plan::new(script, desk.clone()).start();
    let relay = world.until("relay").await;
    let outer = world.seen[0]["agentId"].clone();
    assert_eq!(relay["runId"], "run-2");
    assert_ne!(relay["agentId"], outer);
    assert_eq!(relay["parentId"], "run-1/call_1");
    assert_eq!(relay["toolCallId"], "run-2/call_1");
    let params = serde_json::Map::from_iter([("text".to_owned(), json!("inner"))]);
    desk.decide("run-2/call_1", Verdict::Allowed(params));
    let model = world.model.clone();
    let (events, outcome) = world.end().await;
    let story: Vec<String> = events
        .iter()
        .filter(|event| event["type"] != "usage")
        .map(|event| {
            format!(
                "{} {}",
                event["runId"].as_str().unwrap(),
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        story,
        [
            "run-1 harness_start",
            "run-1 tool_call",
            "run-2 harness_start",
            "run-2 relay",
            "run-2 relay_resolved",
            "run-2 tool_call",
            "run-2 tool_result",
            "run-2 text",
            "run-2 harness_end",
            "run-1 tool_result",
            "run-1 text",
            "run-1 harness_end",
        ]
    );
    let result = all(&events, "tool_result")[1];
    assert_eq!(result["output"]["context"], "sub");
    assert_eq!(outcome.text, "parent");
    // It has the instructions of the outermost run, and the task; nothing else of the conversation.
    let inner = &model.asked()[1].messages;
    assert_eq!(inner.len(), 2);
    assert_eq!(
        desk.log(),
        [
            "ask run-1/call_1 agent",
            "start run-1/call_1",
            "nested run-1 run-2",
            "ask run-2/call_1 echo",
            "start run-2/call_1",
            "completed run-2/call_1",
            "end run-2",
            "completed run-1/call_1",
            "end run-1",
        ]
    );
}

#[tokio::test]
async fn two_agents_work_at_once_and_a_refusal_of_one_is_none_of_the_other() {
    let desk = Desk::allowing(&["agent"]);
    let script = json!([
        when_user("go", json!([agent("first"), agent("second")])),
        when_user("first", json!([echo("one")])),
        when_user("second", json!([echo("two")])),
        { "when": { "said": "first" }, "reply": "one done", "times": 1 },
        { "when": { "said": "second" }, "reply": "two done", "times": 1 },
        "all done",
    ]);
    let mut world = Plan::new(script, desk.clone()).start();
    world.until("relay").await;
    world.until("relay").await;
    let runs: Vec<String> = all(&world.seen, "relay")
        .iter()
        .map(|relay| relay["runId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(runs, ["run-2", "run-3"]);
    let refusal = Verdict::Denied {
        reason: None,
        strength: Strength::Turn,
    };
    desk.decide("run-3/call_1", refusal);
    let params = serde_json::Map::from_iter([("text".to_owned(), json!("one"))]);
    desk.decide("run-2/call_1", Verdict::Allowed(params));
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Final);
    let results: Vec<&Value> = all(&events, "tool_result")
        .into_iter()
        .filter(|event| event["runId"] == "run-1")
        .collect();
    assert_eq!(results[0]["output"]["result"]["reason"], "final");
    assert_eq!(results[1]["output"]["result"]["reason"], "stopped");
}

#[tokio::test]
async fn agents_are_nested_only_so_deep() {
    // Each one that is asked something starts another.
    let script = json!([
        { "when": { "result": "deeper than" }, "reply": "bottom" },
        { "when": { "result": "bottom" }, "reply": "bottom" },
        { "when": { "user": "" }, "reply": [agent("deeper")] },
    ]);
    let desk = Desk::open();
    let (events, outcome) = Plan::new(script, desk.clone()).start().end().await;
    assert_eq!(outcome.text, "bottom");
    let depths: Vec<&Value> = all(&events, "harness_start")
        .iter()
        .map(|event| &event["depth"])
        .collect();
    assert_eq!(depths, [1, 2, 3, 4]);
    let started = types(&events)
        .iter()
        .filter(|kind| **kind == "harness_start")
        .count();
    let ended = types(&events)
        .iter()
        .filter(|kind| **kind == "harness_end")
        .count();
    assert_eq!((started, ended), (4, 4));
}

#[tokio::test]
async fn only_so_many_agents_live_at_once() {
    let script = json!([
        when_user("go", json!([agent("a"), agent("b"), agent("c")])),
        { "when": { "user": "a" }, "reply": [{ "wait": "gate" }, "done"] },
        { "when": { "user": "b" }, "reply": [{ "wait": "gate" }, "done"] },
        "end",
    ]);
    let mut plan = Plan::new(script, Desk::open());
    plan.limits = RunLimits {
        children: 2,
        ..RunLimits::default()
    };
    let mut world = plan.start();
    for _ in 0..3 {
        world.until("harness_start").await;
    }
    world.model.open("gate");
    let (events, _) = world.end().await;
    let outputs: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["output"])
        .collect();
    assert_eq!(outputs[0]["context"], "done");
    assert_eq!(outputs[1]["context"], "done");
    assert!(
        outputs[2]["error"]
            .as_str()
            .unwrap()
            .contains("2 agents are already at work")
    );
}

#[tokio::test]
async fn rules_are_narrowed_and_models_chosen_by_the_call() {
    let narrow = json!({ "tool": "agent", "arguments": {
        "task": "t", "model": "clever", "permissions": { "deny": ["bash"] },
    } });
    let unknown = json!({ "tool": "agent", "arguments": { "task": "t", "model": "nobody" } });
    let script =
        json!([[narrow, unknown], { "when": { "model": "clever" }, "reply": "sub" }, "done"]);
    let desk = Desk::open();
    let world = Plan::new(script, desk.clone()).start();
    let model = world.model.clone();
    let (events, _) = world.end().await;
    assert!(
        desk.log()
            .contains(&"nested run-1 run-2 narrower".to_owned())
    );
    assert_eq!(model.asked()[1].model, "clever");
    let outputs: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["output"])
        .collect();
    assert_eq!(outputs[0]["context"], "sub");
    assert!(
        outputs[1]["error"]
            .as_str()
            .unwrap()
            .contains("no model \"nobody\"")
    );
}

#[tokio::test]
async fn a_cancelled_run_ends_those_below_it_first() {
    let desk = Desk::allowing(&["agent"]);
    let script = json!([
        when_user("go", json!([agent("asks"), agent("speaks")])),
        when_user("asks", json!([echo("x")])),
        when_user("speaks", json!(["words", { "wait": "never" }])),
    ]);
    let mut world = Plan::new(script, desk.clone()).start();
    let (mut asked, mut spoke) = (false, false);
    while !(asked && spoke) {
        let event = world.next().await.unwrap();
        asked |= event["type"] == "relay";
        spoke |= event["type"] == "text";
    }
    world.cancel.cancel();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Cancelled);
    let ends: Vec<&Value> = all(&events, "harness_end")
        .iter()
        .map(|event| &event["runId"])
        .collect();
    assert_eq!(ends.len(), 3);
    assert_eq!(ends[2], "run-1");
    for end in all(&events, "harness_end") {
        assert_eq!(end["reason"], "cancelled");
    }
    let calls = all(&events, "tool_call").len();
    let of_calls = all(&events, "tool_result");
    assert_eq!(calls, 2);
    assert_eq!(
        of_calls.len(),
        3,
        "the one that was never allowed has a result, too"
    );
    assert!(desk.log().contains(&"cancel run-2/call_1".to_owned()));
}
