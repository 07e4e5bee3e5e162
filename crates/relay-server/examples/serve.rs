//! Serves a new workspace from a temporary directory, to try the API by hand:
//!
//! ```console
//! $ cargo run -p relay-server --example serve
//! url           http://127.0.0.1:4000
//! workspace key rk_…
//! $ curl -H 'Authorization: Bearer rk_…' http://127.0.0.1:4000/v1/me
//! ```
//!
//! `-- 0` picks a free port.

use std::error::Error;
use std::sync::Arc;

use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_server::{Config, serve};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args()
        .nth(1)
        .map_or(Ok(4000), |port| port.parse())?;
    let directory = tempfile::tempdir()?;
    let environment = Environment::system();
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = SqliteStore::open(&options, environment.random.clone())?;
    let engine = Arc::new(Engine::new(Arc::new(store), environment));
    let owner = Caller::process_owner();
    let workspace = engine.create_workspace(&owner, "try").await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("url           http://{}", listener.local_addr()?);
    println!("workspace key {}", workspace.workspace_key);
    serve(listener, engine, Config::default(), async {
        let _ = tokio::signal::ctrl_c().await;
    })
    .await?;
    Ok(())
}
