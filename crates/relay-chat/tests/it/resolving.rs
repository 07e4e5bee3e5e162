//! Deciding about the calls of a chat: what is answered, what happens then, and what an answer does not do.

use relay_protocol::api::events::EventQuery;
use relay_protocol::permission::{DeciderKind, PermissionState};
use serde_json::{Value, json};

use crate::hall::{Decider, Hall, Look, all, bash, types};

/// A model that makes these calls, one after the other, and is done.
async fn calls(commands: &[&str]) -> Hall {
    let turns = commands.iter().map(|command| json!([bash(command)]));
    let turns: Vec<Value> = turns.chain([json!("done")]).collect();
    Hall::start(Value::Array(turns)).await
}

/// The chat with its first question.
async fn asked(hall: &Hall) -> (Look, Value) {
    let mut look = hall.begin(json!({ "allowlist": [] })).await;
    let relay = look.until("relay").await;
    (look, relay)
}

#[tokio::test]
async fn an_approved_call_runs_once_and_the_run_goes_on() {
    let hall = calls(&["ls -la"]).await;
    let (look, relay) = asked(&hall).await;
    assert!(hall.ran.calls().is_empty());
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    assert_eq!(
        types(&events),
        [
            "connected",
            "harness_start",
            "relay",
            "relay_resolved",
            "tool_call",
            "tool_result",
            "text",
            "harness_end",
        ]
    );
    assert_eq!(hall.ran.commands(), ["ls -la"]);
    let run = events[1]["runId"].as_str().unwrap();
    let call = format!("{run}/call_1");
    assert_eq!(
        (&relay["kind"], &relay["tool"], &relay["params"]),
        (
            &json!("permission"),
            &json!("bash"),
            &json!({ "command": "ls -la" })
        )
    );
    assert_eq!(relay["toolCallId"], call);
    for field in [
        "createdAt",
        "expiresAt",
        "argsHash",
        "options",
        "suggestions",
    ] {
        assert!(!relay[field].is_null(), "{field}: {relay}");
    }
    let resolved = all(&events, "relay_resolved")[0];
    assert_eq!(
        (
            &resolved["relayId"],
            &resolved["decision"],
            &resolved["via"]
        ),
        (&relay["id"], &json!("approved"), &json!("chat"))
    );
    assert_eq!(resolved["by"]["kind"], "workspace");
    assert!(resolved["at"].is_string() && resolved.get("grantId").is_none());
    let (called, result) = (all(&events, "tool_call")[0], all(&events, "tool_result")[0]);
    for event in [called, result] {
        assert_eq!(
            (&event["id"], &event["name"]),
            (&json!(call), &json!("bash"))
        );
    }
    assert_eq!(called["input"], json!({ "command": "ls -la" }));
    assert_eq!(result["output"]["result"], json!({ "exitCode": 0 }));
}

#[tokio::test]
async fn a_denied_call_is_no_call_and_the_model_reads_why() {
    let with = json!({ "approved": false, "reason": "nope" });
    let without = json!({ "approved": false });
    for (response, expected) in [
        (with, json!({ "status": "denied", "reason": "nope" })),
        (without, json!({ "status": "denied" })),
    ] {
        let hall = calls(&["ls -la"]).await;
        let (look, relay) = asked(&hall).await;
        hall.resolve(&look, &relay, response).await.unwrap();
        let events = look.end().await;
        assert_eq!(
            types(&events)[2..],
            [
                "relay",
                "relay_resolved",
                "tool_result",
                "text",
                "harness_end"
            ]
        );
        assert_eq!(all(&events, "tool_result")[0]["output"], expected);
        assert!(hall.ran.calls().is_empty());
        let told = format!("{:?}", hall.model.asked()[1].messages.last());
        assert!(told.contains("denied"), "{told}");
        assert_eq!(told.contains("nope"), expected["reason"] == "nope");
    }
}

