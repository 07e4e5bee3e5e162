//! Messages: sent, answered, edited, reacted to, read, found.

use serde_json::json;

use crate::support::{Raw, World};

#[tokio::test]
async fn a_message_and_its_answers() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let body =
        json!({ "to": "#general", "text": "Hello @bob and @nobody", "metadata": { "k": 1 } });
    let sent = alice.post("/v1/messages", body).await.expect(201);
    assert_eq!(sent["deliveries"][0]["agent"], "bob");
    assert_eq!(sent["notices"][0]["code"], "mention_unknown");
    let id = sent["messageId"].as_str().unwrap();
    let shown = bob.get(&format!("/v1/messages/{id}")).await.expect(200);
    assert_eq!(shown["message"], sent["message"]);

    let reply = bob
        .post(
            &format!("/v1/messages/{id}/replies"),
            json!({ "text": "Hi" }),
        )
        .await;
    let reply = reply.expect(201);
    assert_eq!(reply["message"]["parent"], json!(id));
    let thread = alice
        .get(&format!("/v1/messages/{id}/thread"))
        .await
        .expect(200);
    assert_eq!(thread["items"].as_array().unwrap().len(), 2);

    let reacted = bob
        .post(
            &format!("/v1/messages/{id}/reactions"),
            json!({ "emoji": ":rocket:" }),
        )
        .await;
    assert_eq!(
        reacted.expect(200)["items"],
        json!([{ "emoji": ":rocket:", "agents": ["bob"] }])
    );
    let taken = bob
        .delete(&format!("/v1/messages/{id}/reactions/%3Arocket%3A"))
        .await;
    assert_eq!(taken.expect(200)["items"], json!([]));

    let edited = alice
        .patch(&format!("/v1/messages/{id}"), json!({ "text": "Hello" }))
        .await;
    assert_eq!(edited.expect(200)["version"], 2);
    let foreign = bob
        .patch(&format!("/v1/messages/{id}"), json!({ "text": "x" }))
        .await;
    assert_eq!(foreign.refused(403), "forbidden");

    let posts = alice
        .get("/v1/channels/general/messages?limit=1")
        .await
        .expect(200);
    assert_eq!(posts["items"][0]["replies"], 1);
    let own = bob
        .get(&format!("/v1/messages/{id}/deliveries"))
        .await
        .expect(200);
    assert_eq!(own["items"][0]["state"], "pending");
    bob.post(&format!("/v1/messages/{id}/read"), json!({}))
        .await
        .expect(204);
}

#[tokio::test]
async fn inbox_conversations_and_search() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    for text in ["one lighthouse", "two"] {
        alice
            .post("/v1/messages", json!({ "to": "@bob", "text": text }))
            .await
            .expect(201);
    }
    alice
        .post("/v1/messages", json!({ "to": "#general", "text": "three" }))
        .await
        .expect(201);
    let inbox = bob.get("/v1/inbox?limit=2").await.expect(200);
    assert_eq!(
        (&inbox["unread"], &inbox["items"][0]["reason"]),
        (&json!(3), &json!("dm"))
    );
    let taken = bob.get("/v1/inbox?ack=true").await.expect(200);
    assert_eq!(taken["unread"], 3);
    assert_eq!(bob.get("/v1/inbox").await.expect(200)["unread"], 0);

    let talks = bob.get("/v1/conversations").await.expect(200);
    let id = talks["items"][0]["conversationId"].as_str().unwrap();
    let said = bob
        .get(&format!("/v1/conversations/{id}/messages"))
        .await
        .expect(200);
    assert_eq!(said["items"][0]["message"]["text"], "two");
    let stranger = world.agent("eve").await;
    let hidden = stranger
        .get(&format!("/v1/conversations/{id}/messages"))
        .await;
    assert_eq!(hidden.refused(404), "unknown_conversation");

    let found = loop {
        // Words are indexed a moment after the send.
        let found = bob
            .get("/v1/search?q=lighthouse&from=alice")
            .await
            .expect(200);
        if found["items"]
            .as_array()
            .is_some_and(|items| !items.is_empty())
        {
            break found;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(found["items"][0]["message"]["text"], "one lighthouse");
    let found = stranger.get("/v1/search?q=lighthouse").await.expect(200);
    assert_eq!(found["items"], json!([]));
    assert_eq!(bob.get("/v1/search").await.refused(400), "invalid_request");
    let bad = bob.get("/v1/search?q=x&after=yesterday").await;
    assert_eq!(bad.refused(400), "invalid_request");
}

#[tokio::test]
async fn a_repeated_send_is_harmless() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let send = |key: &str, text: &str| {
        let body = json!({ "to": "#general", "text": text }).to_string();
        Raw::new("POST", "/v1/messages")
            .body("application/json", body)
            .header("idempotency-key", key)
    };
    let first = alice.ask(send("k", "once")).await.expect(201);
    let second = alice.ask(send("k", "once")).await.expect(201);
    assert_eq!(first["messageId"], second["messageId"]);
    let other = alice.ask(send("k", "twice")).await;
    assert_eq!(other.refused(409), "idempotency_conflict");
    let both = json!({ "to": "#general", "text": "x", "idempotencyKey": "b" });
    let both = Raw::new("POST", "/v1/messages")
        .body("application/json", both.to_string())
        .header("idempotency-key", "a");
    assert_eq!(alice.ask(both).await.expect(400)["path"], "idempotencyKey");
}

