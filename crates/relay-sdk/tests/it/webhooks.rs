//! Webhooks with the SDK: the snippet of `spec/events.txt`, a real receiver that verifies what arrives, and messages that
//! come in.

use relay_outbound::{AllowList, Answer, Limits, Outbound, Request};
use relay_sdk::protocol::ids::WebhookId;
use relay_sdk::{
    AgentClient, ErrorCode, LoggedEvent, Relay, RelayEvent, VerifyError, WebhookError, WebhookInfo,
    WebhookState, WebhookVerifier, events,
};
use relay_signature::Secret;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::support::{Called, Receiver, World, next, soon};

const SECRET: &str = "a secret that only the two know";

/// Reads a call as a receiver does, and answers that it has it.
fn take(called: Called, verifier: &WebhookVerifier) -> LoggedEvent {
    let event = verifier.verify(&called.headers, &called.body).unwrap();
    called.answer(200, &Value::Null);
    event
}

fn text(event: &LoggedEvent) -> &str {
    match &event.event {
        Some(RelayEvent::MessageCreated(created)) => &created.message.text,
        other => panic!("{other:?}"),
    }
}

async fn say(agent: &AgentClient, text: &str) {
    agent.send_message("#general", text).await.unwrap();
}

/// Waits until a webhook looks like this.
async fn becomes(relay: &Relay, id: WebhookId, wanted: impl Fn(&WebhookInfo) -> bool) {
    let waiting = async {
        while !wanted(&relay.webhooks().get(id).await.unwrap()) {
            tokio::task::yield_now().await;
        }
    };
    soon("a change of the webhook", waiting).await;
}

// await relay.webhooks.subscribe({ url: 'https://your-service.dev/webhooks/relay', events: ['message.created',
// 'action.completed'], secret: RELAY_SECRET });
#[tokio::test]
async fn what_arrives_is_the_event_that_listeners_get() {
    let world = World::start().await;
    let (relay, alice, _bob) = world.pair().await;
    let mut receiver = Receiver::start().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener("message.created", move |event| {
            let _ = tell.send(event);
            async {}
        })
        .await
        .unwrap();
    let webhook = relay
        .webhooks()
        .subscribe(&receiver.url, ["message.created", "action.completed"])
        .secret(SECRET)
        .await
        .unwrap();
    assert_eq!(webhook.secret, SECRET);
    say(&alice, "hello").await;
    let verifier = WebhookVerifier::new(SECRET).unwrap();
    let event = take(receiver.next().await, &verifier);
    assert_eq!(event, next("the event", &mut told).await);
    becomes(&relay, webhook.id, |info| info.last_success_at.is_some()).await;
    let attempts = relay.webhooks().attempts(webhook.id, None).await.unwrap();
    let attempt = &attempts.items[0];
    assert_eq!((attempt.event_id, attempt.status), (event.id, Some(200)));

    relay.webhooks().delete(webhook.id).await.unwrap();
    let gone = relay.webhooks().get(webhook.id).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::UnknownWebhook));
    assert!(relay.webhooks().list(None).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn what_is_forged_changed_old_or_no_event_is_not_taken() {
    let world = World::start().await;
    let (relay, alice, _bob) = world.pair().await;
    let mut receiver = Receiver::start().await;
    let webhooks = relay.webhooks();
    let subscribing = webhooks.subscribe(&receiver.url, [events::MESSAGE_CREATED]);
    let webhook = subscribing.await.unwrap();
    say(&alice, "hello").await;
    let called = receiver.next().await;
    let (mut headers, body) = (called.headers.clone(), called.body.clone());
    let verifier = WebhookVerifier::new(&webhook.secret).unwrap();
    verifier.verify(&headers, &body).unwrap();

    let other = WebhookVerifier::new(SECRET).unwrap();
    let wrong = WebhookError::Signature(VerifyError::Signature);
    assert_eq!(other.verify(&headers, &body), Err(wrong.clone()));
    // Another secret beside it makes it right.
    let both = other.or(&webhook.secret).unwrap();
    both.verify(&headers, &body).unwrap();
    let changed = String::from_utf8(body.to_vec()).unwrap();
    let changed = changed.replace("hello", "jello");
    let found = verifier.verify(&headers, changed.as_bytes());
    assert_eq!(found, Err(wrong));
    let later = headers["webhook-timestamp"].to_str().unwrap();
    let later = later.parse::<u64>().unwrap() + 301;
    let found = verifier.verify_at(later, &headers, &body).unwrap_err();
    assert!(found.to_string().contains("found 301 s"), "{found}");
    let patient = verifier.clone();
    let patient = patient.tolerance(std::time::Duration::from_secs(301));
    patient.verify_at(later, &headers, &body).unwrap();
    headers.remove("webhook-signature");
    let found = verifier.verify(&headers, &body).unwrap_err();
    assert_eq!(
        found.to_string(),
        "expected the header webhook-signature, found none"
    );
    let signed = Secret::parse(SECRET).unwrap().sign("id", later, b"{}");
    signed.add_to(&mut headers);
    let verifier = WebhookVerifier::new(SECRET).unwrap();
    let found = verifier.verify_at(later, &headers, b"{}").unwrap_err();
    assert!(matches!(found, WebhookError::Unreadable(_)), "{found}");
}

#[tokio::test]
async fn predicates_choose_what_is_sent_and_headers_go_along() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    relay.create_channel("ops", None).await.unwrap();
    for agent in [&alice, &bob] {
        agent.join("ops").await.unwrap();
    }
    let mut receiver = Receiver::start().await;
    let predicate = relay.events().message().in_channel("ops").from(&alice);
    let webhook = relay
        .webhooks()
        .subscribe(&receiver.url, ["message.*"])
        .filter(predicate.clone())
        .header("x-team", "release")
        .await
        .unwrap();
    let info = relay.webhooks().get(webhook.id).await.unwrap();
    assert_eq!(info.filter, Some(predicate.filter()));
    assert_eq!(info.header_names, Some(vec!["x-team".to_owned()]));
    say(&alice, "elsewhere").await;
    bob.send_message("#ops", "by another").await.unwrap();
    alice.send_message("#ops", "wanted").await.unwrap();
    let called = receiver.next().await;
    assert_eq!(called.headers["x-team"], "release");
    let verifier = WebhookVerifier::new(&webhook.secret).unwrap();
    assert_eq!(text(&take(called, &verifier)), "wanted");
    assert!(receiver.is_quiet());
    // What can never be is refused at once.
    let refused = relay
        .webhooks()
        .subscribe(&receiver.url, ["mesage.created"]);
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::UnknownEvent));
}

