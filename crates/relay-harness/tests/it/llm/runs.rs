//! Whole runs on a scripted model: what is told in which order, who is asked, and how runs end.

use relay_harness::llm::conversation::{Content, Message};
use relay_harness::llm::limits::RunLimits;
use relay_harness::llm::permits::{Strength, Verdict};
use relay_harness::llm::run::EndReason;
use serde_json::{Value, json};

use super::desk::Desk;
use super::world::{Plan, all, types};

fn echo(text: &str) -> Value {
    json!({ "tool": "echo", "arguments": { "text": text } })
}

fn allowed(params: Value) -> Verdict {
    match params {
        Value::Object(params) => Verdict::Allowed(params),
        other => panic!("{other}"),
    }
}

fn denied(reason: Option<&str>, strength: Strength) -> Verdict {
    Verdict::Denied {
        reason: reason.map(str::to_owned),
        strength,
    }
}

/// What the model was told by tools in its last question.
fn told(messages: &[Message]) -> Vec<String> {
    let results = messages.iter().filter_map(|message| match message {
        Message::Tool(result) => match &result.content[..] {
            [Content::Text(text)] => Some(text.clone()),
            other => panic!("{other:?}"),
        },
        _ => None,
    });
    results.collect()
}

#[tokio::test]
async fn a_model_that_only_speaks() {
    let script = json!([{ "reply": [{ "reasoning": "hm" }, "Hello,\n\u{2028}\"you\" ", "👋"],
        "usage": { "input": 5, "cached": 2, "output": 3 } }]);
    let (events, outcome) = Plan::new(script, Desk::open()).start().end().await;
    assert_eq!(
        types(&events),
        ["harness_start", "reasoning", "text", "text", "harness_end"]
    );
    for event in &events {
        assert!(event["agentId"].as_str().is_some_and(|id| !id.is_empty()));
        assert_eq!(event["runId"], "run-1");
        assert!(event.get("parentId").is_none());
    }
    let texts = all(&events, "text");
    assert_eq!(texts[0]["id"], texts[1]["id"]);
    let said: String = texts
        .iter()
        .map(|text| text["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, "Hello,\n\u{2028}\"you\" 👋");
    assert_eq!(outcome.text, said);
    let usage = all(&events, "usage")[0];
    assert_eq!(usage["inputTokens"], 5);
    assert_eq!(usage["cacheReadTokens"], 2);
    assert_eq!(usage["outputTokens"], 3);
    let end = events.last().unwrap();
    assert_eq!(end["reason"], "final");
    assert_eq!(end["totalUsage"]["inputTokens"], 5);
    assert_eq!(outcome.reason, EndReason::Final);
}

#[tokio::test]
async fn an_answer_that_fails_ends_the_run() {
    let table = [
        json!([["par", { "error": { "message": "boom" } }]]),
        json!([["par", { "cut": true }]]),
        json!([{ "reply": ["par"], "stop": "missing" }]),
        json!([{ "reply": [], "stop": "tools" }]),
        json!([[{ "tool": "echo", "arguments": {}, "id": "a" }, { "tool": "echo", "arguments": {}, "id": "a" }]]),
        json!([{ "refuse": { "status": 400, "body": { "error": { "message": "bad" } } } }]),
    ];
    for script in table {
        let desk = Desk::open();
        let (events, outcome) = Plan::new(script.clone(), desk.clone()).start().end().await;
        assert_eq!(outcome.reason, EndReason::Error, "{script}");
        let errors = all(&events, "error");
        assert_eq!(errors.len(), 1, "{script}");
        assert_eq!(errors[0]["message"], outcome.error.unwrap().as_str());
        assert_eq!(events.last().unwrap()["type"], "harness_end");
        assert_eq!(events.last().unwrap()["reason"], "error");
        assert_eq!(desk.log(), ["end run-1"], "{script}");
    }
}

#[tokio::test]
async fn a_call_is_asked_about_then_runs_and_the_model_goes_on() {
    let desk = Desk::asking();
    let mut world = Plan::new(json!([[echo("hi")], "done"]), desk.clone()).start();
    let relay = world.until("relay").await;
    assert_eq!(relay["kind"], "permission");
    assert_eq!(relay["tool"], "echo");
    assert_eq!(relay["params"], json!({ "text": "hi" }));
    assert_eq!(relay["toolCallId"], "run-1/call_1");
    assert!(relay["argsHash"].is_string() && relay["expiresAt"].is_string());
    desk.decide("run-1/call_1", allowed(json!({ "text": "edited" })));
    let model = world.model.clone();
    let (events, outcome) = world.end().await;
    assert_eq!(
        types(&events)[1..],
        [
            "relay",
            "relay_resolved",
            "tool_call",
            "tool_result",
            "text",
            "harness_end"
        ]
    );
    let resolved = all(&events, "relay_resolved")[0];
    assert_eq!(resolved["relayId"], relay["id"]);
    assert_eq!(resolved["decision"], "approved");
    assert_eq!(
        all(&events, "tool_call")[0]["input"],
        json!({ "text": "edited" })
    );
    let result = all(&events, "tool_result")[0];
    assert_eq!(
        result["output"],
        json!({ "context": "edited", "result": "edited" })
    );
    assert_eq!(result["id"], "run-1/call_1");
    assert_eq!(outcome.text, "done");
    assert_eq!(told(&model.asked()[1].messages), ["edited"]);
    assert_eq!(
        desk.log(),
        [
            "ask run-1/call_1 echo",
            "start run-1/call_1",
            "completed run-1/call_1",
            "end run-1"
        ]
    );
}

#[tokio::test]
async fn a_refused_call_never_runs_and_the_model_learns_why() {
    let table = [
        (
            denied(Some("nope"), Strength::Call),
            json!({ "status": "denied", "reason": "nope" }),
        ),
        (denied(None, Strength::Call), json!({ "status": "denied" })),
        (
            Verdict::Cancelled {
                reason: Some("withdrawn".to_owned()),
            },
            json!({ "status": "cancelled", "reason": "withdrawn" }),
        ),
    ];
    for (verdict, output) in table {
        let desk = Desk::asking();
        let mut world = Plan::new(json!([[echo("hi")], "done"]), desk.clone()).start();
        world.until("relay").await;
        desk.decide("run-1/call_1", verdict);
        let model = world.model.clone();
        let (events, outcome) = world.end().await;
        assert_eq!(
            types(&events)[1..],
            [
                "relay",
                "relay_resolved",
                "tool_result",
                "text",
                "harness_end"
            ]
        );
        assert_eq!(all(&events, "tool_result")[0]["output"], output);
        let model_was_told: Value =
            serde_json::from_str(&told(&model.asked()[1].messages)[0]).unwrap();
        assert_eq!(model_was_told, output);
        assert_eq!(outcome.reason, EndReason::Final);
        assert!(!desk.log().iter().any(|line| line.starts_with("start")));
    }
}

#[tokio::test]
async fn guidance_is_said_to_the_model() {
    let desk = Desk::new(|_| Some(denied(None, Strength::Guidance("use read".to_owned()))));
    let world = Plan::new(json!([[echo("hi")], "done"]), desk).start();
    let model = world.model.clone();
    world.end().await;
    assert_eq!(
        model.asked()[1].messages.last(),
        Some(&Message::user("use read"))
    );
}

#[tokio::test]
async fn who_refuses_the_turn_or_does_not_answer_ends_it() {
    for verdict in [denied(Some("no"), Strength::Turn), Verdict::Expired] {
        let desk = Desk::asking();
        let script = json!([[echo("a"), echo("b")], "never"]);
        let mut world = Plan::new(script, desk.clone()).start();
        world.until("relay").await;
        world.until("relay").await;
        desk.decide("run-1/call_2", verdict.clone());
        let model = world.model.clone();
        let (events, outcome) = world.end().await;
        assert_eq!(outcome.reason, EndReason::Stopped);
        assert_eq!(model.asked().len(), 1);
        let outputs: Vec<&Value> = all(&events, "tool_result")
            .iter()
            .map(|one| &one["output"]["status"])
            .collect();
        let own = if verdict == Verdict::Expired {
            "expired"
        } else {
            "denied"
        };
        assert_eq!(outputs, ["cancelled", own]);
        assert!(desk.log().contains(&"cancel run-1/call_1".to_owned()));
        // Every call has a result: the conversation can be gone on with.
        assert_eq!(told(&outcome.messages).len(), 2);
    }
}

#[tokio::test]
async fn all_calls_of_a_turn_are_asked_about_before_any_is_answered() {
    let desk = Desk::asking();
    let mut world = Plan::new(json!([[echo("a"), echo("b")], "done"]), desk.clone()).start();
    world.until("relay").await;
    world.until("relay").await;
    desk.decide("run-1/call_2", allowed(json!({ "text": "b" })));
    world.until("relay_resolved").await;
    desk.decide("run-1/call_1", allowed(json!({ "text": "a" })));
    let (events, _) = world.end().await;
    let called: Vec<&Value> = all(&events, "tool_call")
        .iter()
        .map(|one| &one["id"])
        .collect();
    let results: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(called, ["run-1/call_1", "run-1/call_2"]);
    assert_eq!(results, called);
}

#[tokio::test]
async fn what_is_allowed_does_not_wait_for_what_is_asked() {
    let desk = Desk::new(|ask| {
        let is_first = ask.params["text"] == "a";
        is_first.then(|| Verdict::Allowed(ask.params.clone()))
    });
    let mut world = Plan::new(json!([[echo("a"), echo("b")], "done"]), desk.clone()).start();
    let result = world.until("tool_result").await;
    assert_eq!(result["output"]["result"], "a");
    desk.decide("run-1/call_2", denied(None, Strength::Call));
    world.end().await;
}

#[tokio::test]
async fn calls_that_cannot_run_are_asked_about_by_nobody() {
    let table = [
        (
            json!({ "tool": "ghost", "arguments": {} }),
            "there is no tool \"ghost\"",
        ),
        (json!({ "tool": "echo", "arguments": "{broken" }), "no JSON"),
        (
            json!({ "tool": "echo", "arguments": "[1]" }),
            "no JSON object",
        ),
        (
            json!({ "tool": "echo", "arguments": {} }),
            "expected a text",
        ),
        (
            json!({ "tool": "bash", "arguments": { "command": "ls", "sudo": true } }),
            "unknown field",
        ),
    ];
    for (call, says) in table {
        let desk = Desk::asking();
        let (events, outcome) = Plan::new(json!([[call], "done"]), desk.clone())
            .start()
            .end()
            .await;
        assert_eq!(
            types(&events)[1..],
            ["tool_call", "tool_result", "text", "harness_end"],
            "{call}"
        );
        let error = &all(&events, "tool_result")[0]["output"]["error"];
        assert!(error.as_str().unwrap().contains(says), "{error}");
        assert_eq!(outcome.text, "done");
        assert_eq!(desk.log(), ["end run-1"]);
    }
}

#[tokio::test]
async fn a_tool_that_fails_has_a_result() {
    let desk = Desk::open();
    let script = json!([[{ "tool": "fails", "arguments": {} }, echo("x")], "done"]);
    let (events, _) = Plan::new(script, desk.clone()).start().end().await;
    let outputs: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["output"])
        .collect();
    assert_eq!(*outputs[0], json!({ "error": "it broke" }));
    assert_eq!(outputs[1]["result"], "x");
    assert!(desk.log().contains(&"failed run-1/call_1".to_owned()));
}

