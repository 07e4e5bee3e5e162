//! A server in a process of its own, and short names for what every test does.

mod desk;
#[path = "../../../../relay-sdk/tests/it/support/proxy.rs"]
#[allow(dead_code, reason = "the SDK's tests use more of it")]
mod proxy;
mod server;

use std::io::Write as _;
use std::time::Duration;

pub(crate) use desk::{Desk, finish, masked, text};
pub(crate) use proxy::{Proxy, Weather};
pub(crate) use server::{Server, Setup, output};

/// How long anything may take before a test gives up on it. No test depends on how fast something is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that has to come.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come"),
    }
}

/// Says so that nobody overlooks it that a test was left out: `scripts/test` repeats it in its summary.
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(notes) = std::env::var_os("RELAY_SKIPPED") {
        let mut notes = std::fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{test}: {why}").unwrap();
    }
}