#[tokio::test]
async fn a_webhook_is_switched_off_and_on_and_what_was_sent_can_be_had_again() {
    let world = World::start().await;
    let (relay, alice, _bob) = world.pair().await;
    let mut receiver = Receiver::start().await;
    let webhooks = relay.webhooks();
    let subscribing = webhooks.subscribe(&receiver.url, ["message.created"]);
    let webhook = subscribing.await.unwrap();
    let verifier = WebhookVerifier::new(&webhook.secret).unwrap();
    let info = webhooks.disable(webhook.id).await.unwrap();
    assert_eq!(info.state, WebhookState::Disabled);
    say(&alice, "meanwhile").await;
    let info = webhooks.enable(webhook.id).await.unwrap();
    assert_eq!(info.state, WebhookState::Active);
    let event = take(receiver.next().await, &verifier);
    assert_eq!(text(&event), "meanwhile");
    becomes(&relay, webhook.id, |info| info.last_success_at.is_some()).await;

    assert_eq!(webhooks.replay(webhook.id, [event.id]).await.unwrap(), 1);
    assert_eq!(take(receiver.next().await, &verifier), event);
    becomes(&relay, webhook.id, |info| info.waiting == 0).await;
    let all = webhooks.replay_range(webhook.id, ..=event.seq).await;
    assert_eq!(all.unwrap(), 1);
    assert_eq!(take(receiver.next().await, &verifier), event);
    let none = webhooks.replay_range(webhook.id, event.seq + 1..).await;
    assert_eq!(none.unwrap(), 0);
}

#[tokio::test]
async fn a_secret_is_replaced_without_a_moment_in_which_calls_are_refused() {
    let world = World::start().await;
    let (relay, alice, _bob) = world.pair().await;
    let mut receiver = Receiver::start().await;
    let webhooks = relay.webhooks();
    let subscribing = webhooks.subscribe(&receiver.url, ["message.created"]);
    let webhook = subscribing.await.unwrap();
    let new = webhooks.rotate_secret(webhook.id).await.unwrap();
    assert_ne!(new.secret, webhook.secret);
    say(&alice, "hello").await;
    let called = receiver.next().await;
    for secret in [&webhook.secret, &new.secret] {
        let verifier = WebhookVerifier::new(secret).unwrap();
        verifier.verify(&called.headers, &called.body).unwrap();
    }
    called.answer(200, &Value::Null);
    let set = webhooks.set_secret(webhook.id, SECRET).await.unwrap();
    assert_eq!(set.secret, SECRET);
    let short = webhooks.set_secret(webhook.id, "short").await.unwrap_err();
    assert!(short.to_string().contains("at least 16 bytes"), "{short}");
    assert!(WebhookVerifier::new("short").is_err());
}

async fn post(url: &str, token: &str, body: &Value) -> Answer {
    let allow = AllowList::new(["127.0.0.1"]).unwrap();
    let mut request = Request::post_json(url, body.to_string());
    let credential = format!("Bearer {token}").parse().unwrap();
    request.headers.insert("authorization", credential);
    let outbound = Outbound::new(allow, Limits::default());
    outbound.call(request).await.unwrap()
}

#[tokio::test]
async fn messages_come_in() {
    let world = World::start().await;
    let (relay, alice, _bob) = world.pair().await;
    let webhooks = relay.webhooks();
    let inbound = webhooks.create_inbound("#general", Some("CI")).await;
    let inbound = inbound.unwrap();
    let listed = webhooks.list_inbound(None).await.unwrap().items;
    assert_eq!(
        (listed[0].id, listed[0].channel.as_str()),
        (inbound.id, "general")
    );
    assert_eq!(listed[0].name.as_deref(), Some("CI"));
    let body = json!({ "message": "the build is green", "author": "builder" });
    let answer = post(&inbound.url, &inbound.token, &body).await;
    assert_eq!(answer.status, 201);
    let said = alice.channel_messages("general", None).await.unwrap();
    let message = &said.items[0].message;
    assert_eq!(message.text, "the build is green");
    let shown = message.from.name.as_deref();
    assert_eq!(shown, Some("builder (via webhook)"));
    webhooks.delete_inbound(inbound.id).await.unwrap();
    let answer = post(&inbound.url, &inbound.token, &body).await;
    assert_eq!(answer.status, 401);
    let nowhere = webhooks.create_inbound("nowhere", None).await.unwrap_err();
    assert_eq!(nowhere.code(), Some(ErrorCode::UnknownChannel));
}
