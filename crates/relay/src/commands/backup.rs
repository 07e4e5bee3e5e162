//! `relay backup`: a copy of everything that a server needs, made while it runs or while it does not.
//!
//! The database is copied by SQLite's online backup: one consistent state, and the writer goes on. The credentials
//! go with it, because the database has only their hashes: without them nobody could get in.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use relay_core::store::sqlite::Beside;
use serde::Serialize;

use crate::contact::GlobalArguments;
use crate::credentials::Credentials;
use crate::data::{DataDirectory, make_private, only_for_owner, write_private};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay backup ~/backups/relay-$(date +%F)
  relay restore ~/backups/relay-2026-11-16 --data ./copy && relay up --data ./copy --listen 127.0.0.1:0

The new directory has the database, the credentials, the agents' tokens and relay.toml: keep it as safe as the \
data itself. A server that runs goes on meanwhile.";

#[derive(Args)]
pub(crate) struct BackupArguments {
    /// A directory that is not there yet
    to: PathBuf,
}

#[derive(Serialize)]
struct BackedUp<'a> {
    backup: &'a Path,
    bytes: u64,
}

pub(crate) fn run(
    arguments: &BackupArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let data = DataDirectory::locate(globals.data.as_deref())?;
    let to = &arguments.to;
    if !data.database().exists() {
        let message = format!(
            "expected a database at {}, found none",
            data.database().display()
        );
        return Err(Failure::new(Exit::NotFound, "no_data", message)
            .next("say with --data where the server keeps its data; run this on its machine"));
    }
    if to.exists() {
        let message = format!(
            "expected a directory that is not there yet, found {}",
            to.display()
        );
        return Err(Failure::new(Exit::Conflict, "exists", message));
    }
    // Whole or not at all: it gets its name when it is complete.
    let unfinished = with_suffix(to, ".unfinished");
    let bytes = match copy(&data, &unfinished) {
        Ok(bytes) => bytes,
        Err(failure) => {
            let _ = std::fs::remove_dir_all(&unfinished);
            return Err(failure);
        }
    };
    std::fs::rename(&unfinished, to).with_context(|| format!("{} can't be made", to.display()))?;
    let done = BackedUp { backup: to, bytes };
    output.show(&done, |style| {
        format!(
            "backed up {} to {} ({bytes} bytes)",
            data.path().display(),
            style.strong(&to.display().to_string())
        )
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn copy(data: &DataDirectory, to: &Path) -> Outcome<u64> {
    make_private(to).with_context(|| format!("{} can't be made", to.display()))?;
    let backup = DataDirectory::locate(Some(to))?;
    Beside::open(&data.database())?.backup(&backup.database())?;
    only_for_owner(&backup.database())?;
    copy_beside(data, &backup)?;
    let bytes = std::fs::metadata(backup.database()).context("the copy can't be read")?;
    Ok(bytes.len())
}

/// Copies what lies beside the database. The address of the server is left out: whoever uses the copy must not reach
/// the server of the original.
pub(super) fn copy_beside(from: &DataDirectory, to: &DataDirectory) -> Outcome {
    if let Some(credentials) = Credentials::read(&from.credentials())? {
        credentials.without_url().write(&to.credentials())?;
    }
    copy_file(&from.config(), &to.config())?;
    for workspace in entries(&from.agents())? {
        let Some(name) = workspace.file_name() else {
            continue;
        };
        let folder = to.agents().join(name);
        make_private(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        for file in entries(&workspace)? {
            if let Some(name) = file.file_name() {
                copy_file(&file, &folder.join(name))?;
            }
        }
    }
    Ok(())
}

/// What is in a directory; nothing if it is not there.
fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        match std::fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect(),
        }
    };
    Ok(read().with_context(|| format!("{} can't be read", folder.display()))?)
}

fn copy_file(from: &Path, to: &Path) -> Outcome {
    match std::fs::read_to_string(from) {
        Ok(text) => Ok(write_private(to, &text)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(anyhow::anyhow!("{} can't be read: {error}", from.display()).into()),
    }
}
