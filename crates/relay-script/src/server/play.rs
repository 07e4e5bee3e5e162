//! Plays a turn as the answer to an HTTP request.
//!
//! A streamed answer is written by a task of its own, which ends when its reader leaves. A whole answer takes the same time
//! as the stream would, and is broken where the stream would be.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::api::{Encoder, Frame};
use super::record::{Ending, Recorded, Witness};
use super::{Shared, closed};
use crate::{Failure, Piece, Refusal, Reply, Turn};

/// How many writes may wait for a slow reader.
const MAX_WAITING: usize = 64;

/// What a stream's reader gets: bytes, or the connection's end in the middle.
type Chunk = Result<Bytes, io::Error>;

/// Answers a request that was recorded.
pub(super) async fn answer(
    shared: Arc<Shared>,
    recorded: Arc<Recorded>,
    streamed: bool,
) -> Response {
    let witness = Witness::new(recorded.clone());
    match shared.next(&recorded.request) {
        Turn::Refusal(refusal) => {
            witness.ends(Ending::Complete);
            refused(&recorded, refusal)
        }
        Turn::Reply(reply) if streamed => stream(shared, &recorded, reply, witness),
        Turn::Reply(reply) => whole(&shared, &recorded, reply, witness).await,
    }
}

/// A JSON answer.
pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn refused(recorded: &Recorded, refusal: Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = match refusal.body {
        Value::String(text) => {
            let mut response = Response::new(Body::from(text));
            *response.status_mut() = status;
            response
        }
        body => json_response(status, &recorded.api.error_body(body)),
    };
    for (name, value) in refusal.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn frame(recorded: &Recorded, reply: &Reply) -> Frame {
    Frame {
        number: recorded.number,
        model: recorded.request.model.clone(),
        usage: reply.usage,
    }
}

fn stream(shared: Arc<Shared>, recorded: &Recorded, reply: Reply, witness: Witness) -> Response {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let encoder = recorded
        .api
        .encoder(frame(recorded, &reply), &recorded.body);
    let mut pen = Pen {
        left: reply.cut_at,
        sender: sender.clone(),
    };
    tokio::spawn(async move {
        let stopped = shared.stopped.clone();
        let ending = tokio::select! {
            ending = play(&shared, encoder, &reply, &mut pen) => Some(ending),
            () = sender.closed() => None,
            () = closed(stopped) => None,
        };
        if let Some(ending) = ending {
            // Handed over is not read: the reader may still leave, and then takes the receiver along.
            drop(pen);
            if ending == Ending::Broken {
                let _ = sender
                    .send(Err(io::ErrorKind::ConnectionAborted.into()))
                    .await;
            }
            witness.ends(ending);
        }
    });
    let mut response = Response::new(Body::from_stream(body(receiver)));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The chunks as a body. Before an error it hesitates once, so that what came before it is written to the socket.
fn body(receiver: mpsc::Receiver<Chunk>) -> impl Stream<Item = Chunk> {
    unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        if chunk.is_err() {
            tokio::task::yield_now().await;
        }
        Some((chunk, receiver))
    })
}

/// Writes an answer, up to the byte at which it is to be cut.
struct Pen {
    left: Option<usize>,
    sender: mpsc::Sender<Chunk>,
}

impl Pen {
    /// Writes this and empties it. False where the answer ends here.
    async fn write(&mut self, bytes: &mut Vec<u8>) -> bool {
        let mut bytes = std::mem::take(bytes);
        let whole = match &mut self.left {
            Some(left) if bytes.len() >= *left => {
                bytes.truncate(*left);
                false
            }
            Some(left) => {
                *left -= bytes.len();
                true
            }
            None => true,
        };
        if bytes.is_empty() {
            return whole;
        }
        self.sender.send(Ok(bytes.into())).await.is_ok() && whole
    }
}

async fn play(
    shared: &Shared,
    mut encoder: Box<dyn Encoder>,
    reply: &Reply,
    pen: &mut Pen,
) -> Ending {
    let mut bytes = Vec::new();
    encoder.begin(&mut bytes);
    for piece in &reply.pieces {
        // Before a piece that takes time everything so far has to be out.
        if !pen.write(&mut bytes).await {
            return Ending::Broken;
        }
        match piece {
            Piece::Text(text) => encoder.text(text, &mut bytes),
            Piece::Clock(clock) => {
                let mut ticks = clock.start();
                while let Some(time) = ticks.next().await {
                    encoder.text(&time, &mut bytes);
                    if !pen.write(&mut bytes).await {
                        return Ending::Broken;
                    }
                }
            }
            Piece::Reasoning(text) => encoder.reasoning(text, &mut bytes),
            Piece::ToolCall(call) => encoder.call(call, &mut bytes),
            Piece::Fail(failure) => {
                encoder.fail(failure, &mut bytes);
                pen.write(&mut bytes).await;
                // The stream itself ends in order: the error is its last event.
                return Ending::Complete;
            }
            Piece::Cut => return Ending::Broken,
            Piece::Pause(_) | Piece::Wait(_) | Piece::Hang => pass(shared, piece).await,
        }
    }
    encoder.end(&reply.stop, &mut bytes);
    match pen.write(&mut bytes).await {
        true => Ending::Complete,
        false => Ending::Broken,
    }
}

/// Lets time pass where a piece wants that.
async fn pass(shared: &Shared, piece: &Piece) {
    match piece {
        Piece::Pause(time) => tokio::time::sleep(*time).await,
        Piece::Wait(gate) => shared.gates.wait(gate).await,
        Piece::Hang => std::future::pending().await,
        _ => {}
    }
}

async fn whole(shared: &Shared, recorded: &Recorded, reply: Reply, witness: Witness) -> Response {
    for piece in &reply.pieces {
        match piece {
            Piece::Fail(failure) => {
                witness.ends(Ending::Complete);
                return failed(recorded, failure);
            }
            Piece::Cut => return cut(String::new(), witness),
            other => pass(shared, other).await,
        }
    }
    let value = recorded
        .api
        .whole(&frame(recorded, &reply), &reply, &recorded.body);
    let mut text = value.to_string();
    match reply.cut_at {
        Some(at) if at < text.len() => {
            while !text.is_char_boundary(text.len().min(at)) {
                text.pop();
            }
            text.truncate(at);
            cut(text, witness)
        }
        _ => {
            witness.ends(Ending::Complete);
            json_response(StatusCode::OK, &value)
        }
    }
}

fn failed(recorded: &Recorded, failure: &Failure) -> Response {
    let body = json!({ "error": { "type": failure.kind, "message": failure.message } });
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    json_response(status, &recorded.api.error_body(body))
}

/// A body that breaks off after this text.
fn cut(text: String, witness: Witness) -> Response {
    witness.ends(Ending::Broken);
    // Holds both chunks, and nobody else writes.
    let (sender, receiver) = mpsc::channel(2);
    let _ = sender.try_send(Ok(text.into()));
    let _ = sender.try_send(Err(io::ErrorKind::ConnectionAborted.into()));
    Response::new(Body::from_stream(body(receiver)))
}
