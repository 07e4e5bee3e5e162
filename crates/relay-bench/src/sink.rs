//! A receiver of webhooks that answers at once, or never: it counts, and says when the last one came.
//!
//! It runs on threads of its own in this process, and reads no more of a request than it must.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::wire::{Incoming, request_bytes};

/// Requests to this path are never answered, and not counted.
pub(crate) const HANGS: &str = "/hangs";

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A receiver, until it is dropped.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    count: Arc<Count>,
    last: mpsc::UnboundedReceiver<Instant>,
    runtime: Option<Runtime>,
}

struct Count {
    missing: AtomicUsize,
    last: mpsc::UnboundedSender<Instant>,
}

impl Count {
    fn one(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.last.send(Instant::now());
        }
    }
}

impl Sink {
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("sink")
            .enable_all()
            .build()
            .context("no threads for a receiver of webhooks")?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (tell, last) = mpsc::unbounded_channel();
        let count = Arc::new(Count {
            missing: AtomicUsize::new(usize::MAX),
            last: tell,
        });
        let counted = count.clone();
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, counted.clone()));
            }
        });
        Ok(Self {
            address,
            count,
            last,
            runtime: Some(runtime),
        })
    }

    /// Begins to count down.
    pub(crate) fn expect(&self, requests: usize) {
        self.count.missing.store(requests, Ordering::Release);
    }

    /// When the last one that was expected has come.
    pub(crate) async fn last(&mut self) -> Result<Instant> {
        self.last.recv().await.context("the receiver ended")
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Waiting for the threads is not allowed where this is dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves one connection; its end is nobody's concern.
async fn serve(mut stream: TcpStream, count: Arc<Count>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut incoming = Incoming::default();
    let hangs = format!("POST {HANGS} ");
    loop {
        let Some(whole) = request_bytes(incoming.waiting())? else {
            incoming.read(&mut stream).await?;
            continue;
        };
        if incoming.waiting().starts_with(hangs.as_bytes()) {
            std::future::pending::<()>().await;
        }
        incoming.take(whole);
        count.one();
        stream.write_all(ANSWER).await?;
    }
}
