//! Opening SQLite connections, and what their errors mean.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode as Sqlite, OpenFlags, ffi};

use crate::error::{Error, StorageError};

/// Bytes of the database that readers map into memory.
const READ_MAPPED_BYTES: i64 = 1024 * 1024 * 1024;

/// Where and how the database is opened.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The database file; created if there is none.
    pub path: PathBuf,
    /// `PRAGMA synchronous`; anything but [`Synchronous::Full`] gives up durability.
    pub synchronous: Synchronous,
    /// Whether words are indexed for searches a moment after each send. Otherwise the first search after
    /// it does that.
    pub index_ahead: bool,
    /// The SQLite VFS to use, for tests that take the power away.
    pub vfs: Option<String>,
    /// Called once with the connection that writes, after the tables are there and before the first
    /// change, for tests that install triggers.
    pub on_writer: Option<WriterHook>,
}

/// See [`SqliteOptions::on_writer`].
pub type WriterHook = Arc<dyn Fn(&Connection) -> rusqlite::Result<()> + Send + Sync>;

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            synchronous,
            index_ahead,
            vfs,
            on_writer,
        } = self;
        f.debug_struct("SqliteOptions")
            .field("path", path)
            .field("synchronous", synchronous)
            .field("index_ahead", index_ahead)
            .field("vfs", vfs)
            .field("on_writer", &on_writer.is_some())
            .finish()
    }
}

/// When SQLite waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// At every commit: an acknowledged write survives a power cut.
    Full,
    /// Never, for showing in tests and benchmarks what that costs.
    Off,
}

impl SqliteOptions {
    /// A durable database in this file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            synchronous: Synchronous::Full,
            index_ahead: true,
            vfs: None,
            on_writer: None,
        }
    }

    /// Opens the connection that will write, without changing anything: whose file it is has to be
    /// found out first.
    pub(super) fn open_writer(&self) -> rusqlite::Result<Connection> {
        let connection =
            self.open(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        // Closing would copy the write-ahead log into the file.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(connection)
    }

    /// Makes a connection of [`Self::open_writer`] ready to write.
    pub(super) fn begin_writing(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        let level = match self.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Off => "OFF",
        };
        connection.pragma_update(None, "synchronous", level)?;
        reach_the_disk(connection)?;
        // Checkpoints run between commits or on their own thread, never inside a commit.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "cache_size", -(64 * 1024))?;
        // What is deleted is overwritten. Pages that were split before still have old copies: see `Tx::scrub`.
        connection.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))?;
        Ok(())
    }

    /// Opens a connection that checkpoints.
    pub(super) fn open_checkpointer(&self) -> rusqlite::Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        reach_the_disk(&connection)?;
        if self.synchronous == Synchronous::Off {
            connection.pragma_update(None, "synchronous", "OFF")?;
        }
        Ok(connection)
    }

    /// Opens a connection that only reads.
    pub(super) fn open_reader(&self) -> rusqlite::Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -(16 * 1024))?;
        // Every commit makes a reader's own cache void, so in a large database each old row would cost
        // a system call. The price: a disk that can't be read ends the process, which loses nothing.
        connection.pragma_update(None, "mmap_size", READ_MAPPED_BYTES)?;
        Ok(connection)
    }

    fn open(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str())?,
            None => Connection::open_with_flags(&self.path, flags)?,
        };
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        // Else SQLite compiles a cached statement again whenever a bound value might change its plan.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(256);
        Ok(connection)
    }
}

/// On macOS a synced write may still be in the disk's own memory unless that is asked for; elsewhere this changes
/// nothing.
fn reach_the_disk(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "fullfsync", true)
}

/// A process by its number, which one that has just taken the lock may not have written yet.
fn process(number: &str) -> String {
    if number.is_empty() {
        "another process".to_owned()
    } else {
        format!("process {number}")
    }
}

/// Why a database could not be opened. It was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{} is in use by {}; stop that one, or use another data directory",
        path.display(),
        process(holder)
    )]
    Locked {
        /// The database.
        path: PathBuf,
        /// The other process's number.
        holder: String,
    },
    /// A newer Relay has written it.
    #[error(
        "{} has format {found}, this Relay knows formats up to {supported}; use a newer Relay",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// What this program knows.
        supported: i64,
    },
    /// It is not a Relay database.
    #[error("{} is not a Relay database ({why}); use another data directory", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// Its content is damaged.
    #[error("{} is damaged ({why}); nothing was changed; restore a backup", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The disk is full.
    #[error("the disk of {} is full; nothing was lost; make room and start again", path.display())]
    Full {
        /// The database, or a file beside it.
        path: PathBuf,
    },
    /// The files can't be used.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// SQLite could not do it.
    #[error("{}: {error}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What SQLite says.
        error: rusqlite::Error,
    },
}

impl OpenError {
    /// What an error of the system means for whoever opens a database.
    pub(super) fn from_io(path: &Path, error: std::io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            std::io::ErrorKind::StorageFull => Self::Full { path },
            _ => Self::Io { path, error },
        }
    }

    /// What an error of SQLite means for whoever opens a database.
    pub(super) fn from_sqlite(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(Sqlite::NotADatabase) => Self::Foreign {
                path,
                why: error.to_string(),
            },
            Some(Sqlite::DatabaseCorrupt) => Self::Corrupt {
                path,
                why: error.to_string(),
            },
            _ if is_full(&error) => Self::Full { path },
            Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => Self::Locked {
                path,
                holder: "that is not a Relay of this version".to_owned(),
            },
            _ => Self::Sqlite { path, error },
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(match error.sqlite_error_code() {
            _ if is_full(&error) => StorageError::Full,
            Some(Sqlite::DatabaseCorrupt | Sqlite::NotADatabase) => {
                StorageError::Corrupt(error.to_string())
            }
            _ if is_damage(&error) => StorageError::Corrupt(error.to_string()),
            _ => StorageError::Unavailable(error.to_string()),
        })
    }
}

/// True when there was no room, be it only for the file in which connections share what they know of the log.
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| {
        error.code == Sqlite::DiskFull || error.extended_code == ffi::SQLITE_IOERR_SHMSIZE
    })
}

/// True for a value that is not what was written: trying again won't help.
const fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    matches!(
        error,
        E::FromSqlConversionFailure(..)
            | E::IntegralValueOutOfRange(..)
            | E::InvalidColumnType(..)
            | E::QueryReturnedNoRows
            | E::Utf8Error(..)
    )
}
