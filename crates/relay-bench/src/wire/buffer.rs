//! Bytes that came from a connection and are not understood yet.

use anyhow::{Result, bail};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Bytes that are first made room for; most connections never need more.
const FIRST_BYTES: usize = 2 * 1024;

/// What has come and was not taken yet.
#[derive(Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    taken: usize,
}

impl Incoming {
    /// What is there.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Takes so many bytes; they stay readable as [`Incoming::last`] until more is read.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken = self.bytes.len().min(self.taken + count);
    }

    /// The last so many bytes that were taken.
    pub(crate) fn last(&self, count: usize) -> &[u8] {
        self.bytes
            .get(self.taken.saturating_sub(count)..self.taken)
            .unwrap_or_default()
    }

    /// Waits for more.
    pub(crate) async fn read(&mut self, stream: &mut TcpStream) -> Result<()> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.capacity() - self.bytes.len() < FIRST_BYTES / 2 {
            self.bytes.reserve(self.bytes.len().max(FIRST_BYTES));
        }
        if stream.read_buf(&mut self.bytes).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(())
    }
}
