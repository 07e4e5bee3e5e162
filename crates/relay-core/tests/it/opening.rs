//! Opening a database that is in use, not ours or too new: a clear error, and nothing changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use relay_core::store::sqlite::{OpenError, SqliteOptions};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::child::Child;
use crate::depth::seed;
use crate::survival::{assert_sound, settled};
use crate::writers::{DATABASE, Keys, Texts, fill, open, open_in, open_unsynced_in};

/// More than a pipe holds: what is read after so much was said after.
const ACKS_IN_A_PIPE: usize = 1_000;

#[test]
fn a_second_process_is_told_who_has_the_database_while_that_one_works_on() {
    let directory = tempfile::tempdir().unwrap();
    let keys = settled(directory.path());
    let mut first = Child::start(directory.path(), &keys, seed());
    let mut acks = vec![first.next().expect("the first process works")];
    match open_in(directory.path()).map(drop) {
        Err(OpenError::Locked { path, holder }) => {
            assert_eq!(path, directory.path().join(DATABASE));
            assert_eq!(holder, first.id().to_string());
        }
        other => panic!("expected it to be locked, found {other:?}"),
    }
    for _ in 0..ACKS_IN_A_PIPE {
        acks.push(first.next().expect("the first process works on"));
    }
    acks.extend(first.kill());
    assert_sound(directory.path(), &keys, &acks, "after the first was killed");
}

#[test]
fn one_process_can_not_open_it_twice_either() {
    let directory = tempfile::tempdir().unwrap();
    let first = open_in(directory.path()).unwrap();
    let second = open_in(directory.path()).map(drop);
    assert!(
        matches!(&second, Err(OpenError::Locked { holder, .. })
            if *holder == std::process::id().to_string()),
        "{second:?}"
    );
    drop(first);
    open_in(directory.path()).unwrap();
}

#[test]
fn a_newer_format_is_refused_and_not_touched() {
    for state in [Files::Closed, Files::InUse] {
        let (directory, _) = database(state);
        change(directory.path(), "PRAGMA user_version = 99");
        let error = refused(directory.path());
        assert!(
            matches!(
                error,
                OpenError::Newer {
                    found: 99,
                    supported: 5,
                    ..
                }
            ),
            "{state:?}: {error:?}"
        );
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_not_touched() {
    let others = [
        "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine');",
        "PRAGMA application_id = 7;",
        "PRAGMA user_version = 1;",
        "PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT);",
    ];
    for other in others {
        let directory = tempfile::tempdir().unwrap();
        change(directory.path(), other);
        let error = refused(directory.path());
        assert!(
            matches!(error, OpenError::Foreign { .. }),
            "{other}: {error:?}"
        );
    }
}

#[test]
fn a_database_of_another_program_keeps_what_it_has_not_copied_yet() {
    let directory = tempfile::tempdir().unwrap();
    let theirs = Connection::open(directory.path().join(DATABASE)).unwrap();
    theirs
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT);")
        .unwrap();
    let copy = tempfile::tempdir().unwrap();
    copy_files(directory.path(), copy.path());
    let error = refused(copy.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_not_touched() {
    for content in [
        &b"a short text"[..],
        &b"a text as long as some pages ".repeat(1_000),
        &[0; 10_000],
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(DATABASE), content).unwrap();
        let error = refused(directory.path());
        assert!(
            matches!(error, OpenError::Foreign { .. }),
            "{} bytes: {error:?}",
            content.len()
        );
    }
}

#[test]
fn an_empty_file_becomes_a_database() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(DATABASE), []).unwrap();
    open_in(directory.path()).unwrap();
}

#[test]
fn a_directory_that_can_not_be_used_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let missing = directory.path().join("missing");
    for parent in [file, missing, read_only(directory.path())] {
        let options = SqliteOptions::new(parent.join(DATABASE));
        let error = open(&options).map(drop).unwrap_err();
        assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains(&*parent.to_string_lossy()));
    }
}

/// How a database was left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Files {
    /// Closed in order.
    Closed,
    /// As after `kill -9`: with its write-ahead log beside it.
    InUse,
    /// Closed in order, with few rows.
    Small,
}

/// Copies a database, with more than a thousand log entries unless it is a small one.
pub(crate) fn database(state: Files) -> (TempDir, Keys) {
    static CLOSED: LazyLock<(TempDir, Keys)> = LazyLock::new(|| written(Files::Closed));
    static IN_USE: LazyLock<(TempDir, Keys)> = LazyLock::new(|| written(Files::InUse));
    static SMALL: LazyLock<(TempDir, Keys)> = LazyLock::new(|| written(Files::Small));
    let (directory, keys) = match state {
        Files::Closed => &*CLOSED,
        Files::InUse => &*IN_USE,
        Files::Small => &*SMALL,
    };
    let copy = tempfile::tempdir().expect("a directory");
    copy_files(directory.path(), copy.path());
    (copy, keys.clone())
}

fn written(state: Files) -> (TempDir, Keys) {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = settled(directory.path());
    let engine = open_unsynced_in(directory.path()).expect("it opens");
    let (steps, is_closed) = match state {
        Files::Closed => (70, true),
        Files::InUse => (70, false),
        Files::Small => (3, true),
    };
    block_on(fill(&engine, &keys, Texts::Short, steps)).expect("nothing fails");
    let engine = (!is_closed).then_some(engine);
    let copy = tempfile::tempdir().expect("a directory");
    copy_files(directory.path(), copy.path());
    drop(engine);
    (copy, keys)
}

/// Opens what must not open, and checks that this changed nothing.
pub(crate) fn refused(directory: &Path) -> OpenError {
    let before = files(directory);
    let error = match open_in(directory) {
        Err(error) => error,
        Ok(_) => panic!("it opened"),
    };
    let path = directory.join(DATABASE);
    assert!(error.to_string().contains(&*path.to_string_lossy()));
    assert!(files(directory) == before, "{error}: the files changed");
    error
}

/// The database and its logs. Files that SQLite makes to share memory, and empty ones, do not count.
pub(crate) fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let names = [DATABASE, "relay.db-wal", "relay.db-journal"];
    names
        .into_iter()
        .map(PathBuf::from)
        .filter_map(|name| {
            let content = std::fs::read(directory.join(&name)).ok()?;
            (!content.is_empty()).then_some((name, content))
        })
        .collect()
}

pub(crate) fn copy_files(from: &Path, to: &Path) {
    for (name, content) in files(from) {
        std::fs::write(to.join(name), content).expect("a copy");
    }
}

/// Changes a database past the engine.
pub(crate) fn change(directory: &Path, sql: &str) {
    let db = Connection::open(directory.join(DATABASE)).expect("it opens");
    db.set_db_config(
        rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
        true,
    )
    .expect("a setting");
    db.execute_batch(sql).expect("a change");
}

/// A directory in which nothing can be created, also by the superuser.
fn read_only(parent: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = parent.join("read-only");
    std::fs::create_dir(&directory).expect("a directory");
    let mode = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(&directory, mode).expect("a mode");
    match std::fs::write(directory.join("probe"), "") {
        Ok(()) => PathBuf::from("/proc"),
        Err(_) => directory,
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work)
}
