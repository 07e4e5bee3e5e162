//! What the programs share: a server in this process, as `relay serve` runs one.

use std::sync::Arc;

use anyhow::Result;
use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_server::{Config, ServeError, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server over a directory that goes with it.
pub struct Server {
    /// Where it listens.
    pub url: String,
    /// The key that makes workspaces.
    pub admin_key: String,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
    _directory: TempDir,
}

impl Server {
    /// Starts it.
    pub async fn start(config: Config) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let environment = Environment::system();
        let options = SqliteOptions::new(directory.path().join("relay.db"));
        let store = SqliteStore::open(&options, environment.random.clone())?;
        let engine = Arc::new(Engine::new(Arc::new(store), environment));
        let admin_key = engine.create_admin_key(&Caller::process_owner()).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(listener, engine, config, async {
            let _ = stopped.await;
        }));
        Ok(Self {
            url,
            admin_key,
            stop,
            serving,
            _directory: directory,
        })
    }

    /// Lets it finish what it has begun.
    pub async fn stop(self) -> Result<()> {
        drop(self.stop);
        Ok(self.serving.await??)
    }
}
