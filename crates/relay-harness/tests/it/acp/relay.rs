//! Agents on a real relay: messages from somebody else, receipts and events.

use relay_harness::acp::catalogue::MidTurn;
use relay_harness::acp::content::PromptContent;
use relay_harness::acp::session::RelaySession;
use relay_sdk::DeliveryMode;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::session::BoundaryKind;
use serde_json::{Value, json};

use super::support::{handshake, received, soon};
use super::world::World;

#[tokio::test]
async fn a_message_to_an_idle_agent_is_a_prompt_and_its_updates_are_events() {
    let mut world = World::start().await;
    let script = json!({"turns": [[
        {"text": "Working"}, {"text": " on it"},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "edit"}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed",
            "content": [{"type": "diff", "path": "/w/a", "oldText": "a", "newText": "b"}]}},
        {"update": {"sessionUpdate": "usage_update", "used": 7}},
        {"text": "Done"}, {"stop": "end_turn"},
    ]]});
    let bob = world.bob_plays(script, MidTurn::None).await;
    let id = world.send("Please fix it", None).await;
    let metadata = world.delivered(id).await;
    assert_eq!(metadata["door"], "acp.prompt");
    assert_eq!(metadata["evidence"]["by"], "update");
    assert_eq!(metadata["evidence"]["turn"], 1);
    world.status("active").await;
    let done = |event: &Value| {
        event["event"]["chunk"]["content"]
            .to_string()
            .contains("Done")
    };
    let done = world.event("the last words", done).await;
    let prompts = world.prompts();
    assert_eq!(prompts.len(), 1);
    assert!(
        prompts[0].contains("[relay] from") && prompts[0].contains("Please fix it"),
        "{}",
        prompts[0]
    );
    let reports: Vec<&Value> = world
        .seen
        .iter()
        .chain([&done])
        .map(|event| &event["event"])
        .collect();
    let kinds = reports.iter().filter_map(|report| report["type"].as_str());
    let kinds: Vec<&str> = kinds
        .filter(|kind| {
            ["tool.", "file.", "usage."]
                .iter()
                .any(|known| kind.starts_with(known))
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "tool.called",
            "file.changed",
            "tool.completed",
            "usage.updated"
        ]
    );
    let texts: String = reports
        .iter()
        .filter_map(|report| report["chunk"]["content"].as_str())
        .collect();
    assert_eq!(texts, "Working on itDone");
    drop(bob);
}

#[tokio::test]
async fn messages_that_wait_for_the_end_of_a_turn_come_in_the_next_one() {
    let mut world = World::start().await;
    // The first turn ends when it is cancelled from here.
    let script = json!({"turns": [
        [{"text": "busy"}, {"untilCancelled": true}, {"stop": "cancelled"}],
        [{"text": "thanks"}, {"stop": "end_turn"}],
    ]});
    let bob = world.bob_plays(script, MidTurn::None).await;
    bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
    world.status("active").await;
    let idle = world.send("when idle", Some(DeliveryMode::OnIdle)).await;
    let next = world
        .send("next message", Some(DeliveryMode::NextMessage))
        .await;
    let before = world.prompts().join("\n");
    assert!(!before.contains("when idle") && !before.contains("next message"));
    bob.cancel();
    for id in [idle, next] {
        assert_eq!(world.delivered(id).await["door"], "acp.prompt");
    }
    let all = world.prompts().join("\n");
    assert!(all.contains("when idle") && all.contains("next message"));
}

/// Puts an agent on the relay that has had one prompt and is idle, and stands at no boundary any more.
async fn idle_bob(world: &mut World, turns: Value) -> RelaySession {
    let bob = world
        .bob_plays(json!({ "turns": turns }), MidTurn::None)
        .await;
    bob.prompt(vec![PromptContent::from("first")])
        .await
        .unwrap();
    world.status("active").await;
    world.seen.clear();
    world.status("idle").await;
    // Answered after the one that the session said itself.
    let boundary = bob.attached().boundary(BoundaryKind::NextMessage);
    boundary.await.unwrap();
    bob
}

