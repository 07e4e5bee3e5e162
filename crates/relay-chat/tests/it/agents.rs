//! Chats with coding agents: in the same words as those with models, asked about in the same way.

use relay_chat::Agents;
use relay_harness::acp::catalogue::Catalogue;
use relay_harness::child::ChildEnvironment;
use relay_protocol::permission::{ExecutionState, PermissionState};
use serde_json::json;

use crate::hall::{LONG, Plan, all, id_of, types};
use crate::player::{answered, hall, prompts, steps};

#[tokio::test]
async fn an_agent_in_the_words_of_the_contract() {
    let (hall, mut told) = hall(steps("completed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    assert_eq!(
        (&relay["tool"], &relay["params"]),
        (&json!("execute"), &json!({ "command": "make test" }))
    );
    assert!(all(&look.seen, "tool_call").is_empty());
    hall.approve(&look, &relay).await;
    let outcome = answered(&mut told).await;
    assert_eq!(outcome, json!({ "outcome": "selected", "optionId": "yes" }));
    let events = look.end().await;
    assert_eq!(
        types(&events),
        [
            "connected",
            "harness_start",
            "reasoning",
            "text",
            "text",
            "relay",
            "relay_resolved",
            "tool_call",
            "tool_result",
            "text",
            "harness_end",
        ]
    );
    let texts = all(&events, "text");
    assert_eq!(texts[0]["id"], texts[1]["id"]);
    assert_ne!(texts[0]["id"], texts[2]["id"]);
    let run = events[1]["runId"].as_str().unwrap();
    let id = json!(format!("{run}/c1"));
    let (call, result) = (all(&events, "tool_call")[0], all(&events, "tool_result")[0]);
    assert_eq!((&call["id"], &result["id"]), (&id, &id));
    assert_eq!(relay["toolCallId"], id);
    assert_eq!(call["input"], json!({ "command": "make test" }));
    assert_eq!(result["output"]["context"], "output");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
    for event in &events[1..] {
        assert_eq!(event["runId"], run, "{event}");
        assert!(event.get("parentId").is_none(), "{event}");
    }
    let record = hall.record(&relay).await;
    assert_eq!(record.state, PermissionState::Approved);
    let execution = record.execution.map(|execution| execution.state);
    assert_eq!(execution, Some(ExecutionState::Completed));
}

#[tokio::test]
async fn what_is_denied_is_no_call_of_an_agent_either() {
    let (hall, mut told) = hall(steps("failed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let response = json!({ "approved": false, "reason": "nope" });
    hall.resolve(&look, &relay, response).await.unwrap();
    let outcome = answered(&mut told).await;
    assert_eq!(outcome, json!({ "outcome": "selected", "optionId": "no" }));
    let events = look.end().await;
    assert!(all(&events, "tool_call").is_empty());
    let results = all(&events, "tool_result");
    assert_eq!(results.len(), 1);
    assert_eq!(
        results[0]["output"],
        json!({ "status": "denied", "reason": "nope" })
    );
    assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
}

#[tokio::test]
async fn the_rules_of_a_chat_hold_for_what_an_agent_asks() {
    for (rules, id) in [
        (json!({ "allowlist": ["execute"] }), "yes"),
        (json!({ "deny": ["execute:make"] }), "no"),
    ] {
        let (hall, mut told) = hall(steps("completed")).await;
        let body = json!({ "agent": "fake", "permissions": rules });
        let events = hall.begin_with(body).await.end().await;
        assert!(all(&events, "relay").is_empty());
        assert_eq!(answered(&mut told).await["optionId"], id);
        assert_eq!(all(&events, "tool_call").len(), usize::from(id == "yes"));
        assert_eq!(all(&events, "tool_result").len(), 1);
    }
}

#[tokio::test]
async fn an_approval_that_an_agent_cant_follow_is_none() {
    let (hall, mut told) = hall(steps("failed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let edit = json!({ "approved": true, "updatedParams": { "command": "make" } });
    hall.resolve(&look, &relay, edit).await.unwrap();
    assert_eq!(answered(&mut told).await["optionId"], "no");
    let events = look.end().await;
    assert!(all(&events, "tool_call").is_empty());
    let output = &all(&events, "tool_result")[0]["output"];
    assert_eq!(output["status"], "denied", "{output}");
}

#[tokio::test]
async fn whoever_leaves_calls_an_agent_off() {
    let (hall, mut told) = hall(steps("completed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let session = look.session.clone();
    let watching = hall.relay.permissions();
    drop(look);
    assert_eq!(answered(&mut told).await["outcome"], "cancelled");
    let record = watching.wait(id_of(&relay), LONG).await.unwrap();
    assert_eq!(record.state, PermissionState::Cancelled);
    assert!(hall.gateway.look(&session, None).is_err());
    hall.gateway.stop().await;
}

#[tokio::test]
async fn a_cancelled_chat_with_an_agent_tells_its_end() {
    let mut steps = steps("completed");
    let list = steps.as_array_mut().unwrap();
    list.truncate(3);
    list.push(json!({
        "sessionUpdate": "tool_call", "toolCallId": "c2", "kind": "read", "status": "in_progress",
    }));
    list.push(json!("hang"));
    let (hall, _told) = hall(steps).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    look.until("tool_call").await;
    hall.gateway.cancel(&look.session).unwrap();
    let events = look.end().await;
    assert_eq!(
        all(&events, "tool_result")[0]["output"],
        json!({ "status": "cancelled" })
    );
    assert_eq!(all(&events, "harness_end")[0]["reason"], "cancelled");
}

#[tokio::test]
async fn a_refusal_that_stops_ends_the_turn_of_an_agent() {
    let (hall, _told) = hall(steps("completed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let response = json!({ "approved": false, "stop": true });
    hall.resolve(&look, &relay, response).await.unwrap();
    let events = look.end().await;
    assert_eq!(all(&events, "harness_end")[0]["reason"], "stopped");
}

#[tokio::test]
async fn an_agent_that_is_not_there_begins_no_chat() {
    let (hall, _told) = hall(json!([])).await;
    let unknown = json!({ "agent": "fak", "messages": [{ "role": "user", "content": "hi" }] });
    let refusal = hall.refusal(&unknown.to_string()).await;
    assert_eq!(
        (refusal.status, &refusal.body["code"]),
        (400, &json!("unknown_agent"))
    );
    assert!(refusal.to_string().contains("fake"), "{refusal}");
    let nothing = json!({ "agent": "fake", "messages": [] });
    assert_eq!(hall.refusal(&nothing.to_string()).await.status, 400);
}

#[tokio::test]
async fn an_agent_that_cant_be_started_is_told_of_in_the_stream() {
    let config = json!({ "command": "relay-has-no-such-program" });
    let config = serde_json::from_value(config).unwrap();
    let catalogue = Catalogue::with_configured([("fake".to_owned(), config)]).unwrap();
    let agents = Agents::programs(catalogue, std::env::temp_dir(), |_| {
        ChildEnvironment::for_agent(std::env::vars_os(), &[""; 0], [("", ""); 0])
    });
    let plan = Plan {
        agents: Some(agents),
        ..Plan::new(json!([]))
    };
    let hall = plan.start().await;
    let events = hall
        .begin_with(json!({ "agent": "fake" }))
        .await
        .end()
        .await;
    assert_eq!(
        types(&events),
        ["connected", "harness_start", "error", "harness_end"]
    );
    let message = events[2]["message"].as_str().unwrap();
    assert!(message.contains("is not installed"), "{message}");
}

#[tokio::test]
async fn what_an_agent_cant_be_given_is_a_warning_in_the_stream() {
    let (hall, mut told) = hall(steps("completed")).await;
    let image = json!({ "type": "image", "mediaType": "image/png", "data": "aGk=" });
    let content = json!([{ "type": "text", "text": "what is this?" }, image]);
    let messages = json!([{ "role": "user", "content": content }]);
    let mut look = hall
        .begin_with(json!({ "agent": "fake", "messages": messages }))
        .await;
    let warning = look.until("warning").await;
    let dropped = json!([{ "type": "image", "mediaType": "image/png", "message": 0, "part": 1 }]);
    assert_eq!(warning["dropped"], dropped);
    let text = warning["message"].as_str().unwrap();
    assert!(text.contains("the agent does not take"), "{text}");
    // It is before all that the agent does, and the agent knows that something is missing.
    assert_eq!(types(&look.seen), ["connected", "harness_start", "warning"]);
    let relay = look.until("relay").await;
    hall.approve(&look, &relay).await;
    look.end().await;
    let prompts = prompts(&mut told);
    assert!(prompts[0].contains("an image of type image/png, which can't be given to this agent"));
    assert!(!prompts[0].contains("aGk="));
}
