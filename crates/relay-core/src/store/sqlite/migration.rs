//! How a database of an older format becomes one of today's.
//!
//! One step leads from each format to the next. All that are needed happen in one transaction, after a copy
//! of the old database was written beside it and checked: whoever wants the older program back has its file.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::connection::OpenError;
use super::opening::{check_tail, set_format};
use super::readers;
use crate::error::{Error, StorageError};

/// The format that the first step leads from.
pub(super) const FIRST_FORMAT: i64 = 1;

/// What leads from each format to the next, as SQL; the first from format 1 to format 2. A step that was
/// released is never changed: what is wrong with it is mended by the next one.
pub(super) const STEPS: &[&str] = &[
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
];

/// The format that these steps lead to.
pub(super) const fn format_after(steps: &[&str]) -> i64 {
    FIRST_FORMAT + steps.len() as i64
}

/// Brings a database of an older format to the one that the steps lead to; says where the old one is kept.
pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    from: i64,
    steps: &[&str],
) -> Result<PathBuf, OpenError> {
    let sqlite = |error| OpenError::from_sqlite(path, error);
    let backup = back_up(connection, path, from)?;
    let to = format_after(steps);
    let needed = usize::try_from(from - FIRST_FORMAT).unwrap_or(steps.len());
    let change = connection.transaction().map_err(sqlite)?;
    for step in &steps[needed..] {
        change.execute_batch(step).map_err(sqlite)?;
    }
    set_format(&change, to).map_err(sqlite)?;
    check_tail(&change, path)?;
    change.commit().map_err(sqlite)?;
    // Not everyday news: whoever runs it should know that the old program can't read this any more.
    tracing::warn!(from, to, backup = %backup.display(), "the database has a new format; the old one is kept");
    Ok(backup)
}

/// Copies the database into a file beside it that nobody else but its readers can read.
fn back_up(connection: &Connection, path: &Path, format: i64) -> Result<PathBuf, OpenError> {
    let io = |error| OpenError::Io {
        path: path.to_owned(),
        error,
    };
    let backup = free_name(path, format);
    let copied = readers::backup(connection, &backup).and_then(|()| {
        let permissions = std::fs::metadata(path).map(|file| file.permissions());
        permissions
            .and_then(|permissions| std::fs::set_permissions(&backup, permissions))
            .map_err(|error| StorageError::Unavailable(error.to_string()).into())
    });
    if copied.is_err() {
        // Half a copy is none.
        let _ = std::fs::remove_file(&backup);
    }
    match copied {
        Ok(()) => Ok(backup),
        Err(Error::Storage(StorageError::Full)) => Err(OpenError::Full {
            path: path.to_owned(),
        }),
        Err(error) => Err(io(std::io::Error::other(format!(
            "it can't be copied to {} before its format changes: {error}",
            backup.display()
        )))),
    }
}

/// `relay.db.format-1`, or the first of `relay.db.format-1.2`, `.3`, ... that is free: an earlier copy is
/// never replaced.
fn free_name(path: &Path, format: i64) -> PathBuf {
    let named = |suffix: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".format-{format}{suffix}"));
        PathBuf::from(name)
    };
    let others = (2..).map(|n: u32| format!(".{n}"));
    std::iter::once(String::new())
        .chain(others)
        .map(named)
        .find(|name| !name.exists())
        .unwrap_or_else(|| named(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::opening::create;

    const NOTED: &str = "ALTER TABLE agents ADD COLUMN note TEXT; UPDATE agents SET note = name;";
    const BROKEN: &str = "ALTER TABLE no_such_table ADD COLUMN note TEXT;";

    fn database(directory: &Path) -> (PathBuf, Connection) {
        let path = directory.join("relay.db");
        let connection = Connection::open(&path).unwrap();
        create(&connection).unwrap();
        set_format(&connection, FIRST_FORMAT).unwrap();
        (path, connection)
    }

    fn format(connection: &Connection) -> i64 {
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        found.unwrap()
    }

    fn has_note(connection: &Connection) -> bool {
        connection.prepare("SELECT note FROM agents").is_ok()
    }

    #[test]
    fn the_old_one_is_kept_and_the_steps_that_are_missing_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(directory.path());
        let kept = migrate(&mut connection, &path, 1, &[NOTED]).unwrap();
        assert_eq!(kept, directory.path().join("relay.db.format-1"));
        assert!(format(&connection) == 2 && has_note(&connection));
        let old = Connection::open(&kept).unwrap();
        assert!(format(&old) == 1 && !has_note(&old));

        // From the second format on, the first step is not taken again.
        let tagged = "ALTER TABLE agents ADD COLUMN tag TEXT";
        let kept = migrate(&mut connection, &path, 2, &[NOTED, tagged]).unwrap();
        assert_eq!(kept, directory.path().join("relay.db.format-2"));
        assert_eq!(format(&connection), 3);
    }

    #[test]
    fn a_step_that_fails_leaves_the_database_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(directory.path());
        migrate(&mut connection, &path, 1, &[NOTED, BROKEN]).unwrap_err();
        assert!(format(&connection) == 1 && !has_note(&connection));
        // The next attempt keeps a copy of its own.
        let kept = migrate(&mut connection, &path, 1, &[NOTED]).unwrap();
        assert_eq!(kept, directory.path().join("relay.db.format-1.2"));
    }

    #[test]
    fn without_a_copy_nothing_is_changed() {
        let directory = tempfile::tempdir().unwrap();
        let (_, mut connection) = database(directory.path());
        let elsewhere = directory.path().join("missing").join("relay.db");
        let refused = migrate(&mut connection, &elsewhere, 1, &[NOTED]).unwrap_err();
        assert!(
            refused.to_string().contains("before its format changes"),
            "{refused}"
        );
        assert!(format(&connection) == 1 && !has_note(&connection));
    }

    #[test]
    #[cfg(unix)]
    fn the_copy_is_as_private_as_the_database() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let (path, mut connection) = database(directory.path());
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, private).unwrap();
        let kept = migrate(&mut connection, &path, 1, &[NOTED]).unwrap();
        let mode = std::fs::metadata(kept).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
