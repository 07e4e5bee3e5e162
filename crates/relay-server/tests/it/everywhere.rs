//! One event, seen by a listener in the process, over a socket, as a stream, by a webhook and in the log, is the same: for every
//! event that there is.

use std::collections::{BTreeMap, BTreeSet};

use relay_core::{Caller, Followed, Subscription};
use relay_protocol::event::{LoggedEvent, RelayEvent};
use relay_protocol::selector::Selector;
use serde_json::{Value, json};

use crate::events::Stream;
use crate::support::{
    Client, Receiver, Socket, World, attach, calls_this_machine, delivered, soon,
};

/// What a session tells of itself.
fn reports() -> Vec<Value> {
    let status = |status: &str| json!({ "type": "status.changed", "status": status });
    let chunk = json!({ "id": "c1", "at": "2026-11-16T00:00:00.000Z", "role": "agent", "content": "Hello, you.\n", "sequence": 1 });
    vec![
        status("active"),
        // A word may go on; what ends a turn ends it.
        json!({ "type": "transcript.chunk", "chunk": chunk }),
        status("idle"),
        status("blocked"),
        status("waiting"),
        status("offline"),
        json!({ "type": "tool.called", "tool": "bash", "input": { "command": "ls" } }),
        json!({ "type": "tool.output", "tool": "bash", "output": "README.md" }),
        json!({ "type": "tool.completed", "tool": "bash", "durationMs": 3 }),
        json!({ "type": "tool.failed", "tool": "bash", "error": "boom" }),
        json!({ "type": "file.changed", "path": "src/lib.rs", "operation": "update", "diff": "+a" }),
        json!({ "type": "command.started", "command": "cargo test", "cwd": "/work" }),
        json!({ "type": "command.completed", "command": "cargo test", "exitCode": 0 }),
        json!({ "type": "command.failed", "command": "cargo test", "error": "not found" }),
        json!({ "type": "terminal.output", "stream": "combined", "text": "$ \u{1b}[1mls\u{1b}[0m\n" }),
        json!({ "type": "terminal.screen", "text": "$ ls", "rows": 24, "cols": 80 }),
        json!({ "type": "usage.updated", "tokens": 1200, "costUsd": 0.1 }),
        json!({ "type": "log", "level": "warn", "message": "slow ⏳" }),
        json!({ "type": "error", "error": "boom", "code": "E1", "retryable": false }),
    ]
}

/// Somebody who acts, step by step, so that everything happens once at least.
struct Life {
    world: World,
    alice: Client,
    bob: Client,
}

impl Life {
    async fn lead(&self) {
        self.talk().await;
        self.attend().await;
        self.deliver().await;
        self.act().await;
        self.decide().await;
        self.keep_house().await;
    }

    async fn send(&self, body: Value) -> Value {
        self.alice.post("/v1/messages", body).await.expect(201)
    }

    async fn talk(&self) {
        let (alice, bob) = (&self.alice, &self.bob);
        let post = json!({ "to": "#general", "text": "hello @bob \u{202e}\u{1F680}", "metadata": { "n": 0.1 } });
        let sent = self.send(post).await;
        let at = |path: &str| format!("/v1/messages/{}{path}", sent["messageId"].as_str().unwrap());
        let edit = json!({ "text": "hello" });
        alice.patch(&at(""), edit).await.expect(200);
        let reply = json!({ "text": "yes" });
        bob.post(&at("/replies"), reply).await.expect(201);
        let react = json!({ "emoji": ":rocket:" });
        bob.post(&at("/reactions"), react).await.expect(200);
        bob.post(&at("/read"), json!({})).await.expect(204);
        self.send(json!({ "to": "@bob", "text": "you" })).await;
        self.send(json!({ "to": ["@bob", "@carol"], "text": "you two" }))
            .await;
        let made = json!({ "name": "ops", "topic": "t" });
        alice.post("/v1/channels", made).await.expect(201);
        let topic = json!({ "topic": "other" });
        alice.patch("/v1/channels/ops", topic).await.expect(200);
        let leave = alice.post("/v1/channels/ops/leave", json!({})).await;
        leave.expect(200);
    }

