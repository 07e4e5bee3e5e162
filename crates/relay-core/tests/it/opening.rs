//! Opening a database that is in use, or where there can be none: a clear error.

use std::path::{Path, PathBuf};

use relay_core::store::sqlite::{OpenError, SqliteOptions};

use crate::child::Child;
use crate::depth::seed;
use crate::survival::{assert_sound, settled};
use crate::writers::{DATABASE, open, open_in};

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
