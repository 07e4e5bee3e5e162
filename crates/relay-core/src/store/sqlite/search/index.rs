//! The index's own file.
//!
//! Words are runs of letters and digits, compared without regard to case and diacritics. There are no
//! further characters in them, so `foo_bar` and `main.rs` are two words each: a query's `foo_bar` is
//! then a phrase of both, and each part is found alone as well. Scripts without spaces between words
//! are indexed by the run, so that only a run's beginning can be looked for.
//!
//! A message's row is its place in the log, which orders hits by age and tells workspaces apart.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use rusqlite::{Connection, ErrorCode as Sqlite, OpenFlags, params};

use super::fill::{Batch, Document, Progress};
use crate::platform;
use crate::store::position::Position;

/// The format that this program writes. Any other is thrown away.
const FORMAT: i64 = 1;

/// Marks the file as a search index of Relay: "Rlsi".
const APPLICATION_ID: i64 = 0x526c_7369;

/// `days` says between which places the messages of a day are. Clocks may jump, so days may overlap.
const SCHEMA: &str = r#"
    CREATE VIRTUAL TABLE words USING fts5(
        text, facets, content = '', contentless_delete = 1,
        tokenize = 'unicode61 remove_diacritics 2'
    );
    CREATE TABLE progress (
        workspace INTEGER PRIMARY KEY,
        seq       INTEGER NOT NULL,
        hash      BLOB NOT NULL,
        scanned   INTEGER
    ) STRICT;
    CREATE TABLE days (
        workspace INTEGER NOT NULL,
        day       INTEGER NOT NULL,
        first     INTEGER NOT NULL,
        last      INTEGER NOT NULL,
        PRIMARY KEY (workspace, day)
    ) STRICT, WITHOUT ROWID;
"#;

/// The word that stands for a room in the column `facets`.
pub(super) fn room_facet(no: i64) -> String {
    format!("r{no}")
}

/// The word that stands for an author in the column `facets`.
pub(super) fn author_facet(no: i64) -> String {
    format!("a{no}")
}

/// An open index.
pub(super) struct Index {
    connection: Connection,
    progress: HashMap<u32, Progress>,
}

impl Index {
    /// Opens the index in a file; `None` when there is none that can be used.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        match connect(path).and_then(Self::read) {
            Ok(found) => Ok(found),
            Err(error) if is_damage(&error) || is_foreign(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an empty index, in place of any other.
    pub(super) fn create(path: &Path) -> rusqlite::Result<Self> {
        remove(path)
            .and_then(|()| make(path))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let connection = connect(path)?;
        lay_out(&connection)?;
        Ok(Self::empty(connection))
    }

    /// Makes an empty index that is gone when it is closed.
    pub(super) fn in_memory() -> rusqlite::Result<Self> {
        let connection = Connection::open_in_memory()?;
        lay_out(&connection)?;
        Ok(Self::empty(connection))
    }

    fn empty(connection: Connection) -> Self {
        Self {
            connection,
            progress: HashMap::new(),
        }
    }

    fn read(connection: Connection) -> rusqlite::Result<Option<Self>> {
        let pragma = |name: &str| -> rusqlite::Result<i64> {
            connection.pragma_query_value(None, name, |row| row.get(0))
        };
        if (pragma("application_id")?, pragma("user_version")?) != (APPLICATION_ID, FORMAT) {
            return Ok(None);
        }
        let progress = connection
            .prepare("SELECT workspace, seq, hash, scanned FROM progress")?
            .query_map([], |row| {
                let progress = Progress {
                    seq: row.get(1)?,
                    hash: row.get(2)?,
                    scanned: row.get(3)?,
                };
                Ok((row.get(0)?, progress))
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Some(Self {
            connection,
            progress,
        }))
    }

    /// How far a workspace is indexed.
    pub(super) fn progress(&self, workspace_no: u32) -> Option<Progress> {
        self.progress.get(&workspace_no).copied()
    }

    /// How far each workspace is indexed.
    pub(super) fn all_progress(&self) -> impl Iterator<Item = (u32, Progress)> {
        self.progress.iter().map(|(no, progress)| (*no, *progress))
    }

    /// Adds a batch, whole or not at all.
    pub(super) fn apply(&mut self, workspace_no: u32, batch: &Batch) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for document in &batch.documents {
            write(&transaction, document)?;
        }
        write_days(&transaction, workspace_no, &batch.documents)?;
        if batch.purge {
            // A deleted row's words stay in the file until their part of it is merged with others.
            transaction.execute("INSERT INTO words (words) VALUES ('optimize')", [])?;
        }
        let Progress { seq, hash, scanned } = batch.progress;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO progress VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![workspace_no, seq, hash, scanned])?;
        transaction.commit()?;
        self.progress.insert(workspace_no, batch.progress);
        Ok(())
    }

