//! Finds out which commit is built: `RELAY_COMMIT` says it, or git, or, in a tarball that `git archive` made,
//! `commit.txt`. Else it is unknown, which is no reason not to build.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RELAY_COMMIT");
    println!("cargo:rerun-if-changed=commit.txt");
    let said = std::env::var("RELAY_COMMIT").ok();
    // A container's build argument that nobody gave is there, and empty.
    let said = said.filter(|commit| !commit.is_empty());
    let commit = said.or_else(commit_here).or_else(commit_of_archive);
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=RELAY_BUILD_COMMIT={commit}");
}

/// The commit that is checked out, if this is a checkout of Relay and not a copy inside another one.
fn commit_here() -> Option<String> {
    let crate_folder = std::env::var("CARGO_MANIFEST_DIR").ok()?;
    let home = Path::new(&crate_folder).join("../..").canonicalize().ok()?;
    let top = git(&home, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != home {
        return None;
    }
    // It grows with every commit and every checkout.
    let history = git(&home, &["rev-parse", "--git-path", "logs/HEAD"])?;
    let history = home.join(history);
    if history.exists() {
        println!("cargo:rerun-if-changed={}", history.display());
    }
    git(&home, &["rev-parse", "--short=12", "HEAD"])
}

/// What `git archive` wrote in the place of the pattern.
fn commit_of_archive() -> Option<String> {
    let text = std::fs::read_to_string("commit.txt").ok()?;
    let commit = text.trim();
    (!commit.starts_with('$')).then(|| commit.to_owned())
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
