//! Finds out whether an agent has started Relay's own MCP server.
//!
//! An agent is given a list of servers and starts them at once, later or never; the protocol has no word about it. So the server itself says
//! that it runs: it is started with an address of this process, at which somebody listens, and connects to it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// How long one that has connected may take to say the secret.
const SECRET_WAIT: Duration = Duration::from_secs(1);

/// Characters of the secret.
const SECRET_CHARS: usize = 32;

/// Waits for Relay's own MCP server to be started by an agent.
#[derive(Debug)]
pub struct ToolsWatch {
    listener: TcpListener,
    address: String,
    secret: String,
}

impl ToolsWatch {
    /// Begins to listen, for this machine only.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let mut bytes = [0; SECRET_CHARS / 2];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self {
            address: listener.local_addr()?.to_string(),
            secret: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            listener,
        })
    }

    /// Where the server has to say that it runs: what [`announce`] takes.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}/{}", self.address, self.secret)
    }

    /// Waits until the server runs, so long at most; says whether it does.
    pub async fn is_started_within(&self, limit: Duration) -> bool {
        timeout(limit, self.started()).await.is_ok()
    }

    async fn started(&self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                // Out of descriptors, say: nothing can be found out.
                return std::future::pending().await;
            };
            if self.is_ours(stream).await {
                return;
            }
        }
    }

    async fn is_ours(&self, mut stream: TcpStream) -> bool {
        let mut said = [0; SECRET_CHARS];
        let reading = timeout(SECRET_WAIT, stream.read_exact(&mut said));
        matches!(reading.await, Ok(Ok(_))) && said == self.secret.as_bytes()
    }
}

/// Says to whoever listens at this address that the server runs.
pub async fn announce(address: &str) -> io::Result<()> {
    let Some((address, secret)) = address.split_once('/') else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(secret.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn only_who_knows_the_secret_counts() {
        let watch = ToolsWatch::open().await.unwrap();
        let address = watch.address();
        let (address, secret) = address.split_once('/').unwrap();
        let stranger = format!("{address}/{}", "0".repeat(SECRET_CHARS));
        let said = async {
            announce(&stranger).await.unwrap();
            announce(&format!("{address}/{secret}")).await.unwrap();
        };
        let (started, ()) = tokio::join!(watch.is_started_within(LONG), said);
        assert!(started);
        announce(&stranger).await.unwrap();
        assert!(!watch.is_started_within(Duration::from_millis(50)).await);
        assert!(announce("nonsense").await.is_err());
    }
}
