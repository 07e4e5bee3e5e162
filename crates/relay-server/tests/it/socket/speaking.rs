//! Saying hello, sending, and what is answered to what is wrong.

use futures_util::{SinkExt as _, StreamExt as _};
use relay_server::Config;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::{Ended, Socket, World, soon};

#[tokio::test]
async fn the_first_frame_says_what_the_server_accepts() {
    let world = World::start().await;
    let socket = world.key.socket().await;
    let welcome = &socket.welcome;
    assert_eq!(
        (&welcome["protocol"], &welcome["limits"]["frameBytes"]),
        (&json!(1), &json!(1_048_576))
    );
    assert_eq!(welcome["limits"]["silenceMs"], 30_000);
    assert!(welcome["connectionId"].is_string() && welcome["serverTime"].is_string());
}

#[tokio::test]
async fn a_browser_says_hello_first() {
    let world = World::start().await;
    let nobody = world.nobody();
    let token = world.key.token.clone().unwrap();
    let mut socket = Socket::connect(Socket::request(&nobody)).await.unwrap();
    socket.say(json!({ "type": "hello", "token": token })).await;
    assert_eq!(socket.next("welcome").await["protocol"], 1);
    assert_eq!(socket.ask(json!({ "type": "ping" })).await["type"], "pong");
    let again = json!({ "type": "hello", "token": token });
    assert_eq!(socket.refused(again).await, "invalid_request");

    for first in [
        json!({ "type": "hello", "token": "rk_nonsense" }),
        json!({ "type": "hello", "token": world.admin.token }),
        json!({ "type": "ping" }),
        json!("x"),
    ] {
        let mut socket = Socket::connect(Socket::request(&nobody)).await.unwrap();
        socket.say(first).await;
        assert_eq!(
            socket.end().await,
            Ended::Closed(4003, "unauthorized".to_owned())
        );
    }
}

