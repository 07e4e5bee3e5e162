//! Messages reach sessions, and what becomes of them is told.

use serde_json::{Value, json};

use crate::support::{Client, World, delivered};

async fn send(client: &Client, body: Value) -> Value {
    client.post("/v1/messages", body).await.expect(201)
}

async fn state(client: &Client, delivery: &Value) -> Value {
    let path = format!("/v1/deliveries/{}", delivery.as_str().unwrap());
    client.get(&path).await.expect(200)["state"].clone()
}

#[tokio::test]
async fn a_message_is_delivered_and_its_receipt_stored() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    let session = socket.attach("bob").await;
    let sent = send(&alice, json!({ "to": "@bob", "text": "hello" })).await;
    let deliver = socket.next("deliver").await;
    assert_eq!(deliver["sessionId"], session);
    assert_eq!(deliver["message"], sent["message"]);
    let id = &deliver["context"]["id"];
    assert_eq!(id, &sent["deliveries"][0]["deliveryId"]);
    let epoch = &deliver["context"]["metadata"]["epoch"];
    let receipt =
        json!({ "type": "receipt", "deliveryId": id, "epoch": epoch, "receipt": delivered(id) });
    let ok = socket.done(receipt.clone()).await;
    assert_eq!(
        (&ok["type"], &ok["result"]["state"]),
        (&json!("ok"), &json!("delivered"))
    );
    assert_eq!(state(&alice, id).await, "delivered");
    let again = socket.done(receipt).await;
    assert_eq!(again["duplicate"], true);
    let path = format!("/v1/deliveries/{}", id.as_str().unwrap());
    let story = alice.get(&path).await.expect(200);
    assert_eq!(story["receipts"][0]["receipt"]["status"], "delivered");
    assert!(story["story"].is_string());
    let list = alice
        .get("/v1/deliveries?state=delivered&agent=bob")
        .await
        .expect(200);
    assert_eq!(list["items"][0]["deliveryId"], *id);
    assert_eq!(
        alice.get("/v1/deliveries?state=lost").await.refused(400),
        "invalid_request"
    );
}

#[tokio::test]
async fn a_session_learns_that_it_is_attached_before_anything_comes() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    for _ in 0..5 {
        send(&alice, json!({ "to": "@bob", "text": "waiting" })).await;
    }
    let mut socket = bob.socket().await;
    let mut frame = crate::support::attach("bob");
    frame["type"] = json!("attach");
    socket.say(frame).await;
    let first = socket.next_or_end().await.unwrap();
    assert_eq!(first["type"], "attached");
    for _ in 0..5 {
        assert_eq!(socket.next_or_end().await.unwrap()["type"], "deliver");
    }
}

#[tokio::test]
async fn what_waits_for_a_boundary_comes_before_the_answer_to_it() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    let session = socket.attach("bob").await;
    send(
        &alice,
        json!({ "to": "@bob", "text": "later", "mode": "next-tool-call" }),
    )
    .await;
    assert_eq!(socket.ask(json!({ "type": "ping" })).await["type"], "pong");
    assert_eq!(socket.passed("deliver"), 0);
    let boundary =
        json!({ "type": "boundary", "sessionId": session, "kind": "next-tool-call", "ref": 7 });
    socket.say(boundary).await;
    assert_eq!(
        socket.next_or_end().await.unwrap()["message"]["text"],
        "later"
    );
    let ok = socket.next_or_end().await.unwrap();
    assert_eq!((&ok["type"], &ok["ref"]), (&json!("ok"), &json!(7)));
}

#[tokio::test]
async fn receipts_of_several_sessions_find_their_way() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    for name in ["bob", "carol"] {
        world.agent(name).await;
    }
    // One host runs the sessions of several agents over one connection.
    let mut host = world.key.socket().await;
    for name in ["bob", "carol"] {
        host.attach(name).await;
    }
    for name in ["@carol", "@bob"] {
        let sent = send(&alice, json!({ "to": name, "text": "hi" })).await;
        let deliver = host.next("deliver").await;
        let id = &deliver["context"]["id"];
        assert_eq!(id, &sent["deliveries"][0]["deliveryId"]);
        let accepted = json!({ "status": "accepted", "deliveryId": id });
        host.done(json!({ "type": "receipt", "deliveryId": id, "receipt": accepted }))
            .await;
        assert_eq!(state(&alice, id).await, "accepted");
        host.done(json!({ "type": "receipt", "deliveryId": id, "receipt": delivered(id) }))
            .await;
        assert_eq!(state(&alice, id).await, "delivered");
    }
}

