//! Clients that send garbage, too much, nothing, or never read: others don't notice.

use std::time::Duration;

use futures_util::SinkExt as _;
use relay_server::Config;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::MaybeTlsStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Ended, Raw, Socket, World, soon};

/// Shows that somebody else is served as before.
async fn is_well(world: &World, other: &mut Socket) {
    assert_eq!(other.ask(json!({ "type": "ping" })).await["type"], "pong");
    world.key.get("/v1/me").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_of_ten_megabytes_ends_its_connection_only() {
    let world = World::start().await;
    let mut other = world.key.socket().await;
    let mut socket = world.key.socket().await;
    let frame = json!({ "type": "send", "to": "#general", "text": "x".repeat(10_000_000) });
    let _ = socket.stream.send(Message::text(frame.to_string())).await;
    let ended = socket.end().await;
    let said = Ended::Closed(1009, "frame_too_large".to_owned());
    // A client that still sends may find the connection cut before it reads why.
    assert!(ended == said || ended == Ended::CutOff, "{ended:?}");
    is_well(&world, &mut other).await;
    // One of exactly the limit is read.
    let mut socket = world.key.socket().await;
    let mut frame = json!({ "type": "ping", "ref": "" });
    let rest = 1_048_576 - frame.to_string().len();
    frame["ref"] = json!("r".repeat(rest));
    assert_eq!(frame.to_string().len(), 1_048_576);
    socket.say(frame).await;
    assert_eq!(
        socket.next("pong").await["ref"].as_str().unwrap().len(),
        rest
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_wire_ends_its_connection_only() {
    let world = World::start().await;
    let mut other = world.key.socket().await;
    for garbage in [
        &b"\xff\xff\xff\xff\xff\xff"[..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x81, 0x05, b'a'],
    ] {
        let mut socket = world.key.socket().await;
        let MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else {
            panic!("no network");
        };
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        socket.end().await;
    }
    // Text that is none.
    let mut socket = world.key.socket().await;
    let MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else {
        panic!("no network");
    };
    stream
        .write_all(&[0x81, 0x82, 0, 0, 0, 0, 0xff, 0xfe])
        .await
        .unwrap();
    assert_eq!(
        socket.end().await,
        Ended::Closed(1007, "not_utf8".to_owned())
    );
    is_well(&world, &mut other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_come_and_go_leave_nothing() {
    let world = World::start().await;
    let mut other = world.key.socket().await;
    for round in 0..200 {
        let socket = world.key.socket().await;
        if round % 2 == 0 {
            drop(socket);
        } else {
            let mut socket = socket;
            let _ = socket.stream.close(None).await;
        }
    }
    is_well(&world, &mut other).await;
    loop {
        let metrics = world.nobody().get("/metrics").await;
        if metrics.text().contains("relay_sockets 1\n") {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_silent_counts_as_dead() {
    let config = Config {
        ping_every: Duration::from_millis(200),
        silence: Duration::from_secs(2),
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let alice = world.agent("alice").await;
    let mut watcher = world.key.socket().await;
    watcher
        .done(json!({ "type": "subscribe", "id": "s", "pattern": "session.*" }))
        .await;
    // It never reads, so it never answers a ping.
    let mut dead = alice.socket().await;
    dead.attach("alice").await;
    let mut session = "websocket".to_owned();
    while session == "websocket" {
        // Whoever does read answers pings by that.
        let found = watcher.ask(json!({ "type": "ping" })).await;
        assert_eq!(found["type"], "pong");
        let metrics = world.nobody().get("/metrics").await;
        if metrics.text().contains("relay_sockets 1\n") {
            session.clear();
        }
    }
    drop(dead);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_sends_and_never_reads_is_not_read_for_ever() {
    let config = Config {
        silence: Duration::from_secs(2),
        ping_every: Duration::from_millis(200),
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let alice = world.agent("alice").await;
    let mut socket = alice.socket().await;
    let text = "x".repeat(200_000);
    // Its answers fill what waits for it, then it is read no more, then it counts as dead.
    let sending = async {
        let frame = json!({ "type": "send", "to": "#general", "text": text }).to_string();
        while socket
            .stream
            .send(Message::text(frame.clone()))
            .await
            .is_ok()
        {}
    };
    soon("the end", sending).await;
    let mut other = world.key.socket().await;
    is_well(&world, &mut other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_heads_and_slow_bodies_are_let_go() {
    let config = Config {
        header_timeout: Duration::from_millis(50),
        body_timeout: Duration::from_millis(50),
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let mut other = world.key.socket().await;
    let slow = Raw::new("GET", "/v1/me").header("x-never", "ends");
    let mut stream = tokio::net::TcpStream::connect(world.address).await.unwrap();
    stream
        .write_all(b"GET /v1/me HTTP/1.1\r\nhost: loc")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest);
    let _ = soon("the end of a slow head", read).await;
    world.key.ask(slow).await.expect(200);
    let body = Raw::new("POST", "/v1/messages")
        .header("content-type", "application/json")
        .header("content-length", "100");
    let refused = world.key.ask(body).await;
    assert_eq!(refused.refused(408), "request_timeout");
    is_well(&world, &mut other).await;
}
