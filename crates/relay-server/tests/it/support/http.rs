//! A client that speaks HTTP by hand, so that it can also speak it wrongly.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Socket, schema, soon};

/// Somebody with or without a credential.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// A request that a test puts together by itself.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    fn has(&self, name: &str) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|found| found.eq_ignore_ascii_case(name))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What was asked, for whoever looks at a failure.
    asked: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter();
        let (_, value) = found.find(|(found, _)| found == name)?;
        Some(value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body of an answer that has this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.asked, self.text());
        self.json()
    }

    /// The code of a refusal that has this status.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16) -> String {
        let problem = self.expect(status);
        let is_problem = self.header("content-type") == Some("application/problem+json");
        // Chats have a form of their own; what the doors refuse comes as everywhere.
        let is_chat = self.asked.contains(" /chat") || self.asked.contains(" /models");
        assert!(
            is_problem || (is_chat && problem["error"].is_string()),
            "{problem}"
        );
        problem["code"].as_str().unwrap().to_owned()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: Option<String>) -> Self {
        Self { address, token }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Raw::new("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.json("POST", path, body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.json("PATCH", path, body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Raw::new("DELETE", path)).await
    }

    /// A request with a body, or without one if that is null.
    pub(crate) async fn json(&self, method: &str, path: &str, body: Value) -> Answer {
        let raw = Raw::new(method, path);
        self.ask(match body {
            Value::Null => raw,
            body => raw.body("application/json", body.to_string()),
        })
        .await
    }

    /// Sends a request and reads the whole answer, which has to be as the API's description says.
    pub(crate) async fn ask(&self, raw: Raw) -> Answer {
        let answer = soon(&raw.path.clone(), self.exchange(&raw)).await;
        schema::check_answer(&raw.method, &raw.path, &answer);
        answer
    }

    async fn exchange(&self, raw: &Raw) -> Answer {
        let mut stream = self.send(raw).await;
        let mut bytes = Vec::new();
        // A server that refuses early may cut off what it was not going to read.
        let _ = stream.read_to_end(&mut bytes).await;
        parse(&format!("{} {}", raw.method, raw.path), &bytes)
    }

    /// Sends a request and leaves the answer to the caller.
    pub(crate) async fn send(&self, raw: &Raw) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let _ = stream.write_all(&self.head(raw)).await;
        let _ = stream.write_all(&raw.body).await;
        stream
    }

    fn head(&self, raw: &Raw) -> Vec<u8> {
        let Raw { method, path, .. } = raw;
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let mut add = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\r\n"));
        if !raw.has("host") {
            add("host", &self.address.to_string());
        }
        if !raw.has("connection") {
            add("connection", "close");
        }
        if let Some(token) = self.token.as_ref().filter(|_| !raw.has("authorization")) {
            add("authorization", &format!("Bearer {token}"));
        }
        if !raw.body.is_empty() && !raw.has("content-length") {
            add("content-length", &raw.body.len().to_string());
        }
        for (name, value) in &raw.headers {
            add(name, value);
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// A socket that has been welcomed.
    pub(crate) async fn socket(&self) -> Socket {
        Socket::open(self).await
    }
}

/// Takes an answer apart.
pub(crate) fn parse(asked: &str, bytes: &[u8]) -> Answer {
    let end = find(bytes, b"\r\n\r\n").unwrap_or_else(|| panic!("{asked}: no answer: {bytes:?}"));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let chunked = headers
        .iter()
        .any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    Answer {
        status: status.parse().unwrap(),
        body: if chunked {
            dechunk(rest)
        } else {
            rest.to_vec()
        },
        headers,
        asked: asked.to_owned(),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The content of as many chunks as are whole.
pub(crate) fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = find(bytes, b"\r\n") {
        let length = std::str::from_utf8(&bytes[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let Some(chunk) = bytes.get(end + 2..end + 2 + length) else {
            break;
        };
        content.extend_from_slice(chunk);
        bytes = bytes.get(end + 4 + length..).unwrap_or_default();
    }
    content
}
