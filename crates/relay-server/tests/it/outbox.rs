//! Webhooks: a real receiver gets events, signed, at least once, whatever happens in between.

use relay_server::Config;
use serde_json::{Value, json};

use crate::support::{Called, Client, Receiver, World, calls_this_machine, soon};

async fn subscribe(world: &World, url: &str, events: Value) -> Value {
    let body = json!({ "url": url, "events": events });
    world.key.post("/v1/webhooks", body).await.expect(201)
}

async fn say(client: &Client, text: &str) {
    let body = json!({ "to": "#general", "text": text });
    client.post("/v1/messages", body).await.expect(201);
}

fn id_of(called: &Called) -> String {
    called.headers["webhook-id"].to_str().unwrap().to_owned()
}

/// Waits until a webhook looks like this.
async fn becomes(world: &World, id: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/v1/webhooks/{}", id.as_str().unwrap());
    let waiting = async {
        loop {
            let found = world.key.get(&path).await.expect(200);
            if wanted(&found) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("a change of the webhook", waiting).await
}

#[tokio::test]
async fn the_body_is_the_event_that_listeners_get() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let alice = world.agent("alice").await;
    let made = subscribe(
        &world,
        &receiver.url,
        json!(["message.created", "action.completed"]),
    )
    .await;
    let mut listener = world.key.socket().await;
    listener
        .done(json!({ "type": "subscribe", "id": "a", "pattern": "message.*" }))
        .await;
    say(&alice, "hello").await;
    let called = receiver.next().await;
    assert!(called.is_signed_by(made["secret"].as_str().unwrap()));
    let heard = listener.next("event").await;
    assert_eq!(called.json(), heard["event"]);
    assert_eq!(id_of(&called), heard["event"]["id"].as_str().unwrap());
    called.answer(200, &json!(null));
    let shown = becomes(&world, &made["id"], |shown| {
        shown["lastSuccessAt"].is_string()
    })
    .await;
    assert_eq!(
        (&shown["state"], &shown["waiting"]),
        (&json!("active"), &json!(0))
    );
    let path = format!("/v1/webhooks/{}/attempts", made["id"].as_str().unwrap());
    let attempts = world.key.get(&path).await.expect(200);
    assert_eq!(attempts["items"][0]["status"], 200);
    assert_eq!(attempts["items"][0]["eventId"], heard["event"]["id"]);
}

#[tokio::test]
async fn what_was_not_answered_before_the_end_is_sent_again_with_the_same_id() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let alice = world.agent("alice").await;
    subscribe(&world, &receiver.url, json!(["message.created"])).await;
    say(&alice, "hello").await;
    let first = receiver.next().await;
    let id = id_of(&first);
    let world = world.restart(calls_this_machine()).await;
    drop(first);
    let again = receiver.next().await;
    assert_eq!(id_of(&again), id);
    again.answer(204, &json!(null));
    // What happened while nobody called is sent, too.
    let alice = world.with(alice.token.as_deref().unwrap());
    say(&alice, "more").await;
    let more = receiver.next().await;
    assert_eq!(more.json()["message"]["text"], "more");
}

#[tokio::test]
async fn a_failed_call_is_tried_again_and_told() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let alice = world.agent("alice").await;
    let made = subscribe(&world, &receiver.url, json!(["message.created"])).await;
    let mut listener = world.key.socket().await;
    listener
        .done(json!({ "type": "subscribe", "id": "a", "pattern": "webhook.*" }))
        .await;
    say(&alice, "one").await;
    let first = receiver.next().await;
    let id = id_of(&first);
    first.answer(500, &json!("no"));
    let told = listener.next("event").await;
    assert_eq!(told["event"]["type"], "webhook.failed");
    assert_eq!(told["event"]["attempt"], 1);
    assert!(told["event"]["nextAttemptAt"].is_string());
    let shown = becomes(&world, &made["id"], |shown| shown["waiting"] == 1).await;
    assert_eq!(shown["lastError"], "the answer's status is 500");
    // One that arrives lets those that wait go at once.
    say(&alice, "two").await;
    receiver.next().await.answer(200, &json!(null));
    let again = receiver.next().await;
    assert_eq!(id_of(&again), id);
    again.answer(200, &json!(null));
    becomes(&world, &made["id"], |shown| shown["waiting"] == 0).await;
}

