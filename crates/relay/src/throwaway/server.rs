//! A server in a temporary directory, in this process.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use relay_server::{Config, ServeError};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::commands::serve::{self, OpenOptions};
use crate::credentials::Credentials;
use crate::data::DataDirectory;

/// A running server. Others find it by its directory, as they find any.
pub(super) struct ThrowawayServer {
    pub(super) url: String,
    pub(super) credentials: Credentials,
    directory: TempDir,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl ThrowawayServer {
    /// Starts one on a free port; `purpose` is in the name of its directory.
    pub(super) async fn start(purpose: &str) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&format!("relay-{purpose}-"))
            .tempdir()
            .context("no temporary directory can be made")?;
        let data = DataDirectory::open(Some(directory.path()))?;
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("no port of this machine can be listened on")?;
        let url = serve::url_of(listener.local_addr()?);
        let options = OpenOptions::usual(&data);
        let (engine, credentials) = serve::open(&data, &options, url.clone(), false).await?;
        let config = Config {
            // Whoever is connected at the end is part of the tour, which is over.
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(relay_server::serve(listener, engine, config, async {
            let _ = stopped.await;
        }));
        Ok(Self {
            url,
            credentials,
            directory,
            stop,
            serving,
        })
    }

    pub(super) fn data(&self) -> &Path {
        self.directory.path()
    }

    /// Stops it and removes everything.
    pub(super) async fn end(self) {
        drop(self.stop);
        let _ = self.serving.await;
        let _ = self.directory.close();
    }
}
