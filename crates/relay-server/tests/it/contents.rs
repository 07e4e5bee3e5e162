//! What a session without a library of ours is given of a message: the whole content, at its boundary and at no other. By long poll, and by
//! calls to its URL.

use serde_json::{Value, json};

use crate::support::{Client, Raw, Receiver, World, attach, calls_this_machine, delivered, soon};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
const FILE: &str = "a line of the file";

/// The modes, in the order in which their boundaries come.
const MODES: [&str; 5] = [
    "immediate",
    "next-tool-call",
    "next-message",
    "on-idle",
    "manual",
];

/// What a message carries beside its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carried {
    Nothing,
    Image,
    File,
}

const ALL: [Carried; 3] = [Carried::Nothing, Carried::Image, Carried::File];

/// A session that works, and can do everything.
fn body(link: Value) -> Value {
    let mut body = attach("bob");
    body["status"] = json!("active");
    body["link"] = link;
    body["capabilities"]["delivery"]["modes"] = json!(MODES);
    body["capabilities"]["messaging"]["attachments"] = json!(["text", "image"]);
    body["capabilities"]["events"]["emits"] = json!(["status.changed", "tool.completed"]);
    body
}

/// Sends a message in each mode, with this beside the text.
async fn send_all(alice: &Client, carried: Carried) {
    let (media_type, content) = match carried {
        Carried::Nothing => ("", &b""[..]),
        Carried::Image => ("image/png", PNG),
        Carried::File => ("text/plain", FILE.as_bytes()),
    };
    let attachments = match carried {
        Carried::Nothing => json!([]),
        _ => {
            let upload = Raw::new("POST", "/v1/attachments?name=a").body(media_type, content);
            let stored = alice.ask(upload).await.expect(201);
            json!([{ "attachmentId": stored["attachmentId"] }])
        }
    };
    for mode in MODES {
        let body = json!({ "to": "@bob", "text": format!("say {mode}"), "mode": mode, "attachments": attachments });
        alice.post("/v1/messages", body).await.expect(201);
    }
}

/// Checks that this is the delivery of this mode, with all of its content, and settles it where nobody else does.
async fn check(bob: &Client, due: &Value, mode: &str, carried: Carried) {
    assert_eq!(due["message"]["text"], format!("say {mode}"), "{carried:?}");
    assert_eq!(due["context"]["mode"], mode);
    let text = due["text"].as_str().unwrap();
    let has_file = text.contains(&format!("\n{FILE}\n"));
    assert_eq!(has_file, carried == Carried::File, "{text}");
    if carried == Carried::Image {
        // Text shows no pictures: it says how to get this one, and the session can.
        let (_, request) = text.split_once("; to see it, GET ").unwrap();
        let path = request.lines().next().unwrap();
        let content = bob.get(path).await;
        content.expect(200);
        assert_eq!(content.body, PNG);
    }
}

async fn settle(bob: &Client, due: &Value) {
    let id = &due["context"]["id"];
    let receipt = json!({ "receipt": delivered(id), "epoch": due["context"]["metadata"]["epoch"] });
    let path = format!("/v1/deliveries/{}/receipt", id.as_str().unwrap());
    bob.post(&path, receipt).await.expect(200);
}

/// Waits until a delivery is delivered.
async fn stored(bob: &Client, due: &Value) {
    let path = format!("/v1/deliveries/{}", due["context"]["id"].as_str().unwrap());
    let waiting = async {
        while bob.get(&path).await.expect(200)["state"] != "delivered" {
            tokio::task::yield_now().await;
        }
    };
    soon("the receipt", waiting).await;
}

/// The one delivery of an answer.
fn only(answer: &Value) -> Value {
    let due = answer["deliveries"].as_array().unwrap();
    assert_eq!(due.len(), 1, "{answer:#}");
    due[0].clone()
}

async fn session(bob: &Client, link: Value) -> String {
    let attached = bob.post("/v1/sessions", body(link)).await.expect(201);
    format!("/v1/sessions/{}", attached["sessionId"].as_str().unwrap())
}

async fn report(bob: &Client, path: &str, n: u64, event: Value) {
    let event = json!({ "n": n, "event": event });
    bob.post(&format!("{path}/events"), event).await.expect(200);
}