#[tokio::test]
async fn one_that_is_gone_is_switched_off_and_goes_on_where_it_was() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let alice = world.agent("alice").await;
    let made = subscribe(&world, &receiver.url, json!(["message.created"])).await;
    say(&alice, "one").await;
    receiver.next().await.answer(410, &json!(null));
    becomes(&world, &made["id"], |shown| shown["state"] == "disabled").await;
    say(&alice, "two").await;
    let path = format!("/v1/webhooks/{}", made["id"].as_str().unwrap());
    let on = json!({ "state": "active" });
    world.key.patch(&path, on).await.expect(200);
    let mut texts = Vec::new();
    for _ in 0..2 {
        let called = receiver.next().await;
        texts.push(called.json()["message"]["text"].clone());
        called.answer(200, &json!(null));
    }
    texts.sort_by_key(Value::to_string);
    assert_eq!(texts, ["one", "two"]);
    // What came before can be had again.
    let replay = json!({ "from": 1 });
    let replayed = world
        .key
        .post(&format!("{path}/replay"), replay)
        .await
        .expect(200);
    assert!(replayed["queued"].as_u64().unwrap() >= 2);
    let called = receiver.next().await;
    called.answer(200, &json!(null));
}

#[tokio::test]
async fn one_that_hangs_holds_up_no_other() {
    let world = World::start_with(calls_this_machine()).await;
    let mut hangs = Receiver::start().await;
    let mut works = Receiver::start().await;
    let alice = world.agent("alice").await;
    for receiver in [&hangs, &works] {
        subscribe(&world, &receiver.url, json!(["message.created"])).await;
    }
    let mut held = Vec::new();
    for number in 0..40 {
        say(&alice, &number.to_string()).await;
        let called = works.next().await;
        assert_eq!(called.json()["message"]["text"], number.to_string());
        called.answer(200, &json!(null));
    }
    for _ in 0..10 {
        held.push(hangs.next().await);
    }
}

#[tokio::test]
async fn both_secrets_sign_for_a_while() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let alice = world.agent("alice").await;
    let made = subscribe(&world, &receiver.url, json!(["message.created"])).await;
    let old = made["secret"].as_str().unwrap();
    let path = format!("/v1/webhooks/{}/secret", made["id"].as_str().unwrap());
    let new = json!({ "secret": "a new secret that nobody guesses" });
    let changed = world.key.post(&path, new).await.expect(200);
    assert!(changed["oldValidUntil"].is_string());
    say(&alice, "hello").await;
    let called = receiver.next().await;
    for secret in [old, "a new secret that nobody guesses"] {
        assert!(called.is_signed_by(secret), "{secret}");
    }
    called.answer(200, &json!(null));
}

#[tokio::test]
async fn what_can_not_be_called_is_refused() {
    let world = World::start_with(Config::default()).await;
    let cases = [
        (
            json!({ "url": "http://127.0.0.1:9/", "events": ["*"] }),
            "url",
        ),
        (
            json!({ "url": "ftp://example.com/", "events": ["*"] }),
            "url",
        ),
        (json!({ "url": "http://10.0.0.1/", "events": ["*"] }), "url"),
    ];
    for (body, path) in cases {
        let refused = world.key.post("/v1/webhooks", body.clone()).await;
        assert_eq!(refused.refused(400), "invalid_request", "{body}");
        assert_eq!(refused.json()["path"], path, "{body}");
    }
    let world = World::start_with(calls_this_machine()).await;
    let url = "http://127.0.0.1:9/";
    let with_header = |name: &str, value: &str| json!({ "url": url, "events": ["*"], "headers": { name: value } });
    let cases = [
        (json!({ "url": url, "events": [] }), 400),
        (json!({ "url": url, "events": ["no.such.event"] }), 400),
        (
            json!({ "url": url, "events": ["*"], "secret": "short" }),
            400,
        ),
        (with_header("host", "elsewhere"), 400),
        (with_header("x team", "release"), 400),
        (with_header("x-team", "two\nlines"), 400),
        (with_header("Webhook-Id", "another"), 400),
        (with_header("x-team", "release"), 201),
        (json!({ "url": url, "events": ["*"], "filter": {} }), 201),
    ];
    for (body, status) in cases {
        let answer = world.key.post("/v1/webhooks", body.clone()).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
    }
}
