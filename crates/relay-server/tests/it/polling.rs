//! Sessions that ask: by long poll, or at their boundaries.

use std::time::Duration;

use relay_server::Config;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Answer, Client, World, attach, delivered, soon};

fn body(agent: &str, kind: &str) -> Value {
    let mut body = attach(agent);
    body["link"] = json!({ "kind": kind });
    body
}

async fn attached(client: &Client, agent: &str) -> (Value, String) {
    let attached = client
        .post("/v1/sessions", body(agent, "poll"))
        .await
        .expect(201);
    let path = format!("/v1/sessions/{}", attached["sessionId"].as_str().unwrap());
    (attached, path)
}

/// Asks, and waits for what comes.
fn ask(client: &Client, path: &str) -> JoinHandle<Answer> {
    let (client, path) = (client.clone(), format!("{path}/deliveries?wait=60"));
    tokio::spawn(async move { client.get(&path).await })
}

async fn send(client: &Client, to: &str, text: &str) {
    let body = json!({ "to": to, "text": text });
    client.post("/v1/messages", body).await.expect(201);
}

#[tokio::test]
async fn a_question_waits_for_what_comes() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let (session, path) = attached(&bob, "bob").await;
    let asking = ask(&bob, &path);
    send(&alice, "@bob", "hello").await;
    let polled = asking.await.unwrap().expect(200);
    let due = &polled["deliveries"][0];
    assert_eq!(
        (&due["message"]["text"], &polled["more"]),
        (&json!("hello"), &json!(false))
    );
    assert!(
        due["text"]
            .as_str()
            .unwrap()
            .starts_with("[relay] from agent @alice")
    );
    let id = &due["context"]["id"];
    let receipt = format!("/v1/deliveries/{}/receipt", id.as_str().unwrap());
    let epoch = &due["context"]["metadata"]["epoch"];
    let taken = bob
        .post(
            &receipt,
            json!({ "receipt": delivered(id), "epoch": epoch }),
        )
        .await;
    assert_eq!(taken.expect(200)["state"], "delivered");
    let nothing = bob.get(&format!("{path}/deliveries")).await.expect(200);
    assert_eq!(nothing, json!({ "deliveries": [], "more": false }));
    let shown = bob.get(&path).await.expect(200);
    assert_eq!(
        (&shown["link"], &shown["sessionId"]),
        (&json!("poll"), &session["sessionId"])
    );
}

