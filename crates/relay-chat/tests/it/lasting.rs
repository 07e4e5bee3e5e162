//! Time, several viewers, and what is kept: chats that are held, questions that expire or are called off, secrets, floods.

use std::time::Duration;

use relay_harness::llm::limits::RunLimits;
use relay_protocol::permission::PermissionState;
use serde_json::{Value, json};

use crate::hall::{Hall, LONG, Plan, all, bash, id_of, types};

#[tokio::test]
async fn a_held_chat_goes_on_without_viewers_and_shows_what_was_missed() {
    let hall = Hall::start(json!([[bash("ls -la")], "done"])).await;
    let hold = json!({ "onDisconnect": { "hold": 60 } });
    let mut look = hall.begin_with(hold).await;
    let relay = look.until("relay").await;
    let (session, last) = (look.session.clone(), look.last);
    drop(look);
    // Whoever comes back sees what waits first.
    let mut again = hall.look_again(&session, last);
    let first = again.next().await.unwrap();
    assert_eq!(
        (&first["id"], &first["replay"]),
        (&relay["id"], &json!(true))
    );
    drop(again);
    let body = json!({ "sessionId": session, "response": { "approved": true } });
    assert_eq!(
        hall.post(&relay, &body).await.unwrap(),
        json!({ "success": true })
    );
    let again = hall.look_again(&session, last);
    let events = again.end().await;
    assert_eq!(
        types(&events),
        [
            "relay_resolved",
            "tool_call",
            "tool_result",
            "text",
            "harness_end"
        ]
    );
    assert_eq!(hall.ran.commands(), ["ls -la"]);
}

#[tokio::test]
async fn a_chat_that_was_held_long_enough_is_cancelled() {
    let hall = Hall::start(json!([[bash("ls -la")], "done"])).await;
    let hold = json!({ "onDisconnect": { "hold": 1 } });
    let mut look = hall.begin_with(hold).await;
    let relay = look.until("relay").await;
    let session = look.session.clone();
    drop(look);
    let permissions = hall.relay.permissions();
    let record = permissions.wait(id_of(&relay), LONG).await.unwrap();
    assert_eq!(record.state, PermissionState::Cancelled);
    let body = json!({ "sessionId": session, "response": { "approved": true } });
    let late = hall.post(&relay, &body).await.unwrap_err();
    assert_eq!(
        (late.status, late.body),
        (404, json!({ "error": "Session not found" }))
    );
    hall.gateway.stop().await;
    assert!(hall.ran.calls().is_empty());
}

