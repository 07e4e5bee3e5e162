//! Attaching, coming back, and who may speak for a session.

use serde_json::{Value, json};

use crate::support::{Ended, World, attach};

fn frame(agent: &str) -> Value {
    let mut frame = attach(agent);
    frame["type"] = json!("attach");
    frame
}

fn resume(agent: &str, attached: &Value) -> Value {
    let mut frame = frame(agent);
    frame["resume"] = attached["resumeToken"].clone();
    frame
}

#[tokio::test]
async fn the_answer_says_what_was_negotiated() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let attached = socket.done(frame("alice")).await;
    assert_eq!(
        (&attached["keep"], &attached["acked"]),
        (&json!([]), &json!(0))
    );
    assert!(attached["resumeToken"].as_str().unwrap().starts_with("st_"));
    let path = format!("/v1/sessions/{}", attached["sessionId"].as_str().unwrap());
    let shown = alice.get(&path).await.expect(200);
    assert_eq!(
        (&shown["link"], &shown["current"]),
        (&json!("websocket"), &json!(true))
    );
    let list = world.key.get("/v1/sessions?agent=alice").await.expect(200);
    assert_eq!(list["items"], json!([shown]));
    assert_eq!(
        world.agent("bob").await.get(&path).await.refused(404),
        "unknown_session"
    );
}

#[tokio::test]
async fn what_is_wrong_with_an_attach_is_named() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    world.agent("bob").await;
    let mut socket = alice.socket().await;
    assert_eq!(socket.refused(frame("bob")).await, "forbidden");
    let mut wrong = frame("alice");
    wrong["status"] = json!("released");
    assert_eq!(socket.refused(wrong).await, "invalid_request");
    let mut wrong = frame("alice");
    wrong["resume"] = json!("st_nonsense");
    assert_eq!(socket.refused(wrong).await, "unknown_session");
    let mut wrong = frame("alice");
    wrong["capabilities"]["messaging"]["receive"] = json!(false);
    let answer = socket.ask(wrong).await;
    assert_eq!(answer["problem"]["path"], "capabilities.messaging.receive");
    let mut key = world.key.socket().await;
    assert_eq!(key.refused(frame("nobody")).await, "unknown_agent");
}

#[tokio::test]
async fn a_session_that_comes_back_keeps_what_it_accepted_and_the_old_link_is_closed() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut old = bob.socket().await;
    let attached = old.done(frame("bob")).await;
    alice
        .post("/v1/messages", json!({ "to": "@bob", "text": "kept" }))
        .await
        .expect(201);
    let deliver = old.next("deliver").await;
    let id = &deliver["context"]["id"];
    let accepted = json!({ "status": "accepted", "deliveryId": id });
    old.done(json!({ "type": "receipt", "deliveryId": id, "receipt": accepted }))
        .await;

    let mut new = bob.socket().await;
    let again = new.done(resume("bob", &attached)).await;
    assert_eq!(again["sessionId"], attached["sessionId"]);
    assert_eq!(again["keep"], json!([id]));
    assert_eq!(
        old.end().await,
        Ended::Closed(4001, "superseded".to_owned())
    );
    let delivered = crate::support::delivered(id);
    let ok = new
        .done(json!({ "type": "receipt", "deliveryId": id, "receipt": delivered }))
        .await;
    assert_eq!(ok["result"]["state"], "delivered");
}

#[tokio::test]
async fn what_was_out_when_a_link_broke_is_offered_again() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut old = bob.socket().await;
    let attached = old.done(frame("bob")).await;
    alice
        .post("/v1/messages", json!({ "to": "@bob", "text": "out" }))
        .await
        .expect(201);
    let id = old.next("deliver").await["context"]["id"].clone();
    drop(old);
    let mut new = bob.socket().await;
    let again = new.done(resume("bob", &attached)).await;
    assert_eq!(again["keep"], json!([]));
    let deliver = new.next("deliver").await;
    assert_eq!(deliver["context"]["id"], id);
}

#[tokio::test]
async fn one_of_several_sessions_may_move_without_the_others() {
    let world = World::start().await;
    for name in ["bob", "carol"] {
        world.agent(name).await;
    }
    let mut host = world.key.socket().await;
    let bob = host.done(frame("bob")).await;
    let carol = host.done(frame("carol")).await;
    // Over the same connection: nothing is closed.
    host.done(resume("carol", &carol)).await;
    let mut other = world.key.socket().await;
    other.done(resume("bob", &bob)).await;
    let told = host.next("error").await;
    assert_eq!(told["problem"]["found"], bob["sessionId"]);
    let boundary =
        |session: &Value| json!({ "type": "boundary", "sessionId": session, "kind": "on-idle" });
    host.done(boundary(&carol["sessionId"])).await;
    assert_eq!(
        host.refused(boundary(&bob["sessionId"])).await,
        "unknown_session"
    );
    other.done(boundary(&bob["sessionId"])).await;
}

#[tokio::test]
async fn a_session_belongs_to_its_connection() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut own = alice.socket().await;
    let session = own.attach("alice").await;
    let mut other = alice.socket().await;
    let event = json!({ "type": "log", "level": "info", "message": "x" });
    let report = json!({ "type": "event", "sessionId": session, "n": 1, "event": event });
    assert_eq!(other.refused(report.clone()).await, "unknown_session");
    let mut status = report.clone();
    status["event"] = json!({ "type": "status.changed", "status": "active" });
    own.done(status).await;
}

#[tokio::test]
async fn a_session_that_can_not_send_does_not() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let send = json!({ "type": "send", "to": "#general", "text": "x" });
    socket.done(send.clone()).await;
    let mut mute = frame("alice");
    mute["capabilities"]["messaging"]["send"] = json!(null);
    socket.done(mute).await;
    assert_eq!(socket.refused(send).await, "capability_not_supported");
}

#[tokio::test]
async fn a_connection_that_ends_leaves_its_sessions_to_come_back() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut watcher = world.key.socket().await;
    let mut socket = alice.socket().await;
    let attached = socket.done(frame("alice")).await;
    watcher
        .done(json!({ "type": "subscribe", "id": "s", "pattern": "session.resumed" }))
        .await;
    drop(socket);
    let world = world;
    let mut again = alice.socket().await;
    again.done(resume("alice", &attached)).await;
    let resumed = watcher.next("event").await;
    assert_eq!(resumed["event"]["sessionId"], attached["sessionId"]);
    drop(world);
}
