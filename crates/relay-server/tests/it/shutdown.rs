//! Stopping: what has begun ends well, and everything ends.

use std::time::Duration;

use relay_server::Config;
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::{Ended, Raw, World, attach, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_is_told() {
    let mut world = World::start().await;
    let alice = world.agent("alice").await;
    let mut session = alice.socket().await;
    session.attach("alice").await;
    // Nobody writes to the one who asks: it is in no channel.
    let bob = world.agent("bob").await;
    bob.post("/v1/channels/general/leave", json!({}))
        .await
        .expect(200);
    let mut body = attach("bob");
    body["link"] = json!({ "kind": "poll" });
    let polled = bob.post("/v1/sessions", body).await.expect(201);
    let path = format!(
        "/v1/sessions/{}/deliveries?wait=60",
        polled["sessionId"].as_str().unwrap()
    );
    let asking = tokio::spawn(async move { bob.get(&path).await });
    // Many sends are under way when the end comes.
    let mut sender = world.key.socket().await;
    for number in 0..200 {
        sender
            .say(json!({ "type": "send", "ref": number, "to": "#general", "text": "x" }))
            .await;
    }
    sender.next("sent").await;
    let address = world.address;
    let stopped = world.stop();
    let mut acknowledged = 1;
    let ended = loop {
        match sender.next_or_end().await {
            Ok(frame) => {
                assert_eq!(frame["type"], "sent");
                acknowledged += 1;
            }
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended, Ended::Closed(1001, "going_away".to_owned()));
    assert_eq!(
        session.end().await,
        Ended::Closed(1001, "going_away".to_owned())
    );
    assert_eq!(asking.await.unwrap().expect(200)["deliveries"], json!([]));
    soon("the end", stopped).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
    // What was acknowledged, and what was taken, is there.
    let key = world.key.token.clone().unwrap();
    let caller = world.engine.authenticate(&key).await.unwrap();
    let selector = "message.created".parse().unwrap();
    let stored = world
        .engine
        .events(&caller, &selector, 0, Some(200))
        .await
        .unwrap();
    assert!(stored.events.len() >= acknowledged, "{acknowledged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_text_is_stored_and_acknowledged_by_a_stop() {
    let mut world = World::start().await;
    let alice = world.agent("alice").await;
    let mut session = alice.socket().await;
    let mut frame = attach("alice");
    frame["type"] = json!("attach");
    frame["capabilities"]["events"]["emits"] = json!(["status.changed", "terminal.output"]);
    let id = session.done(frame).await["sessionId"].clone();
    for (n, text) in [(1, "the last wor"), (2, "d is he")] {
        let event = json!({ "type": "terminal.output", "text": text });
        session
            .say(json!({ "type": "event", "sessionId": id, "n": n, "event": event }))
            .await;
    }
    // The second has come and is held, since it decided about the first.
    assert_eq!(session.next("ack").await["n"], 1);
    let stopped = world.stop();
    assert_eq!(session.next("ack").await["n"], 2);
    assert_eq!(
        session.end().await,
        Ended::Closed(1001, "going_away".to_owned())
    );
    soon("the end", stopped).await.unwrap().unwrap();
    let key = world.key.token.clone().unwrap();
    let caller = world.engine.authenticate(&key).await.unwrap();
    let selector = "terminal.output".parse().unwrap();
    let stored = world.engine.events(&caller, &selector, 0, None).await;
    assert_eq!(stored.unwrap().events.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_has_begun_is_answered() {
    let mut world = World::start().await;
    let alice = world.agent("alice").await;
    let body = json!({ "to": "#general", "text": "last words" }).to_string();
    let (first, second) = body.split_at(10);
    let mut raw = Raw::new("POST", "/v1/messages")
        .header("content-type", "application/json")
        .header("content-length", &body.len().to_string());
    raw.body = first.as_bytes().to_vec();
    let mut stream = alice.send(&raw).await;
    // The server knows of the request once it knows of as many connections.
    world.nobody().get("/health").await.expect(200);
    let stopped = world.stop();
    tokio::io::AsyncWriteExt::write_all(&mut stream, second.as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    let read = tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer);
    soon("the answer", read).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    soon("the end", stopped).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_end_is_cut_off() {
    let config = Config {
        drain_timeout: Duration::from_millis(50),
        ..Config::default()
    };
    let mut world = World::start_with(config).await;
    let raw = Raw::new("POST", "/v1/messages")
        .header("content-type", "application/json")
        .header("content-length", "100");
    let _never = world.key.send(&raw).await;
    world.nobody().get("/health").await.expect(200);
    soon("the end", world.stop()).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_goes_on_where_the_old_one_was() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    let mut frame = attach("bob");
    frame["type"] = json!("attach");
    let attached = socket.done(frame.clone()).await;
    socket
        .done(json!({ "type": "subscribe", "id": "m", "pattern": "message.created" }))
        .await;
    let sent = alice
        .post("/v1/messages", json!({ "to": "@bob", "text": "one" }))
        .await
        .expect(201);
    let seen = socket.next("event").await["seq"].clone();
    let world = world.restart(Config::default()).await;
    assert_eq!(
        socket.end().await,
        Ended::Closed(1001, "going_away".to_owned())
    );
    let (alice, bob) = (
        world.with(alice.token.as_ref().unwrap()),
        world.with(bob.token.as_ref().unwrap()),
    );
    alice
        .post("/v1/messages", json!({ "to": "@bob", "text": "two" }))
        .await
        .expect(201);
    let mut socket = bob.socket().await;
    socket
        .done(
            json!({ "type": "subscribe", "id": "m", "pattern": "message.created", "after": seen }),
        )
        .await;
    assert_eq!(
        socket.next("event").await["event"]["message"]["text"],
        "two"
    );
    frame["resume"] = attached["resumeToken"].clone();
    let again = socket.done(frame).await;
    assert_eq!(again["sessionId"], attached["sessionId"]);
    let deliver = socket.next("deliver").await;
    assert_eq!(
        deliver["context"]["id"],
        sent["deliveries"][0]["deliveryId"]
    );
}