#[tokio::test]
async fn only_the_chat_that_asks_can_be_answered() {
    let hall = Hall::start(json!([[bash("a b")], [bash("a b")], "done", "done"])).await;
    let (first, relay) = asked(&hall).await;
    let (second, _) = asked(&hall).await;
    let yes = json!({ "approved": true });
    let unknown = "01963a5c-7890-7abc-8ef0-123456789abc";
    for (session, id, error) in [
        (unknown, &relay["id"], "Session not found"),
        (&*first.session, &json!(unknown), "Relay not found"),
        (&*second.session, &relay["id"], "Relay not found"),
    ] {
        let body = json!({ "sessionId": session, "response": yes });
        let refused = hall.post(&json!({ "id": id }), &body).await.unwrap_err();
        assert_eq!(
            (refused.status, refused.body),
            (404, json!({ "error": error }))
        );
    }
    assert_eq!(hall.record(&relay).await.state, PermissionState::Pending);
    hall.approve(&first, &relay).await;
    first.end().await;
    assert_eq!(hall.ran.commands(), ["a b"]);
}

#[tokio::test]
async fn the_first_answer_counts() {
    let hall = Hall::start(json!([[bash("a b"), bash("c d")], "done"])).await;
    let (mut look, relay) = asked(&hall).await;
    let other = look.until("relay").await;
    hall.approve(&look, &relay).await;
    let late = hall
        .resolve(&look, &relay, json!({ "approved": false }))
        .await
        .unwrap_err();
    assert_eq!(
        (late.status, &late.body["error"]),
        (404, &json!("Relay not found"))
    );
    assert_eq!(
        (&late.body["code"], &late.body["decision"]),
        (&json!("relay_already_resolved"), &json!("approved"))
    );
    hall.deny(&look, &other).await;
    let session = look.session.clone();
    look.end().await;
    assert_eq!(hall.ran.commands(), ["a b"]);
    // After the end there is nothing to decide in.
    let body = json!({ "sessionId": session, "response": { "approved": true } });
    let refused = hall.post(&relay, &body).await.unwrap_err();
    assert_eq!(
        (refused.status, refused.body),
        (404, json!({ "error": "Session not found" }))
    );
}

#[tokio::test]
async fn of_many_answers_at_once_one_counts() {
    let hall = calls(&["ls -la"]).await;
    let (look, relay) = asked(&hall).await;
    let answers = (0..20).map(|at| {
        let response = json!({ "approved": at % 2 == 0 });
        async {
            let is_approval = response["approved"] == true;
            let answer = hall.resolve(&look, &relay, response).await;
            (is_approval, answer)
        }
    });
    let answers = futures_util::future::join_all(answers).await;
    let counted: Vec<bool> = answers
        .iter()
        .filter(|(_, answer)| answer.is_ok())
        .map(|(is_approval, _)| *is_approval)
        .collect();
    assert_eq!(counted.len(), 1, "{answers:?}");
    let statuses = answers
        .iter()
        .filter_map(|(_, answer)| answer.as_ref().err());
    assert!(
        statuses
            .map(|refused| refused.status)
            .all(|status| status == 404)
    );
    let events = look.end().await;
    assert_eq!(hall.ran.calls().len(), usize::from(counted[0]));
    assert_eq!(all(&events, "relay_resolved").len(), 1);
}

#[tokio::test]
async fn what_is_no_answer_leaves_the_question_open() {
    let hall = calls(&["ls -la"]).await;
    let (look, relay) = asked(&hall).await;
    for response in [
        json!(null),
        json!({}),
        json!("yes"),
        json!([]),
        json!(true),
        json!({ "approved": "false" }),
        json!({ "approved": 1 }),
        json!({ "approved": true, "argsHash": "of something else" }),
        json!({ "approved": true, "optionId": "nothing that was offered" }),
        json!({ "approved": true, "stop": true }),
    ] {
        let refused = hall.resolve(&look, &relay, response.clone()).await;
        let refused = refused.unwrap_err();
        assert!(
            (400..500).contains(&refused.status),
            "{response}: {refused:?}"
        );
        assert_ne!(refused.status, 404, "{response}");
    }
    assert_eq!(hall.record(&relay).await.state, PermissionState::Pending);
    let hash = json!({ "approved": true, "argsHash": relay["argsHash"] });
    hall.resolve(&look, &relay, hash).await.unwrap();
    look.end().await;
    assert_eq!(hall.ran.commands(), ["ls -la"]);
}

#[tokio::test]
async fn the_same_answer_again_is_the_same_answer() {
    let hall = Hall::start(json!([[bash("a b"), bash("c d")], "done"])).await;
    let (mut look, relay) = asked(&hall).await;
    let other = look.until("relay").await;
    let body = json!({
        "sessionId": look.session,
        "response": { "approved": true },
        "responseId": "r1",
    });
    for _ in 0..2 {
        let success = hall.post(&relay, &body).await.unwrap();
        assert_eq!(success, json!({ "success": true }));
    }
    hall.deny(&look, &other).await;
    look.end().await;
    assert_eq!(hall.ran.commands(), ["a b"]);
}