async fn flush(bob: &Client) {
    bob.post("/v1/agents/bob/flush", json!({}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_session_that_asks_gets_the_content_at_its_boundary_and_at_no_other() {
    for carried in ALL {
        let world = World::start().await;
        let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
        let path = session(&bob, json!({ "kind": "poll" })).await;
        send_all(&alice, carried).await;
        let asked = format!("{path}/deliveries?wait=60");
        let boundary = format!("{path}/boundary");
        for mode in MODES {
            let answer = match mode {
                "next-tool-call" | "next-message" => {
                    bob.post(&boundary, json!({ "kind": mode })).await
                }
                "on-idle" => {
                    report(
                        &bob,
                        &path,
                        1,
                        json!({ "type": "status.changed", "status": "idle" }),
                    )
                    .await;
                    bob.get(&asked).await
                }
                "manual" => {
                    let flushing = tokio::spawn({
                        let bob = bob.clone();
                        async move { flush(&bob).await }
                    });
                    let answer = bob.get(&asked).await;
                    let due = only(&answer.expect(200));
                    check(&bob, &due, mode, carried).await;
                    settle(&bob, &due).await;
                    soon("the flush", flushing).await.unwrap();
                    continue;
                }
                _ => bob.get(&asked).await,
            };
            let due = only(&answer.expect(200));
            check(&bob, &due, mode, carried).await;
            settle(&bob, &due).await;
        }
        let nothing = bob.get(&format!("{path}/deliveries")).await.expect(200);
        assert_eq!(nothing["deliveries"], json!([]));
    }
}

#[tokio::test]
async fn a_session_that_is_called_gets_the_content_at_its_boundary_and_at_no_other() {
    for carried in ALL {
        let world = World::start_with(calls_this_machine()).await;
        let mut receiver = Receiver::start().await;
        let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
        let path = session(&bob, json!({ "kind": "webhook", "url": receiver.url })).await;
        send_all(&alice, carried).await;
        for (n, mode) in (0..).zip(MODES) {
            let mut flushing = None;
            match mode {
                "next-tool-call" => {
                    let event = json!({ "type": "tool.completed", "tool": "bash" });
                    report(&bob, &path, n, event).await;
                }
                "next-message" => {
                    // What is due is the answer to whoever stands at a boundary.
                    let boundary = format!("{path}/boundary");
                    let answer = bob.post(&boundary, json!({ "kind": mode })).await;
                    let due = only(&answer.expect(200));
                    check(&bob, &due, mode, carried).await;
                    settle(&bob, &due).await;
                    assert!(receiver.is_quiet());
                    continue;
                }
                "on-idle" => {
                    let event = json!({ "type": "status.changed", "status": "idle" });
                    report(&bob, &path, n - 1, event).await;
                }
                "manual" => {
                    let bob = bob.clone();
                    flushing = Some(tokio::spawn(async move { flush(&bob).await }));
                }
                _ => {}
            }
            let called = receiver.next().await;
            let due = called.json();
            check(&bob, &due, mode, carried).await;
            assert!(receiver.is_quiet());
            called.answer(200, &delivered(&due["context"]["id"]));
            // One call at a time: the next one comes when the answer is stored.
            stored(&bob, &due).await;
            if let Some(flushing) = flushing {
                soon("the flush", flushing).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn an_inbox_names_attachments_and_the_receipt_says_so() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let upload = Raw::new("POST", "/v1/attachments?name=a.log").body("text/plain", FILE);
    let stored = alice.ask(upload).await.expect(201);
    let attachments = json!([{ "attachmentId": stored["attachmentId"] }]);
    let body = json!({ "to": "@bob", "text": "look", "attachments": attachments });
    let sent = alice.post("/v1/messages", body).await.expect(201);
    bob.get("/v1/inbox?ack=true").await.expect(200);
    let id = sent["deliveries"][0]["deliveryId"].as_str().unwrap();
    let delivery = bob.get(&format!("/v1/deliveries/{id}")).await.expect(200);
    assert_eq!(delivery["state"], "delivered");
    let metadata = &delivery["receipts"][0]["receipt"]["metadata"];
    assert_eq!(metadata["door"], "inbox");
    assert_eq!(
        metadata["notSurfaced"][0]["attachmentId"],
        stored["attachmentId"]
    );
}
