//! What a socket server costs that does nothing else: it echoes, or writes the same bytes to all who listen.
//!
//! Each socket has one task and one queue, and all share the bytes: no server can do less without
//! another protocol. It runs on threads of its own in this process.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_tungstenite::accept_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The frame that makes the server write to all who listen: this and the number of bytes.
pub(crate) const CAST: &str = "cast ";

/// The frame by which a client begins to listen.
pub(crate) const LISTEN: &str = "listen";

/// What is read from the network at a time, as in the server under test.
const READ_BUFFER_BYTES: usize = 4 * 1024;

/// Frames that may wait for one client.
const QUEUED: usize = 64;

/// A server, until it is dropped.
pub(crate) struct PlainServer {
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
}

type Listeners = Arc<Mutex<Vec<mpsc::Sender<Utf8Bytes>>>>;

impl PlainServer {
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("plain")
            .enable_all()
            .build()
            .context("no threads for a plain server")?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            let listeners = Listeners::default();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, listeners.clone()));
            }
        });
        Ok(Self {
            address,
            runtime: Some(runtime),
        })
    }
}

impl Drop for PlainServer {
    fn drop(&mut self) {
        // Waiting for the threads is not allowed where this is dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves one socket; its end is nobody's concern.
async fn serve(stream: TcpStream, listeners: Listeners) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0);
    let mut socket = accept_async_with_config(stream, Some(config)).await.ok()?;
    let (sender, mut queue) = mpsc::channel(QUEUED);
    loop {
        tokio::select! {
            bytes = queue.recv() => {
                socket.send(Message::Text(bytes?)).await.ok()?;
            }
            message = socket.next() => {
                let Message::Text(text) = message?.ok()? else {
                    continue;
                };
                if text.as_str() == LISTEN {
                    lock(&listeners).push(sender.clone());
                } else if let Some(bytes) = text.strip_prefix(CAST) {
                    cast(&listeners, bytes.parse().ok()?);
                    continue;
                }
                socket.send(Message::Text(text)).await.ok()?;
            }
        }
    }
}

fn cast(listeners: &Listeners, bytes: usize) {
    let text = Utf8Bytes::from("x".repeat(bytes));
    lock(listeners).retain(|listener| {
        !matches!(
            listener.try_send(text.clone()),
            Err(mpsc::error::TrySendError::Closed(_))
        )
    });
}

fn lock(listeners: &Listeners) -> std::sync::MutexGuard<'_, Vec<mpsc::Sender<Utf8Bytes>>> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}
