//! A workspace with senders and receivers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_protocol::api::messages::{SendMessage, SendTarget};
use relay_protocol::api::workspace::RegisterAgent;
use relay_protocol::policy::{PolicyPatch, RunawayPolicy};
use tempfile::TempDir;

use crate::text::text;

/// How many receivers each sender talks to.
pub(crate) const PEERS: usize = 16;

pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    pub(crate) senders: Vec<Caller>,
    pub(crate) receivers: Vec<String>,
    pub(crate) key: Caller,
    first: AtomicUsize,
}

/// A directory on the disk that the target directory is on, not in memory.
pub(crate) fn directory() -> TempDir {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tempfile::tempdir_in(target).unwrap()
}

/// Opens the database in a directory.
pub(crate) fn open(directory: &Path) -> Engine {
    let environment = Environment::system();
    Engine::new(open_store(directory), environment)
}

pub(crate) fn open_store(directory: &Path) -> Arc<SqliteStore> {
    let options = SqliteOptions::new(directory.join("relay.db"));
    let random = Environment::system().random;
    Arc::new(SqliteStore::open(&options, random).unwrap())
}

impl World {
    /// A new workspace with so many agents of each kind.
    pub(crate) async fn create(directory: &Path, senders: usize, receivers: usize) -> Self {
        Self::over(Arc::new(open(directory)), senders, receivers).await
    }

    /// A new workspace with so many agents of each kind, in an engine that is there.
    pub(crate) async fn over(engine: Arc<Engine>, senders: usize, receivers: usize) -> Self {
        let created = engine
            .create_workspace(&Caller::process_owner(), "bench")
            .await
            .unwrap();
        let key = engine.authenticate(&created.workspace_key).await.unwrap();
        let mut world = Self {
            engine,
            senders: Vec::new(),
            receivers: Vec::new(),
            key,
            first: AtomicUsize::new(0),
        };
        world.lift_pace().await;
        for number in 0..senders {
            let sender = world.register(format!("sender-{number}")).await;
            world.senders.push(sender);
        }
        for number in 0..receivers {
            let name = format!("receiver-{number}");
            world.register(name.clone()).await;
            world.receivers.push(name);
        }
        world
    }

    /// Lets everybody send as fast as they can: what would be held back costs more.
    async fn lift_pace(&self) {
        let patch = PolicyPatch {
            sender_per_minute: Some(1_000_000),
            runaway: Some(RunawayPolicy {
                per_minute: 100_000,
                depth: 10_000,
            }),
            ..PolicyPatch::default()
        };
        self.engine.update_policy(&self.key, patch).await.unwrap();
    }

    async fn register(&self, name: String) -> Caller {
        let body = RegisterAgent {
            name,
            agent_type: None,
            metadata: None,
            adopt: None,
        };
        let registered = self.engine.register_agent(&self.key, body).await.unwrap();
        self.engine.authenticate(&registered.token).await.unwrap()
    }

    /// Goes on numbering messages from here.
    pub(crate) fn start_at(&self, number: usize) {
        self.first.store(number, Ordering::Relaxed);
    }

    /// The message with this number. Each sender talks to [`PEERS`] receivers in turn.
    pub(crate) fn message(&self, number: usize) -> SendMessage {
        let number = number + self.first.load(Ordering::Relaxed);
        let (sender, turn) = (
            number % self.senders.len(),
            number / self.senders.len() % PEERS,
        );
        let receiver = &self.receivers[(sender * 3 + turn * 29) % self.receivers.len()];
        SendMessage::text(SendTarget::Agent(receiver.clone()), text(number))
    }
}
