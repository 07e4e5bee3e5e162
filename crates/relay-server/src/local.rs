//! The way in for programs that run the server in their own process: connections that are pipes.
//!
//! They carry the same bytes as connections over the network and are served by the same code; only nobody
//! else can make them.

use std::io;

use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Bytes that wait in one direction of a pipe.
const PIPE_BYTES: usize = 64 * 1024;
/// Connections that wait to be taken.
const WAITING: usize = 64;

/// Makes connections to the server of this process.
#[derive(Clone, Debug)]
pub struct LocalDoor(mpsc::Sender<DuplexStream>);

/// Where the server takes them.
#[derive(Debug)]
pub struct LocalListener(mpsc::Receiver<DuplexStream>);

/// A door, and what to give to [`serve`](crate::serve()) beside the listener.
#[must_use]
pub fn local() -> (LocalDoor, LocalListener) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (LocalDoor(sender), LocalListener(receiver))
}

impl LocalDoor {
    /// Connects. An error once the server takes no more connections.
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let refused = |_| io::Error::new(io::ErrorKind::ConnectionRefused, "the server has ended");
        self.0.send(far).await.map_err(refused)?;
        Ok(near)
    }
}

/// Where connections come from.
#[derive(Debug)]
pub struct Doors {
    pub(crate) network: TcpListener,
    pub(crate) local: Option<LocalListener>,
}

impl From<TcpListener> for Doors {
    fn from(network: TcpListener) -> Self {
        Self {
            network,
            local: None,
        }
    }
}

impl From<(TcpListener, LocalListener)> for Doors {
    fn from((network, local): (TcpListener, LocalListener)) -> Self {
        Self {
            network,
            local: Some(local),
        }
    }
}

impl LocalListener {
    /// The next connection; waits for ever once nobody can make any.
    pub(crate) async fn accept(listener: &mut Option<Self>) -> DuplexStream {
        if let Some(open) = listener {
            if let Some(stream) = open.0.recv().await {
                return stream;
            }
            *listener = None;
        }
        std::future::pending().await
    }
}