#[tokio::test]
async fn who_says_nothing_is_let_go() {
    let config = Config {
        hello_timeout: Duration::from_millis(5),
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let mut socket = Socket::connect(Socket::request(&world.nobody()))
        .await
        .unwrap();
    assert_eq!(
        socket.end().await,
        Ended::Closed(4003, "unauthorized".to_owned())
    );
}

#[tokio::test]
async fn many_sends_under_way_are_answered_in_order() {
    let world = World::start().await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    // More than are taken at a time.
    for number in 0..1_000 {
        let text = format!("message {number}");
        let frame = json!({ "type": "send", "ref": number, "to": "#general", "text": text });
        socket.say(frame).await;
        if number == 500 {
            socket
                .say(json!({ "type": "send", "ref": "bad", "to": "#nowhere", "text": "x" }))
                .await;
        }
    }
    let mut references = Vec::new();
    for _ in 0..=1_000 {
        let answer = socket.next_or_end().await.unwrap();
        match answer["ref"].as_u64() {
            Some(number) => {
                assert_eq!(answer["type"], "sent");
                assert_eq!(answer["message"]["text"], format!("message {number}"));
                references.push(number);
            }
            None => {
                assert_eq!(
                    (&answer["ref"], &answer["problem"]["code"]),
                    (&json!("bad"), &json!("unknown_channel"))
                );
                assert_eq!(references.last(), Some(&500));
            }
        }
    }
    assert_eq!(references, (0..1_000).collect::<Vec<_>>());
    // They were also stored in that order.
    let posts = alice
        .get("/v1/channels/general/messages?limit=2")
        .await
        .expect(200);
    let texts: Vec<&Value> = posts["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["message"]["text"])
        .collect();
    assert_eq!(texts, ["message 999", "message 998"]);
}

#[tokio::test]
async fn what_is_wrong_with_a_frame_is_named_and_ends_nothing() {
    let world = World::start().await;
    let mut socket = world.key.socket().await;
    let cases = [
        (json!({ "type": "sned" }), "invalid_request", Some("type")),
        (json!({ "typ": "send" }), "invalid_request", None),
        (
            json!({ "type": "send", "to": "#general" }),
            "invalid_request",
            None,
        ),
        (
            json!({ "type": "send", "to": "#general", "text": "x", "color": 1 }),
            "invalid_request",
            Some("color"),
        ),
        (
            json!({ "type": "subscribe", "id": "a" }),
            "bad_selector",
            None,
        ),
        (
            json!({ "type": "subscribe", "id": "a", "pattern": "nope" }),
            "unknown_event",
            None,
        ),
        (
            json!({ "type": "subscribe", "id": "", "pattern": "*" }),
            "invalid_request",
            Some("id"),
        ),
        (
            json!({ "type": "subscribe", "id": "a", "pattern": "*", "after": 99_999 }),
            "bad_cursor",
            None,
        ),
        (
            json!({ "type": "unsubscribe", "id": "a" }),
            "invalid_request",
            Some("id"),
        ),
        (
            json!({ "type": "registerAction", "name": "a", "description": "d", "inputSchema": { "type": "no" } }),
            "invalid_request",
            Some("inputSchema.type"),
        ),
        (
            json!({ "type": "invocationResult", "invocationId": "01963a5c-7893-7abc-8ef0-123456789abc" }),
            "unknown_invocation",
            None,
        ),
        (
            json!({ "type": "boundary", "sessionId": "01963a5c-7893-7abc-8ef0-123456789abc", "kind": "on-idle" }),
            "unknown_session",
            None,
        ),
        (
            json!({ "type": "event", "sessionId": "01963a5c-7893-7abc-8ef0-123456789abc", "n": 1, "event": { "type": "log", "level": "info", "message": "x" } }),
            "unknown_session",
            None,
        ),
        (
            json!({ "type": "controlResult", "controlId": "01963a5c-7893-7abc-8ef0-123456789abc", "ok": true }),
            "invalid_request",
            Some("controlId"),
        ),
    ];
    for (frame, code, path) in cases {
        let answer = socket.ask(frame.clone()).await;
        assert_eq!(answer["problem"]["code"], code, "{frame}: {answer}");
        assert_eq!(
            answer["problem"]["path"].as_str(),
            path,
            "{frame}: {answer}"
        );
    }
    for text in ["", "{", "[]", "17", "{\"type\":\"ping\"} x"] {
        socket.say_text(text).await;
        assert_eq!(
            socket.next("error").await["problem"]["code"],
            "invalid_request",
            "{text}"
        );
    }
    socket
        .stream
        .send(Message::binary(vec![1, 2, 3]))
        .await
        .unwrap();
    assert_eq!(
        socket.next("error").await["problem"]["code"],
        "invalid_request"
    );
    assert_eq!(socket.ask(json!({ "type": "ping" })).await["type"], "pong");
}

#[tokio::test]
async fn an_observer_only_listens() {
    let world = World::start().await;
    let mut socket = world.observer(json!({})).await.socket().await;
    let send = json!({ "type": "send", "to": "#general", "text": "x" });
    assert_eq!(socket.refused(send).await, "forbidden");
    let mut attach = crate::support::attach("alice");
    attach["type"] = json!("attach");
    assert_eq!(socket.refused(attach).await, "forbidden");
    socket
        .done(json!({ "type": "subscribe", "id": "a", "pattern": "*" }))
        .await;
}

/// The answer to a close frame was never written, so every client saw 1006.
#[tokio::test]
async fn a_close_of_the_client_is_answered_with_its_code() {
    let world = World::start().await;
    let mut socket = world.key.socket().await;
    let bye = CloseFrame {
        code: CloseCode::Normal,
        reason: "bye".into(),
    };
    socket.stream.close(Some(bye)).await.unwrap();
    assert_eq!(socket.end().await, Ended::Closed(1000, "bye".to_owned()));
    let rest = soon("the end", socket.stream.next()).await;
    assert!(rest.is_none(), "{rest:?}");

    // Also before anybody has said who it is.
    let request = Socket::request(&world.nobody());
    let mut socket = Socket::connect(request).await.unwrap();
    socket.stream.close(None).await.unwrap();
    let answered = soon("the answer", socket.stream.next()).await;
    assert!(
        matches!(answered, Some(Ok(Message::Close(None)))),
        "{answered:?}"
    );
    let rest = soon("the end", socket.stream.next()).await;
    assert!(rest.is_none(), "{rest:?}");
}

/// The connection was dropped together with the close frame, which a client then could miss.
#[tokio::test]
async fn a_close_of_the_server_waits_for_the_answer_of_the_client() {
    let mut world = World::start().await;
    let mut socket = world.key.socket().await;
    let stopped = world.stop();
    let gone = Ended::Closed(1001, "going_away".to_owned());
    assert_eq!(socket.end().await, gone);
    // To ask for more writes the answer; then both sides are done.
    let rest = soon("the end", socket.stream.next()).await;
    assert!(rest.is_none(), "{rest:?}");
    soon("the end of the server", stopped)
        .await
        .unwrap()
        .unwrap();
}
