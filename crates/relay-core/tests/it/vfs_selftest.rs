//! Checks the faulty VFS itself, against plain SQLite: that it takes what it should and nothing else.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;

use crate::depth::rounds;
use crate::vfs::{Failure, FaultVfs, SplitMix64, Survivors};

const DATABASE: &str = "notes.db";
/// A workload makes about this many changes; a later cut would only ever meet a finished one.
const LATEST_CUT: u64 = 500;

#[test]
fn full_sync_keeps_every_commit() {
    for seed in 0..rounds(100) {
        let (lab, ledger) = run_until_cut("FULL", seed);
        for survivors in [Survivors::SyncedOnly, Survivors::SomeUnsynced { seed }] {
            let found = lab.inspect(survivors).expect("the database is sound");
            assert!(
                ledger.lost(&found).is_empty(),
                "seed {seed}, {survivors:?}: commits lost"
            );
            assert!(
                ledger.knows_all(&found),
                "seed {seed}, {survivors:?}: rows never written"
            );
        }
    }
}

#[test]
fn normal_sync_loses_commits_but_stays_sound() {
    let mut losses = 0;
    for seed in 0..rounds(40) {
        let (lab, ledger) = run_until_cut("NORMAL", seed);
        for survivors in [Survivors::SyncedOnly, Survivors::SomeUnsynced { seed }] {
            let found = lab.inspect(survivors).expect("the database is sound");
            losses += usize::from(!ledger.lost(&found).is_empty());
        }
    }
    assert!(losses > 0);
}

#[test]
fn no_sync_loses_commits() {
    let lossy = |seed: &u64| {
        let (lab, ledger) = run_until_cut("OFF", *seed);
        let found = lab.inspect(Survivors::SyncedOnly);
        found.is_ok_and(|found| !ledger.lost(&found).is_empty())
    };
    assert!((0..rounds(20)).filter(lossy).count() > 0);
}

#[test]
fn no_sync_and_torn_writes_damage_the_database() {
    let damaged = |seed: &u64| {
        let (lab, _) = run_until_cut("OFF", *seed);
        lab.inspect(Survivors::SomeUnsynced { seed: *seed })
            .is_err()
    };
    assert!((0..rounds(20)).filter(damaged).count() > 0);
}

#[test]
fn commits_from_a_busy_process_survive() {
    for seed in 0..rounds(20) {
        let lab = Lab::with_schema();
        let [writer, reader, checkpointer] = std::array::from_fn(|_| lab.open("FULL"));
        lab.vfs
            .cut_power_after(1 + SplitMix64::new(seed).below(LATEST_CUT));
        let done = &AtomicBool::new(false);
        let ledger = std::thread::scope(|scope| {
            scope.spawn(move || until(done, || count_notes(&reader)));
            scope.spawn(move || until(done, || checkpoint(&checkpointer, "PASSIVE")));
            let ledger = write_notes(&writer, seed, |_| ());
            done.store(true, Ordering::Relaxed);
            ledger
        });
        lab.vfs.cut_power_now();
        for survivors in [Survivors::SyncedOnly, Survivors::SomeUnsynced { seed }] {
            let found = lab.inspect(survivors).expect("the database is sound");
            assert!(
                ledger.lost(&found).is_empty(),
                "seed {seed}, {survivors:?}: commits lost"
            );
        }
    }
}

#[test]
fn a_cut_while_the_database_is_created_leaves_nothing_or_a_sound_one() {
    let whole = Lab::with_schema().vfs.mutations();
    for cut in 0..=whole {
        let lab = Lab::empty();
        lab.vfs.cut_power_after(cut);
        let created = lab.create_schema();
        assert_eq!(lab.vfs.is_dead(), cut < whole || created.is_ok());
        for survivors in [Survivors::SyncedOnly, Survivors::SomeUnsynced { seed: cut }] {
            let after = lab.reopen_survivors(survivors);
            assert!(is_sound(&after.connection), "cut {cut}, {survivors:?}");
            let schema = count_notes(&after.connection);
            assert!(
                created.is_err() || schema.is_ok(),
                "cut {cut}, {survivors:?}: schema lost"
            );
        }
    }
}