    /// Sessions: what they are and what they tell.
    async fn attend(&self) {
        let mut socket = self.alice.socket().await;
        let mut frame = attach("alice");
        frame["type"] = json!("attach");
        let sent = self.send(json!({ "to": "@bob", "text": "from me" })).await;
        let body = json!({ "to": "@alice", "text": "for you", "mode": "manual" });
        let received = self.bob.post("/v1/messages", body).await.expect(201);
        let mut reports = reports();
        for (name, message) in [("sent", sent), ("received", received)] {
            let message = &message["messageId"];
            let name = format!("message.{name}");
            reports.push(json!({ "type": name, "messageId": message }));
        }
        let names: Vec<Value> = reports.iter().map(|event| event["type"].clone()).collect();
        frame["capabilities"]["events"]["emits"] = json!(names);
        let attached = socket.done(frame.clone()).await;
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        for (event, n) in reports.into_iter().zip(1..) {
            let report = json!({ "type": "event", "sessionId": session, "n": n, "event": event });
            socket.done(report).await;
        }
        // It comes back over another connection, is forked, and let go.
        let mut socket = {
            let mut again = self.alice.socket().await;
            socket.ask(json!({ "type": "ping" })).await;
            frame["resume"] = attached["resumeToken"].clone();
            again.done(frame).await;
            again
        };
        let path = format!("/v1/sessions/{session}/fork");
        let alice = self.alice.clone();
        let forking = tokio::spawn(async move { alice.post(&path, json!({})).await });
        let control = socket.next("control").await;
        let done =
            json!({ "type": "controlResult", "controlId": control["controlId"], "ok": true });
        socket.done(done).await;
        forking.await.unwrap().expect(201);
        let alice = self.alice.clone();
        let path = format!("/v1/sessions/{session}/release");
        let releasing = tokio::spawn(async move { alice.post(&path, json!({})).await });
        let control = socket.next("control").await;
        let done =
            json!({ "type": "controlResult", "controlId": control["controlId"], "ok": true });
        socket.done(done).await;
        releasing.await.unwrap().expect(200);
    }

    /// Deliveries with every end.
    async fn deliver(&self) {
        let mut socket = self.bob.socket().await;
        socket.attach("bob").await;
        let now = relay_core::environment::Environment::system().clock.now();
        let later = now.plus_millis(60 * 60 * 1_000);
        let receipts = [
            json!({ "status": "accepted" }),
            json!({ "status": "delivered" }),
            json!({ "status": "deferred", "reason": "busy", "availableAt": later }),
            json!({ "status": "failed", "reason": "no", "retryable": false }),
        ];
        for mut receipt in receipts {
            self.send(json!({ "to": "@bob", "text": "take it" })).await;
            let id = self.offered(&mut socket).await;
            receipt["deliveryId"] = id.clone();
            self.receipt(&mut socket, &id, receipt.clone()).await;
            if receipt["status"] == "delivered" {
                let late = json!({ "status": "failed", "deliveryId": id, "reason": "after all", "retryable": false });
                self.receipt(&mut socket, &id, late).await;
            }
            if receipt["status"] == "deferred" {
                let path = format!("/v1/deliveries/{}/cancel", id.as_str().unwrap());
                self.alice.post(&path, json!({})).await.expect(200);
            }
        }
    }

    /// The next delivery; those of before are taken as well.
    async fn offered(&self, socket: &mut Socket) -> Value {
        loop {
            let frame = socket.next("deliver").await;
            let id = frame["context"]["id"].clone();
            if frame["message"]["text"] == "take it" {
                return id;
            }
            self.receipt(socket, &id, delivered(&id)).await;
        }
    }

    async fn receipt(&self, socket: &mut Socket, id: &Value, receipt: Value) {
        socket
            .done(json!({ "type": "receipt", "deliveryId": id, "receipt": receipt }))
            .await;
    }

    async fn act(&self) {
        let mut handler = self.bob.socket().await;
        let schema = json!({ "type": "object", "required": ["text"] });
        let action = json!({
            "type": "registerAction", "name": "classify", "description": "d", "inputSchema": schema,
            "availableTo": [{ "name": "alice" }], "notifyCaller": true,
        });
        handler.done(action).await;
        let path = "/v1/actions/classify/invoke";
        let good = json!({ "input": { "text": "x" } });
        let called = self.alice.post(path, good.clone()).await.expect(202);
        handler.next("invoke").await;
        let result = json!({ "type": "invocationResult", "invocationId": called["invocationId"], "output": { "label": 0.1 } });
        handler.done(result).await;
        let bad = json!({ "input": {} });
        assert!(self.alice.post(path, bad).await.status >= 400);
        assert!(self.bob.post(path, good).await.status >= 400);
        let removed = self.bob.delete("/v1/actions/classify").await;
        assert!(removed.status < 300);
    }

