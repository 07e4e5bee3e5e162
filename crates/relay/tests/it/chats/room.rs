//! A server with chats, and clients of them that know nothing but HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::support::{Desk, Setup, soon};

/// The model that plays a script: the one that is built in, or the one in the user's message.
pub(super) const MODEL: &str = "scripted/demo";

/// A server whose tools work in a directory of their own.
pub(crate) struct Room {
    pub(crate) desk: Desk,
}

impl Room {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// The same with something in the environment of the server.
    pub(crate) async fn with(variables: &[(&str, &str)]) -> Self {
        Self::open(Self::setup(variables)).await
    }

    /// What its server is started with.
    pub(super) fn setup(variables: &[(&str, &str)]) -> Setup {
        let mut setup = Setup::new();
        let work = setup.file("work");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("notes.txt"), "milk\n").unwrap();
        setup = setup
            .with("RELAY_CHAT_DIRECTORY", work.to_str().unwrap())
            .with("PATH", &std::env::var("PATH").unwrap());
        for (name, value) in variables {
            setup = setup.with(name, value);
        }
        setup
    }

    pub(super) async fn open(mut setup: Setup) -> Self {
        let server = setup.start().await;
        Self {
            desk: Desk { setup, server },
        }
    }

    /// Whether a tool has left this file.
    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// A file of the directory that chats work in.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.desk.setup.file("work").join(name)
    }

    /// All events of a chat that is held, to its end.
    pub(crate) async fn events(&self, path: &str) -> Vec<Value> {
        let (status, stream) = self.owner().connect("GET", path, "").await;
        assert_eq!(status, 200);
        let session_id = String::new();
        Watching { stream, session_id }.rest().await
    }

    /// Who says that it is the owner.
    pub(super) fn owner(&self) -> Client {
        Client {
            address: self.desk.server.address,
            token: Some(self.desk.server.key.clone()),
        }
    }

    /// Who says nothing about itself.
    pub(super) fn stranger(&self) -> Client {
        Client {
            address: self.desk.server.address,
            token: None,
        }
    }
}

/// A client over plain sockets. It says HTTP/1.0, so that answers end with their connections.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) token: Option<String>,
}

/// A status, and a body as it came.
pub(super) type Answer = (u16, String);

impl Client {
    async fn connect(&self, method: &str, path: &str, body: &str) -> (u16, BufReader<TcpStream>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let token = self.token.as_ref();
        let token = token.map_or(String::new(), |it| {
            format!("authorization: Bearer {it}\r\n")
        });
        let head = format!(
            "{method} {path} HTTP/1.0\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{token}\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut status = None;
        loop {
            let mut line = String::new();
            soon(path, stream.read_line(&mut line)).await.unwrap();
            if line.trim_end().is_empty() {
                break;
            }
            status.get_or_insert_with(|| line.split(' ').nth(1).unwrap().parse().unwrap());
        }
        (status.unwrap(), stream)
    }

    pub(super) async fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let (status, mut stream) = self.connect(method, path, body).await;
        let mut body = String::new();
        soon(path, stream.read_to_string(&mut body)).await.unwrap();
        (status, body)
    }

    /// `POST /chat`, which has to succeed.
    pub(super) async fn begin(&self, body: &Value) -> Watching {
        let (status, stream) = self.connect("POST", "/chat", &body.to_string()).await;
        assert_eq!(status, 200, "{body}");
        let mut watching = Watching {
            stream,
            session_id: String::new(),
        };
        let connected = watching.until("connected").await;
        watching.session_id = text(&connected, "sessionId");
        watching
    }

    /// A chat with a model that says this.
    pub(super) async fn say(&self, words: &str) -> Watching {
        self.begin(&chat(words)).await
    }

    /// `POST /chat/relay/{relayId}`.
    pub(super) async fn resolve(&self, relay_id: &str, body: &Value) -> Answer {
        let path = format!("/chat/relay/{relay_id}");
        self.ask("POST", &path, &body.to_string()).await
    }
}

/// The body that begins a chat.
pub(super) fn chat(words: &str) -> Value {
    json!({ "model": MODEL, "messages": [{ "role": "user", "content": words }] })
}

/// The words that make the model call `bash` with each of these, and then say that it is done.
pub(super) fn calls(commands: &[&str]) -> String {
    let turn = |command: &&str| json!([{ "tool": "bash", "arguments": { "command": command } }]);
    let mut turns: Vec<Value> = commands.iter().map(turn).collect();
    turns.push(json!("Done."));
    format!("script:{}", Value::from(turns))
}

/// A chat as somebody sees it.
pub(super) struct Watching {
    stream: BufReader<TcpStream>,
    pub(super) session_id: String,
}

impl Watching {
    /// The next event; nothing at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            let read = soon("an event", self.stream.read_line(&mut line)).await;
            if read.unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The next event of this type.
    pub(super) async fn until(&mut self, kind: &str) -> Value {
        let mut seen = Vec::new();
        while let Some(event) = self.next().await {
            if event["type"] == kind {
                return event;
            }
            seen.push(event);
        }
        panic!("{kind} did not come: {seen:#?}");
    }

    /// All that comes, to the end.
    pub(super) async fn rest(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// A text in an event.
pub(super) fn text(event: &Value, field: &str) -> String {
    let found = event[field].as_str();
    found
        .unwrap_or_else(|| panic!("no {field}: {event}"))
        .to_owned()
}