#[tokio::test]
async fn what_waits_for_the_next_message_comes_with_the_next_prompt_of_the_user() {
    let mut world = World::start().await;
    let turns = json!([
        [{"text": "hello"}, {"stop": "end_turn"}],
        [{"text": "busy"}, {"untilCancelled": true}, {"stop": "cancelled"}],
        [{"text": "thanks"}, {"stop": "end_turn"}],
    ]);
    let bob = idle_bob(&mut world, turns).await;
    let mode = Some(DeliveryMode::NextMessage);
    let waits = world.send("Mind the tests", mode).await;
    let state = world.relay.delivery(waits).await.unwrap().state;
    assert_eq!(
        state,
        DeliveryState::Pending,
        "an idle session is no boundary"
    );
    let prompt = |text: &str| bob.prompt(vec![PromptContent::from(text)]);
    prompt("Fix the build").await.unwrap();
    assert_eq!(world.delivered(waits).await["evidence"]["turn"], 2);

    // The user has typed ahead.
    let waits = world.send("And the docs", mode).await;
    let (typed, ()) = tokio::join!(prompt("Go on"), async { bob.cancel() });
    typed.unwrap();
    assert_eq!(world.delivered(waits).await["evidence"]["turn"], 3);
    let prompts = world.prompts();
    assert_eq!(prompts.len(), 3);
    for (prompt, message, words) in [
        (&prompts[1], "Mind the tests", "Fix the build"),
        (&prompts[2], "And the docs", "Go on"),
    ] {
        let (message, words) = (prompt.find(message), prompt.find(words));
        assert!(message.is_some() && message < words, "{prompt}");
    }
}

#[tokio::test]
async fn what_waits_for_the_next_message_comes_before_a_command_of_the_user() {
    let mut world = World::start().await;
    let bob = idle_bob(&mut world, json!([])).await;
    let mode = Some(DeliveryMode::NextMessage);
    let waits = world.send("Mind the tests", mode).await;
    let command = vec![PromptContent::from("/compact")];
    soon(bob.prompt(command)).await.unwrap();
    assert_eq!(world.delivered(waits).await["evidence"]["turn"], 2);
    let prompts = world.prompts();
    assert_eq!(prompts.len(), 3);
    assert!(prompts[1].contains("Mind the tests") && !prompts[1].contains("/compact"));
    assert_eq!(
        prompts[2],
        json!([{"type": "text", "text": "/compact"}]).to_string()
    );
}

#[tokio::test]
async fn an_immediate_message_is_steered_where_the_agent_can() {
    let mut world = World::start().await;
    let mut steers = handshake(&[], json!({}));
    steers["_meta"] = json!({"steering": {"supported": true}});
    let script = json!({"handshake": steers, "steering": "injected", "turns": [[
        {"text": "busy"}, {"untilSteered": true}, {"stop": "end_turn"},
    ]]});
    let bob = world.bob_plays(script, MidTurn::None).await;
    bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
    world.status("active").await;
    let id = world.send("look here", Some(DeliveryMode::Immediate)).await;
    let metadata = world.delivered(id).await;
    assert_eq!(metadata["door"], "acp.steer");
    assert_eq!(metadata["evidence"]["outcome"], "injected");
    assert_eq!(world.prompts().len(), 1);
}

#[tokio::test]
async fn what_comes_too_late_to_be_steered_is_a_prompt() {
    let mut world = World::start().await;
    let mut steers = handshake(&[], json!({}));
    steers["_meta"] = json!({"steering": {"supported": true}});
    let script = json!({"handshake": steers, "steering": "promptRequired", "turns": [
        [{"text": "busy"}, {"untilSteered": true}, {"stop": "end_turn"}],
        [{"text": "next"}, {"stop": "end_turn"}],
    ]});
    let bob = world.bob_plays(script, MidTurn::None).await;
    bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
    world.status("active").await;
    let id = world.send("look here", Some(DeliveryMode::Immediate)).await;
    let metadata = world.delivered(id).await;
    assert_eq!(metadata["door"], "acp.prompt");
    assert!(world.prompts()[1].contains("look here"));
}

#[tokio::test]
async fn images_that_are_stored_come_with_the_prompt() {
    let mut world = World::start().await;
    let sees = json!({"promptCapabilities": {"image": true}});
    let script = json!({"handshake": handshake(&[], sees)});
    let bob = world.bob_plays(script, MidTurn::None).await;
    let stored = world
        .alice
        .upload("image/png", "dot.png", &b"\x89PNG\r\n\x1a\n"[..]);
    let stored = stored.await.unwrap();
    let sending = world.alice.send_message("@bob", "What is this?");
    let sent = sending.attachment(stored.attachment_id).await.unwrap();
    world.delivered(sent.deliveries[0].delivery_id).await;
    let prompt = &world.prompts()[0];
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    assert!(prompt.contains(&image.to_string()), "{prompt}");
    drop(bob);
}

#[tokio::test]
async fn an_immediate_message_interrupts_where_that_is_the_only_way() {
    let mut world = World::start().await;
    let script = json!({"turns": [
        [{"text": "busy"}, {"untilCancelled": true}, {"text": "leftover"}, {"stop": "cancelled"}],
        [{"text": "yes?"}, {"stop": "end_turn"}],
    ]});
    let bob = world.bob_plays(script, MidTurn::CancelAndPrompt).await;
    bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
    world.status("active").await;
    let id = world.send("stop that", Some(DeliveryMode::Immediate)).await;
    let metadata = world.delivered(id).await;
    assert_eq!(
        (&metadata["door"], &metadata["evidence"]["turn"]),
        (&json!("acp.prompt"), &json!(2))
    );
    let said = |event: &Value| {
        event["event"]["chunk"]["content"]
            .to_string()
            .contains("yes?")
    };
    world.event("the answer", said).await;
    assert!(
        !world
            .seen
            .iter()
            .any(|event| event.to_string().contains("leftover"))
    );
}

