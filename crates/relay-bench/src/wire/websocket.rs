//! The client's side of a WebSocket: text frames out and in, pings answered while something is awaited.
//!
//! Frames go out with a mask of zeros, which the protocol allows and which leaves the bytes as they are.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Incoming;

/// One connection.
pub(crate) struct WebSocket {
    stream: TcpStream,
    incoming: Incoming,
    outgoing: Vec<u8>,
}

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

impl WebSocket {
    /// Connects, with a token if there is one to show.
    pub(crate) async fn connect(server: SocketAddr, path: &str, token: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut incoming = Incoming::default();
        let end = loop {
            if let Some(end) = memchr::memmem::find(incoming.waiting(), b"\r\n\r\n") {
                break end + 4;
            }
            incoming.read(&mut stream).await?;
        };
        if !incoming.waiting().starts_with(b"HTTP/1.1 101 ") {
            let said = String::from_utf8_lossy(incoming.waiting()).into_owned();
            bail!("no socket was opened: {said}");
        }
        incoming.take(end);
        Ok(Self {
            stream,
            incoming,
            outgoing: Vec::new(),
        })
    }

    /// Puts a text frame to those that are written next.
    pub(crate) fn queue(&mut self, text: &str) {
        put_frame(&mut self.outgoing, TEXT, text.as_bytes());
    }

    /// Writes what is queued.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if !self.outgoing.is_empty() {
            self.stream.write_all(&self.outgoing).await?;
            self.outgoing.clear();
        }
        Ok(())
    }

    /// Writes one frame.
    pub(crate) async fn say(&mut self, text: &str) -> Result<()> {
        self.queue(text);
        self.flush().await
    }

    /// The next text frame. May be abandoned while it waits.
    pub(crate) async fn next(&mut self) -> Result<&[u8]> {
        loop {
            if let Some((frame, bytes)) = self.take_frame()? {
                match frame {
                    TEXT => return Ok(self.incoming.last(bytes)),
                    PING => {
                        let content = self.incoming.last(bytes);
                        put_frame(&mut self.outgoing, PONG, content);
                        self.flush().await?;
                    }
                    CLOSE => {
                        let said = String::from_utf8_lossy(self.incoming.last(bytes));
                        bail!("the server closed the socket: {said}");
                    }
                    _ => {}
                }
                continue;
            }
            self.incoming.read(&mut self.stream).await?;
        }
    }

    /// Whether the next text frame may be there already, so that nobody has to wait for it.
    pub(crate) fn has_more(&self) -> bool {
        matches!(frame(self.incoming.waiting()), Ok(Some(_)))
    }

    /// Waits for a frame that begins in this way, passing over others.
    pub(crate) async fn expect(&mut self, beginning: &str) -> Result<String> {
        loop {
            let text = self.next().await?;
            let text = String::from_utf8_lossy(text).into_owned();
            if text.starts_with(beginning) {
                return Ok(text);
            }
            if text.starts_with(r#"{"type":"error""#) {
                bail!("expected {beginning}, found {text}");
            }
        }
    }

    fn take_frame(&mut self) -> Result<Option<(u8, usize)>> {
        let Some(frame) = frame(self.incoming.waiting())? else {
            return Ok(None);
        };
        self.incoming.take(frame.head + frame.content);
        Ok(Some((frame.kind, frame.content)))
    }
}

/// A whole frame that came.
#[derive(Debug, PartialEq)]
struct Frame {
    kind: u8,
    head: usize,
    content: usize,
}

/// The first frame of these bytes, if all of it is there.
fn frame(bytes: &[u8]) -> Result<Option<Frame>> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    if first & 0x80 == 0 || second & 0x80 != 0 {
        bail!("a server's frame in parts, or with a mask");
    }
    let (head, content) = match (second, rest) {
        (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        (127, [a, b, c, d, e, f, g, h, ..]) => {
            let length = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            (10, usize::try_from(length)?)
        }
        (126 | 127, _) => return Ok(None),
        (length, _) => (2, usize::from(*length)),
    };
    let frame = Frame {
        kind: first & 0x0f,
        head,
        content,
    };
    Ok((bytes.len() >= head + content).then_some(frame))
}

fn put_frame(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    out.push(0x80 | kind);
    match content.len() {
        length @ 0..126 => out.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_once_they_are_whole() {
        for length in [0, 1, 125, 126, 300, 0xffff, 0x1_0000] {
            let mut bytes = Vec::new();
            put_frame(&mut bytes, TEXT, &vec![b'x'; length]);
            // As a server writes it: without a mask.
            let head = bytes.len() - length - 4;
            bytes.drain(head..head + 4);
            bytes[1] &= 0x7f;
            let expected = Frame {
                kind: TEXT,
                head,
                content: length,
            };
            assert_eq!(frame(&bytes).unwrap(), Some(expected), "{length}");
            for end in [0, 1, head - 1, bytes.len() - 1] {
                assert_eq!(frame(&bytes[..end]).unwrap(), None, "{length} {end}");
            }
        }
        assert!(frame(&[0x01, 0x00]).is_err());
        assert!(frame(&[0x81, 0x80]).is_err());
    }
}
