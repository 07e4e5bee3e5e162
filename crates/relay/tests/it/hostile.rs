//! Clients that mean harm or are broken: whoever behaves does not notice, they are shown out, and the server's
//! memory stays within bounds.

mod bystanders;

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _, future::join_all};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use self::bystanders::Bystanders;
use crate::depth;
use crate::support::{Server, Setup, soon};

/// Most memory that an attack may cost, in KiB. What the store keeps at hand of large messages is most of it.
const ATTACK_KIB: u64 = 160 * 1024;

type Socket = WebSocketStream<TcpStream>;

async fn open(server: &Server, token: &str) -> Socket {
    let mut request = format!("ws://{}/v1/ws", server.address)
        .into_client_request()
        .unwrap();
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (socket, _) = soon("the handshake", client_async(request, stream))
        .await
        .unwrap();
    socket
}

async fn say(socket: &mut Socket, frame: serde_json::Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

/// Waits until the server has closed a connection, whatever it says before.
async fn closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let _ = soon("the end of a connection", stream.read_to_end(&mut rest)).await;
}

/// Runs an attack while others work, which have to get on meanwhile.
async fn withstand(setup: Setup, attack: impl AsyncFnOnce(&Server, &Bystanders)) {
    let mut setup = setup;
    let server = setup.start().await;
    server.unhurried().await;
    let bystanders = Bystanders::begin(&server).await;
    bystanders.get_on(20).await;
    let before = server.memory_kib();
    let watching = async {
        let mut most = before;
        loop {
            most = most.max(server.memory_kib());
            if most > before + ATTACK_KIB {
                return most;
            }
            // How often the memory is looked at decides nothing.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = attack(&server, &bystanders) => {}
        most = watching => panic!("memory grew from {before} to {most} KiB"),
    }
    println!("KiB: {before} before, {} after", server.memory_kib());
    bystanders.get_on(20).await;
    bystanders.end().await;
}

/// Waits until only the others' sockets are left.
async fn only_bystanders(server: &Server) {
    soon("the end of bad sockets", async {
        while server.metric("relay_sockets").await > bystanders::SOCKETS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_never_reads() {
    let setup = Setup::new()
        .with("RELAY_SERVER_PING_EVERY_S", "1")
        .with("RELAY_SERVER_SILENCE_S", "3");
    withstand(setup, async |server, bystanders| {
        let relay = server.relay();
        let deaf = relay.register("deaf").await.unwrap();
        let mut socket = open(server, deaf.token()).await;
        say(
            &mut socket,
            json!({ "type": "subscribe", "id": "all", "pattern": "*", "after": 0 }),
        )
        .await;
        let attach = json!({
            "type": "attach", "agent": "deaf", "harness": "none",
            "capabilities": {
                "messaging": { "receive": true, "send": true, "attachments": ["text"] },
                "delivery": { "modes": ["immediate"] },
                "events": { "emits": [] },
                "lifecycle": { "release": true },
            },
        });
        say(&mut socket, attach).await;
        // More than all buffers on the way hold, for its session and for its subscription.
        let text = "x".repeat(200_000);
        for number in 0..depth::rounds(80) {
            let sent = relay.send_message("@deaf", format!("{number} {text}"));
            sent.await.unwrap();
        }
        bystanders.get_on(50).await;
        only_bystanders(server).await;
        drop(socket);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ones_that_send_garbage() {
    withstand(Setup::new(), async |server, bystanders| {
        let garbage: [&[u8]; 5] = [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\0\0\0\0\0\0\0\0\r\n\r\n",
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: x\r\n\r\n",
            b"GET /v1/ws HTTP/9.9\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ];
        for _ in 0..depth::rounds(10) {
            let throw = garbage.map(|bytes| async move {
                let mut stream = TcpStream::connect(server.address).await.unwrap();
                let _ = stream.write_all(bytes).await;
                closed(stream).await;
            });
            join_all(throw).await;
            for bytes in [
                &b"\xff\xff\xff\xff"[..],
                b"\x81\x82\0\0\0\0\xff\xfe",
                b"GET /",
            ] {
                let socket = open(server, &server.key).await;
                let mut stream = socket.into_inner();
                let _ = stream.write_all(bytes).await;
                let _ = stream.shutdown().await;
                closed(stream).await;
            }
        }
        // What is well-formed and means nothing is refused, and the connection goes on.
        let mut socket = open(server, &server.key).await;
        for text in [
            "",
            "null",
            "[]",
            "{\"type\":\"nope\"}",
            "{\"type\":\"send\"}",
        ] {
            socket.send(Message::text(text)).await.unwrap();
        }
        say(&mut socket, json!({ "type": "ping", "ref": "last" })).await;
        let mut refused = 0;
        loop {
            match soon("an answer", socket.next()).await.unwrap().unwrap() {
                Message::Text(text) if text.contains("\"error\"") => refused += 1,
                Message::Text(text) if text.contains("\"pong\"") => break,
                _ => {}
            }
        }
        assert_eq!(refused, 5);
        drop(socket);
        only_bystanders(server).await;
        bystanders.get_on(20).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ones_that_come_and_go_in_a_loop() {
    withstand(Setup::new(), async |server, bystanders| {
        let key = &server.key;
        let head = format!(
            "GET /v1/ws HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\n",
            server.address
        );
        for _ in 0..depth::rounds(100) {
            drop(TcpStream::connect(server.address).await.unwrap());
            let mut half = TcpStream::connect(server.address).await.unwrap();
            half.write_all(head.as_bytes()).await.unwrap();
            drop(half);
            let mut socket = open(server, key).await;
            say(
                &mut socket,
                json!({ "type": "subscribe", "id": "all", "pattern": "*", "after": 0 }),
            )
            .await;
            drop(socket);
        }
        bystanders.get_on(20).await;
        only_bystanders(server).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ones_that_send_ten_megabytes_at_once() {
    withstand(Setup::new(), async |server, bystanders| {
        let frame = json!({ "type": "send", "to": "#general", "text": "x".repeat(10_000_000) });
        let frame = Message::text(frame.to_string());
        for _ in 0..depth::rounds(2) {
            let throwing = (0..10).map(|_| async {
                let mut socket = open(server, &server.key).await;
                // It may be cut off while it still sends.
                let _ = socket.send(frame.clone()).await;
                while let Some(Ok(message)) = soon("the end", socket.next()).await {
                    if let Message::Close(Some(close)) = message {
                        assert_eq!(u16::from(close.code), 1009);
                    }
                }
            });
            join_all(throwing).await;
        }
        let announced = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: 10000000\r\n\r\n",
            server.address, server.key
        );
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(announced.as_bytes()).await.unwrap();
        let mut answer = vec![0; 12];
        soon("the refusal", stream.read_exact(&mut answer))
            .await
            .unwrap();
        assert_eq!(answer, b"HTTP/1.1 413");
        only_bystanders(server).await;
        bystanders.get_on(20).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ones_that_are_slow_with_their_heads() {
    let setup = Setup::new().with("RELAY_SERVER_HEADER_TIMEOUT_S", "2");
    withstand(setup, async |server, bystanders| {
        let drips = (0..200).map(|_| drip(server.address));
        tokio::join!(join_all(drips), bystanders.get_on(50));
    })
    .await;
}

/// Sends a head that has no end, a little at a time, until nobody listens any more.
async fn drip(server: SocketAddr) {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let _ = stream.write_all(b"GET /v1/me HTTP/1.1\r\n").await;
    let (mut from, mut to) = stream.split();
    let dripping = async {
        let mut pause = tokio::time::interval(Duration::from_millis(100));
        while to.write_all(b"x: y\r\n").await.is_ok() {
            pause.tick().await;
        }
    };
    let mut rest = Vec::new();
    let ending = async {
        tokio::select! {
            _ = from.read_to_end(&mut rest) => {}
            () = dripping => {}
        }
    };
    soon("the end of a slow head", ending).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ones_that_take_all_places_and_say_nothing() {
    let setup = Setup::new()
        .with("RELAY_SERVER_CONNECTIONS", "100")
        .with("RELAY_SERVER_HEADER_TIMEOUT_S", "2");
    withstand(setup, async |server, bystanders| {
        // Whoever was there before goes on, and the places become free again.
        let knocking = (0..120).map(|_| async {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let mut said = Vec::new();
            let _ = soon("an end", stream.read_to_end(&mut said)).await;
            said.starts_with(b"HTTP/1.1 503")
        });
        let (refused, ()) = tokio::join!(join_all(knocking), bystanders.get_on(50));
        let refused = refused.into_iter().filter(|refused| *refused).count();
        assert!(refused >= 20, "{refused}");
        server.get("/health").await;
    })
    .await;
}
