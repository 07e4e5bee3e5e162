//! The live door, `GET /v1/ws`: listeners and sessions share it. `relay_protocol::socket` describes the wire.
//!
//! A connection is two tasks. The [`reader`] takes frames in order, starts what they ask for and queues the
//! answers; the [`writer`] alone writes: answers, deliveries, and events, which it pulls from the log as
//! fast as the client reads. Nothing between the two grows without bound: see [`outbox`].

mod follow;
mod handlers;
mod link;
mod outbox;
mod reader;
mod watch;
mod writer;

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{Method, Request, Response, StatusCode};
use futures_util::{Stream, StreamExt as _};
use relay_protocol::ids::ConnectionId;
use relay_protocol::limits::{
    INLINE_ATTACHMENT_BYTES, SOCKET_CLOSE_MS, SOCKET_FRAME_BYTES, SUBSCRIPTIONS_PER_CONNECTION,
    TEXT_BYTES,
};
use relay_protocol::problem::ErrorCode;
use relay_protocol::socket::{
    CLOSE_UNAUTHORIZED, ClientFrame, ClientRequest, PROTOCOL, ServerMessage, SocketLimits, Welcome,
};
use relay_protocol::wire;
use schemars::SchemaGenerator;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use self::reader::Reader;
use self::writer::Writer;
use crate::access::{Access, App, Kind as _, Reader as MayRead, bearer};
use crate::refusal::Refusal;
use crate::serve::Place;
use crate::table::{Described, Route, peer};

/// What is read from the network at a time; small, because most sockets are silent.
const READ_BUFFER_BYTES: usize = 2 * 1024;

/// Frames that are written together with one call.
const WRITE_BUFFER_BYTES: usize = 16 * 1024;

pub(crate) fn route() -> Route {
    let summary = "The live door: a WebSocket for listeners and sessions.";
    Route::special(
        Method::GET,
        "/v1/ws",
        summary,
        MayRead::KINDS,
        describe,
        upgrade,
    )
}

fn describe(_: &mut SchemaGenerator) -> Described {
    Described {
        path: Vec::new(),
        query: None,
        body: None,
        answer: (StatusCode::SWITCHING_PROTOCOLS, Value::Null),
        refusal: None,
    }
}

/// Turns a request into a socket, unless it shows a credential that is not valid.
async fn upgrade(app: App, request: Request<Body>) -> Response<Body> {
    match prepare(&app, request).await {
        Ok((upgrade, access, from, held)) => upgrade
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(WRITE_BUFFER_BYTES)
            .max_message_size(SOCKET_FRAME_BYTES)
            .max_frame_size(SOCKET_FRAME_BYTES)
            .on_upgrade(move |socket| {
                // On the heap: it is large, and over before anything else happens.
                let opening = Box::pin(open(app.clone(), socket, access, from));
                async move {
                    run(app, opening).await;
                    drop(held);
                }
            }),
        Err(refusal) => refusal.into_response(),
    }
}

type Prepared = (WebSocketUpgrade, Option<Access<MayRead>>, IpAddr, Held);

/// What is let go once the socket has ended: its place among the connections, and among the tasks that the
/// server waits for.
type Held = (Option<Place>, TaskTrackerToken);

async fn prepare(app: &App, request: Request<Body>) -> Result<Prepared, Refusal> {
    let (mut parts, _) = request.into_parts();
    let from = peer(&parts);
    if let Some(query) = parts.uri.query().filter(|query| !query.is_empty()) {
        return Err(Refusal::invalid("query", "no parameters", query));
    }
    let access = match bearer(&parts.headers)? {
        Some(token) => Some(app.admit(token, from).await?),
        None => None,
    };
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|rejection| {
        let detail = format!("expected a WebSocket handshake: {}", rejection.body_text());
        Refusal::new(ErrorCode::InvalidRequest, detail)
    })?;
    let held = (parts.extensions.remove::<Place>(), app.tasks().token());
    Ok((upgrade, access, from, held))
}

/// Serves a socket until it ends.
async fn run(app: App, opening: impl Future<Output = Option<Open>>) {
    let _counted = app.metrics().socket();
    let Some(open) = opening.await else {
        return;
    };
    let Open {
        connection,
        reader,
        writing,
    } = open;
    let aborter = writing.abort_handle();
    let work = async {
        let stream = reader.run().await;
        let _ = writing.await;
        Box::pin(finish_closing(stream)).await;
    };
    tokio::select! {
        () = work => {}
        () = app.cut_off().cancelled() => aborter.abort(),
    }
    tracing::debug!(connection.id = %connection, "a socket closed");
}

/// A socket whose client was let in.
struct Open {
    connection: ConnectionId,
    reader: Box<Reader>,
    writing: JoinHandle<()>,
}

