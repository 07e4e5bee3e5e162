//! Garbage: a server collects it soon after its start, and from time to time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use relay_core::environment::{Clock, Environment};
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine, Upload};
use relay_protocol::api::workspace::RegisterAgent;
use relay_protocol::limits::UNUSED_ATTACHMENT_MS;
use relay_protocol::time::Timestamp;
use relay_server::{Config, serve};
use tokio::net::TcpListener;

use crate::support::soon;

/// The system's clock, and some milliseconds more.
struct Ahead(Arc<dyn Clock>, AtomicI64);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.0.now().plus_millis(self.1.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

/// The first round was an hour after the start: a server that ran for less never did it.
#[tokio::test]
async fn garbage_is_collected_soon_after_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Environment::system();
    let clock = Arc::new(Ahead(environment.clock.clone(), AtomicI64::new(0)));
    let environment = Environment {
        clock: clock.clone(),
        ..environment
    };
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = SqliteStore::open(&options, environment.random.clone()).unwrap();
    let engine = Arc::new(Engine::new(Arc::new(store), environment));
    let owner = Caller::process_owner();
    let key = engine
        .create_workspace(&owner, "lab")
        .await
        .unwrap()
        .workspace_key;
    let key = engine.authenticate(&key).await.unwrap();
    let new = RegisterAgent {
        name: "ada".to_owned(),
        agent_type: None,
        metadata: None,
        adopt: None,
    };
    let token = engine.register_agent(&key, new).await.unwrap().token;
    let ada = engine.authenticate(&token).await.unwrap();
    let upload = Upload {
        media_type: "text/plain".to_owned(),
        name: None,
        data: b"unused".to_vec(),
    };
    let uploaded = engine.upload(&ada, upload).await.unwrap();
    clock.1.store(UNUSED_ATTACHMENT_MS, Ordering::SeqCst);

    let config = Config {
        collect_garbage_after: Duration::ZERO,
        ..Config::default()
    };
    assert!(config.collect_garbage_every > Duration::from_secs(60));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = tokio::spawn(serve(
        listener,
        engine.clone(),
        config,
        std::future::pending(),
    ));
    soon("the first round", async {
        while engine
            .attachment(&ada, uploaded.attachment_id)
            .await
            .is_ok()
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    serving.abort();
}
