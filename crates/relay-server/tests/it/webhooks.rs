//! Sessions that are called: a receiver on the same machine, allowed by the configuration, and its answers.

use serde_json::{Value, json};

use crate::support::{Client, Receiver, World, attach, calls_this_machine, delivered, soon};

fn body(agent: &str, url: &str, secret: Option<&str>) -> Value {
    let mut body = attach(agent);
    body["link"] = json!({ "kind": "webhook", "url": url });
    if let Some(secret) = secret {
        body["link"]["secret"] = json!(secret);
    }
    body
}

async fn send(client: &Client, to: &str, text: &str) -> String {
    let body = json!({ "to": to, "text": text });
    let sent = client.post("/v1/messages", body).await.expect(201);
    sent["deliveries"][0]["deliveryId"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Waits until a delivery is in a state.
async fn comes_to(client: &Client, delivery: &str, state: &str) -> Value {
    let path = format!("/v1/deliveries/{delivery}");
    let waiting = async {
        loop {
            let found = client.get(&path).await.expect(200);
            if found["state"] == state {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(state, waiting).await
}

#[tokio::test]
async fn a_session_is_called_and_its_answer_is_the_receipt() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let attached = bob.post("/v1/sessions", body("bob", &receiver.url, None));
    let attached = attached.await.expect(201);
    let secret = attached["webhookSecret"].as_str().unwrap();
    let delivery = send(&alice, "@bob", "hello").await;
    let called = receiver.next().await;
    assert!(called.is_signed_by(secret));
    assert!(!called.is_signed_by("another secret of some length"));
    assert_eq!(called.headers["webhook-id"], delivery.as_str());
    assert_eq!(called.headers["content-type"], "application/json");
    let found = called.json();
    assert_eq!(found["type"], "deliver");
    assert_eq!(found["sessionId"], attached["sessionId"]);
    assert_eq!(found["message"]["text"], "hello");
    let text = found["text"].as_str().unwrap();
    assert!(text.starts_with("[relay] from agent @alice"), "{text}");
    let receipt = delivered(&found["context"]["id"]);
    called.answer(200, &receipt);
    let stored = comes_to(&bob, &delivery, "delivered").await;
    let metadata = &stored["receipts"][0]["receipt"]["metadata"];
    assert_eq!(*metadata, json!({ "door": "webhook", "httpStatus": 200 }));
    let path = format!("/v1/sessions/{}", attached["sessionId"].as_str().unwrap());
    let shown = bob.get(&path).await.expect(200);
    assert_eq!(shown["link"], "webhook");
    assert!(!shown.to_string().contains(&receiver.url));
}

#[tokio::test]
async fn one_call_at_a_time_in_order() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let secret = "a secret that the session brought";
    let attached = bob.post("/v1/sessions", body("bob", &receiver.url, Some(secret)));
    let attached = attached.await.expect(201);
    assert_eq!(attached.get("webhookSecret"), None);
    for number in 0..5 {
        send(&alice, "@bob", &number.to_string()).await;
    }
    for number in 0..5 {
        let called = receiver.next().await;
        assert!(called.is_signed_by(secret));
        let found = called.json();
        assert_eq!(found["message"]["text"], number.to_string());
        // The next one does not come before this one is answered.
        assert!(receiver.is_quiet());
        called.answer(200, &delivered(&found["context"]["id"]));
    }
}

#[tokio::test]
async fn what_is_no_receipt_is_tried_again_under_the_same_id() {
    let world = World::start_with(calls_this_machine()).await;
    let retry = json!({ "retry": { "attempts": 8, "minMs": 10, "maxMs": 20 } });
    let patched = world.key.patch("/v1/workspace/policy", retry).await;
    patched.expect(200);
    let mut receiver = Receiver::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let attached = bob.post("/v1/sessions", body("bob", &receiver.url, None));
    attached.await.expect(201);
    let delivery = send(&alice, "@bob", "hello").await;
    let foreign =
        json!({ "status": "delivered", "deliveryId": "01963a5c-7891-7abc-8ef0-123456789abc" });
    let answers = [
        (503, json!({})),
        (200, json!("ok")),
        (200, foreign),
        (302, json!({})),
    ];
    let mut tried = 0;
    for (status, answer) in answers {
        let called = receiver.next().await;
        assert_eq!(called.headers["webhook-id"], delivery.as_str());
        called.answer(status, &answer);
        tried += 1;
    }
    let called = receiver.next().await;
    let id = called.json()["context"]["id"].clone();
    called.answer(200, &delivered(&id));
    let stored = comes_to(&bob, &delivery, "delivered").await;
    let receipts = stored["receipts"].as_array().unwrap();
    let failed = receipts
        .iter()
        .filter(|it| it["receipt"]["status"] == "failed");
    assert_eq!(failed.count(), tried);
    let reason = receipts[0]["receipt"]["reason"].as_str().unwrap();
    assert_eq!(reason, "webhook: the session's server answered 503");
}

#[tokio::test]
async fn operations_are_calls_too() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let bob = world.agent("bob").await;
    let attached = bob.post("/v1/sessions", body("bob", &receiver.url, None));
    let attached = attached.await.expect(201);
    let path = format!("/v1/sessions/{}", attached["sessionId"].as_str().unwrap());
    let pausing = {
        let (bob, path) = (bob.clone(), format!("{path}/pause"));
        tokio::spawn(async move { bob.post(&path, json!({})).await })
    };
    let called = receiver.next().await;
    let asked = called.json();
    assert_eq!(
        (&asked["type"], &asked["op"]),
        (&json!("control"), &json!("pause"))
    );
    called.answer(200, &json!({ "controlId": asked["controlId"], "ok": true }));
    assert_eq!(pausing.await.unwrap().expect(200)["status"], "paused");
}

#[tokio::test]
async fn a_server_that_was_started_again_goes_on_calling() {
    let world = World::start_with(calls_this_machine()).await;
    let mut receiver = Receiver::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let attached = bob.post("/v1/sessions", body("bob", &receiver.url, None));
    let attached = attached.await.expect(201);
    let secret = attached["webhookSecret"].as_str().unwrap();
    let world = world.restart(calls_this_machine()).await;
    let alice = world.with(&alice.token.unwrap());
    let bob = world.with(&bob.token.unwrap());
    let delivery = send(&alice, "@bob", "still there?").await;
    let called = receiver.next().await;
    assert!(called.is_signed_by(secret));
    let id = called.json()["context"]["id"].clone();
    called.answer(200, &delivered(&id));
    comes_to(&bob, &delivery, "delivered").await;
}

#[tokio::test]
async fn what_must_not_be_called_is_refused_at_once() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let bob = world.agent("bob").await;
    let urls = [
        receiver.url.as_str(),
        "http://localhost/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:pass@example.org/",
        "file:///etc/passwd",
        "not a url",
    ];
    for url in urls {
        let refused = bob.post("/v1/sessions", body("bob", url, None)).await;
        let problem = refused.expect(400);
        assert_eq!(problem["path"], "link.url", "{url}");
    }
    let world = World::start_with(calls_this_machine()).await;
    let bob = world.agent("bob").await;
    let refused = bob.post("/v1/sessions", body("bob", &receiver.url, Some("short")));
    let problem = refused.await.expect(400);
    assert_eq!(problem["path"], "link.secret");
    assert!(
        problem["detail"]
            .as_str()
            .unwrap()
            .contains("at least 16 bytes, found 5")
    );
    let sessions = bob.get("/v1/sessions").await.expect(200);
    assert_eq!(sessions["items"], json!([]));
}

/// Events about webhooks go to no webhook: one that wanted no others was made, and never called.
#[tokio::test]
async fn a_webhook_that_can_never_fire_is_refused() {
    let world = World::start_with(calls_this_machine()).await;
    let make = async |events: Value, filter: Value| {
        let mut body = json!({ "url": "http://127.0.0.1:9/", "events": events });
        if !filter.is_null() {
            body["filter"] = filter;
        }
        world.key.post("/v1/webhooks", body).await
    };
    for (events, filter) in [
        (json!(["webhook.*"]), json!(null)),
        (json!(["webhook.failed", "webhook.disabled"]), json!(null)),
        (json!(["message.*"]), json!({ "event": "action.*" })),
    ] {
        let refused = make(events, filter).await;
        assert_eq!(refused.refused(400), "invalid_request");
        assert_eq!(refused.json()["path"], "events");
    }
    make(json!(["webhook.*", "message.created"]), json!(null))
        .await
        .expect(201);
    make(json!(["*"]), json!({ "event": "action.*" }))
        .await
        .expect(201);
}

/// A negative number was taken for the beginning.
#[tokio::test]
async fn a_negative_cursor_of_a_list_of_webhooks_is_refused() {
    let world = World::start_with(calls_this_machine()).await;
    let made = json!({ "url": "http://127.0.0.1:9/", "events": ["*"] });
    let made = world.key.post("/v1/webhooks", made).await.expect(201);
    let attempts = format!("/v1/webhooks/{}/attempts", made["id"].as_str().unwrap());
    for list in ["/v1/webhooks", "/v1/webhooks/inbound", &attempts] {
        for cursor in ["-1", "-9223372036854775808", "x"] {
            let refused = world.key.get(&format!("{list}?cursor={cursor}")).await;
            assert_eq!(refused.refused(400), "bad_cursor", "{list} {cursor}");
        }
        world.key.get(&format!("{list}?cursor=0")).await.expect(200);
    }
}