/// Lets a client in and starts what writes to it.
async fn open(
    app: App,
    mut socket: WebSocket,
    access: Option<Access<MayRead>>,
    from: IpAddr,
) -> Option<Open> {
    let access = match access {
        Some(access) => access,
        None => match hello(&app, &mut socket, from).await {
            Some(access) => access,
            None => {
                close(socket, CLOSE_UNAUTHORIZED).await;
                return None;
            }
        },
    };
    let connection = ConnectionId::new(
        app.environment().clock.now(),
        app.environment().random.bits(),
    );
    tracing::debug!(connection.id = %connection, kind = %access.caller().kind(), "a socket opened");
    let (outbox, queue) = outbox::new();
    outbox.say_now(welcome(&app, connection));
    let (sink, stream) = socket.split();
    let writer = Writer::new(access.clone(), sink, queue);
    Some(Open {
        connection,
        writing: tokio::spawn(writer.run()),
        reader: Reader::new(access, stream, outbox),
    })
}

/// Waits for the first frame of a client that could not set a header.
async fn hello(app: &App, socket: &mut WebSocket, from: IpAddr) -> Option<Access<MayRead>> {
    let first = tokio::select! {
        first = tokio::time::timeout(app.config().hello_timeout, socket.recv()) => first.ok()??.ok()?,
        () = app.stopping().cancelled() => return None,
    };
    let Message::Text(text) = first else {
        return None;
    };
    let frame: ClientFrame = wire::decode(text.as_bytes()).ok()?;
    match frame.request {
        ClientRequest::Hello(hello) => app.admit(&hello.token, from).await.ok(),
        _ => None,
    }
}

fn welcome(app: &App, connection_id: ConnectionId) -> ServerMessage {
    let silence_ms = app.config().silence.as_millis();
    ServerMessage::Welcome(Welcome {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        connection_id,
        server_time: app.environment().clock.now(),
        limits: SocketLimits {
            frame_bytes: SOCKET_FRAME_BYTES as u64,
            text_bytes: TEXT_BYTES as u64,
            inline_attachment_bytes: INLINE_ATTACHMENT_BYTES as u64,
            subscriptions: SUBSCRIPTIONS_PER_CONNECTION as u64,
            silence_ms: u64::try_from(silence_ms).unwrap_or(u64::MAX),
        },
    })
}

/// A code and a reason as the last frame.
fn close_frame((code, reason): (u16, &'static str)) -> Message {
    Message::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }))
}

async fn close(mut socket: WebSocket, why: (u16, &'static str)) {
    let _ = socket.send(close_frame(why)).await;
    finish_closing(socket).await;
}

/// Brings the closing handshake to its end: answers the close frame of a client that ends the connection, and waits for that of a
/// client whose connection the server ends. Dropping the connection earlier would lose the frame, and the client would see 1006.
async fn finish_closing<E>(mut stream: impl Stream<Item = Result<Message, E>> + Unpin) {
    // The library writes its answer while it is asked for more, and has no more once both frames were there.
    let closing = async { while let Some(Ok(_)) = stream.next().await {} };
    let patience = Duration::from_millis(SOCKET_CLOSE_MS);
    if tokio::time::timeout(patience, closing).await.is_err() {
        tracing::debug!("a client did not answer the close frame");
    }
}

/// Why a connection is closed when the log can't be read.
const CLOSE_INTERNAL: (u16, &str) = (1011, "internal");
/// Why a connection is closed whose peer is silent.
const CLOSE_SILENT: (u16, &str) = (4008, "silent");
/// Why a connection is closed whose peer does not read what comes for its sessions.
const CLOSE_SLOW: (u16, &str) = (4009, "too_slow");

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::stream::iter;

    use super::*;

    #[test]
    fn a_closing_connection_is_read_to_its_end() {
        let frames = [Message::Text("late".into()), Message::Close(None)];
        let mut frames = iter(frames.map(Ok::<_, ()>));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(finish_closing(&mut frames));
        assert!(frames.next().now_or_never().unwrap().is_none());
    }

    /// The bytes of the future that a function returns.
    const fn future_bytes<A, F: Future>(_: &impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_socket_is_small() {
        let opening = |app| run(app, Box::pin(std::future::pending()));
        let futures = [
            ("the socket's task", future_bytes(&opening)),
            ("the writer's task", future_bytes(&Writer::run)),
            ("reader", size_of::<Reader>()),
            ("writer", size_of::<Writer>()),
        ];
        let bytes: usize = futures.iter().map(|(_, bytes)| bytes).sum();
        assert!(bytes < 2_500, "{bytes}: {futures:?}");
    }
}