    /// Permissions with every end.
    async fn decide(&self) {
        let (alice, key) = (&self.alice, &self.world.key);
        let ask = async |command: &str, expires_in: u64| {
            let body = json!({ "tool": "bash", "params": { "command": command }, "expiresInMs": expires_in });
            let asked = alice.post("/v1/permissions", body).await.expect(201);
            let id = asked["permissionId"].as_str().unwrap().to_owned();
            let path = move |rest: &str| format!("/v1/permissions/{id}{rest}");
            (asked, path)
        };
        let (asked, at) = ask("ls é", 60_000).await;
        key.post(&at("/seen"), json!({})).await.expect(200);
        let always = json!({ "approved": true, "always": true, "scope": "agent" });
        let own = alice.post(&at("/resolve"), always.clone()).await;
        assert_eq!(own.refused(403), "forbidden");
        let decided = key.post(&at("/resolve"), always).await.expect(200);
        let start = json!({ "argsHash": asked["argsHash"] });
        alice.post(&at("/start"), start).await.expect(200);
        let end = json!({ "state": "failed", "error": "boom" });
        alice.post(&at("/finish"), end).await.expect(200);
        let grant = decided["outcome"]["grantId"].as_str().unwrap();
        key.delete(&format!("/v1/grants/{grant}")).await.expect(200);
        let (_, at) = ask("rm x", 60_000).await;
        alice.post(&at("/cancel"), json!({})).await.expect(200);
        let (_, at) = ask("rm x", 1).await;
        let expired = alice.get(&at("?wait=60")).await.expect(200);
        assert_eq!(expired["state"], "expired");
    }

    /// Credentials, policy, erasure, and the end of an agent.
    async fn keep_house(&self) {
        let key = &self.world.key;
        let observer = key.post("/v1/observer-tokens", json!({})).await.expect(201);
        let id = observer["observer"]["tokenId"].as_str().unwrap();
        let path = format!("/v1/observer-tokens/{id}");
        assert!(key.delete(&path).await.status < 300);
        let rotated = key.post("/v1/agents/carol/token", json!({})).await;
        rotated.expect(201);
        assert!(key.delete("/v1/agents/carol").await.status < 300);
        let name = json!({ "name": "renamed" });
        key.patch("/v1/workspace", name).await.expect(200);
        let sent = self
            .send(json!({ "to": "#general", "text": "leaked" }))
            .await;
        let log = key.get("/v1/events?types=message.created&limit=200").await;
        let log = log.expect(200);
        let events = log["items"].as_array().unwrap();
        let leaked = events
            .iter()
            .find(|event| event["message"]["id"] == sent["messageId"])
            .unwrap();
        let erase = json!({ "seqs": [leaked["seq"]], "reason": "leaked" });
        key.post("/v1/audit/erase", erase).await.expect(200);
    }
}

/// Events by their place.
type Seen = BTreeMap<u64, Value>;

fn keep(seen: &mut Seen, event: Value) -> bool {
    let is_last = event["type"] == "message.created" && event["message"]["text"] == LAST;
    let before = seen.insert(event["seq"].as_u64().unwrap(), event);
    assert_eq!(before, None, "an event came twice");
    is_last
}

/// What is said when everything has happened.
const LAST: &str = "that was all";

async fn in_process(mut listener: Subscription) -> Seen {
    let mut seen = Seen::new();
    loop {
        let Followed::Event(event) = soon("an event", listener.next()).await.unwrap() else {
            continue;
        };
        // What a listener is handed is the typed event, not its text.
        if keep(&mut seen, serde_json::to_value(&event.event).unwrap()) {
            return seen;
        }
    }
}

async fn over_a_socket(mut socket: Socket) -> Seen {
    let mut seen = Seen::new();
    while !keep(&mut seen, socket.next("event").await["event"].take()) {}
    seen
}

async fn as_a_stream(mut stream: Stream) -> Seen {
    let mut seen = Seen::new();
    while !keep(&mut seen, stream.event().await.1) {}
    seen
}

/// Calls come in any order, may come twice, and go on after the last event that is looked at.
async fn by_webhook(mut receiver: Receiver, wanted: &Seen) -> Seen {
    let mut seen = Seen::new();
    while wanted.keys().any(|seq| !seen.contains_key(seq)) {
        let called = receiver.next().await;
        let event = called.json();
        assert_eq!(called.headers["webhook-id"], event["id"].as_str().unwrap());
        called.answer(200, &Value::Null);
        seen.insert(event["seq"].as_u64().unwrap(), event);
    }
    seen
}

