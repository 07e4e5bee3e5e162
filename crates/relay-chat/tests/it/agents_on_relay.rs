//! The session of a chat's agent on the relay: its own options, grants, guidance, messages, and its end.

use std::time::Duration;

use relay_protocol::delivery::DeliveryState;
use relay_protocol::ids::DeliveryId;
use relay_protocol::permission::{ExecutionState, PermissionState};
use relay_sdk::AgentClient;
use serde_json::{Value, json};

use crate::hall::{Hall, LONG, all, types};
use crate::player::{answered, call, chunk, hall, hall_with, prompts, steps};

fn says(text: &str) -> Value {
    json!([chunk("agent_message_chunk", text)])
}

/// All that was said in a stream.
fn said(events: &[Value]) -> String {
    let texts = all(events, "text").into_iter();
    let texts = texts.map(|text| text["content"].as_str().unwrap());
    texts.collect::<Vec<_>>().join("|")
}

async fn send(ada: &AgentClient, text: &str) -> DeliveryId {
    let sent = ada.send_message("@chat", text).await.unwrap();
    sent.deliveries[0].delivery_id
}

/// The sessions of the chat's agent that are on the relay.
async fn sessions(hall: &Hall) -> Vec<Value> {
    let sessions = hall.agent.sessions(None, None).await.unwrap();
    let sessions = sessions.items.into_iter();
    let sessions = sessions.map(|session| serde_json::to_value(session).unwrap());
    sessions.filter(|one| one["status"] != "released").collect()
}

#[tokio::test]
async fn the_options_are_the_agents_own_and_can_be_chosen() {
    let (hall, mut told) = hall(steps("completed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    assert_eq!(
        relay["options"],
        json!([
            { "optionId": "yes", "kind": "allow_once", "name": "Yes" },
            { "optionId": "ever", "kind": "allow_always", "name": "Always" },
            { "optionId": "no", "kind": "reject_once", "name": "No" },
        ])
    );
    assert_eq!(relay["title"], "run it");
    let wrong = json!({ "approved": false, "optionId": "ever" });
    let refusal = hall.resolve(&look, &relay, wrong).await.unwrap_err();
    assert_eq!(refusal.status, 400);
    let own = json!({ "approved": true, "optionId": "ever" });
    hall.resolve(&look, &relay, own).await.unwrap();
    let chosen = json!({ "outcome": "selected", "optionId": "ever" });
    assert_eq!(answered(&mut told).await, chosen);
    look.end().await;
}

#[tokio::test]
async fn always_grants_what_was_shown_for_this_chat() {
    let twice = [call("completed"), call("completed")].concat();
    let (hall, mut told) = hall(twice.into()).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    hall.always(&look, &relay).await;
    // The agent is told of the one call, and of the next, which has the same id.
    for _ in 0..2 {
        assert_eq!(answered(&mut told).await["optionId"], "yes");
    }
    let grants = hall.grants().await;
    assert_eq!(grants.len(), 1);
    assert_eq!(grants[0].rule, relay["suggestions"][0]["rule"]);
    let events = look.end().await;
    assert_eq!(all(&events, "relay").len(), 1);
    assert_eq!(all(&events, "tool_call").len(), 2);
    assert_eq!(all(&events, "tool_result").len(), 2);
    // It ends with the chat.
    assert!(hall.grants().await.is_empty());
}

#[tokio::test]
async fn what_nobody_answers_ends_the_turn_of_an_agent() {
    let soon = Some(Duration::from_millis(200));
    let (hall, mut told) = hall_with(json!([steps("completed")]), soon).await;
    let look = hall.begin_with(json!({ "agent": "fake" })).await;
    assert_eq!(answered(&mut told).await["outcome"], "cancelled");
    let events = look.end().await;
    assert_eq!(all(&events, "relay_resolved")[0]["decision"], "expired");
    assert!(all(&events, "tool_call").is_empty());
    let result = all(&events, "tool_result")[0];
    assert_eq!(result["output"]["status"], "expired");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "stopped");
}

#[tokio::test]
async fn guidance_is_the_next_prompt_of_the_chat_that_asked() {
    let turns = json!([steps("failed"), says("as you wish")]);
    let (hall, mut told) = hall_with(turns, None).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    // The newest session gets what is sent to the agent.
    let mut other = hall.begin_with(json!({ "agent": "fake" })).await;
    let others = other.until("relay").await;
    let guidance = "use the other file";
    let response = json!({ "approved": false, "guidance": guidance });
    hall.resolve(&look, &relay, response).await.unwrap();
    let events = look.end().await;
    let result = all(&events, "tool_result")[0];
    assert_eq!(
        result["output"],
        json!({ "status": "denied", "reason": guidance })
    );
    assert!(said(&events).ends_with("done|as you wish"), "{events:#?}");
    hall.deny(&other, &others).await;
    assert!(said(&other.end().await).ends_with("done"));
    // The message about it is no news to anybody.
    let prompts = prompts(&mut told);
    assert_eq!(prompts.len(), 3, "{prompts:?}");
    let guided = prompts.iter().filter(|prompt| prompt.contains(guidance));
    assert_eq!(guided.count(), 1, "{prompts:?}");
}

