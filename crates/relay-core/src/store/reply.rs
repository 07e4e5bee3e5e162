//! The answer of a store call: a future that needs no particular runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::error::{Error, Result, StorageError};

/// An answer that is there, or will come once the change is on disk.
#[must_use = "a change is only known to be stored once its reply has come"]
pub struct Reply<T>(Inner<T>);

enum Inner<T> {
    Ready(Option<Result<T>>),
    Pending(oneshot::Receiver<Result<T>>),
}

impl<T> Reply<T> {
    /// An answer that is there already.
    pub const fn ready(result: Result<T>) -> Self {
        Self(Inner::Ready(Some(result)))
    }

    /// A sender, and the answer that it will send.
    pub fn pending() -> (oneshot::Sender<Result<T>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(Inner::Pending(receiver)))
    }

    /// Waits for the answer on this thread.
    pub fn wait(self) -> Result<T> {
        match self.0 {
            Inner::Ready(result) => result.unwrap_or_else(closed),
            Inner::Pending(receiver) => receiver.blocking_recv().unwrap_or_else(|_| closed()),
        }
    }
}

fn closed<T>() -> Result<T> {
    Err(Error::Storage(StorageError::Closed))
}

impl<T: Unpin> Future for Reply<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Ready(result) => Poll::Ready(result.take().unwrap_or_else(closed)),
            Inner::Pending(receiver) => Pin::new(receiver)
                .poll(context)
                .map(|answer| answer.unwrap_or_else(|_| closed())),
        }
    }
}