#[tokio::test]
async fn an_immediate_message_is_queued_where_the_agent_does_that() {
    let mut world = World::start().await;
    let script = json!({"turns": [
        [{"text": "busy"}, {"untilPrompt": true}, {"stop": "end_turn"}],
        [{"text": "second"}, {"stop": "end_turn"}],
    ]});
    let bob = world.bob_plays(script, MidTurn::Queue).await;
    bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
    world.status("active").await;
    let id = world
        .send("one more thing", Some(DeliveryMode::Immediate))
        .await;
    let metadata = world.delivered(id).await;
    assert_eq!(metadata["evidence"]["turn"], 2);
    world.status("idle").await;
}

#[tokio::test]
async fn what_an_agent_can_not_do_is_not_declared() {
    let world = World::start().await;
    let bob = world.bob_plays(json!({}), MidTurn::None).await;
    let id = world.send("now!", Some(DeliveryMode::Immediate)).await;
    let delivery = world.relay.delivery(id).await.unwrap();
    let problem = delivery.error.expect("a problem");
    assert_eq!(problem.capability.as_deref(), Some("delivery.modes"));
    assert!(world.prompts().is_empty());
    drop(bob);
}

#[tokio::test]
async fn an_agent_that_dies_gives_its_messages_back() {
    let mut world = World::start().await;
    let script = json!({"turns": [[{"die": true}]]});
    let mut bob = world.bob_plays(script, MidTurn::None).await;
    let id = world.send("hello?", None).await;
    soon(bob.ended()).await;
    let status =
        |event: &Value| event["type"] == "agent.status.changed" && event["status"] == "failed";
    let ended = world.event("the status", status).await;
    // What became of the message was known before: the session that failed has no say any more.
    let failed = |event: &Value| event["type"] == "delivery.failed";
    let failed = world.event("the failed attempt", failed).await;
    assert!(failed["seq"].as_u64() < ended["seq"].as_u64());
    assert!(
        failed["reason"].as_str().unwrap().contains("ended"),
        "{failed}"
    );
    let late = |event: &Value| event["type"] == "delivery.late_receipt";
    assert!(!world.seen.iter().any(late), "nothing was said twice");

    // Another body of the same agent gets it.
    let next = world.bob_plays(json!({}), MidTurn::None).await;
    world.delivered(id).await;
    drop(next);
}

#[tokio::test]
async fn a_session_is_forked_where_the_agent_can() {
    let mut world = World::start().await;
    let forks = json!({"handshake": handshake(&["fork", "close"], json!({}))});
    let bob = world.bob_plays(forks, MidTurn::None).await;
    let id = bob.attached().session_id().unwrap();
    let forked = soon(world.relay.fork_session(id, Some("carol")))
        .await
        .unwrap();
    assert_eq!(forked.agent.name, "carol");
    let sent = world
        .alice
        .send_message("@carol", "and you?")
        .await
        .unwrap();
    let metadata = world.delivered(sent.deliveries[0].delivery_id).await;
    assert_eq!(metadata["evidence"]["sessionId"], "session-2");
    // The copy goes, the agent stays.
    let released = world.relay.release_session(forked.session_id, None);
    soon(released).await.unwrap();
    let id = world.send("still there?", None).await;
    let metadata = world.delivered(id).await;
    assert_eq!(metadata["evidence"]["sessionId"], "session-1");

    let can_not = world.bob_plays(json!({}), MidTurn::None).await;
    let id = can_not.attached().session_id().unwrap();
    let refused = world.relay.fork_session(id, None).await.unwrap_err();
    let refused = refused.problem().unwrap();
    assert_eq!(refused.capability.as_deref(), Some("lifecycle.fork"));
}

#[tokio::test]
async fn a_released_session_ends_its_agent() {
    let world = World::start().await;
    let mut bob = world
        .bob_plays(
            json!({"handshake": handshake(&["close"], json!({}))}),
            MidTurn::None,
        )
        .await;
    let pid = bob.session().host().pid().unwrap();
    let id = bob.attached().session_id().unwrap();
    soon(world.relay.release_session(id, None)).await.unwrap();
    soon(bob.ended()).await;
    assert!(!crate::processes::is_running(pid));
    let received = received(&world.log());
    assert!(
        received
            .iter()
            .any(|message| message["method"] == "session/close")
    );
}
