//! What the tests need: an ACP client, the agents that it drives, and their ends.

#[cfg(target_os = "linux")]
pub(crate) mod acp;
#[cfg(target_os = "linux")]
pub(crate) mod agents;
pub(crate) mod http;
#[cfg(target_os = "linux")]
pub(crate) mod processes;

use std::time::Duration;

use relay_script::Script;
use serde_json::Value;

/// How long anything may take before a test gives up: much longer than it does on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for something that has to happen.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("{what} did not happen within {PATIENCE:?}"))
}

pub(crate) fn script(value: Value) -> Script {
    Script::from_value(value).unwrap()
}
