//! The least that reads a stream of events: it looks for lines of data and, in them, for the text. It understands no JSON and trusts the
//! server. Every event is a chunk of its own, so what stands between chunks is a line that is no data.

use std::net::SocketAddr;
use std::time::{Duration, UNIX_EPOCH};

use memchr::{memchr, memmem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What is read from the network at a time.
const READ_BYTES: usize = 4 * 1024;

/// One connection, for one request.
pub(crate) struct Reader {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Bytes that were handed on.
    taken: usize,
    /// Bytes in which there is no further line end.
    searched: usize,
}

impl Reader {
    pub(crate) async fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            bytes: Vec::with_capacity(READ_BYTES),
            taken: 0,
            searched: 0,
        }
    }

    /// Asks.
    pub(crate) async fn post(&mut self, path: &str, token: &str, body: &str) {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    /// Waits until something is there that was not handed on; false at the end.
    pub(crate) async fn more(&mut self) -> bool {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.bytes.reserve(READ_BYTES);
        self.stream.read_buf(&mut self.bytes).await.unwrap() > 0
    }

    /// The next data; nothing at the end.
    pub(crate) async fn data(&mut self) -> Option<&[u8]> {
        loop {
            let Some(at) = memchr(b'\n', &self.bytes[self.searched..]) else {
                self.searched = self.bytes.len();
                if !self.more().await {
                    return None;
                }
                continue;
            };
            let (begin, end) = (self.taken, self.searched + at);
            (self.taken, self.searched) = (end + 1, end + 1);
            let line = &self.bytes[begin..end];
            let is_refused = line.starts_with(b"HTTP/1.1 ") && !line.starts_with(b"HTTP/1.1 200");
            assert!(!is_refused, "{}", String::from_utf8_lossy(&self.bytes));
            if line.starts_with(DATA) {
                return Some(&self.bytes[begin + DATA.len()..end]);
            }
        }
    }

    /// How old the next time is that is told; nothing at the end.
    pub(crate) async fn age(&mut self) -> Option<Duration> {
        loop {
            if let Some(told) = time_in(self.data().await?) {
                return Some(UNIX_EPOCH.elapsed().unwrap().saturating_sub(told));
            }
        }
    }

    /// Reads on to the data that has this in it.
    pub(crate) async fn until(&mut self, what: &str) -> String {
        while let Some(data) = self.data().await {
            if memmem::find(data, what.as_bytes()).is_some() {
                return String::from_utf8_lossy(data).into_owned();
            }
        }
        panic!("the stream ended without {what}");
    }

    /// Reads on to the end.
    pub(crate) async fn until_the_end(mut self) {
        while self.data().await.is_some() {}
    }
}

const DATA: &[u8] = b"data: ";

/// What stands before a text, in Relay's events and in those of Chat Completions.
const CONTENT: &[u8] = b"\"content\":\"";

/// The time that an event tells.
fn time_in(data: &[u8]) -> Option<Duration> {
    let text = &data[memmem::find(data, CONTENT)? + CONTENT.len()..];
    let text = &text[..memchr(b'"', text)?];
    let nanos = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
