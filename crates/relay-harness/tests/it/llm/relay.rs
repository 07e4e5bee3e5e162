//! Runs whose calls a real relay decides about: rules, people, nested runs, and what is written down.

use relay_harness::llm::conversation::Message;
use relay_harness::llm::permits::RelayPermits;
use relay_harness::llm::run::EndReason;
use relay_sdk::protocol::permission::Permissions;
use relay_sdk::{ExecutionState, PermissionQuery, PermissionState, ResolvePermission};
use serde_json::{Value, json};

use super::office::Office;
use super::world::{Plan, all, types};

async fn plan(office: &Office, script: Value, permissions: Value) -> Plan {
    let permissions: Permissions = serde_json::from_value(permissions).unwrap();
    let permits = RelayPermits::begin(office.alice.clone(), Some(permissions), None);
    Plan::new(script, permits.await.unwrap())
}

fn echo(text: &str) -> Value {
    json!({ "tool": "echo", "arguments": { "text": text } })
}

#[tokio::test]
async fn people_decide_and_what_became_of_it_is_written_down() {
    let office = Office::start().await;
    let script = json!([[echo("a"), echo("b"), echo("c")], "done"]);
    let permissions = office.relay.permissions();
    let mut world = plan(&office, script, json!({})).await.start();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let relay = world.until("relay").await;
        ids.push(relay["id"].as_str().unwrap().parse().unwrap());
        assert!(
            relay["toolCallId"]
                .as_str()
                .unwrap()
                .starts_with(relay["runId"].as_str().unwrap())
        );
    }
    // In another order than they were asked.
    permissions.deny(ids[2], "not that").await.unwrap();
    let edit = ResolvePermission {
        updated_params: Some(serde_json::Map::from_iter([(
            "text".to_owned(),
            json!("edited"),
        )])),
        ..ResolvePermission::approve()
    };
    permissions.resolve(ids[1], edit).await.unwrap();
    permissions.approve(ids[0]).await.unwrap();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Final);
    let outputs: Vec<&Value> = all(&events, "tool_result")
        .iter()
        .map(|one| &one["output"])
        .collect();
    assert_eq!(outputs[0]["result"], "a");
    assert_eq!(outputs[1]["result"], "edited");
    assert_eq!(
        *outputs[2],
        json!({ "status": "denied", "reason": "not that" })
    );
    let resolved = all(&events, "relay_resolved");
    assert_eq!(resolved.len(), 3);
    for one in resolved {
        assert_eq!(one["by"]["kind"], "workspace");
        assert!(one["at"].is_string());
    }
    for (id, state) in [
        (ids[0], PermissionState::Approved),
        (ids[2], PermissionState::Denied),
    ] {
        let record = permissions.get(id).await.unwrap();
        assert_eq!(record.state, state);
        let execution = record.execution.map(|execution| execution.state);
        let ran = (state == PermissionState::Approved).then_some(ExecutionState::Completed);
        assert_eq!(execution, ran);
    }
}

#[tokio::test]
async fn rules_decide_without_anybody_and_nested_runs_only_narrow_them() {
    let office = Office::start().await;
    let rules = json!({ "allowlist": ["echo", "agent"] });
    let narrow = json!({ "tool": "agent", "arguments": {
        "task": "inner", "permissions": { "deny": ["echo"] },
    } });
    let widen = json!({ "tool": "agent", "arguments": {
        "task": "wide", "permissions": { "allowlist": ["echo", "fails"] },
    } });
    let script = json!([
        { "when": { "user": "go" }, "reply": [echo("outer"), narrow, widen] },
        { "when": { "user": "inner" }, "reply": [echo("inner")] },
        { "when": { "user": "wide" }, "reply": [{ "tool": "fails", "arguments": {} }] },
        { "when": { "said": "inner" }, "reply": "inner done", "times": 1 },
        { "when": { "said": "wide" }, "reply": "wide done", "times": 1 },
        "done",
    ]);
    let mut world = plan(&office, script, rules).await.start();
    // What the outermost run has to ask about, one below has to ask about, too.
    let relay = world.until("relay").await;
    assert_eq!(relay["tool"], "fails");
    assert!(relay["parentId"].is_string());
    let id = relay["id"].as_str().unwrap().parse().unwrap();
    office.relay.permissions().deny(id, "no").await.unwrap();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.text, "done");
    assert_eq!(all(&events, "relay").len(), 1);
    let inner = all(&events, "tool_result");
    let denied = inner
        .iter()
        .find(|one| one["parentId"].is_string() && one["name"] == "echo");
    assert_eq!(denied.unwrap()["output"]["status"], "denied");
    let runs = all(&events, "harness_start").len();
    assert_eq!((runs, all(&events, "harness_end").len()), (3, 3));
}

#[tokio::test]
async fn a_cancelled_run_leaves_no_question_behind() {
    let office = Office::start().await;
    let script = json!([[echo("a"), { "tool": "agent", "arguments": { "task": "t" } }], "never"]);
    let mut world = plan(&office, script, json!({})).await.start();
    world.until("relay").await;
    world.until("relay").await;
    world.cancel.cancel();
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Cancelled);
    assert_eq!(
        types(&events)
            .iter()
            .filter(|kind| **kind == "relay_resolved")
            .count(),
        2
    );
    let pending = PermissionQuery::pending();
    let left = office.relay.permissions().list(&pending).await.unwrap();
    assert!(left.items.is_empty(), "{:?}", left.items);
    let run = events[0]["runId"].as_str().unwrap().parse().unwrap();
    let run = office.relay.permissions().run(run).await.unwrap();
    assert!(run.ended_at.is_some());
}

#[tokio::test]
async fn a_run_that_the_relay_ends_fails_and_runs_nothing_more() {
    let office = Office::start().await;
    let script = json!([["wait", { "wait": "gate" }, echo("a")], "never"]);
    let plan = plan(&office, script, json!({ "allowlist": ["echo"] })).await;
    let run = plan.permits.run_id().parse().unwrap();
    let mut world = plan.start();
    world.until("text").await;
    let permissions = office.relay.permissions();
    permissions.end_run(run, Some("enough")).await.unwrap();
    world.model.open("gate");
    let (events, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Error);
    assert!(all(&events, "tool_call").is_empty());
    assert_eq!(all(&events, "error").len(), 1);
}

#[tokio::test]
async fn guidance_of_people_reaches_a_model_without_a_mailbox() {
    let office = Office::start().await;
    let mut world = plan(&office, json!([[echo("a")], "done"]), json!({}))
        .await
        .start();
    let relay = world.until("relay").await;
    let answer = ResolvePermission {
        guidance: Some("read the manual".to_owned()),
        ..ResolvePermission::deny("no")
    };
    let id = relay["id"].as_str().unwrap().parse().unwrap();
    office
        .relay
        .permissions()
        .resolve(id, answer)
        .await
        .unwrap();
    let model = world.model.clone();
    let (_, outcome) = world.end().await;
    assert_eq!(outcome.reason, EndReason::Final);
    let told = model.asked()[1].messages.last().cloned();
    assert_eq!(told, Some(Message::user("read the manual")));
}
