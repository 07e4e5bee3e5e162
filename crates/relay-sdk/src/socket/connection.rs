//! One WebSocket connection: the handshake, frames in, frames out, and signs of life.

use std::time::Duration;

use futures_util::stream::SplitStream;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::Request;
use relay_protocol::ids::ConnectionId;
use relay_protocol::link::NoOptions;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::socket::{
    CLOSE_SUPERSEDED, CLOSE_UNAUTHORIZED, ClientFrame, ClientRequest, FrameRef, PROTOCOL,
    ServerFrame, ServerMessage, Welcome,
};
use relay_protocol::wire;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::dial::Stream;
use crate::error::{Error, Result};
use crate::http::Http;
use crate::refusal::problem;

/// Most bytes of a frame that is read: a message with everything it may carry, and room for more to come.
const FRAME_BYTES: usize = 16 * 1024 * 1024;

/// What is read from the network at a time. A program may have many clients, most of them silent.
const READ_BUFFER_BYTES: usize = 16 * 1024;

type Socket = WebSocketStream<Box<dyn Stream>>;

/// An open connection.
pub(super) struct Connection {
    /// Counts the connections of this client.
    pub(super) number: u64,
    /// What the server said first.
    pub(super) welcome: Welcome,
    /// When it did.
    pub(super) welcomed: Instant,
    stream: SplitStream<Socket>,
    outgoing: mpsc::UnboundedSender<ClientFrame>,
    writer: AbortHandle,
    silence: Duration,
    heard: Instant,
    ping_at: Instant,
    last_ref: u64,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The network, or the server, for now.
    Lost,
    /// A session on it goes on over another link.
    Superseded,
    /// For good.
    Refused(Error),
}

impl Connection {
    /// Connects and waits for the server's first frame.
    pub(super) async fn open(http: &Http, number: u64) -> Result<Self> {
        let opening = async {
            let mut socket = handshake(http).await?;
            let welcome = welcome(&mut socket).await?;
            Ok::<_, Error>((socket, welcome))
        };
        let patience = http.options.connect_timeout;
        let opened = timeout(patience, opening).await;
        let (socket, welcome) = opened.map_err(|_| Error::TimedOut(patience))??;
        if welcome.protocol != PROTOCOL {
            return Err(Error::Incompatible {
                client: PROTOCOL,
                server: welcome.protocol,
            });
        }
        Ok(Self::new(socket, welcome, number, http.options.silence))
    }

    fn new(socket: Socket, welcome: Welcome, number: u64, silence: Duration) -> Self {
        let (sink, stream) = socket.split();
        let (outgoing, queue) = mpsc::unbounded_channel();
        let now = Instant::now();
        Self {
            number,
            welcome,
            welcomed: now,
            stream,
            outgoing,
            writer: tokio::spawn(write(sink, queue)).abort_handle(),
            silence,
            heard: now,
            ping_at: now + silence / 3,
            last_ref: 0,
        }
    }

    /// Names the connection in logs.
    pub(super) const fn id(&self) -> ConnectionId {
        self.welcome.connection_id
    }

    /// Says something; the answer carries the number that is returned.
    ///
    /// Never waits: were frames written and read by turns, two sides with full buffers would wait for each other.
    pub(super) fn say(&mut self, request: ClientRequest) -> u64 {
        self.last_ref += 1;
        let reference = Some(FrameRef::Number(self.last_ref));
        // When the writer is gone the reader learns of it.
        let _ = self.outgoing.send(ClientFrame { reference, request });
        self.last_ref
    }

    /// The next frame, or how the connection ended. Safe to cancel.
    pub(super) async fn next(&mut self) -> std::result::Result<ServerFrame, Ended> {
        loop {
            let message = tokio::select! {
                message = self.stream.next() => message,
                () = sleep_until(self.ping_at) => {
                    self.ping_at = Instant::now() + self.silence / 3;
                    self.say(ClientRequest::Ping(NoOptions {}));
                    continue;
                }
                () = sleep_until(self.heard + self.silence) => return Err(Ended::Lost),
            };
            self.heard = Instant::now();
            match message {
                Some(Ok(Message::Text(text))) => match wire::decode_lenient(text.as_bytes()) {
                    Ok(frame) => return Ok(frame),
                    // A newer server may say what this version has no word for.
                    Err(error) => tracing::warn!(%error, "a frame can't be read"),
                },
                Some(Ok(Message::Close(Some(frame)))) => {
                    return Err(Ended::of(frame.code.into(), &frame.reason));
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Err(Ended::Lost),
                Some(Ok(_)) => {}
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

impl Ended {
    fn of(code: u16, reason: &str) -> Self {
        if code == CLOSE_SUPERSEDED.0 {
            Self::Superseded
        } else if code == CLOSE_UNAUTHORIZED.0 {
            let problem = Problem::new(
                ErrorCode::Unauthorized,
                "the credential is not valid any more",
            );
            Self::Refused(problem.into())
        } else {
            tracing::debug!(code, reason, "the server closed the connection");
            Self::Lost
        }
    }
}

async fn handshake(http: &Http) -> Result<Socket> {
    let request = request(http)?;
    let stream = http.connect().await?;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(FRAME_BYTES))
        .max_frame_size(Some(FRAME_BYTES));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err(problem(response.status(), body).into())
        }
        Err(error) => Err(Error::Broken(error.to_string())),
    }
}

fn request(http: &Http) -> Result<Request<()>> {
    let (host, authorization) = http.identity();
    let url = format!("ws://{}/v1/ws", host.to_str().unwrap_or_default());
    let request = url.as_str().into_client_request();
    let mut request = request.map_err(|_| Error::InvalidUrl(url))?;
    let headers = request.headers_mut();
    headers.insert(http::header::AUTHORIZATION, authorization.clone());
    Ok(request)
}

async fn welcome(socket: &mut Socket) -> Result<Welcome> {
    let broken = |what: &str| Error::Broken(format!("expected a welcome, found {what}"));
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                let frame: ServerFrame = wire::decode_lenient(text.as_bytes())?;
                return match frame.message {
                    ServerMessage::Welcome(welcome) => Ok(welcome),
                    other => Err(broken(other.tag())),
                };
            }
            Some(Ok(Message::Close(Some(frame)))) => {
                return match Ended::of(frame.code.into(), &frame.reason) {
                    Ended::Refused(error) => Err(error),
                    _ => Err(broken(&frame.reason)),
                };
            }
            Some(Ok(Message::Close(None))) | None => return Err(broken("the end")),
            Some(Err(error)) => return Err(Error::Broken(error.to_string())),
            Some(Ok(_)) => {}
        }
    }
}

/// Writes frames as they come, and flushes when no more are there.
async fn write(
    mut sink: futures_util::stream::SplitSink<Socket, Message>,
    mut queue: mpsc::UnboundedReceiver<ClientFrame>,
) {
    while let Some(frame) = queue.recv().await {
        let mut next = Some(frame);
        while let Some(frame) = next {
            // Frames are plain data, which can always be written.
            let text = serde_json::to_string(&frame).unwrap_or_default();
            if sink.feed(Message::text(text)).await.is_err() {
                return;
            }
            next = queue.recv().now_or_never().flatten();
        }
        if sink.flush().await.is_err() {
            return;
        }
    }
    let _ = sink.close().await;
}
