//! Limits: how often, how much, how many.

use relay_server::{Config, Rate};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Raw, Socket, World, soon};

#[tokio::test]
async fn a_token_that_asks_too_often_is_told_when_to_come_back() {
    let config = Config {
        per_token: Rate {
            per_second: 0,
            at_once: 5,
        },
        ..Config::default()
    };
    let world = World::start_with(config).await;
    for _ in 0..5 {
        world.key.get("/v1/me").await.expect(200);
    }
    let refused = world.key.get("/v1/me").await;
    assert_eq!(refused.refused(429), "rate_limited");
    assert_eq!(
        (
            refused.json()["retryable"].as_bool(),
            refused.header("retry-after")
        ),
        (Some(true), Some("1"))
    );
    // Others are not concerned.
    world.admin.get("/v1/me").await.expect(200);
    let metrics = world.nobody().get("/metrics").await;
    assert!(metrics.text().contains("relay_rate_limited_total 1\n"));
}

#[tokio::test]
async fn who_tries_tokens_is_slowed_down_and_nobody_else() {
    let config = Config {
        failed_authentications: Rate {
            per_second: 0,
            at_once: 3,
        },
        ..Config::default()
    };
    let world = World::start_with(config).await;
    world.key.get("/v1/me").await.expect(200);
    let guess = world.with("at_guess");
    for _ in 0..3 {
        assert_eq!(guess.get("/v1/me").await.refused(401), "unauthorized");
    }
    assert_eq!(guess.get("/v1/me").await.refused(429), "rate_limited");
    assert!(Socket::connect(Socket::request(&guess)).await.is_err());
    // From the same address, but known.
    world.key.get("/v1/me").await.expect(200);
    // Never seen before: it has to wait like all the others from there.
    assert_eq!(world.admin.get("/v1/me").await.refused(429), "rate_limited");
}

#[tokio::test]
async fn there_is_place_for_so_many_connections() {
    let config = Config {
        connections: 3,
        ..Config::default()
    };
    let world = World::start_with(config).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(world.key.socket().await);
    }
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let mut answer = String::new();
    soon("the refusal", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("\"code\":\"overloaded\""), "{answer}");
    drop(sockets.pop());
    loop {
        // The place is free once the server has noticed.
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let head = format!(
            "GET /health HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            world.address
        );
        let _ = stream.write_all(head.as_bytes()).await;
        let mut answer = String::new();
        let _ = soon("an answer", stream.read_to_string(&mut answer)).await;
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
    }
}

#[tokio::test]
async fn a_body_has_a_limit_however_it_comes() {
    let world = World::start().await;
    let most = 1024 * 1024;
    let announced = Raw::new("POST", "/v1/messages").body("application/json", vec![b' '; most + 1]);
    assert_eq!(
        world.key.ask(announced).await.refused(413),
        "body_too_large"
    );
    let mut chunked = Raw::new("POST", "/v1/messages")
        .header("content-type", "application/json")
        .header("content-length-not", "known")
        .header("transfer-encoding", "chunked");
    let client = world.key.clone();
    let chunk = format!("{:x}\r\n{}\r\n", 65_536, " ".repeat(65_536));
    chunked.body = Vec::new();
    let mut stream = client.send(&chunked).await;
    for _ in 0..20 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = soon("the refusal", stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // Spaces up to the limit are only not JSON.
    let exact = Raw::new("POST", "/v1/messages").body("application/json", vec![b' '; most]);
    assert_eq!(world.key.ask(exact).await.refused(400), "invalid_request");
}

#[tokio::test]
async fn subscriptions_have_a_limit() {
    let world = World::start().await;
    let mut socket = world.key.socket().await;
    for number in 0..256 {
        let frame =
            json!({ "type": "subscribe", "id": number.to_string(), "pattern": "webhook.*" });
        socket.done(frame).await;
    }
    let more = json!({ "type": "subscribe", "id": "more", "pattern": "webhook.*" });
    assert_eq!(socket.refused(more).await, "limit_exceeded");
}

#[tokio::test]
async fn names_of_subscriptions_have_a_limit() {
    let world = World::start().await;
    let mut socket = world.key.socket().await;
    let named = |name: &str| json!({ "type": "subscribe", "id": name, "pattern": "webhook.*" });
    socket.done(named(&"ü".repeat(200))).await;
    let refused = socket.refused(named(&"ü".repeat(201))).await;
    assert_eq!(refused, "invalid_request");
    assert_eq!(socket.refused(named("")).await, "invalid_request");
}
