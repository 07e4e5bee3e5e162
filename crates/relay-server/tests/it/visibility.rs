//! Who sees what of the log, through every door. The whole table is tested in relay-core.

use serde_json::{Value, json};

use crate::support::{Client, World, attach};

/// The names and texts of what somebody sees.
async fn seen(client: &Client, types: &str) -> Vec<String> {
    let path = format!("/v1/events?types={types}&limit=200");
    let page = client.get(&path).await.expect(200);
    page["items"].as_array().unwrap().iter().map(told).collect()
}

fn told(event: &Value) -> String {
    let text = event["message"]["text"].as_str();
    let text = text.or(event["agentName"].as_str()).unwrap_or_default();
    format!("{} {text}", event["type"].as_str().unwrap())
}

async fn send(client: &Client, to: Value, text: &str) {
    let body = json!({ "to": to, "text": text });
    client.post("/v1/messages", body).await.expect(201);
}

#[tokio::test]
async fn agents_see_their_channels_and_conversations() {
    let world = World::start().await;
    let (alice, bob, eve) = (
        world.agent("alice").await,
        world.agent("bob").await,
        world.agent("eve").await,
    );
    alice
        .post("/v1/channels", json!({ "name": "private" }))
        .await
        .expect(201);
    alice
        .post("/v1/channels/private/invite", json!({ "agents": ["bob"] }))
        .await
        .expect(200);
    send(&alice, json!("#general"), "to all").await;
    send(&alice, json!("#private"), "to few").await;
    send(&alice, json!("@bob"), "to bob").await;
    send(&alice, json!(["@bob", "@eve"]), "to both").await;
    send(&world.key, json!("@eve"), "notice").await;
    let messages = "message.created";
    let texts = |seen: Vec<String>| -> Vec<String> {
        seen.iter()
            .map(|it| it.split_once(' ').unwrap().1.to_owned())
            .collect()
    };
    assert_eq!(
        texts(seen(&world.key, messages).await),
        ["to all", "to few", "to bob", "to both", "notice"]
    );
    assert_eq!(
        texts(seen(&bob, messages).await),
        ["to all", "to few", "to bob", "to both"]
    );
    assert_eq!(
        texts(seen(&eve, messages).await),
        ["to all", "to both", "notice"]
    );
    // Deliveries of others are none of her business, nor are tokens.
    assert_eq!(seen(&eve, "delivery.created").await.len(), 3);
    assert_eq!(seen(&alice, "delivery.created").await.len(), 6);
    assert_eq!(seen(&eve, "token.*").await, Vec::<String>::new());
    assert_eq!(
        seen(&bob, "message.reacted,message.read").await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn coming_and_going_changes_what_a_listener_sees() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    alice
        .post("/v1/channels", json!({ "name": "ops" }))
        .await
        .expect(201);
    let mut socket = bob.socket().await;
    socket
        .done(json!({ "type": "subscribe", "id": "a", "pattern": "*" }))
        .await;
    send(&alice, json!("#ops"), "unheard").await;
    bob.post("/v1/channels/ops/join", json!({}))
        .await
        .expect(200);
    assert_eq!(
        socket.next("event").await["event"]["type"],
        "channel.member_joined"
    );
    send(&alice, json!("#ops"), "heard").await;
    let heard = socket.next("event").await;
    assert_eq!(told(&heard["event"]), "message.created heard");
    assert_eq!(
        socket.next("event").await["event"]["type"],
        "delivery.created"
    );
    bob.post("/v1/channels/ops/leave", json!({}))
        .await
        .expect(200);
    assert_eq!(
        socket.next("event").await["event"]["type"],
        "channel.member_left"
    );
    send(&alice, json!("#ops"), "unheard again").await;
    send(&alice, json!("#general"), "heard again").await;
    let heard = socket.next("event").await;
    assert_eq!(told(&heard["event"]), "message.created heard again");
}

#[tokio::test]
async fn sessions_are_private_and_observers_see_what_was_granted() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let mut session = alice.socket().await;
    let mut frame = attach("alice");
    frame["type"] = json!("attach");
    frame["capabilities"]["events"]["emits"] =
        json!(["status.changed", "tool.called", "terminal.output"]);
    let id = session.done(frame).await["sessionId"].clone();
    let reports = [
        json!({ "type": "tool.called", "tool": "bash", "input": { "command": "make it so" } }),
        json!({ "type": "terminal.output", "text": "made\n" }),
        json!({ "type": "status.changed", "status": "active" }),
    ];
    for (n, event) in (1..).zip(&reports) {
        session
            .done(json!({ "type": "event", "sessionId": id, "n": n, "event": event }))
            .await;
    }
    send(&alice, json!("#general"), "open").await;
    send(&alice, json!("@bob"), "closed").await;
    let all = world.observer(json!({})).await;
    let granted = world
        .observer(json!({ "grants": ["terminal", "transcript"] }))
        .await;
    let general = world
        .observer(json!({ "channels": ["gen*"], "grants": ["terminal"] }))
        .await;
    let statuses = world
        .observer(json!({ "events": ["agent.status.*"] }))
        .await;

    let types = "tool.*,terminal.*,agent.status.active,message.created";
    let private = [
        "tool.called ",
        "terminal.output ",
        "agent.status.active alice",
    ];
    let messages = ["message.created open", "message.created closed"];
    assert_eq!(
        seen(&world.key, types).await,
        [&private[..], &messages].concat()
    );
    assert_eq!(
        seen(&alice, types).await,
        [&private[..], &messages].concat()
    );
    assert_eq!(seen(&bob, types).await, [&private[2..], &messages].concat());
    assert_eq!(
        seen(&granted, types).await,
        [&private[..], &messages].concat()
    );
    assert_eq!(
        seen(&all, types).await,
        [&private[..1], &private[2..], &messages].concat()
    );
    assert_eq!(seen(&general, types).await, messages[..1]);
    assert_eq!(seen(&statuses, types).await, private[2..]);

    let trimmed = all.get("/v1/events?types=tool.called").await;
    assert!(!trimmed.text().contains("make it so") && trimmed.text().contains("bash"));
    let whole = granted.get("/v1/events?types=tool.called").await;
    assert!(whole.text().contains("make it so"));
}