#[tokio::test]
async fn nothing_runs_when_nobody_can_be_asked() {
    let desk = Desk::open();
    let script = json!([[echo("down"), echo("x")], "never"]);
    let world = Plan::new(script, desk.clone()).start();
    let model = world.model.clone();
    let (events, outcome) = world.end().await;
    assert_eq!(
        types(&events)[1..],
        ["tool_result", "tool_result", "error", "harness_end"]
    );
    assert_eq!(outcome.reason, EndReason::Error);
    assert_eq!(
        outcome.error.unwrap(),
        "permission could not be asked: the relay is gone"
    );
    assert_eq!(model.asked().len(), 1);
    let log = desk.log();
    assert!(!log.iter().any(|line| line.starts_with("start")), "{log:?}");
}

#[tokio::test]
async fn after_the_last_turn_the_model_sums_up() {
    let script = json!([
        { "when": { "tools": true }, "reply": [echo("x")] },
        { "when": { "tools": false, "system": "Say in short" }, "reply": "summary" },
    ]);
    let mut plan = Plan::new(script, Desk::open());
    plan.limits = RunLimits {
        iterations: 2,
        ..RunLimits::default()
    };
    let (events, outcome) = plan.start().end().await;
    assert_eq!(all(&events, "tool_call").len(), 2);
    assert_eq!(events.last().unwrap()["reason"], "max_iterations");
    assert_eq!(events.last().unwrap()["iterations"], 3);
    assert_eq!(outcome.text, "summary");
}

