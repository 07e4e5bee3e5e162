//! Subscriptions: nothing missed, nothing twice, whoever is slow.

use std::collections::BTreeSet;

use relay_protocol::limits::LIVE_ENTRIES;
use relay_server::Config;
use serde_json::{Value, json};

use crate::support::{Client, PATIENCE, Socket, World};

async fn subscribe(socket: &mut Socket, id: &str, pattern: &str, after: Option<u64>) -> Value {
    let mut frame = json!({ "type": "subscribe", "id": id, "pattern": pattern });
    if let Some(after) = after {
        frame["after"] = json!(after);
    }
    socket.done(frame).await
}

async fn post(client: &Client, text: &str) {
    let body = json!({ "to": "#general", "text": text });
    client.post("/v1/messages", body).await.expect(201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_events_come_first_then_live_ones_with_no_gap_and_no_repeat() {
    const SENDERS: usize = 4;
    const EACH: usize = 50;
    let world = World::start().await;
    let alice = world.agent("alice").await;
    for number in 0..20 {
        post(&alice, &format!("early {number}")).await;
    }
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let alice = alice.clone();
        senders.push(tokio::spawn(async move {
            let mut socket = alice.socket().await;
            for number in 0..EACH {
                let text = format!("{sender} {number}");
                socket
                    .done(json!({ "type": "send", "to": "#general", "text": text }))
                    .await;
            }
        }));
    }
    // Subscribers come while the sending goes on.
    let mut subscribers = Vec::new();
    for _ in 0..6 {
        let key = world.key.clone();
        subscribers.push(tokio::spawn(async move {
            let mut socket = key.socket().await;
            subscribe(&mut socket, "all", "message.created", Some(0)).await;
            let mut seqs = Vec::new();
            while seqs.len() < 20 + SENDERS * EACH {
                let frame = socket.next("event").await;
                assert_eq!(frame["seq"], frame["event"]["seq"]);
                seqs.push(frame["seq"].as_u64().unwrap());
            }
            seqs
        }));
    }
    for sender in senders {
        sender.await.unwrap();
    }
    let mut all = Vec::new();
    let mut after = 0;
    while all.len() < 20 + SENDERS * EACH {
        let path = format!("/v1/events?types=message.created&limit=200&after={after}");
        let page = world.key.get(&path).await.expect(200);
        let items = page["items"].as_array().unwrap();
        all.extend(items.iter().map(|event| event["seq"].as_u64().unwrap()));
        after = page["after"].as_u64().unwrap();
    }
    for subscriber in subscribers {
        assert_eq!(subscriber.await.unwrap(), all);
    }
}

#[tokio::test]
async fn an_event_comes_once_however_many_subscriptions_match() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = world.key.socket().await;
    subscribe(&mut socket, "a", "message.*", None).await;
    subscribe(&mut socket, "b", "message.created", None).await;
    let filter = json!({ "event": "message.created", "from": "alice" });
    socket
        .done(json!({ "type": "subscribe", "id": "c", "filter": filter }))
        .await;
    post(&alice, "one").await;
    post(&alice, "two").await;
    for text in ["one", "two"] {
        assert_eq!(socket.next("event").await["event"]["message"]["text"], text);
    }
    assert_eq!(socket.passed("event"), 0);
    for id in ["a", "b", "c"] {
        socket
            .done(json!({ "type": "unsubscribe", "id": id }))
            .await;
    }
    post(&alice, "unheard").await;
    subscribe(&mut socket, "a", "message.created", None).await;
    post(&alice, "three").await;
    assert_eq!(
        socket.next("event").await["event"]["message"]["text"],
        "three"
    );
    let again = json!({ "type": "subscribe", "id": "a", "pattern": "*" });
    assert_eq!(socket.refused(again).await, "invalid_request");
}

#[tokio::test]
async fn a_subscription_may_begin_behind_the_others() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    post(&alice, "one").await;
    let mut socket = world.key.socket().await;
    subscribe(&mut socket, "new", "message.created", None).await;
    post(&alice, "two").await;
    let two = socket.next("event").await["seq"].as_u64().unwrap();
    subscribe(&mut socket, "old", "delivery.*", Some(0)).await;
    subscribe(&mut socket, "older", "agent.registered", Some(0)).await;
    let first = socket.next("event").await;
    assert_eq!(first["event"]["type"], "agent.registered");
    assert!(first["seq"].as_u64().unwrap() < two);
    post(&alice, "three").await;
    let mut seen = Vec::new();
    while seen.last() != Some(&"three".to_owned()) {
        let frame = socket.next("event").await;
        let text = &frame["event"]["message"]["text"];
        seen.push(text.as_str().unwrap_or_default().to_owned());
    }
    // What the first one had was not repeated for the others, who did not want it.
    assert_eq!(seen, ["three"]);
}

#[tokio::test]
async fn agents_are_found_by_name_or_id_and_a_hopeless_wish_is_warned_of() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut listener = world.key.socket().await;
    let filter = json!({ "event": "tool.called", "agent": "@alice" });
    let warned = listener
        .done(json!({ "type": "subscribe", "id": "t", "filter": filter }))
        .await;
    assert_eq!(warned["warnings"][0]["capability"], "events.emits");
    let mut session = alice.socket().await;
    let id = session.attach("alice").await;
    let event = json!({ "type": "tool.called", "tool": "bash" });
    session
        .done(json!({ "type": "event", "sessionId": id, "n": 1, "event": event }))
        .await;
    // The event itself carries only the agent's id.
    let heard = listener.next("event").await;
    assert_eq!(heard["event"]["event"]["tool"], "bash");
    let filter = json!({ "event": "tool.called", "agent": "@alice" });
    let fine = listener
        .done(json!({ "type": "subscribe", "id": "u", "filter": filter }))
        .await;
    assert!(fine.get("warnings").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_lags_and_goes_on_from_the_log() {
    let config = Config {
        // Whoever does not read does not answer, either; how long that takes here depends on the machine.
        silence: PATIENCE * 10,
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut slow = world.key.socket().await;
    let mut fast = bob.socket().await;
    let begun = subscribe(&mut slow, "all", "message.created", None).await;
    subscribe(&mut fast, "all", "message.created", None).await;
    // More than the network's buffers and the newest entries in memory hold together.
    let text = "x".repeat(16 * 1024);
    let many = LIVE_ENTRIES + 1_500;
    let sending = tokio::spawn(async move {
        let mut socket = alice.socket().await;
        for number in 0..many {
            let frame = json!({ "type": "send", "ref": number, "to": "#general", "text": text });
            socket.say(frame).await;
            if number >= 100 {
                socket.next("sent").await;
            }
        }
        for _ in 0..100 {
            socket.next("sent").await;
        }
    });
    // Others get everything meanwhile.
    for _ in 0..many {
        fast.next("event").await;
    }
    sending.await.unwrap();
    let mut seqs = BTreeSet::new();
    let mut last = begun["result"]["after"].as_u64().unwrap();
    let mut lagged = 0;
    while seqs.len() < many {
        let frame = slow.next_or_end().await.unwrap();
        match frame["type"].as_str() {
            Some("lagged") => {
                lagged += 1;
                assert!(frame["resumeAfter"].as_u64().unwrap() >= last);
            }
            Some("event") => {
                let seq = frame["seq"].as_u64().unwrap();
                assert!(seq > last, "{seq} after {last}");
                last = seq;
                assert!(seqs.insert(seq));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(lagged >= 1);
}
