//! What the model of a session is asked with: the whole content of a message, at its boundary and at no other.

use relay_harness::llm::conversation::{Content, Message};
use relay_harness::llm::scripted::Scripted;
use relay_sdk::protocol::ids::DeliveryId;
use relay_sdk::protocol::limits::TEXT_ATTACHMENT_SHOWN_BYTES;
use relay_sdk::{AgentClient, DeliveryMode, FlushInput};
use serde_json::{Value, json};

use super::mailbox::World;
use super::office::Office;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const PNG_BASE64: &str = "iVBORw0KGgo=";
const FILE: &str = "a line of the file";
const MARK: &str = "the message of this test";

/// What a message carries beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Nothing,
    Image,
    File,
}

async fn send(alice: &AgentClient, carried: Carried, mode: DeliveryMode) -> DeliveryId {
    let mut sending = alice.send_message("@bob", MARK).mode(mode);
    let stored = match carried {
        Carried::Nothing => None,
        Carried::Image => Some(alice.upload("image/png", "dot.png", PNG)),
        Carried::File => Some(alice.upload("text/plain", "a.log", FILE.as_bytes())),
    };
    if let Some(stored) = stored {
        sending = sending.attachment(stored.await.unwrap().attachment_id);
    }
    sending.await.unwrap().deliveries[0].delivery_id
}

/// The first question that has the message in it, and how often it stands there; nothing where none has.
fn asked_with(model: &Scripted) -> Option<(usize, Vec<Content>)> {
    let asked = model.asked();
    asked.iter().enumerate().find_map(|(question, request)| {
        let users = request.messages.iter().filter_map(|message| match message {
            Message::User(content) => Some(content.clone()),
            _ => None,
        });
        let ours: Vec<Vec<Content>> = users.filter(|content| has_mark(content)).collect();
        assert!(ours.len() < 2, "{ours:?}");
        Some((question, ours.into_iter().next()?))
    })
}

fn has_mark(content: &[Content]) -> bool {
    content
        .iter()
        .any(|part| matches!(part, Content::Text(text) if text.contains(MARK)))
}

/// Plays one message against a run that has a tool call in it; says which question had it.
async fn question_of(carried: Carried, mode: DeliveryMode) -> usize {
    let call = json!({ "tool": "send", "arguments": { "to": "@alice", "text": "x" } });
    let script = json!([["working", { "wait": "gate" }, call], "second", "third"]);
    let mut world = World::start(script).await;
    let alice = world.office.alice.clone();
    alice.send_message("@bob", "begin").await.unwrap();
    world.until("delivery.delivered").await;
    let sent = send(&alice, carried, mode).await;
    if mode == DeliveryMode::Immediate {
        world.until("delivery.accepted").await;
    }
    assert!(asked_with(&world.model).is_none(), "before its boundary");
    world.model.open("gate");
    if mode == DeliveryMode::Manual {
        world.status("idle").await;
        assert!(asked_with(&world.model).is_none(), "before it was flushed");
        let flush = FlushInput::all(&world.office.bob);
        world.office.bob.deliveries().flush(flush).await.unwrap();
    }
    let ours = |event: &Value| {
        event["type"] == "delivery.delivered" && event["deliveryId"] == sent.to_string()
    };
    world.event(ours).await;
    let (question, content) = asked_with(&world.model).unwrap();
    let texts = content.iter().filter_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<String>();
    let image = content.iter().any(
        |part| matches!(part, Content::Image(media) if media.data == PNG_BASE64 && media.media_type == "image/png"),
    );
    assert_eq!(image, carried == Carried::Image, "{content:?}");
    let has_file = text.contains(&format!("\n{FILE}\n"));
    assert_eq!(has_file, carried == Carried::File, "{text}");
    let delivery = world.office.relay.delivery(sent).await.unwrap();
    let receipts = serde_json::to_string(&delivery.receipts).unwrap();
    assert!(!receipts.contains("notSurfaced"), "{receipts}");
    world.session.end().await;
    question
}

#[tokio::test]
async fn the_content_of_a_message_is_in_the_question_of_its_boundary_and_in_no_other() {
    for carried in [Carried::Nothing, Carried::Image, Carried::File] {
        for (mode, question) in [
            (DeliveryMode::Immediate, 1),
            (DeliveryMode::NextToolCall, 1),
            (DeliveryMode::NextMessage, 2),
            (DeliveryMode::OnIdle, 2),
            (DeliveryMode::Manual, 2),
        ] {
            let found = question_of(carried, mode).await;
            assert_eq!(found, question, "{carried:?} {mode}");
        }
    }
}

#[tokio::test]
async fn a_long_text_is_cut_named_in_the_receipt_and_read_on_with_a_tool() {
    let rest = "the end of the file";
    let content = format!("{}{rest}", "x".repeat(TEXT_ATTACHMENT_SHOWN_BYTES));
    // Nobody has to allow it: bob's rules allow `send` only, and nobody is there to ask.
    let office = Office::start().await;
    let alice = office.alice.clone();
    let stored = alice
        .upload("text/plain", "long.log", content)
        .await
        .unwrap();
    let arguments = json!({ "id": stored.attachment_id, "offset": TEXT_ATTACHMENT_SHOWN_BYTES });
    let call = json!({ "tool": "read_attachment", "arguments": arguments });
    let mut world = World::start_in(office, json!([[call], "read"])).await;
    let sending = alice.send_message("@bob", MARK);
    let sent = sending.attachment(stored.attachment_id).await.unwrap();
    world.until("delivery.delivered").await;
    let (_, asked) = asked_with(&world.model).unwrap();
    let Content::Text(text) = &asked[0] else {
        panic!("{asked:?}");
    };
    let id = stored.attachment_id;
    assert!(text.contains(&format!("call read_attachment with the id {id}")));
    assert!(!text.contains(rest));
    let tools = &world.model.asked()[0].tools;
    assert!(tools.iter().any(|tool| tool.name == "read_attachment"));
    let delivery = world.office.relay.delivery(sent.deliveries[0].delivery_id);
    let receipts = serde_json::to_value(delivery.await.unwrap().receipts).unwrap();
    let last = receipts.as_array().unwrap().last().unwrap();
    let left = &last["receipt"]["metadata"]["notSurfaced"][0];
    assert_eq!(left["name"], "long.log");
    assert_eq!(left["why"], "its first 16384 of 16403 bytes were shown");
    world.status("idle").await;
    let asked = world.model.asked();
    let read = asked[1].messages.iter().find_map(|message| match message {
        Message::Tool(result) => Some(result.content.clone()),
        _ => None,
    });
    assert_eq!(read, Some(vec![Content::Text(rest.to_owned())]));
}