#[tokio::test]
async fn cancelled_while_the_model_speaks() {
    let desk = Desk::open();
    let script = json!([["so far", { "wait": "never" }]]);
    let mut world = Plan::new(script, desk.clone()).start();
    world.until("text").await;
    world.cancel.cancel();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Cancelled);
    assert_eq!(events.last().unwrap()["reason"], "cancelled");
    assert_eq!(outcome.text, "so far");
    assert_eq!(desk.log(), ["end run-1"]);
}

#[tokio::test]
async fn cancelled_while_somebody_decides() {
    let desk = Desk::asking();
    let mut world = Plan::new(json!([[echo("a"), echo("b")], "never"]), desk.clone()).start();
    world.until("relay").await;
    world.until("relay").await;
    world.cancel.cancel();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Cancelled);
    let decisions: Vec<&Value> = all(&events, "relay_resolved")
        .iter()
        .map(|one| &one["decision"])
        .collect();
    assert_eq!(decisions, ["cancelled", "cancelled"]);
    let statuses: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["output"]["status"])
        .collect();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
    assert!(all(&events, "tool_call").is_empty());
    let log = desk.log();
    assert!(
        log.contains(&"cancel run-1/call_1".to_owned())
            && log.contains(&"cancel run-1/call_2".to_owned())
    );
    assert_eq!(log.last().unwrap(), "end run-1");
    assert_eq!(told(&outcome.messages).len(), 2);
}

#[tokio::test]
async fn cancelled_before_it_began() {
    let plan = Plan::new(json!(["never"]), Desk::open());
    let world = plan.start();
    world.cancel.cancel();
    let model = world.model.clone();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Cancelled);
    assert_eq!(types(&events), ["harness_start", "harness_end"]);
    assert!(model.asked().is_empty());
}

#[tokio::test]
async fn ids_that_a_provider_uses_again_are_calls_of_their_own() {
    let call = json!({ "tool": "echo", "arguments": { "text": "x" }, "id": "call_0" });
    let desk = Desk::open();
    let (events, _) = Plan::new(json!([[call], [call], "done"]), desk.clone())
        .start()
        .end()
        .await;
    let ids: Vec<&Value> = all(&events, "tool_call")
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, ["run-1/call_0", "run-1/call_0~2"]);
    assert!(desk.log().contains(&"ask run-1/call_0~2 echo".to_owned()));
}
