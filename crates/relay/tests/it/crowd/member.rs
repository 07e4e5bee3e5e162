//! One socket of the crowd, as lean as it can be: ten thousand of them live in one process.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::name;
use crate::support::soon;

/// Sends that are under way at a time: as many as the server works on.
const UNDER_WAY: usize = 256;

type Socket = WebSocketStream<TcpStream>;

/// What a member tells.
pub(crate) enum Told {
    /// A message came.
    Came {
        /// The member's number.
        to: usize,
        /// The message's number.
        number: usize,
    },
    /// A receipt was stored.
    Stored,
}

/// What a member needs to come in.
pub(crate) struct Ticket {
    pub(crate) number: usize,
    pub(crate) token: String,
    /// The session of before.
    pub(crate) resume: Option<String>,
}

/// A session on a socket of its own.
pub(crate) struct Member {
    socket: Socket,
    ticket: Ticket,
}

async fn open(address: SocketAddr, token: &str) -> Socket {
    let mut request = format!("ws://{address}/v1/ws")
        .into_client_request()
        .unwrap();
    let value = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", value);
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let config = WebSocketConfig::default()
        .read_buffer_size(1024)
        .write_buffer_size(0);
    let opening = client_async_with_config(request, stream, Some(config));
    let (mut socket, _) = soon("the handshake", opening).await.unwrap();
    assert_eq!(next(&mut socket).await.unwrap()["type"], "welcome");
    socket
}

/// The next frame; none when the socket has ended.
async fn next(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

async fn say(socket: &mut Socket, frame: Value) {
    let frame = Message::text(frame.to_string());
    socket.send(frame).await.unwrap();
}

impl Member {
    pub(crate) async fn attach(address: SocketAddr, mut ticket: Ticket) -> Self {
        let mut socket = open(address, &ticket.token).await;
        let attach = json!({
            "type": "attach", "agent": name(ticket.number), "harness": "crowd", "resume": ticket.resume,
            "capabilities": {
                "messaging": { "receive": true, "send": false, "attachments": ["text"] },
                "delivery": { "modes": ["immediate"] },
                "events": { "emits": [] },
                "lifecycle": { "release": true },
            },
        });
        say(&mut socket, attach).await;
        let attached = soon("the session", next(&mut socket)).await.unwrap();
        assert_eq!(attached["type"], "attached", "{attached}");
        ticket.resume = attached["resumeToken"].as_str().map(str::to_owned);
        Self { socket, ticket }
    }

    /// Answers what comes until it is time to go; then every other one says goodbye.
    pub(crate) async fn take_part(
        mut self,
        tell: &mpsc::UnboundedSender<Told>,
        mut home_time: watch::Receiver<bool>,
    ) -> Ticket {
        loop {
            let frame = tokio::select! {
                frame = next(&mut self.socket) => frame,
                _ = home_time.wait_for(|is_time| *is_time) => break,
            };
            let frame = frame.expect("the server ended a socket");
            match frame["type"].as_str() {
                Some("deliver") => self.answer(&frame, tell).await,
                Some("ok") => {
                    assert_eq!(frame["result"]["state"], "delivered", "{frame}");
                    tell.send(Told::Stored).unwrap();
                }
                _ => panic!("{frame}"),
            }
        }
        if self.ticket.number.is_multiple_of(2) {
            let _ = self.socket.close(None).await;
        }
        self.ticket
    }

    async fn answer(&mut self, deliver: &Value, tell: &mpsc::UnboundedSender<Told>) {
        let text = deliver["message"]["text"].as_str().unwrap();
        let came = Told::Came {
            to: self.ticket.number,
            number: text.parse().unwrap(),
        };
        tell.send(came).unwrap();
        let context = &deliver["context"];
        let receipt = json!({
            "type": "receipt", "ref": 1, "deliveryId": context["id"], "epoch": context["metadata"]["epoch"],
            "receipt": { "status": "delivered", "deliveryId": context["id"] },
        });
        say(&mut self.socket, receipt).await;
    }
}

/// Sends messages to all members in turn, many at a time.
pub(crate) async fn send(address: SocketAddr, key: String, members: usize, messages: usize) {
    let mut socket = open(address, &key).await;
    let (mut sent, mut answered) = (0, 0);
    while answered < messages {
        if sent < messages && sent - answered < UNDER_WAY {
            let to = format!("@{}", name(sent % members));
            let frame = json!({ "type": "send", "ref": sent, "to": to, "text": sent.to_string() });
            say(&mut socket, frame).await;
            sent += 1;
            continue;
        }
        let answer = soon("an answer", next(&mut socket)).await.unwrap();
        assert_eq!(answer["type"], "sent", "{answer}");
        assert_eq!(answer["ref"], answered);
        answered += 1;
    }
}
