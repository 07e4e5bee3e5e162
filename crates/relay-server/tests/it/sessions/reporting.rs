//! What sessions report: counted, acknowledged, without secrets.

use serde_json::{Value, json};

use crate::support::World;

fn report(session: &Value, n: u64, event: Value) -> Value {
    json!({ "type": "event", "sessionId": session, "n": n, "event": event })
}

fn called(tool: &str) -> Value {
    json!({ "type": "tool.called", "tool": tool })
}

#[tokio::test]
async fn reports_are_counted_and_acknowledged() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let session = socket.attach("alice").await;
    let ack = socket.done(report(&session, 1, called("a"))).await;
    assert_eq!((&ack["type"], &ack["n"]), (&json!("ack"), &json!(1)));
    let repeat = socket.done(report(&session, 1, called("a"))).await;
    assert_eq!(repeat["n"], 1);
    let gap = socket.ask(report(&session, 4, called("d"))).await;
    assert_eq!(gap["problem"]["code"], "event_gap");
    assert_eq!(gap["problem"]["expected"], "2");
    // Socket and HTTP share the counter.
    let path = format!("/v1/sessions/{}/events", session.as_str().unwrap());
    let batch =
        json!({ "events": [{ "n": 2, "event": called("b") }, { "n": 3, "event": called("c") }] });
    assert_eq!(alice.post(&path, batch).await.expect(200)["acked"], 3);
    let one = json!({ "n": 5, "event": called("e") });
    assert_eq!(alice.post(&path, one).await.refused(409), "event_gap");
    assert_eq!(socket.done(report(&session, 4, called("d"))).await["n"], 4);
    let log = world
        .key
        .get("/v1/events?types=tool.called")
        .await
        .expect(200);
    let tools: Vec<&Value> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["event"]["tool"])
        .collect();
    assert_eq!(tools, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn many_reports_under_way_stay_in_order() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let session = socket.attach("alice").await;
    for n in 1..=300 {
        let mut frame = report(&session, n, called(&n.to_string()));
        frame["ref"] = json!(n);
        socket.say(frame).await;
    }
    for n in 1..=300 {
        let ack = socket.next_or_end().await.unwrap();
        assert_eq!(
            (&ack["type"], &ack["ref"]),
            (&json!("ack"), &json!(n)),
            "{ack}"
        );
    }
}

#[tokio::test]
async fn secrets_in_reports_are_shown_to_nobody() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let session = socket.attach("alice").await;
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let event = json!({ "type": "tool.called", "tool": "bash", "input": { "command": format!("login {secret}") } });
    socket.done(report(&session, 1, event)).await;
    let log = world.key.get("/v1/events?types=tool.*").await;
    assert!(!log.text().contains(&secret), "{}", log.text());
    assert!(log.text().contains("login"));
}

#[tokio::test]
async fn a_report_of_a_delivery_is_a_receipt() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = bob.socket().await;
    let mut frame = crate::support::attach("bob");
    frame["type"] = json!("attach");
    frame["capabilities"]["events"]["emits"] = json!(["status.changed", "delivery.delivered"]);
    let session = socket.done(frame).await["sessionId"].clone();
    alice
        .post("/v1/messages", json!({ "to": "@bob", "text": "x" }))
        .await
        .expect(201);
    let deliver = socket.next("deliver").await;
    let (id, message) = (&deliver["context"]["id"], &deliver["message"]["id"]);
    let event = json!({ "type": "delivery.delivered", "deliveryId": id, "messageId": message });
    socket.done(report(&session, 1, event)).await;
    let path = format!("/v1/deliveries/{}", id.as_str().unwrap());
    assert_eq!(alice.get(&path).await.expect(200)["state"], "delivered");
}
