//! When an answer over HTTP counts as written: once the connection has flushed it.
//!
//! The library makes a stream of messages of an answer and tells nobody what becomes of it. So each request has an [`Outgoing`]:
//! `check` leaves there what its answer tells, and the session notes that the answer has passed. The body ([`AnswerBody`]) looks after
//! each piece that it gives to the connection whether the answer was in it, and asks the connection to say when that was flushed.
//! A body that is dropped before, a connection that breaks, a stream that ends without the answer: nothing is settled.
//!
//! An answer that a client fetches again (`Last-Event-ID`) settles nothing either: what it tells is told once more.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use tokio_util::task::TaskTracker;

use crate::settling::{Settler, Told};

/// Says whether what was given to the connection until now was written to it.
pub type Flushed = Box<dyn FnOnce() -> BoxFuture<'static, bool> + Send>;

/// What one request's answer tells, and whether the answer has passed.
#[derive(Default)]
pub(crate) struct Outgoing {
    told: Mutex<Option<(Told, Settler)>>,
    has_passed: AtomicBool,
}

impl Outgoing {
    /// The answer will tell this, and this is who settles it.
    pub(crate) fn tell(&self, told: Told, settler: Settler) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some((told, settler));
    }

    /// The answer is in the piece that leaves next.
    pub(super) fn passes(&self) {
        self.has_passed.store(true, Ordering::Release);
    }

    fn has_passed(&self) -> bool {
        self.has_passed.load(Ordering::Acquire)
    }

    fn take(&self) -> Option<(Told, Settler)> {
        self.told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// What is done once an answer leaves.
pub(super) struct Leaving {
    pub(super) outgoing: Arc<Outgoing>,
    pub(super) flushed: Flushed,
    pub(super) tasks: TaskTracker,
}

impl Leaving {
    /// The answer is about to be written.
    fn leave(self) {
        let Some((told, settler)) = self.outgoing.take() else {
            return;
        };
        settler.leaves(&told);
        let written = (self.flushed)();
        self.tasks.spawn(async move {
            let is_written = written.await;
            settler.settle(told, is_written).await;
        });
    }
}

/// The body of an answer.
pub struct AnswerBody {
    body: BoxBody<Bytes, Infallible>,
    /// The whole body is the answer.
    is_whole: bool,
    leaving: Option<Leaving>,
}

/// Watches the body of a response.
pub(super) fn watched(
    response: Response<BoxBody<Bytes, Infallible>>,
    leaving: Leaving,
) -> Response<AnswerBody> {
    let is_whole = is_json(&response) && response.status() == StatusCode::OK;
    response.map(|body| AnswerBody {
        body,
        is_whole,
        leaving: Some(leaving),
    })
}

pub(super) fn is_json<B>(response: &Response<B>) -> bool {
    let media_type = response.headers().get(CONTENT_TYPE);
    media_type.is_some_and(|it| it.as_bytes().starts_with(b"application/json"))
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            let is_last = self.is_whole && self.body.is_end_stream();
            let leaves = |leaving: &mut Leaving| is_last || leaving.outgoing.has_passed();
            if let Some(leaving) = self.leaving.take_if(leaves) {
                leaving.leave();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
