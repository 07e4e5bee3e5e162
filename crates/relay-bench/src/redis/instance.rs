//! A Redis of our own in a temporary directory, durable as Relay is: the log is synced before each answer.
//!
//! Its log is never rewritten meanwhile and nothing else is saved, which is in its favour.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::client::Redis;
use crate::machine::Process;
use crate::platform::set_apart;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server.
pub(crate) struct Instance {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    _child: Child,
    _scratch: TempDir,
}

/// Why there is no Redis.
#[derive(Debug)]
pub(crate) enum StartError {
    /// It is not installed.
    Missing,
    /// It did not start.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for StartError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Instance {
    pub(crate) async fn start(program: &Path, directory: &Path) -> Result<Self, StartError> {
        let scratch = tempfile::tempdir_in(directory)?;
        // Free a moment ago, so most likely it still is.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new(program);
        command
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .args(["--auto-aof-rewrite-percentage", "0", "--save", ""])
            .args(["--maxclients", "5000", "--loglevel", "warning"])
            .arg("--dir")
            .arg(scratch.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        set_apart(&mut command);
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(StartError::Missing);
            }
            Err(error) => return Err(error.into()),
        };
        let process = child.id().map(|id| id.to_string()).unwrap_or_default();
        wait_until_it_answers(address).await?;
        Ok(Self {
            address,
            process,
            _child: child,
            _scratch: scratch,
        })
    }
}

async fn wait_until_it_answers(address: SocketAddr) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let asked = async { Redis::connect(address).await?.ask(&[b"PING"]).await };
        match asked.await {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(error.context("Redis does not answer"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
