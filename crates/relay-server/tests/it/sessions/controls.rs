//! What is asked of sessions: the question goes over the socket, the answer comes back to whoever asked.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Answer, Client, World};

fn ask(client: &Client, session: &Value, op: &str, body: Value) -> JoinHandle<Answer> {
    let path = format!("/v1/sessions/{}/{op}", session.as_str().unwrap());
    let client = client.clone();
    tokio::spawn(async move { client.post(&path, body).await })
}

fn done(control: &Value) -> Value {
    json!({ "type": "controlResult", "controlId": control["controlId"], "ok": true })
}

#[tokio::test]
async fn pause_resume_and_release() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let session = socket.attach("alice").await;
    let asking = ask(&world.key, &session, "pause", json!({ "reason": "lunch" }));
    let control = socket.next("control").await;
    assert_eq!(
        (&control["op"], &control["reason"]),
        (&json!("pause"), &json!("lunch"))
    );
    assert_eq!(control["sessionId"], session);
    socket.done(done(&control)).await;
    assert_eq!(asking.await.unwrap().expect(200)["status"], "paused");
    assert_eq!(socket.refused(done(&control)).await, "invalid_request");

    let asking = ask(&alice, &session, "resume", json!(null));
    let control = socket.next("control").await;
    socket.done(done(&control)).await;
    assert_eq!(asking.await.unwrap().expect(200)["status"], "idle");

    let asking = ask(&alice, &session, "release", json!({ "reason": "done" }));
    let control = socket.next("control").await;
    assert_eq!(control["op"], "release");
    socket.done(done(&control)).await;
    let released = asking.await.unwrap().expect(200);
    assert_eq!(
        (&released["status"], &released["reason"]),
        (&json!("released"), &json!("done"))
    );
    // The connection itself goes on; the agent may attach again.
    socket.attach("alice").await;
}

#[tokio::test]
async fn fork_and_snapshot() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let session = socket.attach("alice").await;
    let asking = ask(&world.key, &session, "fork", json!({ "as": "twin" }));
    let control = socket.next("control").await;
    assert_eq!(
        (&control["op"], &control["as"]),
        (&json!("fork"), &json!("twin"))
    );
    socket.done(done(&control)).await;
    let forked = asking.await.unwrap().expect(201);
    assert_eq!(forked["agent"]["name"], "twin");
    let mut frame = crate::support::attach("twin");
    frame["type"] = json!("attach");
    frame["resume"] = control["fork"]["resumeToken"].clone();
    assert_eq!(socket.done(frame).await["sessionId"], forked["sessionId"]);

    let asking = ask(&alice, &session, "snapshot", json!({}));
    let control = socket.next("control").await;
    let mut result = done(&control);
    result["result"] = json!({ "conversation": "c1" });
    socket.done(result).await;
    let taken = asking.await.unwrap().expect(201);
    let path = format!("/v1/attachments/{}", taken["snapshotId"].as_str().unwrap());
    assert_eq!(
        alice.get(&path).await.expect(200),
        json!({ "conversation": "c1" })
    );
}

#[tokio::test]
async fn a_refusal_and_a_lost_connection_reach_whoever_asked() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let session = socket.attach("alice").await;
    let asking = ask(&alice, &session, "pause", json!({}));
    let control = socket.next("control").await;
    let problem = json!({
        "type": "urn:relay:problem:unsupported_operation", "title": "Not supported", "status": 501,
        "detail": "not now", "code": "unsupported_operation", "retryable": false,
    });
    socket
        .done(json!({ "type": "controlResult", "controlId": control["controlId"], "ok": false, "problem": problem }))
        .await;
    let refused = asking.await.unwrap();
    assert_eq!(refused.refused(501), "unsupported_operation");
    let asking = ask(&alice, &session, "pause", json!({}));
    socket.next("control").await;
    drop(socket);
    let refused = asking.await.unwrap();
    assert_eq!(refused.refused(503), "session_unreachable");
    // Asking again is of no use before the session has attached.
    let refused = refused.json();
    assert_eq!(
        (&refused["retryable"], &refused["next"]),
        (&json!(false), &json!("attach"))
    );
}

