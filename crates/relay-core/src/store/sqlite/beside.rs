//! Reading a database without owning it: for looking at the files of a server that runs, or of none.
//!
//! It takes no lock and changes nothing. What it sees is one consistent state, the last that was committed
//! when it began to read; the one who writes goes on meanwhile.

use std::path::Path;

use relay_protocol::ids::WorkspaceId;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::connection::{OpenError, SqliteOptions};
use super::opening::{Found, examine};
use super::{audit, lock, readers, workspaces};
use crate::error::{Error, Result};
use crate::store::records::{AuditReport, ChainHead, WorkspaceRow};

/// A database that somebody else may be writing to.
pub struct Beside {
    connection: Connection,
}

impl Beside {
    /// Opens a database that is there.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let options = SqliteOptions::new(path);
        let sqlite = |error| OpenError::from_sqlite(path, error);
        let connection = options.open_reader().map_err(sqlite)?;
        // The last one to close a database would tidy it up, and that is a change.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(sqlite)?;
        match examine(&connection, path)? {
            // What is read here is the same in all formats so far.
            Found::Database | Found::Older(_) => Ok(Self { connection }),
            Found::Nothing => Err(OpenError::Foreign {
                path: path.to_owned(),
                why: "it is empty".to_owned(),
            }),
        }
    }

    /// The number of the process that has a database open for writing, if one has.
    pub fn writer_of(path: &Path) -> std::io::Result<Option<String>> {
        lock::holder(path)
    }

    /// Reads every page and compares every index with its table; what is wrong, in SQLite's words.
    pub fn check_integrity(&self) -> Result<Vec<String>> {
        self.reading(|connection| {
            let mut statement = connection.prepare("PRAGMA integrity_check")?;
            let found = statement.query_map([], |row| row.get(0))?;
            let found = found.collect::<rusqlite::Result<Vec<String>>>()?;
            Ok(found.into_iter().filter(|line| line != "ok").collect())
        })
    }

    /// Copies everything into a new file, which is checked.
    pub fn backup(&self, to: &Path) -> Result<()> {
        self.reading(|connection| readers::backup(connection, to))
    }

    /// The end of a workspace's chain.
    pub fn head(&self, workspace: WorkspaceId) -> Result<ChainHead> {
        self.reading(|connection| {
            let workspace = find(connection, workspace)?;
            audit::head(connection, workspace.no)
        })
    }

    /// The end of a workspace's chain as it was when this was the last sequence number.
    pub fn head_at(&self, workspace: WorkspaceId, seq: u64) -> Result<Option<ChainHead>> {
        self.reading(|connection| {
            let workspace = find(connection, workspace)?;
            audit::head_at(connection, workspace.no, seq)
        })
    }

    /// All workspaces with their names, oldest first.
    pub fn workspaces(&self) -> Result<Vec<(WorkspaceId, String)>> {
        self.reading(|connection| {
            let numbers = workspaces::numbers(connection)?.into_iter();
            let known = numbers.map(|no| workspaces::by_no(connection, no));
            known
                .map(|row| row.map(|row| (row.id, row.name.clone())))
                .collect()
        })
    }

    /// Checks a workspace's whole log against its chain.
    pub fn verify(&self, workspace: WorkspaceId) -> Result<AuditReport> {
        self.reading(|connection| {
            let workspace = find(connection, workspace)?;
            audit::verify(connection, &workspace)
        })
    }

    fn reading<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let view = self.connection.unchecked_transaction()?;
        work(&view)
    }
}

fn find(connection: &Connection, id: WorkspaceId) -> Result<std::sync::Arc<WorkspaceRow>> {
    workspaces::find(connection, id)?.ok_or(Error::UnknownWorkspace(id))
}