#[tokio::test]
async fn what_came_meanwhile_is_there_in_shares() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let (_, path) = attached(&bob, "bob").await;
    for number in 0..5 {
        send(&alice, "@bob", &number.to_string()).await;
    }
    let mut texts = Vec::new();
    while texts.len() < 5 {
        let share = bob
            .get(&format!("{path}/deliveries?limit=2&wait=60"))
            .await
            .expect(200);
        let items = share["deliveries"].as_array().unwrap();
        assert!(items.len() <= 2);
        texts.extend(
            items
                .iter()
                .map(|due| due["message"]["text"].as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(texts, ["0", "1", "2", "3", "4"]);
}

#[tokio::test]
async fn a_newer_question_takes_the_place_of_an_older_one() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let (_, path) = attached(&bob, "bob").await;
    let mut asking = vec![ask(&bob, &path)];
    // Until the first one is there, the second could be the older.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    asking.push(ask(&bob, &path));
    let (first, rest) = {
        let second = asking.pop().unwrap();
        let first = asking.pop().unwrap();
        let mut both = [Some(first), Some(second)];
        let ended = loop {
            if let Some(at) = both
                .iter()
                .position(|it| it.as_ref().is_some_and(JoinHandle::is_finished))
            {
                break at;
            }
            tokio::task::yield_now().await;
        };
        let other = both[1 - ended].take().unwrap();
        (both[ended].take().unwrap(), other)
    };
    assert_eq!(first.await.unwrap().expect(200)["deliveries"], json!([]));
    send(&alice, "@bob", "for the newer one").await;
    let polled = rest.await.unwrap().expect(200);
    assert_eq!(
        polled["deliveries"][0]["message"]["text"],
        "for the newer one"
    );
}

#[tokio::test]
async fn operations_come_with_the_answer() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let (_, path) = attached(&bob, "bob").await;
    let asking = ask(&bob, &path);
    let pausing = {
        let (key, path) = (world.key.clone(), format!("{path}/pause"));
        tokio::spawn(async move { key.post(&path, json!({})).await })
    };
    let polled = asking.await.unwrap().expect(200);
    let control = &polled["controls"][0];
    assert_eq!(control["op"], "pause");
    let result = json!({ "controlId": control["controlId"], "ok": true });
    bob.post(&format!("{path}/control"), result)
        .await
        .expect(204);
    assert_eq!(pausing.await.unwrap().expect(200)["status"], "paused");

    let asking = ask(&bob, &path);
    let releasing = {
        let (key, path) = (world.key.clone(), format!("{path}/release"));
        tokio::spawn(async move { key.post(&path, json!({})).await })
    };
    let control = asking.await.unwrap().expect(200)["controls"][0].clone();
    let result = json!({ "controlId": control["controlId"], "ok": true });
    bob.post(&format!("{path}/control"), result)
        .await
        .expect(204);
    assert_eq!(releasing.await.unwrap().expect(200)["status"], "released");
    let over = bob.get(&format!("{path}/deliveries?wait=60")).await;
    assert_eq!(over.refused(409), "illegal_transition");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_no_longer_asks_comes_back_with_its_token() {
    let config = Config {
        silence: Duration::from_millis(50),
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let (session, path) = attached(&bob, "bob").await;
    send(&alice, "@bob", "one").await;
    loop {
        tokio::time::sleep(Duration::from_millis(60)).await;
        let asked = bob.get(&format!("{path}/deliveries")).await;
        if asked.status == 503 {
            assert_eq!(asked.refused(503), "session_unreachable");
            break;
        }
    }
    // What was out when it was lost comes again. On a slow machine it is lost more than once.
    let polled = loop {
        let mut again = body("bob", "poll");
        again["resume"] = session["resumeToken"].clone();
        let again = bob.post("/v1/sessions", again).await.expect(201);
        assert_eq!(again["sessionId"], session["sessionId"]);
        let asked = bob.get(&format!("{path}/deliveries?wait=60")).await;
        if asked.status == 200 {
            break asked.json();
        }
    };
    assert_eq!(polled["deliveries"][0]["message"]["text"], "one");
}

#[tokio::test]
async fn a_session_may_move_from_polling_to_a_socket() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let (session, path) = attached(&bob, "bob").await;
    let asking = ask(&bob, &path);
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    let mut socket = bob.socket().await;
    let mut frame = attach("bob");
    frame["type"] = json!("attach");
    frame["resume"] = session["resumeToken"].clone();
    socket.done(frame).await;
    let moved = asking.await.unwrap();
    assert_eq!(moved.refused(503), "session_unreachable");
}

#[tokio::test]
async fn a_session_without_a_link_asks_at_its_boundaries() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut none = body("bob", "none");
    none["capabilities"]["delivery"]["modes"] = json!(["next-tool-call", "on-idle"]);
    none["status"] = json!("active");
    let session = bob.post("/v1/sessions", none).await.expect(201);
    let path = format!("/v1/sessions/{}", session["sessionId"].as_str().unwrap());
    send(&alice, "@bob", "before a tool").await;
    let nothing = bob.get(&format!("{path}/deliveries")).await.expect(200);
    assert_eq!(nothing["deliveries"], json!([]));
    let due = bob
        .post(
            &format!("{path}/boundary"),
            json!({ "kind": "next-tool-call" }),
        )
        .await;
    let due = due.expect(200);
    assert_eq!(due["deliveries"][0]["message"]["text"], "before a tool");
    let bad = bob
        .post(&format!("{path}/boundary"), json!({ "kind": "manual" }))
        .await;
    assert_eq!(bad.expect(400)["path"], "kind");
    let bad = bob
        .post(
            &format!("{path}/boundary"),
            json!({ "kind": "on-idle", "limit": 21 }),
        )
        .await;
    assert_eq!(bad.expect(400)["path"], "limit");
}