#[tokio::test]
async fn a_message_to_the_chats_agent_is_its_next_turn() {
    let turns = json!([steps("completed"), says("I read it")]);
    let (hall, mut told) = hall_with(turns, None).await;
    let ada = hall.relay.register("ada").await.unwrap();
    let waited = send(&ada, "from before the chat").await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let came = send(&ada, "during the turn").await;
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    // One at a time is handed over, so each has a turn.
    assert!(
        said(&events).ends_with("done|I read it|I read it"),
        "{events:#?}"
    );
    let end = all(&events, "harness_end")[0];
    assert_eq!(end["reason"], "final");
    assert_eq!(end["iterations"], 3);
    let prompts = prompts(&mut told);
    let [first, second, third] = prompts.as_slice() else {
        panic!("{prompts:?}");
    };
    assert!(first.contains("go") && !first.contains("before"), "{first}");
    assert!(second.contains("[relay] from agent @ada"), "{second}");
    assert!(second.contains("before the chat") && third.contains("during the turn"));
    for id in [waited, came] {
        let delivery = hall.relay.delivery(id).await.unwrap();
        assert_eq!(delivery.state, DeliveryState::Delivered);
        let receipts = serde_json::to_value(delivery.receipts).unwrap();
        let last = receipts.as_array().unwrap().last().unwrap();
        assert_eq!(last["receipt"]["metadata"]["door"], "acp.prompt");
    }
}

#[tokio::test]
async fn what_a_cancelled_chat_has_not_surfaced_waits_for_another() {
    let turns = json!([steps("completed"), says("I read it")]);
    let (hall, mut told) = hall_with(turns, None).await;
    let ada = hall.relay.register("ada").await.unwrap();
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    look.until("relay").await;
    let id = send(&ada, "for whoever comes next").await;
    hall.gateway.cancel(&look.session).unwrap();
    let events = look.end().await;
    assert_eq!(all(&events, "harness_end")[0]["reason"], "cancelled");
    assert_eq!(all(&events, "relay_resolved")[0]["decision"], "cancelled");
    assert_eq!(prompts(&mut told).len(), 1);
    let delivery = hall.relay.delivery(id).await.unwrap();
    assert_ne!(delivery.state, DeliveryState::Delivered);
}

#[tokio::test]
async fn the_session_is_that_of_the_agent_and_leaves_with_the_chat() {
    let (hall, _told) = hall(steps("completed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let there = sessions(&hall).await;
    assert_eq!(there.len(), 1, "{there:#?}");
    assert_eq!(there[0]["harness"], "acp/fake");
    let record = hall.record(&relay).await;
    assert_eq!(record.turn_id.as_deref(), Some("s1/1"));
    assert_eq!(json!(record.run_id), relay["runId"]);
    hall.approve(&look, &relay).await;
    look.end().await;
    assert_eq!(sessions(&hall).await, Vec::<Value>::new());
}

#[tokio::test]
async fn whoever_releases_the_session_ends_the_chat() {
    let (hall, _told) = hall(steps("completed")).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    let session = hall.record(&relay).await.session_id.unwrap();
    hall.relay.release_session(session, None).await.unwrap();
    let events = tokio::time::timeout(LONG, look.end()).await.unwrap();
    assert_eq!(all(&events, "relay_resolved")[0]["decision"], "cancelled");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "cancelled");
    assert_eq!(hall.record(&relay).await.state, PermissionState::Cancelled);
}

#[tokio::test]
async fn an_agent_that_dies_is_told_of_in_the_stream() {
    let mut steps = call("completed");
    steps.truncate(2);
    steps.push(json!("die"));
    let (hall, _told) = hall(steps.into()).await;
    let mut look = hall.begin_with(json!({ "agent": "fake" })).await;
    let relay = look.until("relay").await;
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    let last = types(&events);
    let last = &last[last.len() - 4..];
    assert_eq!(last, ["tool_call", "error", "tool_result", "harness_end"]);
    assert_eq!(all(&events, "harness_end")[0]["reason"], "error");
    let execution = hall.record(&relay).await.execution.unwrap();
    assert_eq!(execution.state, ExecutionState::Unknown);
}