#[tokio::test]
async fn what_is_wrong_with_a_send_is_named() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let ok = json!({ "to": "#general", "text": "x" });
    let with = |name: &str, value| {
        let mut body = ok.clone();
        body[name] = value;
        body
    };
    let cases = [
        (json!([]), 400, "invalid_request", None),
        (json!({ "text": "x" }), 400, "invalid_request", None),
        (
            with("to", json!("general")),
            400,
            "invalid_request",
            Some("to"),
        ),
        (with("to", json!("#nowhere")), 404, "unknown_channel", None),
        (with("to", json!("@nobody")), 404, "unknown_agent", None),
        (with("text", json!("")), 400, "empty_text", Some("text")),
        (
            with("text", json!("x".repeat(256 * 1024 + 1))),
            413,
            "text_too_long",
            Some("text"),
        ),
        (
            with("txet", json!("x")),
            400,
            "invalid_request",
            Some("txet"),
        ),
        (
            with("mode", json!("soon")),
            400,
            "invalid_request",
            Some("mode"),
        ),
        (
            with("deadline", json!("2001-01-01T00:00:00Z")),
            400,
            "invalid_request",
            Some("deadline"),
        ),
        (
            with("attachments", json!([{ "color": 1 }])),
            400,
            "invalid_request",
            Some("attachments[0].color"),
        ),
        (
            with("replyTo", json!("x")),
            400,
            "invalid_request",
            Some("replyTo"),
        ),
    ];
    for (body, status, code, path) in cases {
        let refused = alice.post("/v1/messages", body.clone()).await;
        let text: String = body.to_string().chars().take(100).collect();
        assert_eq!(refused.refused(status), code, "{text}");
        assert_eq!(refused.json()["path"].as_str(), path, "{text}");
    }
    for body in [
        "",
        "{",
        "{\"to\": \"#general\", \"text\": \"x\"} x",
        "\u{feff}{}",
        "null",
    ] {
        let raw = Raw::new("POST", "/v1/messages").body("application/json", body);
        let refused = alice.ask(raw.header("x", "y")).await;
        assert_eq!(refused.refused(400), "invalid_request", "{body}");
    }
    let raw = Raw::new("POST", "/v1/messages").body("application/json", vec![0xff, 0xfe, b'{']);
    assert_eq!(alice.ask(raw).await.refused(400), "invalid_request");
    assert_eq!(
        alice.get("/v1/messages/nope").await.refused(400),
        "invalid_request"
    );
    let unknown = alice
        .get("/v1/messages/01963a5c-7893-7abc-8ef0-123456789abc")
        .await;
    assert_eq!(unknown.refused(404), "unknown_message");
}

#[tokio::test]
async fn a_session_that_can_not_send_does_not() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut body = crate::support::attach("alice");
    body["link"] = json!({ "kind": "poll" });
    let able = alice.post("/v1/sessions", body.clone()).await.expect(201);
    body["capabilities"]["messaging"] = json!({ "receive": true, "attachments": ["text"] });
    let unable = alice.post("/v1/sessions", body).await.expect(201);
    let through = |session: &serde_json::Value| {
        let body = json!({ "to": "#general", "text": "x" }).to_string();
        Raw::new("POST", "/v1/messages")
            .body("application/json", body)
            .header("relay-session", session.as_str().unwrap_or_default())
    };
    alice.ask(through(&able["sessionId"])).await.expect(201);
    let refused = alice.ask(through(&unable["sessionId"])).await;
    assert_eq!(refused.refused(409), "capability_not_supported");
    assert_eq!(refused.json()["capability"], "messaging.send");
    assert_eq!(
        alice.ask(through(&json!("x"))).await.expect(400)["path"],
        "Relay-Session"
    );
}