#[tokio::test]
async fn nobody_settles_what_is_for_another() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let sent = send(&alice, json!({ "to": "@bob", "text": "x" })).await;
    let id = &sent["deliveries"][0]["deliveryId"];
    let mut eve = world.agent("eve").await.socket().await;
    let receipt = json!({ "type": "receipt", "deliveryId": id, "receipt": delivered(id) });
    assert_eq!(eve.refused(receipt).await, "unknown_delivery");
    let wrong =
        json!({ "type": "receipt", "deliveryId": id, "receipt": delivered(&sent["messageId"]) });
    assert_eq!(bob.socket().await.refused(wrong).await, "invalid_request");
    assert_eq!(state(&alice, id).await, "pending");
}

#[tokio::test]
async fn deliver_retry_cancel_and_flush() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let sent = send(&alice, json!({ "to": "#general", "text": "note" })).await;
    let message = &sent["messageId"];
    let body = json!({ "messageId": message, "agent": "bob" });
    let away = alice.post("/v1/deliveries", body).await.expect(201);
    // Nobody is there: Relay has it.
    assert_eq!(away["status"], "accepted");
    let id = away["deliveryId"].as_str().unwrap();
    let retry = alice
        .post(&format!("/v1/deliveries/{id}/retry"), json!(null))
        .await;
    assert_eq!(retry.refused(409), "illegal_transition");
    let cancel = json!({ "reason": "not needed" });
    let cancelled = alice
        .post(&format!("/v1/deliveries/{id}/cancel"), cancel.clone())
        .await;
    assert_eq!(cancelled.expect(200)["state"], "cancelled");
    let again = alice
        .post(&format!("/v1/deliveries/{id}/cancel"), cancel)
        .await;
    assert_eq!(again.refused(409), "illegal_transition");
    let neither = alice
        .post("/v1/deliveries", json!({ "messageId": message }))
        .await;
    assert_eq!(neither.expect(400)["path"], "agent");

    let mut socket = bob.socket().await;
    socket.attach("bob").await;
    send(
        &alice,
        json!({ "to": "@bob", "text": "held", "mode": "manual" }),
    )
    .await;
    let flushing = {
        let bob = bob.clone();
        tokio::spawn(async move { bob.post("/v1/agents/bob/flush", json!({})).await })
    };
    let deliver = socket.next("deliver").await;
    let id = &deliver["context"]["id"];
    socket
        .done(json!({ "type": "receipt", "deliveryId": id, "receipt": delivered(id) }))
        .await;
    let flushed = flushing.await.unwrap().expect(200);
    assert_eq!(flushed["receipts"], json!([delivered(id)]));
    let other = alice.post("/v1/agents/bob/flush", json!({})).await;
    assert_eq!(other.refused(403), "forbidden");
}

#[tokio::test]
async fn a_failed_delivery_is_retried_by_hand() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    socket.attach("bob").await;
    send(&alice, json!({ "to": "@bob", "text": "try" })).await;
    let deliver = socket.next("deliver").await;
    let id = deliver["context"]["id"].clone();
    let failed =
        json!({ "status": "failed", "deliveryId": id, "reason": "no room", "retryable": false });
    socket
        .done(json!({ "type": "receipt", "deliveryId": id, "receipt": failed }))
        .await;
    assert_eq!(state(&alice, &id).await, "failed");
    let retrying = {
        let (alice, path) = (
            alice.clone(),
            format!("/v1/deliveries/{}/retry", id.as_str().unwrap()),
        );
        tokio::spawn(async move { alice.post(&path, json!({})).await })
    };
    assert_eq!(socket.next("deliver").await["context"]["id"], id);
    socket
        .done(json!({ "type": "receipt", "deliveryId": id, "receipt": delivered(&id) }))
        .await;
    assert_eq!(retrying.await.unwrap().expect(200)["status"], "delivered");
}

#[tokio::test]
async fn a_receipt_by_http_settles_the_same_delivery() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    socket.attach("bob").await;
    send(&alice, json!({ "to": "@bob", "text": "x" })).await;
    let id = socket.next("deliver").await["context"]["id"].clone();
    let path = format!("/v1/deliveries/{}/receipt", id.as_str().unwrap());
    let taken = bob
        .post(&path, json!({ "receipt": delivered(&id) }))
        .await
        .expect(200);
    assert_eq!(taken, json!({ "state": "delivered", "late": false }));
    let late = bob
        .post(&path, json!({ "receipt": delivered(&id) }))
        .await
        .expect(200);
    assert_eq!(late["late"], true);
    let stranger = world
        .agent("eve")
        .await
        .post(&path, json!({ "receipt": delivered(&id) }))
        .await;
    assert_eq!(stranger.refused(404), "unknown_delivery");
}