#[tokio::test]
async fn limited_observers_read_nothing_else() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    world.agent("bob").await;
    alice
        .post("/v1/channels", json!({ "name": "ops" }))
        .await
        .expect(201);
    let path_of = |sent: Value| format!("/v1/messages/{}", sent["messageId"].as_str().unwrap());
    let mut paths = Vec::new();
    for to in ["#general", "#ops", "@bob"] {
        let body = json!({ "to": to, "text": "findme" });
        paths.push(path_of(alice.post("/v1/messages", body).await.expect(201)));
    }
    let general = world.observer(json!({ "channels": ["general"] })).await;
    general.get(&paths[0]).await.expect(200);
    general
        .get(&format!("{}/thread", paths[0]))
        .await
        .expect(200);
    general
        .get("/v1/channels/general/messages")
        .await
        .expect(200);
    general
        .get("/v1/search?q=findme&channel=general")
        .await
        .expect(200);
    let channels = general.get("/v1/channels").await.expect(200);
    assert_eq!(channels["items"].as_array().unwrap().len(), 1);
    for path in [
        &paths[1],
        &paths[2],
        &format!("{}/thread", paths[1]),
        &format!("{}/deliveries", paths[2]),
    ] {
        assert_eq!(
            general.get(path).await.refused(404),
            "unknown_message",
            "{path}"
        );
    }
    for path in [
        "/v1/channels/ops",
        "/v1/channels/ops/members",
        "/v1/channels/ops/messages",
        "/v1/search?q=findme",
        "/v1/search?q=findme&channel=ops",
        "/v1/agents",
        "/v1/sessions",
        "/v1/deliveries",
        "/v1/workspace/policy",
    ] {
        assert_eq!(general.get(path).await.refused(403), "forbidden", "{path}");
    }
    let events = world.observer(json!({ "events": ["message.*"] })).await;
    assert_eq!(
        events
            .get("/v1/channels/general/messages")
            .await
            .refused(403),
        "forbidden"
    );
    assert_eq!(events.get(&paths[0]).await.refused(404), "unknown_message");
    let all = world.observer(json!({})).await;
    for path in &paths {
        all.get(path).await.expect(200);
    }
}
