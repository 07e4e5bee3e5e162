//! Sessions that come back after their offline grace time, over links that are gone and made anew.

use std::time::Duration;

use relay_server::Config;
use serde_json::{Value, json};

use tokio::sync::mpsc;

use crate::support::{Client, World, attach, soon};

/// How often each session is lost and comes back.
const ROUNDS: usize = 10;

/// A world whose sessions are offline as soon as their link is lost, and the events that say so.
async fn impatient(config: Config) -> (World, mpsc::UnboundedReceiver<Value>) {
    let world = World::start_with(config).await;
    let patched = world
        .key
        .patch("/v1/workspace/policy", json!({ "offlineGraceMs": 1 }))
        .await;
    patched.expect(200);
    let mut listener = world.key.socket().await;
    let pattern = "agent.status.offline";
    listener
        .done(json!({ "type": "subscribe", "id": "offline", "pattern": pattern }))
        .await;
    let (tx, rx) = mpsc::unbounded_channel();
    // Read all the time: the server closes sockets that stay silent.
    tokio::spawn(async move { while tx.send(listener.next("event").await).is_ok() {} });
    (world, rx)
}

async fn send(client: &Client, text: &str) {
    let body = json!({ "to": "@bob", "text": text });
    client.post("/v1/messages", body).await.expect(201);
}

async fn status(client: &Client, session: &Value) -> Value {
    let path = format!("/v1/sessions/{}", session.as_str().unwrap());
    client.get(&path).await.expect(200)["status"].clone()
}

/// Regression: the session was marked offline again in the moment in which it came back, and nothing was
/// delivered from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_session_that_resumes_after_the_grace_time_gets_messages() {
    let (world, mut offline) = impatient(Config::default()).await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut frame = attach("bob");
    frame["type"] = json!("attach");
    let mut socket = bob.socket().await;
    let attached = socket.done(frame.clone()).await;
    frame["resume"] = attached["resumeToken"].clone();
    for round in 0..ROUNDS {
        drop(socket);
        soon("the event", offline.recv()).await.unwrap();
        socket = bob.socket().await;
        let again = socket.done(frame.clone()).await;
        assert_eq!(again["sessionId"], attached["sessionId"]);
        send(&alice, &round.to_string()).await;
        let wanted = json!(round.to_string());
        socket
            .find(|frame| frame["message"]["text"] == wanted)
            .await;
        assert_eq!(status(&bob, &attached["sessionId"]).await, "idle");
    }
    assert!(offline.try_recv().is_err(), "offline while it was linked");
}

/// Regression: the same for a session that asks for what comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_session_that_resumes_after_the_grace_time_gets_messages() {
    let (world, mut offline) = impatient(Config {
        ping_every: Duration::from_millis(50),
        silence: Duration::from_millis(300),
        ..Config::default()
    })
    .await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut body = attach("bob");
    body["link"] = json!({ "kind": "poll" });
    let attached = bob.post("/v1/sessions", body.clone()).await.expect(201);
    body["resume"] = attached["resumeToken"].clone();
    let session = attached["sessionId"].as_str().unwrap();
    let path = format!("/v1/sessions/{session}/deliveries?wait=60");
    for round in 0..ROUNDS {
        // It does not ask, and is lost. On a slow machine that happens again before it can ask.
        soon("the event", offline.recv()).await.unwrap();
        send(&alice, &round.to_string()).await;
        let polled = loop {
            bob.post("/v1/sessions", body.clone()).await.expect(201);
            let polled = bob.get(&path).await;
            if polled.status == 200 {
                break polled.json();
            }
            soon("the event", offline.recv()).await.unwrap();
        };
        let deliveries = polled["deliveries"].as_array().unwrap();
        let newest = deliveries.last().expect("the message came at once");
        assert_eq!(newest["message"]["text"], round.to_string());
    }
}
