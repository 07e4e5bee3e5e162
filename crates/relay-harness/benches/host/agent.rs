//! The agent that plays a script, behind the host.

use std::time::{Duration, UNIX_EPOCH};

use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::host::{Host, HostOptions, OpenSession, Session};
use relay_harness::child::ChildEnvironment;
use serde_json::{Value, json};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_relay-fake-agent");

pub(crate) fn definition(script: &Value) -> AgentDefinition {
    let config = json!({"command": PROGRAM, "args": [script.to_string()]});
    let config = serde_json::from_value(config).unwrap();
    let catalogue = Catalogue::with_configured([("fake".to_owned(), config)]).unwrap();
    catalogue.get("fake").unwrap().clone()
}

pub(crate) async fn host(script: &Value) -> Host {
    let environment = ChildEnvironment::default();
    let folder = std::env::temp_dir();
    let options = HostOptions::default();
    let host = Host::start(definition(script), environment, folder, options);
    host.await.unwrap()
}

pub(crate) async fn session(script: &Value) -> Session {
    let open = OpenSession::new(std::env::temp_dir());
    host(script).await.new_session(open).await.unwrap()
}

/// How long ago the agent wrote this; nothing when it is no time.
pub(crate) fn age(stamp: &str) -> Option<Duration> {
    let then = Duration::from_nanos(stamp.parse().ok()?);
    Some(UNIX_EPOCH.elapsed().unwrap().saturating_sub(then))
}
