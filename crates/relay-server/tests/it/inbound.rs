//! Messages that come in by a webhook: into one channel, once, and never as somebody who has a mailbox here.

use relay_protocol::limits::TEXT_BYTES;
use serde_json::{Value, json};

use crate::support::{Answer, Client, Raw, World};

/// A way into a channel: where to post, and with what.
struct Way {
    path: String,
    client: Client,
    id: String,
}

impl Way {
    async fn into(world: &World, channel: &str) -> Self {
        let body = json!({ "channel": channel, "name": "CI" });
        let made = world.key.post("/v1/webhooks/inbound", body).await;
        let made = made.expect(201);
        let id = made["id"].as_str().unwrap().to_owned();
        assert_eq!(
            made["url"],
            format!("http://{}/hooks/{id}", world.address),
            "as whoever asked has reached the server"
        );
        assert!(made["token"].as_str().unwrap().starts_with("wh_"));
        Self {
            path: format!("/hooks/{id}"),
            client: world.with(made["token"].as_str().unwrap()),
            id,
        }
    }

    async fn post(&self, body: Value) -> Answer {
        self.client.post(&self.path, body).await
    }

    async fn post_once(&self, key: &str, message: &str) -> Answer {
        let body = json!({ "message": message }).to_string();
        let raw = Raw::new("POST", &self.path).header("idempotency-key", key);
        self.client.ask(raw.body("application/json", body)).await
    }
}

#[tokio::test]
async fn a_message_comes_into_the_channel_and_is_shown_as_from_outside() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let way = Way::into(&world, "#general").await;
    let mut listener = world.key.socket().await;
    listener
        .done(json!({ "type": "subscribe", "id": "a", "pattern": "message.created" }))
        .await;
    let cases = [
        (
            json!({ "message": "green", "author": "alice" }),
            "alice (via webhook)",
        ),
        (json!({ "message": "green @alice" }), "CI (via webhook)"),
        (
            json!({ "message": "green", "author": "  " }),
            "somebody (via webhook)",
        ),
        (
            json!({ "message": "green", "author": "al\u{202e}ice\n[relay]" }),
            "alice [relay] (via webhook)",
        ),
    ];
    for (body, shown) in cases {
        let sent = way.post(body.clone()).await.expect(201);
        let from = &sent["message"]["from"];
        assert_eq!(from["name"], shown, "{body}");
        assert_eq!(from["type"], "system", "{body}");
        assert_eq!((from.get("id"), from.get("handle")), (None, None), "{body}");
        assert_eq!(sent["deliveries"][0]["agent"], "alice", "{body}");
        let heard = listener.next("event").await;
        assert_eq!(heard["event"]["message"]["from"], *from, "{body}");
    }
    let inbox = alice.get("/v1/inbox").await.expect(200);
    assert_eq!(inbox["items"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn what_is_posted_twice_under_a_key_is_there_once() {
    let world = World::start().await;
    let way = Way::into(&world, "general").await;
    let other = Way::into(&world, "general").await;
    let first = way.post_once("build-1", "green").await.expect(201);
    let again = way.post_once("build-1", "green").await.expect(201);
    assert_eq!(first["messageId"], again["messageId"]);
    let refused = way.post_once("build-1", "red").await;
    assert_eq!(refused.refused(409), "idempotency_conflict");
    // Another webhook has keys of its own.
    let others = other.post_once("build-1", "green").await.expect(201);
    assert_ne!(first["messageId"], others["messageId"]);
    let found = world.key.get("/v1/channels/general/messages").await;
    assert_eq!(found.expect(200)["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let world = World::start().await;
    let way = Way::into(&world, "general").await;
    let long = "x".repeat(TEXT_BYTES + 1);
    for (body, status, code, path) in [
        (json!({}), 400, "invalid_request", None),
        (
            json!({ "message": "" }),
            400,
            "invalid_request",
            Some("message"),
        ),
        (
            json!({ "message": "x", "to": "#ops" }),
            400,
            "invalid_request",
            Some("to"),
        ),
        (json!({ "message": long }), 400, "limit_exceeded", None),
        (
            json!({ "message": "x", "author": "y".repeat(400) }),
            400,
            "limit_exceeded",
            None,
        ),
    ] {
        let refused = way.post(body.clone()).await;
        let shown = refused.text().to_owned();
        assert_eq!(refused.refused(status), code, "{shown}");
        if let Some(path) = path {
            assert_eq!(refused.json()["path"], path, "{shown}");
        }
    }
    let unknown = json!({ "channel": "nowhere" });
    let refused = world.key.post("/v1/webhooks/inbound", unknown).await;
    assert_eq!(refused.refused(404), "unknown_channel");
}

#[tokio::test]
async fn a_token_is_good_for_its_own_url_until_it_is_taken_back() {
    let world = World::start().await;
    let (one, two) = (
        Way::into(&world, "general").await,
        Way::into(&world, "general").await,
    );
    let hello = json!({ "message": "hello" });
    let refused = one.client.post(&two.path, hello.clone()).await;
    assert_eq!(refused.refused(404), "unknown_webhook");
    let listed = world.key.get("/v1/webhooks/inbound").await.expect(200);
    let ids: Vec<&Value> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["id"])
        .collect();
    assert_eq!(ids, [&json!(one.id), &json!(two.id)]);
    assert!(!listed.to_string().contains("wh_"));
    let path = format!("/v1/webhooks/inbound/{}", one.id);
    assert_eq!(world.key.delete(&path).await.status, 204);
    assert_eq!(one.post(hello.clone()).await.refused(401), "unauthorized");
    assert_eq!(
        world.key.delete(&path).await.refused(404),
        "unknown_webhook"
    );
    two.post(hello).await.expect(201);
}
