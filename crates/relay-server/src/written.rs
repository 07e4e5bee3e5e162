//! When bytes were written: a connection says so to whoever waits for it.
//!
//! The HTTP library buffers what a body gives it, writes when it can, and flushes once nothing is left. Its flush is thus the first
//! moment at which everything that was given before is in the hands of the system, as far as a program can know.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Tells when a connection has written what it was given. Bodies of answers find it in the extensions of their request.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<Mutex<Vec<oneshot::Sender<()>>>>);

impl Written {
    /// To be called while a piece of a body is given away: true once the connection has written it, false if it broke before.
    #[must_use = "it is told by what this returns"]
    pub fn flushed(&self) -> impl Future<Output = bool> + Send + use<> {
        let (tell, told) = oneshot::channel();
        self.waiting().push(tell);
        async move { told.await.is_ok() }
    }

    fn tell_all(&self) {
        for waiting in self.waiting().drain(..) {
            // Whoever waited may have lost interest.
            let _ = waiting.send(());
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<oneshot::Sender<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that tells when it was flushed.
pub(crate) struct Watched<S> {
    stream: S,
    written: Written,
}

/// Watches a connection.
pub(crate) fn watch<S>(stream: S) -> (Watched<S>, Written) {
    let written = Written::default();
    let watched = Watched {
        stream,
        written: written.clone(),
    };
    (watched, written)
}

impl<S> Drop for Watched<S> {
    /// What was not flushed will not be.
    fn drop(&mut self) {
        self.written.waiting().clear();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.written.tell_all();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_flush_is_told_and_so_is_an_end_without_one() {
        let (near, _far) = duplex(64);
        let (mut stream, written) = watch(near);
        let flushed = written.flushed();
        stream.write_all(b"x").await.unwrap();
        stream.flush().await.unwrap();
        assert!(flushed.await);
        let never = written.flushed();
        stream.write_all(b"x").await.unwrap();
        drop(stream);
        assert!(!never.await);
    }
}
