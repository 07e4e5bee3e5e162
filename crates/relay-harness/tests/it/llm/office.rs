//! A relay on a free port, with two agents.

use std::sync::Arc;
use std::time::Duration;

use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine};
use relay_sdk::{AgentClient, Relay};
use relay_server::{Config, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;

pub(crate) struct Office {
    pub(crate) relay: Relay,
    pub(crate) alice: AgentClient,
    pub(crate) bob: AgentClient,
    _directory: TempDir,
}

impl Office {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let system = Environment::system();
        let mut options = SqliteOptions::new(directory.path().join("relay.db"));
        options.synchronous = Synchronous::Off;
        let store = SqliteStore::open(&options, system.random.clone()).unwrap();
        let engine = Arc::new(Engine::new(Arc::new(store), system));
        let owner = Caller::process_owner();
        let made = engine.create_workspace(&owner, "lab");
        let key = made.await.unwrap().workspace_key;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = Config {
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        tokio::spawn(serve(listener, engine, config, std::future::pending()));
        let relay = Relay::open(&url, &key).await.unwrap();
        let alice = relay.register("alice").await.unwrap();
        let bob = relay.register("bob").await.unwrap();
        Self {
            relay,
            alice,
            bob,
            _directory: directory,
        }
    }
}