#[test]
fn a_dead_disk_changes_no_more_but_can_be_read() {
    let lab = Lab::with_schema();
    let db = lab.open("FULL");
    lab.vfs.cut_power_now();
    let before = lab.vfs.mutations();
    let error = insert(&db, 1).expect_err("the power is off");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure));
    assert_eq!(count_notes(&db).ok(), Some(0));
    lab.vfs.heal();
    assert!(lab.vfs.is_dead() && insert(&db, 1).is_err());
    assert_eq!(lab.vfs.mutations(), before);
}

#[test]
fn the_same_seed_leaves_the_same_files() {
    let (lab, _) = run_until_cut("OFF", 1);
    let leave = |seed| {
        let directory = tempfile::tempdir().unwrap();
        lab.vfs
            .write_survivors(directory.path(), Survivors::SomeUnsynced { seed })
            .unwrap();
        let read = |name| std::fs::read(directory.path().join(name)).ok();
        [read(DATABASE), read("notes.db-wal")]
    };
    assert_eq!(leave(7), leave(7));
    assert_ne!(leave(7), leave(8));
}

#[test]
fn an_unsynced_delete_is_undone() {
    let lab = Lab::with_schema();
    let db = lab.open("FULL");
    insert(&db, 1).unwrap();
    drop(db);
    let wal = format!("{DATABASE}-wal");
    assert!(
        !lab.live.path().join(&wal).exists(),
        "the last close deletes the WAL"
    );
    let after = lab.reopen_survivors(Survivors::SyncedOnly);
    assert!(after.directory.path().join(&wal).exists());
    assert_eq!(count_notes(&after.connection).ok(), Some(1));
}

#[test]
fn any_failing_call_is_an_error_and_changes_nothing() {
    for failure in [Failure::Io, Failure::DiskFull] {
        for nth in 1..=calls_of_one_insert() {
            let lab = Lab::with_schema();
            let db = lab.open("FULL");
            insert(&db, 1).unwrap();
            lab.vfs.fail_nth(nth, failure);
            insert(&db, 2).expect_err("one of its calls failed");
            lab.vfs.heal();
            assert_eq!(count_notes(&db).ok(), Some(1), "call {nth}, {failure:?}");
            insert(&db, 3).unwrap();
            assert!(is_sound(&db));
            assert_eq!(count_notes(&lab.open("FULL")).ok(), Some(2));
        }
    }
}

#[test]
fn a_failed_checkpoint_can_be_repeated() {
    let lab = Lab::with_schema();
    let (db, checkpointer) = (lab.open("FULL"), lab.open("FULL"));
    insert(&db, 1).unwrap();
    lab.vfs.fail_from_now_on(Failure::Io);
    checkpoint(&checkpointer, "PASSIVE").expect_err("nothing can be written");
    insert(&db, 2).expect_err("nothing can be written");
    lab.vfs.heal();
    checkpoint(&checkpointer, "PASSIVE").unwrap();
    assert_eq!(lab.inspect(Survivors::SyncedOnly).unwrap(), [1]);
}

#[test]
fn a_full_disk_says_so_until_there_is_room() {
    let lab = Lab::with_schema();
    let db = lab.open("FULL");
    insert(&db, 1).unwrap();
    lab.vfs.fail_from_now_on(Failure::DiskFull);
    for _ in 0..3 {
        let error = insert(&db, 2).expect_err("the disk is full");
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull));
        assert_eq!(count_notes(&db).ok(), Some(1));
    }
    lab.vfs.heal();
    insert(&db, 3).unwrap();
    assert_eq!(lab.inspect(Survivors::SyncedOnly).unwrap(), [1, 3]);
}

