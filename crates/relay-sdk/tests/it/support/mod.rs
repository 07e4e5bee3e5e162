//! A server on a free port, a workspace, and short names for what every test does.

mod proxy;
#[path = "../../../../relay-server/tests/it/support/receiver.rs"]
#[allow(dead_code, reason = "the server's tests use more of it")]
mod receiver;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use relay_core::environment::Environment;
use relay_core::store::sqlite::{OpenError, SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine};
use relay_sdk::protocol::policy::{PolicyPatch, RunawayPolicy};
use relay_sdk::{AgentClient, Options, Relay};
use relay_server::{Config, ServeError, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) use proxy::{Proxy, Weather};
use receiver::calls_this_machine;
pub(crate) use receiver::{Called, Receiver};

/// How long anything may take before a test gives up on it. No test depends on how fast something is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that has to come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come"),
    }
}

/// Takes the next of what is told.
pub(crate) async fn next<T>(what: &str, told: &mut mpsc::UnboundedReceiver<T>) -> T {
    soon(what, told.recv()).await.unwrap()
}

/// A server with one workspace.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) admin_key: String,
    pub(crate) key: String,
    running: Option<Running>,
    directory: TempDir,
}

struct Running {
    engine: Arc<Engine>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl World {
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(&directory);
        let owner = Caller::process_owner();
        let admin_key = engine.create_admin_key(&owner).await.unwrap();
        let created = engine.create_workspace(&owner, "lab").await.unwrap();
        let mut world = Self {
            address: ([127, 0, 0, 1], 0).into(),
            admin_key,
            key: created.workspace_key,
            running: None,
            directory,
        };
        world.run(engine).await;
        world
    }

    /// Listens where it listened before, or on a free port.
    async fn run(&mut self, engine: Arc<Engine>) {
        let listener = soon("the port", async {
            loop {
                match TcpListener::bind(self.address).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        let listener = listener.await;
        self.address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let config = Config {
            // A killed server does not wait for those that are connected.
            drain_timeout: Duration::ZERO,
            ..calls_this_machine()
        };
        let serving = tokio::spawn(serve(listener, engine.clone(), config, async {
            let _ = stopped.await;
        }));
        self.running = Some(Running {
            engine,
            stop,
            serving,
        });
    }

    /// Cuts everybody off and forgets what is only in memory.
    pub(crate) async fn kill(&mut self) {
        let Running {
            engine,
            stop,
            serving,
        } = self.running.take().unwrap();
        drop(stop);
        soon("the end", serving).await.unwrap().unwrap();
        let old = Arc::downgrade(&engine);
        drop(engine);
        // Tasks of the old server hold the engine for a moment more.
        soon("the engine's end", async {
            while old.strong_count() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Starts a server over the same data, at the same address.
    pub(crate) async fn revive(&mut self) {
        // The old store lets go of its file a moment after its engine.
        let engine = soon("the file", async {
            loop {
                match try_open(&self.directory) {
                    Ok(engine) => break engine,
                    Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let engine = engine.await;
        self.run(engine).await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn relay(&self) -> Relay {
        Relay::open(&self.url(), &self.key).await.unwrap()
    }

    /// Two agents.
    pub(crate) async fn pair(&self) -> (Relay, AgentClient, AgentClient) {
        let relay = self.relay().await;
        let alice = relay.register("alice").await.unwrap();
        let bob = relay.register("bob").await.unwrap();
        (relay, alice, bob)
    }

    /// Lets agents talk as fast as tests do; by default what comes so fast is held back for a minute.
    pub(crate) async fn unhurried(&self) {
        let patch = PolicyPatch {
            sender_per_minute: Some(10_000),
            backlog_per_turn: Some(200),
            runaway: Some(RunawayPolicy {
                per_minute: 10_000,
                depth: 20,
            }),
            ..PolicyPatch::default()
        };
        self.relay().await.update_policy(&patch).await.unwrap();
    }

    /// A file of this world.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }
}

pub(crate) fn open(directory: &TempDir) -> Arc<Engine> {
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

/// Notices a dead connection soon.
pub(crate) fn attentive() -> Options {
    Options {
        silence: Duration::from_secs(2),
        ..Options::default()
    }
}
