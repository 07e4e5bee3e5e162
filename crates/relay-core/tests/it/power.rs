//! Power cuts: what was acknowledged was synced, and is there when the power is back.
//!
//! Each round goes on with what the one before left, as a machine does that loses power again and
//! again. The same rounds without syncs lose acknowledged work, which shows that the test would
//! notice.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use relay_core::Caller;
use relay_core::store::sqlite::{OpenError, SqliteOptions, Synchronous};
use tempfile::TempDir;

use crate::depth::{rounds, seed};
use crate::survival::{assert_sound, inspect, settled};
use crate::vfs::{FaultVfs, SplitMix64, Survivors};
use crate::writers::{Ack, DATABASE, Keys, Texts, Told, open, open_in, write};

/// How many cuts one database goes through.
const CUTS: u64 = 4;
/// The most changes to the disk before a cut. A page of the write-ahead log is two, so that over a
/// few cuts it is copied several times.
const LATEST_CUT: u64 = 1_600;
/// One cut in so many comes late enough for the log to have started over, at 8,000 pages.
const LATE_CUTS: u64 = 50;
/// How many changes to the disk that takes, and some more.
const LATE_CUT: std::ops::Range<u64> = 18_000..23_000;

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() {
    let seed = seed();
    let mut random = SplitMix64::new(seed);
    let mut seen = Seen::default();
    for database in 0..rounds(50) {
        let mut machine = Machine::new();
        for cut in 0..CUTS {
            let is_late = (database * CUTS + cut) % LATE_CUTS == LATE_CUTS - 1;
            let moment = if is_late {
                LATE_CUT.start + random.below(LATE_CUT.end - LATE_CUT.start)
            } else {
                early_cut(&mut random)
            };
            let vfs = machine.run_until_cut(Synchronous::Full, moment, &mut random, &mut seen);
            let survivors = if random.coin() {
                Survivors::SyncedOnly
            } else {
                let seed = random.next();
                Survivors::SomeUnsynced { seed }
            };
            let after = left_by(&vfs, survivors);
            let context = format!("database {database}, cut {cut}, {survivors:?}");
            assert_sound(after.path(), &machine.keys, &machine.acks, &context);
            // The next round recovers it by itself.
            machine.disk = left_by(&vfs, survivors);
        }
        seen.acks += machine.acks.len();
    }
    println!("{seen:?}");
    assert!(seen.acks > 0);
    assert!(
        seen.cuts_in_checkpoints > 0 && seen.logs_started_over > 0,
        "the cuts missed something: {seen:?}"
    );
}

#[test]
fn without_syncs_a_power_cut_loses_acknowledged_work() {
    let mut random = SplitMix64::new(seed());
    let mut lost = [0; 2];
    for _ in 0..rounds(5) {
        let mut machine = Machine::new();
        let moment = LATEST_CUT;
        let seen = &mut Seen::default();
        let vfs = machine.run_until_cut(Synchronous::Off, moment, &mut random, seen);
        let rough = Survivors::SomeUnsynced {
            seed: random.next(),
        };
        for (lost, survivors) in lost.iter_mut().zip([Survivors::SyncedOnly, rough]) {
            let after = left_by(&vfs, survivors);
            let verdict = inspect(after.path(), &machine.keys, &machine.acks);
            *lost += usize::from(verdict.is_err());
        }
    }
    println!("lost or damaged: {lost:?}");
    assert!(lost.iter().all(|rounds| *rounds > 0), "{lost:?}");
}

#[test]
fn a_power_cut_while_the_database_is_created_leaves_none_or_a_whole_one() {
    let whole = create_until_cut(u64::MAX).0.mutations();
    for cut in 0..=whole {
        let (vfs, created) = create_until_cut(cut);
        for survivors in [Survivors::SyncedOnly, Survivors::SomeUnsynced { seed: cut }] {
            let after = left_by(&vfs, survivors);
            if created {
                assert!(after.path().join(DATABASE).exists(), "{cut}, {survivors:?}");
            }
            let engine = open_in(after.path())
                .unwrap_or_else(|error| panic!("cut {cut} of {whole}, {survivors:?}: {error}"));
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let admin = Caller::process_owner();
            let created = engine.create_workspace(&admin, "after");
            runtime.block_on(created).unwrap();
        }
    }
}