#[tokio::test]
async fn whoever_decides_may_change_the_call() {
    let hall = calls(&["ls -la"]).await;
    let rules = json!({ "deny": ["bash:rm"] });
    let mut look = hall.begin(rules).await;
    let relay = look.until("relay").await;
    let edit = |command: &str| json!({ "approved": true, "updatedParams": { "command": command } });
    let refused = hall.resolve(&look, &relay, edit("rm -rf x")).await;
    let refused = refused.unwrap_err();
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert_eq!(hall.record(&relay).await.state, PermissionState::Pending);
    hall.resolve(&look, &relay, edit("ls -l")).await.unwrap();
    let events = look.end().await;
    let call = all(&events, "tool_call")[0];
    assert_eq!(call["input"], json!({ "command": "ls -l" }));
    assert_eq!(hall.ran.commands(), ["ls -l"]);
    let record = hall.record(&relay).await;
    assert_eq!(record.params["command"], "ls -la");
    let updated = record.outcome.unwrap().updated_params.unwrap();
    assert_eq!(updated["command"], "ls -l");
}

#[tokio::test]
async fn a_refusal_can_end_the_turn_or_say_what_to_do_instead() {
    let hall = calls(&["ls -la", "never"]).await;
    let (look, relay) = asked(&hall).await;
    let stop = json!({ "approved": false, "reason": "enough", "stop": true });
    hall.resolve(&look, &relay, stop).await.unwrap();
    let events = look.end().await;
    assert_eq!(all(&events, "harness_end")[0]["reason"], "stopped");
    assert_eq!(hall.model.asked().len(), 1);

    let hall = calls(&["ls -la"]).await;
    let (look, relay) = asked(&hall).await;
    let guide = json!({ "approved": false, "guidance": "read the manual" });
    hall.resolve(&look, &relay, guide).await.unwrap();
    look.end().await;
    let told = format!("{:?}", hall.model.asked()[1].messages);
    assert!(told.contains("read the manual"), "{told}");
}

/// What the relay wrote down about refused deciders.
async fn refusals(hall: &Hall) -> usize {
    let query = EventQuery {
        types: Some("permission.refused".to_owned()),
        ..EventQuery::default()
    };
    hall.relay.read_events(&query).await.unwrap().items.len()
}

#[tokio::test]
async fn whoever_asks_does_not_decide() {
    let hall = calls(&["ls -la"]).await;
    let own = hall.guest(Decider::Relay(hall.agent.permissions()));
    let mut look = hall.begin_as(own, json!({})).await;
    let relay = look.until("relay").await;
    let refused = hall
        .resolve(&look, &relay, json!({ "approved": true }))
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("forbidden"))
    );
    assert_eq!(refusals(&hall).await, 1);
    assert_eq!(hall.record(&relay).await.state, PermissionState::Pending);
    assert!(hall.ran.calls().is_empty());
}

#[tokio::test]
async fn a_decision_that_cant_be_written_is_none() {
    let hall = calls(&["ls -la"]).await;
    let mut look = hall
        .begin_as(hall.guest(Decider::Unwritable), json!({}))
        .await;
    let relay = look.until("relay").await;
    let refused = hall
        .resolve(&look, &relay, json!({ "approved": true }))
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("storage_unavailable"))
    );
    assert_eq!(hall.record(&relay).await.state, PermissionState::Pending);
    assert!(hall.ran.calls().is_empty());
}

#[tokio::test]
async fn a_person_decides_as_that_person() {
    let hall = calls(&["ls -la"]).await;
    let ana = hall
        .relay
        .register("ana")
        .agent_type(relay_protocol::agent::AgentType::Human)
        .await
        .unwrap();
    let guest = hall.guest(Decider::Relay(ana.permissions()));
    let mut look = hall.begin_as(guest, json!({})).await;
    let relay = look.until("relay").await;
    hall.approve(&look, &relay).await;
    let resolved = look.until("relay_resolved").await;
    assert_eq!(resolved["by"], json!({ "kind": "human", "name": "ana" }));
    look.end().await;
    let by = hall.record(&relay).await.outcome.unwrap().by.unwrap();
    assert_eq!(by.kind, DeciderKind::Human);
}
