//! Backups: taken while others write, whole, and never over something that exists.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use relay_core::error::Error;
use relay_core::{Caller, Engine};
use tempfile::TempDir;

use crate::depth::seed;
use crate::survival::{assert_sound, settled};
use crate::writers::{Ack, DATABASE, Keys, Texts, Told, fill, open_in, open_unsynced_in, write};

/// How much is acknowledged before the backup begins.
const BEFORE: usize = 100;
/// How much is acknowledged before the writers give up waiting for the end of the backup.
const PATIENCE: usize = 5_000;

#[test]
fn a_backup_taken_while_others_write_has_all_that_was_acknowledged_before() {
    let directory = tempfile::tempdir().unwrap();
    let keys = settled(directory.path());
    let engine = Arc::new(open_in(directory.path()).unwrap());
    let (copy, acks) = back_up_busy(&engine, &keys);
    assert_sound(copy.path(), &keys, &acks, "the backup");
}

/// More pages than are copied in one step: a copy that begins again with every commit never ends.
#[test]
fn a_backup_of_much_ends_although_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let keys = settled(directory.path());
    let engine = open_unsynced_in(directory.path()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut filled = runtime
        .block_on(fill(&engine, &keys, Texts::Long, 25))
        .unwrap();
    let size = std::fs::metadata(directory.path().join(DATABASE)).unwrap();
    assert!(size.len() > 2 * 1_024 * 4_096, "{} bytes", size.len());
    let (copy, acks) = back_up_busy(&Arc::new(engine), &keys);
    filled.extend(acks);
    assert_sound(copy.path(), &keys, &filled, "the backup");
}

#[test]
fn a_backup_never_replaces_a_file() {
    let directory = tempfile::tempdir().unwrap();
    settled(directory.path());
    let engine = open_in(directory.path()).unwrap();
    let to = directory.path().join("backup.db");
    std::fs::write(&to, "precious").unwrap();
    let refused = back_up(&engine, &to).unwrap_err();
    assert!(
        matches!(refused, Error::Invalid { path: "to", .. }),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    back_up(&engine, &directory.path().join("missing/backup.db")).unwrap_err();
}

/// Takes a backup in the midst of writing; returns it and what was acknowledged before it began.
fn back_up_busy(engine: &Arc<Engine>, keys: &Keys) -> (TempDir, Vec<Ack>) {
    let copy = tempfile::tempdir().expect("a directory");
    let (told, is_done) = (Told::default(), Arc::new(AtomicBool::new(false)));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let writers = {
        let (told, is_done) = (told.clone(), is_done.clone());
        let (engine, keys) = (engine.clone(), keys.clone());
        runtime.spawn(async move {
            let listen = move |ack| {
                if told.push(ack) > PATIENCE || is_done.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            write(engine, &keys, Texts::Short, seed(), listen).await
        })
    };
    while told.all().len() < BEFORE {
        std::thread::yield_now();
    }
    let before = told.all();
    back_up(engine, &copy.path().join(DATABASE)).expect("a backup");
    let after = told.all().len();
    is_done.store(true, Ordering::Relaxed);
    let failures = runtime.block_on(writers).expect("the writers end");
    assert!(failures.is_empty(), "{failures:?}");
    assert!(after <= PATIENCE, "the backup waited for the writers");
    (copy, before)
}

fn back_up(engine: &Engine, to: &Path) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let admin = Caller::process_owner();
    runtime
        .expect("a runtime")
        .block_on(engine.backup(&admin, to))
}
