//! `relay restore`: a backup becomes a data directory again.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use relay_core::store::sqlite::Beside;
use serde::Serialize;

use super::audit::{WorkspaceReport, verify_all};
use super::backup::copy_beside;
use crate::contact::GlobalArguments;
use crate::credentials::Credentials;
use crate::data::{DataDirectory, only_for_owner};
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::output::Output;
use crate::words;

pub(crate) const EXAMPLES: &str = "\
Example:
  relay restore ~/backups/relay-2026-11-16 --data ./copy

The data directory must not have a database yet: nothing is overwritten. The backup is checked first: its format, and \
its log against the chain.";

#[derive(Args)]
pub(crate) struct RestoreArguments {
    /// A directory that `relay backup` made
    from: PathBuf,
}

#[derive(Serialize)]
struct Restored<'a> {
    data: &'a Path,
    events: u64,
}

pub(crate) fn run(
    arguments: &RestoreArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let backup = DataDirectory::locate(Some(&arguments.from))?;
    let found = Credentials::read(&backup.credentials())?;
    let (Some(credentials), true) = (found, backup.database().exists()) else {
        let message = format!(
            "expected a backup with {} and {}; they are not there",
            backup.database().display(),
            backup.credentials().display()
        );
        return Err(Failure::new(Exit::NotFound, "no_backup", message));
    };
    let data = DataDirectory::open(globals.data.as_deref())?;
    if data.database().exists() {
        let message = format!(
            "expected a data directory without a database, found {}",
            data.database().display()
        );
        return Err(Failure::new(Exit::Conflict, "exists", message)
            .next("choose another directory with --data, or move the old one away"));
    }
    let arriving = data.path().join("relay.db.restoring");
    let restored = arrive(&backup, &data, &arriving, &credentials);
    if restored.is_err() {
        let _ = std::fs::remove_file(&arriving);
    }
    let events = restored?;
    let done = Restored {
        data: data.path(),
        events,
    };
    output.show(&done, |_| {
        format!(
            "restored {} into {}; start it: {}",
            words::counted(events, "event", "events"),
            data.path().display(),
            hints::command("up")
        )
    })
}

/// The database comes last: a directory that has one is complete.
fn arrive(
    backup: &DataDirectory,
    data: &DataDirectory,
    arriving: &Path,
    credentials: &Credentials,
) -> Outcome<u64> {
    std::fs::copy(backup.database(), arriving)
        .with_context(|| format!("{} can't be copied", backup.database().display()))?;
    only_for_owner(arriving)?;
    let checked = check(backup, arriving, credentials);
    for rest in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(data.path().join(format!("relay.db.restoring{rest}")));
    }
    let events = checked?;
    copy_beside(backup, data)?;
    std::fs::rename(arriving, data.database())
        .with_context(|| format!("{} can't be made", data.database().display()))?;
    Ok(events)
}

/// Checks the pages of the database and the logs of all its workspaces; says how many events there are.
fn check(backup: &DataDirectory, arriving: &Path, credentials: &Credentials) -> Outcome<u64> {
    let from = backup.database();
    let from = from.display();
    let damaged = |message: String| {
        Err(Failure::new(Exit::Failed, "log_changed", message).next("use another backup"))
    };
    let database = Beside::open(arriving)?;
    let faults = database.check_integrity()?;
    if let Some(first) = faults.first() {
        return damaged(format!("{from} is damaged: {first}"));
    }
    let checked = verify_all(&database)?;
    for WorkspaceReport {
        name,
        intact,
        report,
        ..
    } in &checked
    {
        if !intact {
            return damaged(format!(
                "the log of workspace {name:?} in {from} is not what was written: changed {:?}, missing {:?}",
                report.changed, report.missing
            ));
        }
    }
    let is_known = checked
        .iter()
        .any(|checked| checked.workspace_id == credentials.workspace_id);
    if !is_known {
        return Err(relay_core::Error::UnknownWorkspace(credentials.workspace_id).into());
    }
    Ok(checked.iter().map(|checked| checked.report.events).sum())
}