#[test]
fn a_database_made_elsewhere_counts_as_synced() {
    let lab = Lab::empty();
    let ordinary = Connection::open(lab.path()).unwrap();
    lab.create_schema_in(&ordinary).unwrap();
    insert(&ordinary, 1).unwrap();
    drop(ordinary);
    insert(&lab.open("OFF"), 2).unwrap();
    assert_eq!(lab.inspect(Survivors::SyncedOnly).unwrap(), [1]);
}

/// A database below a faulty VFS, in a directory of its own.
struct Lab {
    vfs: FaultVfs,
    live: TempDir,
}

/// What a cut left, opened with the ordinary VFS.
struct After {
    connection: Connection,
    directory: TempDir,
}

impl Lab {
    fn empty() -> Self {
        Self {
            vfs: FaultVfs::register(),
            live: tempfile::tempdir().expect("a directory"),
        }
    }

    fn with_schema() -> Self {
        let lab = Self::empty();
        lab.create_schema().expect("nothing fails yet");
        lab
    }

    fn create_schema(&self) -> rusqlite::Result<()> {
        self.create_schema_in(&self.connect()?)
    }

    fn create_schema_in(&self, db: &Connection) -> rusqlite::Result<()> {
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             BEGIN;
             CREATE TABLE note (batch INTEGER, part INTEGER, parts INTEGER, body BLOB);
             CREATE TABLE total (batches INTEGER);
             INSERT INTO total VALUES (0);
             COMMIT;",
        )
    }

    fn open(&self, synchronous: &str) -> Connection {
        let db = self.connect().expect("the database opens");
        db.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 8;"
        ))
        .expect("settings change nothing on disk");
        db
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        Connection::open_with_flags_and_vfs(self.path(), OpenFlags::default(), self.vfs.name())
    }

    fn path(&self) -> PathBuf {
        self.live.path().join(DATABASE)
    }

    fn reopen_survivors(&self, survivors: Survivors) -> After {
        let directory = tempfile::tempdir().expect("a directory");
        self.vfs
            .write_survivors(directory.path(), survivors)
            .expect("survivors are written");
        After {
            connection: open_ordinary(directory.path()),
            directory,
        }
    }

    /// Returns the batches that survive, in order, or why the database is not sound.
    fn inspect(&self, survivors: Survivors) -> Result<Vec<u32>, String> {
        let after = self.reopen_survivors(survivors);
        if !is_sound(&after.connection) {
            return Err("the integrity check failed".to_owned());
        }
        whole_batches(&after.connection)
    }
}

/// Which batches were asked for, and which of them SQLite said were committed.
#[derive(Default)]
struct Ledger {
    tried: Vec<u32>,
    committed: Vec<u32>,
}

impl Ledger {
    fn lost(&self, found: &[u32]) -> Vec<u32> {
        self.committed
            .iter()
            .copied()
            .filter(|batch| !found.contains(batch))
            .collect()
    }

    fn knows_all(&self, found: &[u32]) -> bool {
        found.iter().all(|batch| self.tried.contains(batch))
    }
}

/// Writes with a reader and a checkpointer beside, until the power goes at a moment the seed picks.
fn run_until_cut(synchronous: &str, seed: u64) -> (Lab, Ledger) {
    let lab = Lab::with_schema();
    let [writer, reader, checkpointer] = std::array::from_fn(|_| lab.open(synchronous));
    let mut random = SplitMix64::new(seed ^ 0x5eed);
    lab.vfs.cut_power_after(1 + random.below(LATEST_CUT));
    // Failures here are the cut; the writer will notice it too.
    let ledger = write_notes(&writer, seed, |batch| match batch % 5 {
        1 => drop(reader.execute_batch("BEGIN; SELECT count(*) FROM note;")),
        2 => drop(checkpoint(&checkpointer, "PASSIVE")),
        3 => drop(reader.execute_batch("COMMIT")),
        4 if random.coin() => drop(checkpoint(&checkpointer, "TRUNCATE")),
        _ => {}
    });
    lab.vfs.cut_power_now();
    (lab, ledger)
}

