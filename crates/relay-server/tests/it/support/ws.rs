//! A client of the socket. It holds every frame against the API's description.

use std::collections::VecDeque;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::Request;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::{Client, schema, soon};

/// One socket.
pub(crate) struct Socket {
    pub(crate) stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// The server's first frame.
    pub(crate) welcome: Value,
    /// Frames that came while another one was waited for.
    passed: VecDeque<Value>,
    last_ref: u64,
}

/// How a socket ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With a code and a reason.
    Closed(u16, String),
    /// Without a word.
    CutOff,
}

impl Socket {
    /// The request of a handshake.
    pub(crate) fn request(client: &Client) -> Request<()> {
        let url = format!("ws://{}/v1/ws", client.address);
        let mut request = url.into_client_request().unwrap();
        if let Some(token) = &client.token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        request
    }

    /// Opens a socket and waits for its welcome.
    pub(crate) async fn open(client: &Client) -> Self {
        let mut socket = Self::connect(Self::request(client)).await.unwrap();
        socket.welcome = socket.frame().await;
        assert_eq!(socket.welcome["type"], "welcome");
        socket
    }

    /// Opens a socket.
    pub(crate) async fn connect(request: Request<()>) -> Result<Self, Error> {
        let (stream, _) = soon("the handshake", connect_async(request)).await?;
        Ok(Self {
            stream,
            welcome: Value::Null,
            passed: VecDeque::new(),
            last_ref: 0,
        })
    }

    /// Sends a frame.
    pub(crate) async fn say(&mut self, frame: Value) {
        self.say_text(&frame.to_string()).await;
    }

    pub(crate) async fn say_text(&mut self, text: &str) {
        self.stream.send(Message::text(text)).await.unwrap();
    }

    /// Sends a frame and waits for the answer to it.
    pub(crate) async fn ask(&mut self, mut frame: Value) -> Value {
        self.last_ref += 1;
        let reference = json!(self.last_ref);
        frame["ref"] = reference.clone();
        self.say(frame).await;
        self.find(|frame| frame["ref"] == reference).await
    }

    /// Sends a frame that has to be done.
    pub(crate) async fn done(&mut self, frame: Value) -> Value {
        let answer = self.ask(frame).await;
        assert_ne!(answer["type"], "error", "{answer}");
        answer
    }

    /// Sends a frame that has to be refused; the code of the refusal.
    pub(crate) async fn refused(&mut self, frame: Value) -> String {
        let answer = self.ask(frame).await;
        assert_eq!(answer["type"], "error", "{answer}");
        answer["problem"]["code"].as_str().unwrap().to_owned()
    }

    /// The next frame of a type.
    pub(crate) async fn next(&mut self, frame_type: &str) -> Value {
        self.find(|frame| frame["type"] == frame_type).await
    }

    /// The next frame that is as wanted; others are kept for later.
    pub(crate) async fn find(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.passed.iter().position(&wanted) {
            return self.passed.remove(at).unwrap();
        }
        loop {
            let frame = self.frame().await;
            if wanted(&frame) {
                return frame;
            }
            self.passed.push_back(frame);
        }
    }

    /// Frames that came and were not looked for.
    pub(crate) fn passed(&self, frame_type: &str) -> usize {
        let passed = self.passed.iter();
        passed.filter(|frame| frame["type"] == frame_type).count()
    }

    /// The next frame.
    async fn frame(&mut self) -> Value {
        match self.next_or_end().await {
            Ok(frame) => frame,
            Err(ended) => panic!("the socket ended: {ended:?}"),
        }
    }

    /// The next frame, or how the socket ended.
    pub(crate) async fn next_or_end(&mut self) -> Result<Value, Ended> {
        loop {
            let message = soon("a frame", self.stream.next()).await;
            match message {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    schema::check("ServerFrame", &frame, "socket");
                    return Ok(frame);
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    return Err(Ended::Closed(frame.code.into(), frame.reason.to_string()));
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Err(Ended::CutOff),
                Some(Ok(_)) => {}
            }
        }
    }

    /// Waits until the socket has ended.
    pub(crate) async fn end(&mut self) -> Ended {
        loop {
            if let Err(ended) = self.next_or_end().await {
                return ended;
            }
        }
    }

    /// Attaches an agent's session; its id.
    pub(crate) async fn attach(&mut self, agent: &str) -> Value {
        let mut frame = super::attach(agent);
        frame["type"] = json!("attach");
        self.done(frame).await["sessionId"].clone()
    }
}
