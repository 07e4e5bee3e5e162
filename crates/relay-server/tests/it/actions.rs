//! Actions over the wire: handlers on sockets, callers on HTTP, and what listeners hear.

use serde_json::{Value, json};

use crate::support::{Client, Raw, Socket, World};

fn classify() -> Value {
    json!({
        "type": "registerAction",
        "name": "classify",
        "description": "labels a text",
        "inputSchema": {
            "type": "object",
            "properties": { "text": { "type": "string" } },
            "required": ["text"],
        },
    })
}

/// A socket that handles the action.
async fn handler(of: &Client) -> Socket {
    let mut socket = of.socket().await;
    let info = socket.done(classify()).await;
    assert_eq!(info["result"]["name"], "classify");
    socket
}

async fn invoke(caller: &Client, text: &str) -> Value {
    let input = json!({ "input": { "text": text } });
    let answer = caller.post("/v1/actions/classify/invoke", input).await;
    answer.expect(202)["invocationId"].clone()
}

fn result(id: &Value, output: Value) -> Value {
    json!({ "type": "invocationResult", "invocationId": id, "output": output })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_reaches_the_handler_and_its_end_every_listener() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut handler = handler(&bob).await;
    let mut owner = world.key.socket().await;
    let mut caller = alice.socket().await;
    let listen = json!({ "type": "subscribe", "id": "a", "pattern": "action.*" });
    owner.done(listen.clone()).await;
    caller.done(listen.clone()).await;
    // Whoever offers the action hears of its calls, and nobody else.
    let mut offering = bob.socket().await;
    offering.done(listen.clone()).await;
    let carol = world.agent("carol").await;
    let mut bystander = carol.socket().await;
    bystander.done(listen).await;

    let id = invoke(&alice, "hello").await;
    let call = handler.next("invoke").await;
    assert_eq!(call["invocationId"], id);
    assert_eq!(call["action"], "classify");
    assert_eq!(call["agent"]["name"], "alice");
    assert_eq!(call["input"], json!({ "text": "hello" }));
    let answered = handler.done(result(&id, json!({ "label": "spam" }))).await;
    assert_eq!(answered["result"]["state"], "completed");
    for listener in [&mut owner, &mut caller, &mut offering] {
        for expected in ["action.invoked", "action.completed"] {
            let frame = listener.next("event").await;
            assert_eq!(frame["event"]["type"], expected);
            assert_eq!(frame["event"]["invocationId"], id);
        }
    }
    let path = format!("/v1/invocations/{}", id.as_str().unwrap());
    let shown = alice.get(&path).await.expect(200);
    assert_eq!(shown["output"], json!({ "label": "spam" }));
    assert_eq!(
        bystander.ask(json!({ "type": "ping" })).await["type"],
        "pong"
    );
    assert_eq!(bystander.passed("event"), 0);
    // Said once more, as after a lost connection; and something else.
    handler.done(result(&id, json!({ "label": "spam" }))).await;
    let refused = handler.refused(result(&id, json!("other"))).await;
    assert_eq!(refused, "illegal_transition");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_hangs_up_leaves_its_calls_to_the_next() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut first = handler(&bob).await;
    let id = invoke(&alice, "x").await;
    first.next("invoke").await;
    drop(first);
    let mut second = handler(&bob).await;
    let again = second.next("invoke").await;
    assert_eq!(again["invocationId"], id);
    second
        .done(json!({ "type": "invocationResult", "invocationId": id, "error": "no" }))
        .await;
    let path = format!("/v1/invocations/{}", id.as_str().unwrap());
    let shown = bob.get(&path).await.expect(200);
    assert_eq!(
        (&shown["state"], &shown["offers"]),
        (&json!("failed"), &json!(2))
    );
    assert_eq!(shown["error"], "no");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registered_twice_over_a_connection_a_call_comes_once() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut handler = handler(&bob).await;
    handler.done(classify()).await;
    let listed = alice.get("/v1/actions").await.expect(200);
    assert_eq!(listed["items"][0]["handlers"], 1);
    assert_eq!(listed["items"][0]["owner"], "bob");
    let id = invoke(&alice, "x").await;
    handler.next("invoke").await;
    handler.done(result(&id, json!(null))).await;
    handler.ask(json!({ "type": "ping" })).await;
    assert_eq!(handler.passed("invoke"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_socket_a_call_is_answered_over_http() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut body = classify();
    body.as_object_mut().unwrap().remove("type");
    bob.post("/v1/actions", body).await.expect(201);
    let id = invoke(&alice, "x").await;
    let path = format!("/v1/invocations/{}", id.as_str().unwrap());
    let open = bob.get(&path).await.expect(200);
    assert_eq!(open["state"], "invoked");
    let done = json!({ "output": 1 });
    let ended = bob
        .post(&format!("{path}/complete"), done)
        .await
        .expect(200);
    assert_eq!(ended["state"], "completed");
    bob.delete("/v1/actions/classify").await;
    let gone = alice.post("/v1/actions/classify/invoke", json!({})).await;
    assert_eq!(gone.refused(404), "unknown_action");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_what_is_wrong() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut socket = handler(&bob).await;
    let bad = alice
        .post(
            "/v1/actions/classify/invoke",
            json!({ "input": { "text": 1 } }),
        )
        .await;
    assert_eq!(bad.refused(400), "invalid_request");
    assert_eq!(bad.json()["path"], "input.text");
    let mut nobody = classify();
    nobody["availableTo"] = json!([]);
    socket.done(nobody).await;
    let denied = alice
        .post(
            "/v1/actions/classify/invoke",
            json!({ "input": { "text": "x" } }),
        )
        .await;
    assert_eq!(denied.refused(403), "forbidden");
    let taken = alice.socket().await.refused(classify()).await;
    assert_eq!(taken, "name_taken");
    let mut remote = classify();
    remote["inputSchema"] = json!({ "$ref": "http://127.0.0.1:1/" });
    assert_eq!(socket.refused(remote).await, "invalid_request");
}

/// A call that is made through a session is one that the session has to be able to make.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_do_what_they_said_they_can() {
    let world = World::start().await;
    let bob = world.agent("bob").await;
    let mut socket = bob.socket().await;
    let session = socket.attach("bob").await;
    let refused = socket.ask(classify()).await;
    assert_eq!(refused["problem"]["code"], "capability_not_supported");
    assert_eq!(refused["problem"]["capability"], "actions.expose");
    drop(socket);
    let mut able = bob.socket().await;
    let mut attach = crate::support::attach("bob");
    attach["type"] = json!("attach");
    attach["capabilities"]["actions"] = json!({ "expose": true });
    able.ask(attach).await;
    able.done(classify()).await;

    let id = session.as_str().unwrap();
    for (path, capability) in [
        ("/v1/actions/classify/invoke", "actions.invoke"),
        ("/v1/actions", "actions.expose"),
    ] {
        let body = json!({ "name": "x", "inputSchema": true });
        let body = if path.ends_with("invoke") {
            json!({})
        } else {
            body
        };
        let through = Raw::new("POST", path)
            .header("relay-session", id)
            .body("application/json", body.to_string());
        let refused = bob.ask(through).await;
        assert_eq!(refused.refused(409), "capability_not_supported");
        assert_eq!(refused.json()["capability"], capability);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_outlive_the_server() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut first = handler(&bob).await;
    let id = invoke(&alice, "x").await;
    first.next("invoke").await;
    let world = world.restart(relay_server::Config::default()).await;
    let bob = world.with(bob.token.as_deref().unwrap());
    let mut again = handler(&bob).await;
    let call = again.next("invoke").await;
    assert_eq!(call["invocationId"], id);
    again.done(result(&id, json!(1))).await;
}

/// The header was read over, and a call that was repeated ran twice.
#[tokio::test]
async fn a_call_that_is_repeated_under_its_key_is_recorded_once() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut handler = handler(&bob).await;
    let call = |who: &Client, key: &str, text: &str| {
        let body = json!({ "input": { "text": text } }).to_string();
        let raw = Raw::new("POST", "/v1/actions/classify/invoke")
            .body("application/json", body)
            .header("idempotency-key", key);
        let who = who.clone();
        async move { who.ask(raw).await }
    };
    let first = call(&alice, "k", "once").await.expect(202)["invocationId"].clone();
    assert_eq!(handler.next("invoke").await["invocationId"], first);
    handler
        .done(result(&first, json!({ "label": "spam" })))
        .await;
    // Also after its end, and after the action was registered anew.
    let again = call(&alice, "k", "once").await.expect(202);
    assert_eq!(again["invocationId"], first);
    handler.done(classify()).await;
    let again = call(&alice, "k", "once").await.expect(202);
    assert_eq!(again["invocationId"], first);
    assert_eq!(handler.passed("invoke"), 0);

    let other = call(&alice, "k", "twice").await;
    assert_eq!(other.refused(409), "idempotency_conflict");
    let of_another = call(&world.key, "k", "once").await.expect(202);
    assert_ne!(of_another["invocationId"], first);
    assert_eq!(call(&alice, "", "x").await.refused(400), "invalid_request");
    // A refused call is not kept under its key.
    let unfit = Raw::new("POST", "/v1/actions/classify/invoke")
        .body("application/json", r#"{"input":{}}"#)
        .header("idempotency-key", "new");
    assert_eq!(alice.ask(unfit).await.status, 400);
    call(&alice, "new", "fits").await.expect(202);
}