/// Picks a moment for a cut, one in ten so early that the database was just opened.
fn early_cut(random: &mut SplitMix64) -> u64 {
    match random.below(10) {
        0 => random.below(4),
        _ => random.below(LATEST_CUT),
    }
}

/// What the rounds have met.
#[derive(Debug, Default)]
struct Seen {
    acks: usize,
    cuts_in_checkpoints: usize,
    logs_started_over: usize,
}

/// A disk with a database, and what its users were told.
struct Machine {
    disk: TempDir,
    keys: Keys,
    acks: Vec<Ack>,
}

impl Machine {
    fn new() -> Self {
        let disk = tempfile::tempdir().expect("a directory");
        let keys = settled(disk.path());
        let acks = Vec::new();
        Self { disk, keys, acks }
    }

    /// Opens the database, lets everybody write, and cuts the power after so many changes.
    fn run_until_cut(
        &mut self,
        synchronous: Synchronous,
        moment: u64,
        random: &mut SplitMix64,
        seen: &mut Seen,
    ) -> FaultVfs {
        let vfs = FaultVfs::register();
        vfs.cut_power_after(moment);
        match self.open(&vfs, synchronous) {
            Ok(engine) => {
                let told = Told::default();
                let tell = told.clone();
                let listen = move |ack| {
                    tell.push(ack);
                    ControlFlow::Continue(())
                };
                let engine = Arc::new(engine);
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                let work = write(engine, &self.keys, Texts::Long, random.next(), listen);
                runtime.block_on(work);
                self.acks.extend(told.all());
            }
            Err(error) => {
                assert!(vfs.is_dead(), "it opens unless the power is gone: {error}");
            }
        }
        assert!(vfs.is_dead(), "the writers go on until the power is gone");
        seen.look_at(self.disk.path(), &vfs);
        vfs
    }

    fn open(
        &self,
        vfs: &FaultVfs,
        synchronous: Synchronous,
    ) -> Result<relay_core::Engine, OpenError> {
        open(&SqliteOptions {
            synchronous,
            vfs: Some(vfs.name().to_owned()),
            ..SqliteOptions::new(self.disk.path().join(DATABASE))
        })
    }
}

impl Seen {
    /// Notes what the program was doing when the power went.
    fn look_at(&mut self, directory: &Path, vfs: &FaultVfs) {
        // Only a checkpoint writes to the database itself.
        if vfs.is_unsynced(&directory.join(DATABASE)) {
            self.cuts_in_checkpoints += 1;
        }
        // The log's header counts how often it started over.
        let log = std::fs::read(directory.join(format!("{DATABASE}-wal"))).unwrap_or_default();
        if log.get(12..16).is_some_and(|count| count != [0; 4]) {
            self.logs_started_over += 1;
        }
    }
}

/// Returns a directory with what the power cut has left.
fn left_by(vfs: &FaultVfs, survivors: Survivors) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    vfs.write_survivors(directory.path(), survivors)
        .expect("survivors are written");
    directory
}

/// Creates a database, with the power gone after so many changes; says whether that was answered.
fn create_until_cut(mutations: u64) -> (FaultVfs, bool) {
    let vfs = FaultVfs::register();
    let directory = tempfile::tempdir().expect("a directory");
    vfs.cut_power_after(mutations);
    let created = open(&SqliteOptions {
        vfs: Some(vfs.name().to_owned()),
        ..SqliteOptions::new(directory.path().join(DATABASE))
    });
    let is_created = created.is_ok();
    // Closing copies and deletes the write-ahead log, which the power may not last for either.
    drop(created);
    vfs.cut_power_now();
    (vfs, is_created)
}
