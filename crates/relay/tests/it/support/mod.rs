//! A server in a process of its own, and short names for what every test does.

mod desk;
mod fake_agent;
#[path = "../../../../relay-sdk/tests/it/support/proxy.rs"]
#[allow(dead_code, reason = "the SDK's tests use more of it")]
mod proxy;
mod runs;
mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use desk::{Desk, Done, Running, ended, finish, masked, text};
pub(crate) use fake_agent::{fake_agent, processes_with, told};
pub(crate) use proxy::{Proxy, Weather};
pub(crate) use runs::Runs;
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

/// The first of these programs that is there, and says its version when it is asked; a test that needs it is skipped
/// without it.
pub(crate) fn installed(test: &str, names: &[&str], version: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let mut candidates = candidates.filter(|path| path.is_file());
    let found = candidates.find(|path| {
        // Some systems have only a note there that says where to get it.
        let version = std::process::Command::new(path).arg(version).output();
        version.is_ok_and(|version| version.status.success())
    });
    if found.is_none() {
        let why = format!("there is no {}, and it could not be installed", names[0]);
        skipped(test, &why);
    }
    found
}

/// Node, if it is there and this package is installed in this folder.
pub(crate) fn node(test: &str, folder: &Path, package: &str) -> Option<PathBuf> {
    let node = installed(test, &["node"], "--version")?;
    if folder.join("node_modules").join(package).exists() {
        return Some(node);
    }
    skipped(
        test,
        &format!("`npm ci` was not run in {}", folder.display()),
    );
    None
}

/// Where a shell looks for programs, with the one under test first.
pub(crate) fn search_path() -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_relay")).parent().unwrap();
    format!("{}:{}", program.display(), std::env::var("PATH").unwrap())
}

/// Says so that nobody overlooks it that a test was left out: `scripts/test` repeats it in its summary.
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(notes) = std::env::var_os("RELAY_SKIPPED") {
        let mut notes = std::fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{test}: {why}").unwrap();
    }
}
