//! Server-sent events: one per logged event, its sequence number as `id`, so that a client that comes back
//! with `Last-Event-ID` misses nothing and sees nothing twice.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use relay_core::{Followed, Subscription};
use relay_protocol::selector::Selector;
use schemars::SchemaGenerator;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::access::{Access, Reader};
use crate::call::{Answer, response};
use crate::metrics::Open;
use crate::refusal::Refusal;

/// A sign of life, which clients ignore.
const HEARTBEAT: &str = ": heartbeat\n\n";

/// Begins to follow the log for somebody.
pub(crate) async fn follow(
    by: Access<Reader>,
    selector: Selector,
    after: Option<u64>,
) -> Result<EventStream, Refusal> {
    let subscription = by.engine().subscribe(by.caller(), selector, after).await?;
    Ok(EventStream {
        ended: by.ended(),
        _task: by.app().tasks().token(),
        _open: by.app().metrics().stream(),
        begun: false,
        by,
        subscription,
    })
}

/// A stream of events.
pub(crate) struct EventStream {
    by: Access<Reader>,
    subscription: Subscription,
    begun: bool,
    /// Ready once the credential has ended.
    ended: BoxFuture<'static, ()>,
    /// Keeps the server from ending before the stream has.
    _task: TaskTrackerToken,
    _open: Open,
}

impl EventStream {
    /// The next piece of text; nothing once the stream has to end.
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.begun, true) {
            // Proxies and clients see at once that the stream is there.
            return Some(Bytes::from_static(HEARTBEAT.as_bytes()));
        }
        let app = self.by.app().clone();
        let next = timeout(app.config().heartbeat, self.subscription.next());
        let followed = tokio::select! {
            biased;
            () = &mut self.ended => return None,
            () = app.stopping().cancelled() => return None,
            next = next => next,
        };
        match followed {
            Err(_) => Some(Bytes::from_static(HEARTBEAT.as_bytes())),
            Ok(Ok(followed)) => {
                if matches!(followed, Followed::Lagged { .. }) {
                    app.metrics().lagged();
                } else {
                    app.metrics().event_out();
                }
                Some(written(&followed))
            }
            Ok(Err(error)) => {
                // The client comes back with the last id that it has seen.
                tracing::warn!(code = %error.code(), "a stream of events broke off");
                None
            }
        }
    }
}

fn written(followed: &Followed) -> Bytes {
    let mut text = String::new();
    let _ = match followed {
        Followed::Event(event) => {
            write!(
                text,
                "id: {}\ndata: {}\n\n",
                event.event.seq,
                event.json().get()
            )
        }
        Followed::Lagged { resume_after } => {
            write!(
                text,
                "event: lagged\ndata: {{\"resumeAfter\":{resume_after}}}\n\n"
            )
        }
    };
    text.into()
}

impl Answer for EventStream {
    fn into_response(self) -> Response<Body> {
        let pieces = unfold(self, |mut stream| async move {
            let piece = stream.next().await?;
            Some((Ok::<_, std::convert::Infallible>(piece), stream))
        });
        let body = Body::from_stream(pieces);
        let mut response = response(StatusCode::OK, "text/event-stream", body);
        let never = HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, never);
        response
    }

    fn describe(_: &mut SchemaGenerator) -> (StatusCode, Value) {
        let text = json!({ "text/event-stream": { "schema": { "type": "string" } } });
        (StatusCode::OK, text)
    }
}
