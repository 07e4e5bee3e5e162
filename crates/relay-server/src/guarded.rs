//! A body that ends when the credential does that it was asked for with.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::access::Access;
use crate::metrics::Open;

/// A stream of somebody who was let in.
pub(crate) struct Guarded {
    body: Body,
    ended: BoxFuture<'static, ()>,
    /// Keeps the server from ending before the stream has.
    _task: TaskTrackerToken,
    _open: Open,
}

impl Guarded {
    pub(crate) fn new<K>(by: &Access<K>, body: Body) -> Self {
        let (task, open) = (by.app().tasks().token(), by.app().metrics().stream());
        Self {
            body,
            ended: by.ended(),
            _task: task,
            _open: open,
        }
    }
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