#[tokio::test]
async fn a_question_that_nobody_answers_expires_and_ends_the_turn() {
    let plan = Plan {
        expires: Some(Duration::from_millis(300)),
        ..Plan::new(json!([[bash("ls -la"), bash("ls -la")], "never"]))
    };
    let hall = plan.start().await;
    let events = hall.begin(json!({})).await.end().await;
    let decisions: Vec<&Value> = all(&events, "relay_resolved")
        .iter()
        .map(|event| &event["decision"])
        .collect();
    assert_eq!(decisions.len(), 2);
    assert_eq!(decisions[0], "expired");
    for result in all(&events, "tool_result") {
        let status = result["output"]["status"].as_str().unwrap();
        assert!(["expired", "cancelled"].contains(&status), "{result}");
    }
    assert!(all(&events, "tool_call").is_empty());
    assert_eq!(all(&events, "harness_end")[0]["reason"], "stopped");
    // Told, but not asked again in this turn.
    assert_eq!(hall.model.asked().len(), 1);
    assert_eq!(all(&events, "relay").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_the_moment_of_expiry_counts_or_does_not() {
    const TIMES: usize = 40;
    let expires = Duration::from_millis(400);
    let plan = Plan {
        expires: Some(expires),
        ..Plan::new(json!([]))
    };
    let hall = plan.start().await;
    let script = format!("script:{}", json!([[bash("ls")], "done"]));
    let message = json!({ "role": "user", "content": script });
    let mut counted = 0;
    let chats = (0..TIMES).map(|at| {
        let (hall, message) = (&hall, &message);
        async move {
            let mut look = hall.begin_with(json!({ "messages": [message] })).await;
            let relay = look.until("relay").await;
            // Around the moment, as the clock of the relay has it.
            let early = Duration::from_millis(20).saturating_sub(Duration::from_millis(at as u64));
            tokio::time::sleep(expires - early).await;
            let answer = hall
                .resolve(&look, &relay, json!({ "approved": true }))
                .await;
            let events = look.end().await;
            let resolved = all(&events, "relay_resolved");
            assert_eq!(resolved.len(), 1, "{events:#?}");
            let calls = all(&events, "tool_call").len();
            match answer {
                Ok(_) => {
                    assert_eq!((&resolved[0]["decision"], calls), (&json!("approved"), 1));
                    true
                }
                Err(refused) => {
                    assert_eq!(refused.status, 404);
                    assert_eq!((&resolved[0]["decision"], calls), (&json!("expired"), 0));
                    false
                }
            }
        }
    });
    for was_in_time in futures_util::future::join_all(chats).await {
        counted += usize::from(was_in_time);
    }
    assert_eq!(hall.ran.calls().len(), counted);
}

#[tokio::test]
async fn every_viewer_learns_who_decided() {
    let hall = Hall::start(json!([[bash("ls -la"), bash("c d")], "done"])).await;
    let mut look = hall.begin(json!({})).await;
    let (relay, other) = (look.until("relay").await, look.until("relay").await);
    let mut second = hall.look_again(&look.session, look.last);
    assert_eq!(second.next().await.unwrap()["id"], relay["id"]);
    // Through another door.
    let permissions = hall.relay.permissions();
    permissions.approve(id_of(&relay)).await.unwrap();
    for viewer in [&mut look, &mut second] {
        let resolved = viewer.until("relay_resolved").await;
        assert_eq!(resolved["relayId"], relay["id"]);
        assert_eq!(resolved["by"]["kind"], "workspace");
    }
    let late = hall
        .resolve(&second, &relay, json!({ "approved": false }))
        .await;
    let late = late.unwrap_err();
    assert_eq!(
        (late.status, &late.body["code"]),
        (404, &json!("relay_already_resolved"))
    );
    hall.deny(&second, &other).await;
    let (one, two) = tokio::join!(look.end(), second.end());
    assert_eq!(one.last(), two.last());
}

#[tokio::test]
async fn a_cancelled_chat_calls_its_questions_off() {
    let hall = Hall::start(json!([[bash("a b"), bash("c d")], "never"])).await;
    let mut look = hall.begin(json!({})).await;
    let relays = [look.until("relay").await, look.until("relay").await];
    let session = look.session.clone();
    hall.gateway.cancel(&session).unwrap();
    let body = json!({ "sessionId": session, "response": { "approved": true } });
    for relay in &relays {
        let late = hall.post(relay, &body).await.unwrap_err();
        assert_eq!(late.body, json!({ "error": "Session not found" }));
    }
    let events = look.end().await;
    for resolved in all(&events, "relay_resolved") {
        assert_eq!(resolved["decision"], "cancelled");
        assert!(resolved["at"].is_string(), "{resolved}");
    }
    for result in all(&events, "tool_result") {
        assert_eq!(result["output"]["status"], "cancelled");
    }
    assert_eq!(all(&events, "relay_resolved").len(), 2);
    assert_eq!(all(&events, "tool_result").len(), 2);
    assert_eq!(types(&events).last(), Some(&"harness_end"));
    assert_eq!(all(&events, "harness_end")[0]["reason"], "cancelled");
    for relay in &relays {
        let state = hall.record(relay).await.state;
        assert_eq!(state, PermissionState::Cancelled);
    }
    assert!(hall.ran.calls().is_empty());
}

#[tokio::test]
async fn a_flood_of_questions_stops_at_a_limit_that_is_its_own() {
    let limits = RunLimits {
        questions: 3,
        ..RunLimits::default()
    };
    let plan = Plan {
        limits,
        ..Plan::new(json!([]))
    };
    let hall = plan.start().await;
    let playing = |script: Value| {
        let content = format!("script:{script}");
        json!({ "messages": [{ "role": "user", "content": content }] })
    };
    let flood: Vec<Value> = (0..100).map(|at| bash(&format!("rm {at}"))).collect();
    let mut look = hall.begin_with(playing(json!([flood, "done"]))).await;
    let mut relays = Vec::new();
    for _ in 0..limits.questions {
        relays.push(look.until("relay").await);
    }
    // Another chat is not held up.
    let mut other = hall
        .begin_with(playing(json!([[bash("ls")], "done"])))
        .await;
    let relay = other.until("relay").await;
    hall.approve(&other, &relay).await;
    other.end().await;
    assert_eq!(hall.ran.commands(), ["ls"]);
    for relay in &relays {
        hall.deny(&look, relay).await;
    }
    let events = look.end().await;
    let results = all(&events, "tool_result");
    assert_eq!((all(&events, "relay").len(), results.len()), (3, 100));
    let error = results[3]["output"]["error"].as_str().unwrap();
    assert!(error.contains("3 calls wait for a decision"), "{error}");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
}

#[tokio::test]
async fn a_call_that_is_too_large_to_ask_about_is_the_models_mistake() {
    let large = "x".repeat(300 * 1024);
    let hall = Hall::start(json!([[bash(&large)], "done"])).await;
    let events = hall.begin(json!({})).await.end().await;
    let error = all(&events, "tool_result")[0]["output"]["error"].as_str();
    assert!(error.unwrap().contains("params"), "{error:?}");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
    assert!(hall.ran.calls().is_empty());
}

#[tokio::test]
async fn a_secret_is_shown_to_nobody_and_reaches_the_tool() {
    let key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    let command = format!("curl -H 'Authorization: Bearer {key}' https://example.com");
    let hall = Hall::start(json!([[bash(&command)], "done"])).await;
    let mut look = hall.begin(json!({})).await;
    let relay = look.until("relay").await;
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    assert_eq!(hall.ran.commands(), [command]);
    assert_eq!(all(&events, "tool_call").len(), 1);
    for event in &events {
        let text = event.to_string();
        assert!(!text.contains("abcdefghijkl"), "{text}");
    }
    let record = hall.record(&relay).await;
    let stored = serde_json::to_string(&record).unwrap();
    assert!(!stored.contains("abcdefghijkl"), "{stored}");
}
