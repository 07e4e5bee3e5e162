//! Messages to chats with a model: each is in the question that its boundary belongs to, in one chat, and in its stream.

use relay_harness::llm::conversation::{Content, Message};
use relay_protocol::api::messages::MessageSent;
use relay_protocol::delivery::DeliveryState;
use relay_sdk::{AgentClient, DeliveryMode};
use serde_json::{Value, json};

use crate::hall::{Hall, all, bash, types};

/// All that the user said in the nth question, counted from 0.
fn said(hall: &Hall, question: usize) -> String {
    let asked = hall.model.asked();
    let messages = asked[question].messages.iter();
    let texts = messages.filter_map(|message| match message {
        Message::User(content) => Some(content),
        _ => None,
    });
    let texts = texts.flatten().filter_map(|content| match content {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

async fn send(ada: &AgentClient, text: &str, mode: Option<DeliveryMode>) -> MessageSent {
    let mut sending = ada.send_message("@chat", text);
    if let Some(mode) = mode {
        sending = sending.mode(mode);
    }
    sending.await.unwrap()
}

async fn state(hall: &Hall, sent: &MessageSent) -> DeliveryState {
    let id = sent.deliveries[0].delivery_id;
    hall.relay.delivery(id).await.unwrap().state
}

/// Waits for an end of a delivery: receipts may be stored a moment after the end of the chat.
async fn ended(hall: &Hall, sent: &MessageSent) -> DeliveryState {
    loop {
        let state = state(hall, sent).await;
        if state.is_terminal() {
            return state;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_comes_while_a_tool_waits_is_in_the_next_question() {
    let hall = Hall::start(json!([[bash("ls")], "seen"])).await;
    let ada = hall.relay.register("ada").await.unwrap();
    let mut look = hall.begin(json!({})).await;
    let relay = look.until("relay").await;
    let adaptive = send(&ada, "in no mode", None).await;
    let before_tool = send(&ada, "before a tool", Some(DeliveryMode::NextToolCall)).await;
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    let second = said(&hall, 1);
    assert!(second.contains("in no mode"), "{second}");
    assert!(second.contains("before a tool"), "{second}");
    // It entered this chat, and whoever looks at it sees that before what the model says about it.
    let entered: Vec<&Value> = all(&events, "message");
    assert_eq!(entered.len(), 2, "{events:#?}");
    assert_eq!(entered[0]["text"], "in no mode");
    assert_eq!(entered[0]["from"]["handle"], "@ada");
    assert_eq!(entered[0]["mode"], "next-tool-call");
    assert_eq!(
        entered[0]["deliveryId"],
        json!(adaptive.deliveries[0].delivery_id)
    );
    let order = types(&events);
    let last_message = order.iter().rposition(|kind| *kind == "message");
    let text = order.iter().position(|kind| *kind == "text");
    assert!(last_message < text, "{order:?}");
    for sent in [&adaptive, &before_tool] {
        assert_eq!(ended(&hall, sent).await, DeliveryState::Delivered);
    }
}

#[tokio::test]
async fn what_comes_while_the_model_says_its_last_words_is_the_next_turn() {
    let script = json!([[{ "wait": "gate" }, "first"], "second"]);
    for mode in [
        None,
        Some(DeliveryMode::NextMessage),
        Some(DeliveryMode::OnIdle),
    ] {
        let hall = Hall::start(script.clone()).await;
        let ada = hall.relay.register("ada").await.unwrap();
        let mut look = hall.begin(json!({})).await;
        look.until("harness_start").await;
        let sent = send(&ada, "one more thing", mode).await;
        hall.model.open("gate");
        let events = look.end().await;
        assert!(!said(&hall, 0).contains("one more thing"));
        assert!(said(&hall, 1).contains("one more thing"), "{mode:?}");
        assert_eq!(all(&events, "harness_end").len(), 1);
        assert_eq!(all(&events, "harness_end")[0]["iterations"], 2);
        assert_eq!(all(&events, "message").len(), 1);
        assert_eq!(ended(&hall, &sent).await, DeliveryState::Delivered);
    }
}

#[tokio::test]
async fn a_message_to_one_chat_never_enters_another() {
    let hall = Hall::start(json!([[bash("ls")], [bash("ls")], "done"])).await;
    let ada = hall.relay.register("ada").await.unwrap();
    let mut first = hall.begin(json!({})).await;
    first.until("relay").await;
    let to_first = send(&ada, "for the first chat", None).await;
    let mut second = hall.begin(json!({})).await;
    let question = second.until("relay").await;
    hall.gateway.cancel(&first.session).unwrap();
    let events = first.end().await;
    assert!(all(&events, "message").is_empty());
    assert_eq!(ended(&hall, &to_first).await, DeliveryState::Failed);
    hall.approve(&second, &question).await;
    let events = second.end().await;
    assert!(all(&events, "message").is_empty(), "{events:#?}");
    for question in 0..hall.model.asked().len() {
        assert!(!said(&hall, question).contains("for the first chat"));
    }
}

#[tokio::test]
async fn what_answers_a_message_of_a_chat_goes_to_that_chat() {
    let call = json!({ "tool": "send", "arguments": { "to": "@ada", "text": "a question" } });
    let script = json!([[call, bash("ls")], [bash("ls")], "answered", "done"]);
    let hall = Hall::start(script).await;
    let ada = hall.relay.register("ada").await.unwrap();
    let mut first = hall.begin(json!({ "allowlist": ["send"] })).await;
    let first_question = first.until("relay").await;
    first.until("tool_result").await;
    let inbox = ada.inbox().await.unwrap();
    let asked = &inbox.items[0].message;
    // Another chat is the newest one now.
    let mut second = hall.begin(json!({})).await;
    let second_question = second.until("relay").await;
    let answer = ada.reply(asked.id, "the answer").await.unwrap();
    hall.approve(&first, &first_question).await;
    let events = first.end().await;
    assert_eq!(all(&events, "message")[0]["text"], "the answer");
    assert!(said(&hall, 2).contains("the answer"));
    assert_eq!(ended(&hall, &answer).await, DeliveryState::Delivered);
    // It is over: whoever answers now is told so at once, and the other chat gets nothing.
    let late = ada.reply(asked.id, "too late").await.unwrap();
    assert_eq!(late.deliveries[0].state, DeliveryState::Failed);
    hall.approve(&second, &second_question).await;
    let events = second.end().await;
    assert!(all(&events, "message").is_empty(), "{events:#?}");
}