    /// Rewrites the file with what is alive in it, and empties its write-ahead log.
    pub(super) fn scrub(&self) -> rusqlite::Result<()> {
        self.connection.execute_batch(
            "INSERT INTO words (words) VALUES ('optimize'); VACUUM; PRAGMA wal_checkpoint(TRUNCATE)",
        )
    }

    /// Places of matching messages in a range, newest first.
    pub(super) fn matches(
        &self,
        expression: &str,
        range: &Range<Position>,
        limit: usize,
    ) -> rusqlite::Result<Vec<Position>> {
        self.connection
            .prepare_cached(
                "SELECT rowid FROM words WHERE words MATCH ?1 AND rowid >= ?2 AND rowid < ?3
                 ORDER BY rowid DESC LIMIT ?4",
            )?
            .query_map(
                params![expression, range.start.key(), range.end.key(), limit],
                |row| row.get(0).map(Position::from_key),
            )?
            .collect()
    }

    /// The range in which all messages are that were sent between two times, if there are any. Others
    /// may be in it too.
    pub(super) fn range_of(
        &self,
        workspace_no: u32,
        times: Range<i64>,
    ) -> rusqlite::Result<Option<Range<Position>>> {
        self.connection
            .prepare_cached(
                "SELECT min(first), max(last) FROM days
                 WHERE workspace = ?1 AND day BETWEEN ?2 AND ?3",
            )?
            .query_row(
                params![workspace_no, day_of(times.start), day_of(times.end)],
                |row| {
                    let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
                    Ok(first.zip(last).map(|(first, last)| {
                        Position::from_key(first)..Position::from_key(last).plus(1)
                    }))
                },
            )
    }
}

/// Whether an error means that the index has to be made anew.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(Sqlite::DatabaseCorrupt | Sqlite::NotADatabase)
    )
}

/// Whether an error means that a file has other tables than it should.
fn is_foreign(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(Sqlite::Unknown)
        || matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
        )
}

/// Removes the index's file and what SQLite keeps beside it.
pub(super) fn remove(path: &Path) -> std::io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(Path::new(&name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Makes the file, for its owner only: it has the words of all messages. What SQLite puts beside it follows.
fn make(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    platform::private_file(&mut options);
    options.open(path).map(drop)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A power cut may take the last batches away, progress included; they are then indexed again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -(16 * 1024))?;
    Ok(connection)
}

fn lay_out(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN; {SCHEMA}
         PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
    ))
}

fn write(connection: &Connection, document: &Document) -> rusqlite::Result<()> {
    let row = document.position.key();
    let Some(text) = &document.text else {
        connection
            .prepare_cached("DELETE FROM words WHERE rowid = ?1")?
            .execute([row])?;
        return Ok(());
    };
    let mut facets = room_facet(document.room);
    if let Some(author) = document.author {
        // Writing to a string can't fail.
        let _ = write!(facets, " {}", author_facet(author));
    }
    connection
        .prepare_cached("INSERT OR REPLACE INTO words (rowid, text, facets) VALUES (?1, ?2, ?3)")?
        .execute(params![row, text, facets])?;
    Ok(())
}

fn write_days(
    connection: &Connection,
    workspace_no: u32,
    documents: &[Document],
) -> rusqlite::Result<()> {
    let mut days: HashMap<i64, (i64, i64)> = HashMap::new();
    for document in documents {
        let key = document.position.key();
        let (first, last) = days.entry(day_of(document.at)).or_insert((key, key));
        (*first, *last) = ((*first).min(key), (*last).max(key));
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO days (workspace, day, first, last) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT DO UPDATE SET first = min(first, ?3), last = max(last, ?4)",
    )?;
    for (day, (first, last)) in days {
        statement.execute(params![workspace_no, day, first, last])?;
    }
    Ok(())
}

fn day_of(millis: i64) -> i64 {
    millis.div_euclid(24 * 60 * 60 * 1000)
}
