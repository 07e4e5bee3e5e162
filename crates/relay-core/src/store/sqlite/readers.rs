//! Connections that only read, kept for the next caller.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::connection::SqliteOptions;
use crate::error::{Error, Result, StorageError};

/// Most connections that are kept open while nobody reads.
const IDLE_READERS: usize = 4;

/// The pool. A read runs on the caller's thread, in one consistent view of the database.
pub(super) struct Readers {
    options: SqliteOptions,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(options: SqliteOptions) -> Self {
        Self {
            options,
            idle: Mutex::default(),
        }
    }

    /// Runs a read.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.options.open_reader()?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        let result = work(&connection);
        connection.prepare_cached("COMMIT")?.execute([])?;
        let mut idle = self.idle();
        if idle.len() < IDLE_READERS {
            idle.push(connection);
        }
        result
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pages that are copied at a time, and the pause between, so that a backup disturbs nobody.
const BACKUP_STEP: (i32, Duration) = (1_024, Duration::from_millis(2));

/// Copies the database as it is now into a new file, then checks the copy.
pub(super) fn backup(connection: &Connection, to: &Path) -> Result<()> {
    if to.exists() {
        return Err(Error::Invalid {
            path: "to",
            expected: "a file that does not exist yet".to_owned(),
            found: to.display().to_string(),
        });
    }
    // The first read fixes the view of the transaction; a copy of a view that moves on begins again
    // with every commit of others.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut copy = Connection::open(to)?;
    Backup::new(connection, &mut copy)?.run_to_completion(BACKUP_STEP.0, BACKUP_STEP.1, None)?;
    let verdict: String = copy.query_row("PRAGMA quick_check", [], |row| row.get(0))?;
    if verdict == "ok" {
        Ok(())
    } else {
        Err(StorageError::Corrupt(format!("the backup: {verdict}")).into())
    }
}
