//! What an agent is given of a message: the whole content, at its boundary and at no other.

use relay_harness::acp::catalogue::MidTurn;
use relay_harness::acp::content::PromptContent;
use relay_sdk::protocol::api::messages::MessageSent;
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::limits::TEXT_ATTACHMENT_SHOWN_BYTES;
use relay_sdk::protocol::session::BoundaryKind;
use relay_sdk::{DeliveryMode, ErrorCode};
use serde_json::{Value, json};

use super::support::{handshake, received};
use super::world::World;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const FILE: &str = "a line of the file";
const MARK: &str = "the message of this test";

/// What a message carries beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Nothing,
    Image,
    File,
}

async fn send(world: &World, carried: Carried, mode: DeliveryMode) -> MessageSent {
    let alice = &world.alice;
    let mut sending = alice.send_message("@bob", MARK).mode(mode);
    let stored = match carried {
        Carried::Nothing => None,
        Carried::Image => Some(alice.upload("image/png", "dot.png", PNG)),
        Carried::File => Some(alice.upload("text/plain", "a.log", FILE.as_bytes())),
    };
    if let Some(stored) = stored {
        sending = sending.attachment(stored.await.unwrap().attachment_id);
    }
    sending.await.unwrap()
}

/// What the agent was given so far that has the message in it: the method, which one of its kind, and the content.
fn given(world: &World) -> Vec<(String, usize, String)> {
    let mut counts = std::collections::BTreeMap::new();
    let mut found = Vec::new();
    for message in received(&world.log()) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let count = counts.entry(method.clone()).or_insert(0);
        *count += 1;
        let params = message["params"].to_string();
        if params.contains(MARK) {
            found.push((method, *count, params));
        }
    }
    found
}

/// An agent that sees images and can be steered.
fn script(turns: Value) -> Value {
    let mut able = handshake(&[], json!({"promptCapabilities": {"image": true}}));
    able["_meta"] = json!({"steering": {"supported": true}});
    json!({"handshake": able, "steering": "injected", "turns": turns})
}

/// Plays one message; says by which method it came, and as which call of that.
async fn came_by(carried: Carried, mode: DeliveryMode) -> (String, usize) {
    let mut world = World::start().await;
    let last = json!([{"text": "thanks"}, {"stop": "end_turn"}]);
    let until_steered = json!([{"text": "busy"}, {"untilSteered": true}, {"stop": "end_turn"}]);
    let until_cancelled =
        json!([{"text": "busy"}, {"untilCancelled": true}, {"stop": "cancelled"}]);
    let hello = json!([{"text": "hello"}, {"stop": "end_turn"}]);
    let with_tool = json!([
        {"text": "busy"},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read"}},
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}},
        {"untilSteered": true}, {"stop": "end_turn"},
    ]);
    let turns = match mode {
        DeliveryMode::Immediate => json!([until_steered]),
        DeliveryMode::NextToolCall => json!([hello, with_tool]),
        DeliveryMode::NextMessage => json!([hello, last]),
        _ => json!([until_cancelled, last]),
    };
    let bob = world.bob_plays(script(turns), MidTurn::None).await;
    bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
    world.status("active").await;
    if matches!(mode, DeliveryMode::NextToolCall | DeliveryMode::NextMessage) {
        world.seen.clear();
        world.status("idle").await;
        // Answered after the one that the session said itself.
        let boundary = bob.attached().boundary(BoundaryKind::NextMessage);
        boundary.await.unwrap();
    }
    let sent = send(&world, carried, mode).await;
    let id = sent.deliveries[0].delivery_id;
    match mode {
        DeliveryMode::Immediate => {}
        DeliveryMode::OnIdle => {
            assert!(given(&world).is_empty(), "before its boundary");
            bob.cancel();
        }
        _ => {
            let state = world.relay.delivery(id).await.unwrap().state;
            assert_eq!(state, DeliveryState::Pending);
            assert!(given(&world).is_empty(), "before its boundary");
            bob.prompt(vec![PromptContent::from("go on")])
                .await
                .unwrap();
        }
    }
    let metadata = world.delivered(id).await;
    assert_eq!(metadata.get("notSurfaced"), None);
    let given = given(&world);
    let [(method, count, content)] = given.as_slice() else {
        panic!("{mode}: {given:?}");
    };
    let image = json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"});
    let has_image = content.contains(&image.to_string());
    assert_eq!(has_image, carried == Carried::Image, "{content}");
    let has_file = content.contains(&format!("\\n{FILE}\\n"));
    assert_eq!(has_file, carried == Carried::File, "{content}");
    (method.clone(), *count)
}

#[tokio::test]
async fn the_content_of_a_message_is_given_at_its_boundary_and_at_no_other() {
    for carried in [Carried::Nothing, Carried::Image, Carried::File] {
        for (mode, method, count) in [
            (DeliveryMode::Immediate, "_session/steering", 1),
            (DeliveryMode::NextToolCall, "_session/steering", 1),
            (DeliveryMode::NextMessage, "session/prompt", 2),
            (DeliveryMode::OnIdle, "session/prompt", 2),
        ] {
            let came = came_by(carried, mode).await;
            assert_eq!(came, (method.to_owned(), count), "{carried:?} {mode}");
        }
    }
}

#[tokio::test]
async fn what_an_agent_cant_hold_back_is_given_at_no_boundary() {
    for carried in [Carried::Nothing, Carried::Image, Carried::File] {
        let world = World::start().await;
        let turns = json!([[{"text": "hello"}, {"stop": "end_turn"}]]);
        let bob = world.bob_plays(script(turns), MidTurn::None).await;
        let sent = send(&world, carried, DeliveryMode::Manual).await;
        let error = sent.deliveries[0].error.as_ref().unwrap();
        assert_eq!(error.code, ErrorCode::CapabilityNotSupported);
        bob.prompt(vec![PromptContent::from("work")]).await.unwrap();
        assert!(given(&world).is_empty());
    }
}

#[tokio::test]
async fn what_an_agent_is_not_shown_is_named_in_the_receipt() {
    let mut world = World::start().await;
    let turns = json!([[{"text": "hello"}, {"stop": "end_turn"}]]);
    let bob = world
        .bob_plays(json!({"turns": turns}), MidTurn::None)
        .await;
    let long = "x".repeat(TEXT_ATTACHMENT_SHOWN_BYTES + 1);
    let file = world.alice.upload("text/plain", "long.log", long);
    let file = file.await.unwrap().attachment_id;
    let image = world.alice.upload("image/png", "dot.png", PNG);
    let image = image.await.unwrap().attachment_id;
    // This agent sees no images: the image is a line of text.
    let sending = world.alice.send_message("@bob", MARK);
    let sending = sending.attachment(file).attachment(image);
    let sent = sending.allow_downgrade().await.unwrap();
    let metadata = world.delivered(sent.deliveries[0].delivery_id).await;
    let left = metadata["notSurfaced"].as_array().unwrap();
    let named: Vec<_> = left
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["why"].as_str().unwrap()))
        .collect();
    assert_eq!(
        named,
        [
            ("long.log", "its first 16384 of 16385 bytes were shown"),
            ("dot.png", "the session takes no images"),
        ]
    );
    drop(bob);
}