async fn in_the_log(key: &Client) -> Seen {
    let mut seen = Seen::new();
    let mut after = 0;
    loop {
        let path = format!("/v1/events?after={after}&limit=200");
        let page = key.get(&path).await.expect(200);
        let events = page["items"].as_array().unwrap().clone();
        let Some(last) = events.last() else {
            return seen;
        };
        after = last["seq"].as_u64().unwrap();
        for event in events {
            keep(&mut seen, event);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_the_same_everywhere() {
    let world = World::start_with(calls_this_machine()).await;
    let mut gone = Receiver::start().await;
    let receiver = Receiver::start().await;
    let subscribe = |url: &str, events: &[&str]| json!({ "url": url, "events": events });
    let key = world.key.clone();
    let hook = subscribe(&receiver.url, &["*"]);
    key.post("/v1/webhooks", hook).await.expect(201);
    let hook = subscribe(&gone.url, &["channel.updated"]);
    key.post("/v1/webhooks", hook).await.expect(201);
    let dying = tokio::spawn(async move { gone.next().await.answer(410, &Value::Null) });

    let caller = world.engine.authenticate(key.token.as_deref().unwrap());
    let caller: Caller = caller.await.unwrap();
    let everything = Selector::parse("*").unwrap();
    let listener = world.engine.subscribe(&caller, everything, None).await;
    let listener = tokio::spawn(in_process(listener.unwrap()));
    let mut socket = key.socket().await;
    let all = json!({ "type": "subscribe", "id": "all", "pattern": "*" });
    socket.done(all).await;
    let socket = tokio::spawn(over_a_socket(socket));
    let stream = Stream::open(&key, "/v1/events/stream", None).await;
    let stream = tokio::spawn(as_a_stream(stream));

    let alice = world.agent("alice").await;
    let bob = world.agent("bob").await;
    world.agent("carol").await;
    let life = Life { world, alice, bob };
    life.lead().await;
    dying.await.unwrap();
    let disabled = async {
        loop {
            let log = in_the_log(&key).await;
            if log
                .values()
                .any(|event| event["type"] == "webhook.disabled")
            {
                return;
            }
        }
    };
    soon("the end of a webhook", disabled).await;
    life.send(json!({ "to": "#general", "text": LAST })).await;

    let listener = listener.await.unwrap();
    let log = in_the_log(&key).await;
    // What was erased is erased for those who look later, and was seen by those who looked before.
    let log = unless_erased(&log, &listener);
    assert_same("over a socket", &socket.await.unwrap(), &log, &listener);
    assert_same("as a stream", &stream.await.unwrap(), &log, &listener);
    let names: BTreeSet<&str> = listener
        .values()
        .map(|e| e["type"].as_str().unwrap())
        .collect();
    let missing: Vec<&str> = RelayEvent::TAGS
        .iter()
        .copied()
        .filter(|name| !names.contains(name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
    let wanted: Seen = listener
        .iter()
        .filter(|(_, event)| !event["type"].as_str().unwrap().starts_with("webhook."))
        .map(|(seq, event)| (*seq, event.clone()))
        .collect();
    let called = by_webhook(receiver, &wanted).await;
    let called = unless_erased(&called, &wanted);
    for (seq, event) in &wanted {
        assert_eq!(called.get(seq), Some(event), "by webhook, place {seq}");
    }
    for event in listener.values() {
        let typed: LoggedEvent = serde_json::from_value(event.clone()).unwrap();
        assert_eq!(serde_json::to_value(&typed).unwrap(), *event);
    }
}

/// The log as it was before something was erased from it.
fn unless_erased(log: &Seen, before: &Seen) -> Seen {
    log.iter()
        .map(|(seq, event)| match event["erased"] == true {
            true => (*seq, before[seq].clone()),
            false => (*seq, event.clone()),
        })
        .collect()
}

fn assert_same(where_seen: &str, seen: &Seen, log: &Seen, listener: &Seen) {
    for (seq, event) in listener {
        assert_eq!(seen.get(seq), Some(event), "{where_seen}, place {seq}");
        assert_eq!(log.get(seq), Some(event), "the log, place {seq}");
    }
    assert_eq!(seen.len(), listener.len(), "{where_seen}");
}
