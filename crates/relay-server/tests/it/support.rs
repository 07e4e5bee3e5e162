//! A server on a free port, with a workspace and agents, and short names for what every test does.

mod http;
mod receiver;
mod schema;
mod ws;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use relay_core::environment::Environment;
use relay_core::store::sqlite::{OpenError, SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine};
use relay_server::{Config, ServeError, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) use self::http::{Answer, Client, Raw, dechunk};
pub(crate) use self::receiver::{Called, Receiver, calls_this_machine};
pub(crate) use self::schema::document;
pub(crate) use self::ws::{Ended, Socket};

/// How long anything may take before a test gives up on it. No test depends on how fast something is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that has to come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come"),
    }
}

/// A server with one workspace.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Engine>,
    /// The server's admin key.
    pub(crate) admin: Client,
    /// The workspace's key.
    pub(crate) key: Client,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Result<(), ServeError>>>,
    directory: Arc<TempDir>,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(Config::default()).await
    }

    pub(crate) async fn start_with(config: Config) -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let engine = open(&directory);
        let owner = Caller::process_owner();
        let admin = engine.create_admin_key(&owner).await.unwrap();
        let created = engine.create_workspace(&owner, "lab").await.unwrap();
        let key = created.workspace_key;
        Self::over(directory, engine, config, admin, key).await
    }

    async fn over(
        directory: Arc<TempDir>,
        engine: Arc<Engine>,
        config: Config,
        admin: String,
        key: String,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(listener, engine.clone(), config, async {
            let _ = stopped.await;
        }));
        Self {
            address,
            engine,
            admin: Client::new(address, Some(admin)),
            key: Client::new(address, Some(key)),
            stop: Some(stop),
            serving: Some(serving),
            directory,
        }
    }

    /// Tells the server to stop; the handle ends when it has.
    pub(crate) fn stop(&mut self) -> JoinHandle<Result<(), ServeError>> {
        let _ = self.stop.take().unwrap().send(());
        self.serving.take().unwrap()
    }

    /// Stops the server and starts another one over the same data.
    pub(crate) async fn restart(mut self, config: Config) -> Self {
        soon("the end", self.stop()).await.unwrap().unwrap();
        let Self {
            engine,
            admin,
            key,
            directory,
            ..
        } = self;
        drop(engine);
        let engine = loop {
            // What a client's last request held of the old engine may take a moment to go.
            match try_open(&directory) {
                Ok(engine) => break engine,
                Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let (admin, key) = (admin.token.unwrap(), key.token.unwrap());
        Self::over(directory, engine, config, admin, key).await
    }

    /// Whoever has no credential.
    pub(crate) fn nobody(&self) -> Client {
        Client::new(self.address, None)
    }

    /// Whoever has this credential.
    pub(crate) fn with(&self, token: &str) -> Client {
        Client::new(self.address, Some(token.to_owned()))
    }

    /// A new agent.
    pub(crate) async fn agent(&self, name: &str) -> Client {
        let made = self.key.post("/v1/agents", json!({ "name": name })).await;
        self.with(made.expect(201)["token"].as_str().unwrap())
    }

    /// A new observer.
    pub(crate) async fn observer(&self, scope: Value) -> Client {
        let body = json!({ "scope": scope });
        let made = self.key.post("/v1/observer-tokens", body).await;
        self.with(made.expect(201)["token"].as_str().unwrap())
    }

    /// The key of another workspace.
    pub(crate) async fn elsewhere(&self) -> Client {
        let body = json!({ "name": "elsewhere" });
        let made = self.admin.post("/v1/workspaces", body).await;
        self.with(made.expect(201)["workspaceKey"].as_str().unwrap())
    }
}

fn open(directory: &TempDir) -> Arc<Engine> {
    try_open(directory).unwrap()
}

fn try_open(directory: &TempDir) -> Result<Arc<Engine>, OpenError> {
    let environment = Environment::system();
    let mut options = SqliteOptions::new(directory.path().join("relay.db"));
    // The store's own tests are about durability; these need not wait for the disk.
    options.synchronous = Synchronous::Off;
    let store = SqliteStore::open(&options, environment.random.clone())?;
    Ok(Arc::new(Engine::new(Arc::new(store), environment)))
}

/// What a session can do at least, beside taking messages at once.
pub(crate) fn capabilities() -> Value {
    json!({
        "messaging": { "receive": true, "send": true, "attachments": ["text"] },
        "delivery": { "modes": ["immediate", "on-idle", "next-tool-call", "next-message", "manual"] },
        "events": { "emits": ["status.changed", "tool.called", "tool.completed"] },
        "lifecycle": { "release": true, "pause": true, "resume": true, "fork": true, "snapshot": true },
    })
}

/// The frame or body that attaches an agent's session.
pub(crate) fn attach(agent: &str) -> Value {
    json!({ "agent": agent, "harness": "test", "capabilities": capabilities() })
}

/// A receipt that says that a delivery was seen.
pub(crate) fn delivered(id: &Value) -> Value {
    json!({ "status": "delivered", "deliveryId": id })
}
