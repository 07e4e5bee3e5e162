//! HTTP/1.1 over one connection that is kept, one request at a time.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Incoming;

/// A connection, and who speaks on it.
pub(crate) struct Http {
    stream: TcpStream,
    incoming: Incoming,
    outgoing: Vec<u8>,
    token: String,
    /// Further headers, as lines.
    headers: String,
    /// The head of the last answer.
    last_head: String,
}

/// What a request was answered.
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
}

impl Http {
    pub(crate) async fn connect(server: SocketAddr, token: &str) -> Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            incoming: Incoming::default(),
            outgoing: Vec::new(),
            token: token.to_owned(),
            headers: String::new(),
            last_head: String::new(),
        })
    }

    /// Sends one more header from now on.
    pub(crate) fn add_header(&mut self, name: &str, value: &str) {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
    }

    /// A header of the last answer.
    pub(crate) fn header_of_last(&self, name: &str) -> Option<String> {
        header(self.last_head.split("\r\n"), name).map(str::to_owned)
    }

    /// Asks, and waits for the whole answer.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<Answer<'_>> {
        use std::io::Write as _;
        self.outgoing.clear();
        write!(
            self.outgoing,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             {}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            self.headers,
            body.len()
        )?;
        self.stream.write_all(&self.outgoing).await?;
        let head = loop {
            if let Some(head) = Head::read(self.incoming.waiting())? {
                break head;
            }
            self.incoming.read(&mut self.stream).await?;
        };
        if !self.headers.is_empty() {
            let head = &self.incoming.waiting()[..head.bytes];
            self.last_head = String::from_utf8_lossy(head).into_owned();
        }
        let length = match head.length {
            Length::Known(length) => length,
            Length::Chunked => self.chunked(head.bytes).await?,
        };
        let whole = head.bytes + length;
        while self.incoming.waiting().len() < whole {
            self.incoming.read(&mut self.stream).await?;
        }
        self.incoming.take(whole);
        Ok(Answer {
            status: head.status,
            body: self.incoming.last(length),
        })
    }

    /// Waits for the last chunk of a body; how long the body is, with what stands between the chunks.
    async fn chunked(&mut self, head: usize) -> Result<usize> {
        let mut seen = head;
        loop {
            let waiting = self.incoming.waiting();
            if let Some(end) = memchr::memmem::find(&waiting[seen..], LAST_CHUNK) {
                return Ok(seen + end + LAST_CHUNK.len() - head);
            }
            seen = waiting.len().saturating_sub(LAST_CHUNK.len()).max(head);
            self.incoming.read(&mut self.stream).await?;
        }
    }

    /// Asks for something that has to be done, and reads the answer as JSON.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let answer = self.ask(method, path, &body).await?;
        if !(200..300).contains(&answer.status) {
            let said = String::from_utf8_lossy(answer.body);
            bail!("{method} {path} was answered {}: {said}", answer.status);
        }
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_slice(answer.body)?)
    }
}

/// How a body in chunks ends.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// How long a request is with its body, if all of it is there.
pub(crate) fn request_bytes(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..end]).context("a head that is not text")?;
    let length = header(text.split("\r\n"), "content-length");
    let length: usize = length.and_then(|it| it.parse().ok()).unwrap_or(0);
    let whole = end + 4 + length;
    Ok((bytes.len() >= whole).then_some(whole))
}

/// What the head of an answer says.
#[derive(Debug, PartialEq)]
struct Head {
    bytes: usize,
    status: u16,
    length: Length,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    Known(usize),
    Chunked,
}

/// A header among lines.
fn header<'a>(mut lines: impl Iterator<Item = &'a str>, wanted: &str) -> Option<&'a str> {
    lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then(|| value.trim())
    })
}

impl Head {
    /// Reads a head if all of it is there.
    fn read(bytes: &[u8]) -> Result<Option<Self>> {
        let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes[..end]).context("a head that is not text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap_or_default().split(' ').nth(1);
        let status = status.and_then(|status| status.parse().ok());
        let length = header(lines.clone(), "content-length").and_then(|it| it.parse().ok());
        let length = match header(lines, "transfer-encoding") {
            Some("chunked") => Length::Chunked,
            _ => Length::Known(length.unwrap_or(0)),
        };
        Ok(Some(Self {
            bytes: end + 4,
            status: status.context("an answer without a status")?,
            length,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_once_they_are_whole() {
        let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\ndate: x\r\n\r\n{";
        for end in 0..answer.len() - 1 {
            assert_eq!(Head::read(&answer[..end]).unwrap(), None, "{end}");
        }
        let head = Head::read(answer).unwrap().unwrap();
        let expected = Head {
            bytes: answer.len() - 1,
            status: 201,
            length: Length::Known(12),
        };
        assert_eq!(head, expected);
        let empty = Head::read(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        assert_eq!(empty.unwrap().length, Length::Known(0));
        let chunked = Head::read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        assert_eq!(chunked.unwrap().unwrap().length, Length::Chunked);
        assert!(Head::read(b"hello\r\n\r\n").is_err());
    }
}