/// Commits batches until one fails, or there were enough; calls `between` after each commit.
fn write_notes(db: &Connection, seed: u64, mut between: impl FnMut(u32)) -> Ledger {
    let mut random = SplitMix64::new(seed);
    let mut ledger = Ledger::default();
    for batch in 1..=60 {
        ledger.tried.push(batch);
        if write_batch(db, batch, &mut random).is_err() {
            break;
        }
        ledger.committed.push(batch);
        between(batch);
    }
    ledger
}

fn write_batch(db: &Connection, batch: u32, random: &mut SplitMix64) -> rusqlite::Result<()> {
    let parts = 1 + random.below(4) as u32;
    let transaction = db.unchecked_transaction()?;
    for part in 0..parts {
        let body = vec![batch as u8; random.below(3_000) as usize];
        transaction.execute(
            "INSERT INTO note VALUES (?1, ?2, ?3, ?4)",
            (batch, part, parts, body),
        )?;
    }
    transaction.execute("UPDATE total SET batches = batches + 1", ())?;
    transaction.commit()
}

fn insert(db: &Connection, batch: u32) -> rusqlite::Result<()> {
    let body = [0_u8; 100];
    db.execute_batch("BEGIN")?;
    let written = db
        .execute("INSERT INTO note VALUES (?1, 0, 1, ?2)", (batch, body))
        .and_then(|_| db.execute("UPDATE total SET batches = batches + 1", ()))
        .and_then(|_| db.execute_batch("COMMIT"));
    if written.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    written
}

fn calls_of_one_insert() -> u64 {
    let lab = Lab::with_schema();
    let db = lab.open("FULL");
    insert(&db, 1).expect("nothing fails");
    let before = lab.vfs.calls();
    insert(&db, 2).expect("nothing fails");
    lab.vfs.calls() - before
}

fn checkpoint(db: &Connection, mode: &str) -> rusqlite::Result<()> {
    db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), (), |_| Ok(()))
}

fn count_notes(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("SELECT count(*) FROM note", (), |row| row.get(0))
}

/// Returns the batches in the database; a batch in part, or one not counted, is a failure.
fn whole_batches(db: &Connection) -> Result<Vec<u32>, String> {
    let (batches, broken, counted) = read_batches(db).map_err(|error| error.to_string())?;
    if broken > 0 || batches.len() != counted as usize {
        return Err(format!(
            "{} batches, {broken} in part, {counted} counted",
            batches.len()
        ));
    }
    Ok(batches)
}

/// Returns the batches, how many of them are not whole, and how many the total says there are.
fn read_batches(db: &Connection) -> rusqlite::Result<(Vec<u32>, usize, u32)> {
    let mut query =
        db.prepare("SELECT batch, count(*) = max(parts) FROM note GROUP BY batch ORDER BY batch")?;
    let rows: Vec<(u32, bool)> = query
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let counted = db.query_row("SELECT batches FROM total", (), |row| row.get(0))?;
    let broken = rows.iter().filter(|(_, whole)| !whole).count();
    Ok((
        rows.into_iter().map(|(batch, _)| batch).collect(),
        broken,
        counted,
    ))
}

fn is_sound(db: &Connection) -> bool {
    let verdict = db.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    verdict.is_ok_and(|verdict| verdict == "ok")
}

fn open_ordinary(directory: &Path) -> Connection {
    Connection::open(directory.join(DATABASE)).expect("opening reads nothing yet")
}

fn until<T>(done: &AtomicBool, mut action: impl FnMut() -> rusqlite::Result<T>) {
    while !done.load(Ordering::Relaxed) {
        drop(action());
        std::thread::yield_now();
    }
}
