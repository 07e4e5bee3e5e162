//! What a token has open when it is revoked: sockets, streams and questions end with it, and not at the next look.

use serde_json::json;

use crate::events::Stream;
use crate::support::{Client, Ended, World, attach, soon};

async fn post(world: &World, text: &str) {
    let body = json!({ "to": "#general", "text": text });
    world.key.post("/v1/messages", body).await.expect(201);
}

/// A new observer token, and the path by which it is revoked.
async fn observer(world: &World) -> (Client, String) {
    let made = world.key.post("/v1/observer-tokens", json!({})).await;
    let made = made.expect(201);
    let id = made["observer"]["tokenId"].as_str().unwrap();
    let path = format!("/v1/observer-tokens/{id}");
    (world.with(made["token"].as_str().unwrap()), path)
}

async fn follow(client: &Client) -> crate::support::Socket {
    let mut socket = client.socket().await;
    let all = json!({ "type": "subscribe", "id": "all", "pattern": "*" });
    socket.done(all).await;
    socket
}

/// They lived on for up to 30 s, and went on to be told what happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_ends_its_socket_and_its_stream_at_once() {
    let world = World::start().await;
    let (observer, token) = observer(&world).await;
    let mut socket = follow(&observer).await;
    let mut stream = Stream::open(&observer, "/v1/events/stream", None).await;
    post(&world, "before").await;
    socket.next("event").await;
    stream.event().await;

    world.key.delete(&token).await.expect(204);
    for _ in 0..100 {
        post(&world, "after").await;
    }
    let ended = loop {
        match socket.next_or_end().await {
            Ok(frame) => assert_ne!(frame["event"]["message"]["text"], "after"),
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, Ended::Closed(4003, "unauthorized".to_owned()));
    while let Some(piece) = stream.piece().await {
        assert!(!piece.contains("\"after\""), "{piece}");
    }
}

#[tokio::test]
async fn the_socket_and_the_stream_of_a_released_agent_end() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let (mut hers, mut his) = (follow(&alice).await, follow(&bob).await);
    let mut stream = Stream::open(&alice, "/v1/events/stream", None).await;
    stream.piece().await.unwrap();
    world.key.delete("/v1/agents/alice").await.expect(204);
    let ended = Ended::Closed(4003, "unauthorized".to_owned());
    assert_eq!(hers.end().await, ended);
    while stream.piece().await.is_some() {}
    // Nobody else is cut off, and whoever is replaced goes on for the time of grace.
    let rotated = world.key.post("/v1/agents/bob/token", json!({})).await;
    assert!(rotated.expect(201)["graceUntil"].is_string());
    assert_eq!(his.ask(json!({ "type": "ping" })).await["type"], "pong");
}

#[tokio::test]
async fn a_question_that_waits_is_refused_when_its_token_is_revoked() {
    let world = World::start().await;
    let (alice, (observer, token)) = (world.agent("alice").await, observer(&world).await);
    let mut body = attach("alice");
    body["link"] = json!({ "kind": "poll" });
    let session = alice.post("/v1/sessions", body).await.expect(201);
    let deliveries = format!(
        "/v1/sessions/{}/deliveries?wait=60",
        session["sessionId"].as_str().unwrap()
    );
    let asked = json!({ "tool": "bash", "params": { "command": "ls" } });
    let asked = alice.post("/v1/permissions", asked).await.expect(201);
    let decision = format!(
        "/v1/permissions/{}?wait=60",
        asked["permissionId"].as_str().unwrap()
    );
    let wait = |client: &Client, path: String| {
        let client = client.clone();
        tokio::spawn(async move { client.get(&path).await })
    };
    let deciding = wait(&observer, decision);
    let asking = wait(&alice, deliveries);
    world.key.delete(&token).await.expect(204);
    let refused = soon("an answer", deciding).await.unwrap();
    assert_eq!(refused.refused(401), "unauthorized");
    world.key.delete("/v1/agents/alice").await.expect(204);
    let refused = soon("an answer", asking).await.unwrap();
    // One that was not waiting yet may find the session gone instead.
    let code = refused.json()["code"].clone();
    let known = ["unauthorized", "illegal_transition", "agent_released"];
    assert!(
        known.iter().any(|known| code == *known),
        "{}",
        refused.text()
    );
}