#[tokio::test]
async fn what_a_session_did_not_declare_is_not_asked_of_it() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let mut frame = crate::support::attach("alice");
    frame["type"] = json!("attach");
    frame["capabilities"]["lifecycle"] = json!({ "release": true });
    let session = socket.done(frame).await["sessionId"].clone();
    for op in ["pause", "resume", "fork", "snapshot"] {
        let refused = ask(&alice, &session, op, json!({})).await.unwrap();
        assert_eq!(refused.refused(409), "capability_not_supported", "{op}");
        assert_eq!(refused.json()["capability"], format!("lifecycle.{op}"));
    }
    let unknown = json!("01963a5c-7893-7abc-8ef0-123456789abc");
    let refused = ask(&alice, &unknown, "release", json!({})).await.unwrap();
    assert_eq!(refused.refused(404), "unknown_session");
}

#[tokio::test]
async fn a_delivery_is_called_back_from_the_session_that_has_it() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    let session = socket.attach("bob").await;
    alice
        .post("/v1/messages", json!({ "to": "@bob", "text": "oops" }))
        .await
        .expect(201);
    let id = socket.next("deliver").await["context"]["id"].clone();
    let accepted = json!({ "status": "accepted", "deliveryId": id });
    socket
        .done(json!({ "type": "receipt", "deliveryId": id, "receipt": accepted }))
        .await;
    let path = format!("/v1/deliveries/{}/cancel", id.as_str().unwrap());
    let cancelling =
        tokio::spawn(async move { alice.post(&path, json!({ "reason": "typo" })).await });
    let control = socket.next("control").await;
    assert_eq!(
        (&control["op"], &control["deliveryId"]),
        (&json!("cancel"), &id)
    );
    assert_eq!(control["sessionId"], session);
    socket.done(done(&control)).await;
    assert_eq!(cancelling.await.unwrap().expect(200)["state"], "cancelled");
}

/// A problem without `type`, `title`, `status` or `retryable` was no answer, and whoever asked waited until the session had
/// been silent for too long.
#[tokio::test]
async fn a_control_refusal_needs_no_more_than_a_word() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    let session = socket.attach("bob").await;
    let send = json!({ "to": "@bob", "text": "oops" });
    alice.post("/v1/messages", send).await.expect(201);
    let id = socket.next("deliver").await["context"]["id"].clone();
    let accepted = json!({ "status": "accepted", "deliveryId": id });
    socket
        .done(json!({ "type": "receipt", "deliveryId": id, "receipt": accepted }))
        .await;
    for (problem, why) in [
        (json!({ "code": "busy" }), "busy"),
        (json!({ "title": "Not now" }), "Not now"),
        (json!({}), "the session did not say why"),
    ] {
        let path = format!("/v1/deliveries/{}/cancel", id.as_str().unwrap());
        let asking = alice.clone();
        let asking = tokio::spawn(async move { asking.post(&path, json!({})).await });
        let control = socket.next("control").await;
        let refusal = json!({
            "type": "controlResult", "controlId": control["controlId"], "ok": false, "problem": problem,
        });
        socket.done(refusal).await;
        let refused = asking.await.unwrap();
        assert_eq!(refused.refused(501), "unsupported_operation");
        assert_eq!(refused.json()["why"], why);
    }
    let asking = ask(&bob, &session, "pause", json!({}));
    let control = socket.next("control").await;
    let refusal = json!({
        "type": "controlResult", "controlId": control["controlId"], "ok": false,
        "problem": { "code": "overloaded", "detail": "in the middle of a tool call" },
    });
    socket.done(refusal).await;
    let refused = asking.await.unwrap();
    assert_eq!(refused.refused(503), "overloaded");
    assert_eq!(refused.json()["detail"], "in the middle of a tool call");
    assert_eq!(refused.json()["retryable"], true);
}