/// Waits until a delivery is on its way to a session.
async fn offered(client: &Client, delivery: &str) {
    let path = format!("/v1/deliveries/{delivery}");
    let offered = async {
        while client.get(&path).await.expect(200)["state"] != "offered" {
            tokio::task::yield_now().await;
        }
    };
    soon("the offer", offered).await;
}

/// Regression: what was handed over and not fetched was missing at the boundary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boundary_call_brings_what_was_not_fetched_yet() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut busy = body("bob", "poll");
    busy["capabilities"]["delivery"]["modes"] =
        json!(["immediate", "next-tool-call", "on-idle", "manual"]);
    busy["status"] = json!("active");
    let session = bob.post("/v1/sessions", busy).await.expect(201);
    let path = format!("/v1/sessions/{}", session["sessionId"].as_str().unwrap());
    let mut ids = Vec::new();
    for mode in ["manual", "next-tool-call", "immediate"] {
        let body = json!({ "to": "@bob", "text": mode, "mode": mode });
        let sent = alice.post("/v1/messages", body).await.expect(201);
        let id = &sent["deliveries"][0]["deliveryId"];
        ids.push(id.as_str().unwrap().to_owned());
    }
    offered(&alice, &ids[2]).await;
    let flushing = {
        let key = world.key.clone();
        let body = json!({ "mode": "manual" });
        tokio::spawn(async move { key.post("/v1/agents/bob/flush", body).await })
    };
    offered(&alice, &ids[0]).await;
    let boundary = format!("{path}/boundary");
    let first = json!({ "kind": "next-tool-call", "limit": 1 });
    let first = bob.post(&boundary, first).await.expect(200);
    assert_eq!(first["more"], true);
    let rest = bob
        .post(&boundary, json!({ "kind": "next-tool-call" }))
        .await;
    let rest = rest.expect(200);
    assert_eq!(rest["more"], false);
    let mut got = Vec::new();
    for share in [&first, &rest] {
        for due in share["deliveries"].as_array().unwrap() {
            let (id, epoch) = (&due["context"]["id"], &due["context"]["metadata"]["epoch"]);
            let receipt = json!({ "receipt": delivered(id), "epoch": epoch });
            let path = format!("/v1/deliveries/{}/receipt", id.as_str().unwrap());
            assert_eq!(
                bob.post(&path, receipt).await.expect(200)["state"],
                "delivered"
            );
            got.push(due["message"]["text"].clone());
        }
    }
    got.sort_by_key(Value::to_string);
    assert_eq!(got, ["immediate", "manual", "next-tool-call"]);
    flushing.await.unwrap().expect(200);
    let nothing = bob.get(&format!("{path}/deliveries")).await.expect(200);
    assert_eq!(nothing["deliveries"], json!([]), "each came once");
}

#[tokio::test]
async fn what_is_wrong_with_a_question_is_named() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let (_, path) = attached(&bob, "bob").await;
    for (query, field) in [
        ("wait=61", "wait"),
        ("limit=0", "limit"),
        ("limit=21", "limit"),
    ] {
        let bad = bob.get(&format!("{path}/deliveries?{query}")).await;
        assert_eq!(bad.expect(400)["path"], field);
    }
    let other = world.agent("eve").await;
    assert_eq!(
        other.get(&format!("{path}/deliveries")).await.refused(404),
        "unknown_session"
    );
    let mut socket = bob.socket().await;
    let id = socket.attach("bob").await;
    let wrong = bob
        .get(&format!("/v1/sessions/{}/deliveries", id.as_str().unwrap()))
        .await;
    assert_eq!(wrong.refused(503), "session_unreachable");
    let mut unknown = attach("bob");
    unknown["link"] = json!({ "kind": "pigeon" });
    assert_eq!(
        bob.post("/v1/sessions", unknown).await.expect(400)["path"],
        "link.kind"
    );
}
