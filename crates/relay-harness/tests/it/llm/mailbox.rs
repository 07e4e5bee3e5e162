//! Models on the relay: messages go in at their boundaries, receipts say when, and they can send.

use std::sync::Arc;

use relay_harness::llm::conversation::{Content, Message};
use relay_harness::llm::limits::RunLimits;
use relay_harness::llm::models::{Model, Models};
use relay_harness::llm::retry::RetryPolicy;
use relay_harness::llm::scripted::Scripted;
use relay_harness::llm::session::{LlmSession, SessionSetup, attach};
use relay_harness::llm::tools::Tools;
use relay_script::Script;
use relay_sdk::DeliveryMode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::office::Office;
use super::world::LONG;

pub(super) struct World {
    pub(super) office: Office,
    pub(super) model: Scripted,
    pub(super) session: LlmSession,
    events: mpsc::UnboundedReceiver<Value>,
}

impl World {
    /// Bob is a model that plays this.
    pub(super) async fn start(script: Value) -> Self {
        Self::start_in(Office::start().await, script).await
    }

    pub(super) async fn start_in(office: Office, script: Value) -> Self {
        let (tell, events) = mpsc::unbounded_channel();
        let told = office.relay.add_listener("*", move |event| {
            let _ = tell.send(serde_json::to_value(&event).unwrap());
            async {}
        });
        told.await.unwrap();
        let model = Scripted::new(Script::from_value(script).unwrap());
        let setup = SessionSetup {
            model: Model {
                provider: Arc::new(model.clone()),
                name: "scripted".to_owned(),
            },
            models: Models::default(),
            tools: Tools::default(),
            system: "be bob".to_owned(),
            permissions: Some(serde_json::from_value(json!({ "allowlist": ["send"] })).unwrap()),
            cwd: None,
            limits: RunLimits::default(),
            retry: RetryPolicy::NEVER,
        };
        let session = attach(office.bob.clone(), setup).await.unwrap();
        Self {
            office,
            model,
            session,
            events,
        }
    }

    pub(super) async fn event(&mut self, like: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = tokio::time::timeout(LONG, self.events.recv()).await;
            let event = event.expect("an event").unwrap();
            if like(&event) {
                return event;
            }
        }
    }

    pub(super) async fn until(&mut self, kind: &str) -> Value {
        self.event(|event| event["type"] == kind).await
    }

    pub(super) async fn status(&mut self, status: &str) {
        let like =
            |event: &Value| event["type"] == "agent.status.changed" && event["status"] == status;
        self.event(like).await;
    }

    /// What the user said in the nth question, counted from 0.
    fn said(&self, question: usize) -> Vec<String> {
        let asked = self.model.asked();
        let users = asked[question]
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::User(content) => match &content[..] {
                    [Content::Text(text), ..] => Some(text.clone()),
                    _ => None,
                },
                _ => None,
            });
        users.collect()
    }
}

#[tokio::test]
async fn a_message_is_answered_by_a_message() {
    let send = json!({ "tool": "send", "arguments": { "to": "@alice", "text": "pong" } });
    let mut world = World::start(json!([[send], "told her", "again"])).await;
    let sent = world
        .office
        .alice
        .send_message("@bob", "ping")
        .await
        .unwrap();
    let delivery = sent.deliveries[0].delivery_id.to_string();
    let delivered = world.until("delivery.delivered").await;
    assert_eq!(delivered["deliveryId"], delivery);
    world.status("idle").await;
    assert!(world.said(0)[0].contains("ping") && world.said(0)[0].contains("alice"));
    let inbox = world.office.alice.inbox().await.unwrap();
    let inbox = serde_json::to_value(inbox).unwrap().to_string();
    assert!(inbox.contains("pong"), "{inbox}");
    // The conversation goes on.
    world
        .office
        .alice
        .send_message("@bob", "thanks")
        .await
        .unwrap();
    world.until("delivery.delivered").await;
    world.status("idle").await;
    let said = world.said(2);
    assert_eq!(said.len(), 2);
    assert!(said[1].contains("thanks"));
    world.session.end().await;
}

#[tokio::test]
async fn what_comes_during_a_run_is_said_before_the_next_question_or_after_it() {
    let send = json!({ "tool": "send", "arguments": { "to": "@alice", "text": "x" } });
    let script = json!([["working", { "wait": "gate" }, send], "second", "third"]);
    let mut world = World::start(script).await;
    let alice = world.office.alice.clone();
    alice.send_message("@bob", "begin").await.unwrap();
    world.until("delivery.delivered").await;
    alice
        .send_message("@bob", "when you have time")
        .mode(DeliveryMode::OnIdle)
        .await
        .unwrap();
    alice
        .send_message("@bob", "now")
        .mode(DeliveryMode::Immediate)
        .await
        .unwrap();
    world.until("delivery.accepted").await;
    world.model.open("gate");
    world.until("delivery.delivered").await;
    world.until("delivery.delivered").await;
    world.status("idle").await;
    assert_eq!(world.said(0).len(), 1);
    let second = world.said(1);
    assert_eq!(second.len(), 2);
    assert!(second[1].contains("now"), "{second:?}");
    let third = world.said(2);
    assert_eq!(third.len(), 3);
    assert!(third[2].contains("when you have time"), "{third:?}");
}

#[tokio::test]
async fn a_message_that_could_not_be_asked_goes_back_and_comes_again() {
    let refused = json!({ "refuse": { "status": 400, "body": { "error": { "message": "bad" } } } });
    let mut world = World::start(json!([refused, "fine"])).await;
    let alice = world.office.alice.clone();
    alice.send_message("@bob", "hello").await.unwrap();
    world.until("delivery.delivered").await;
    world.status("idle").await;
    // It is in the conversation once.
    assert_eq!(world.model.asked().len(), 2);
    assert_eq!(world.said(1).len(), 1);
}
