//! A SQLite VFS that loses power and fails on demand, for tests of what survives.
//!
//! It wraps SQLite's unix VFS: files, locks and shared memory are the real ones, in a directory the
//! test owns, so several connections in several threads work as always. Beside them it keeps, for
//! each database, journal and WAL, what a disk would hold if the power went this moment.
//!
//! **Power loss.** The disk holds the content at a file's last sync; writes and truncates since are
//! pending. A new file is on disk from its first sync on. A delete lasts only once its directory is
//! synced: at once if SQLite asked for that, else when a new journal or WAL in that directory is first
//! synced, as the unix VFS does; until then the cut undoes it. After the cut every change fails with
//! an I/O error, so the program under test can do no more, while it can still read.
//! [`Survivors::SomeUnsynced`] is a rougher disk: any of the unsynced 512-byte sectors, lengths,
//! creations and deletes may have reached it too, in any order.
//!
//! **Failures.** A chosen write, sync or truncate fails, or all do until [`FaultVfs::heal`]. The
//! failed call has no effect; after a failed sync the pending changes stay pending.
//!
//! **Not modelled.** A disk that lies about a sync or tears a sector; a kernel that drops pages after
//! a failed sync; a short write before an error; a full disk that still accepts overwrites; temporary
//! files, which are passed through; memory-mapped I/O, which is off; changes made to the files past
//! this VFS. What is on disk when a file is first opened counts as synced.
//!
//! ```ignore
//! let vfs = FaultVfs::register();
//! let db = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs.name())?;
//! vfs.cut_power_after(17);
//! run_until_error(&db);
//! drop(db);
//! vfs.write_survivors(other_dir, Survivors::SyncedOnly)?;
//! let after = Connection::open(other_dir.join("relay.db"))?;
//! ```

mod disk;
mod faults;
mod file;
mod random;
mod shim;

use std::io;
use std::path::Path;
use std::sync::Arc;

use disk::Disk;
use shim::Registration;

pub(crate) use random::SplitMix64;

/// A registered VFS. Dropping it unregisters the name; connections still open keep working.
pub(crate) struct FaultVfs {
    disk: Arc<Disk>,
    registration: Registration,
}

/// What the disk kept of the changes that were not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Survivors {
    /// Nothing: every file is as of its last sync.
    SyncedOnly,
    /// Some: each unsynced sector, length, creation and delete reached the disk or did not.
    SomeUnsynced {
        /// Decides which ones.
        seed: u64,
    },
}

/// How an injected failure looks to SQLite.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failure {
    /// The I/O error of the call it hits: `SQLITE_IOERR_WRITE`, `_FSYNC` or `_TRUNCATE`.
    Io,
    /// `SQLITE_FULL`. As a lasting state it hits writes only: a full disk can sync and truncate.
    DiskFull,
}

impl FaultVfs {
    /// Registers a new VFS under a name of its own, with the power on and nothing failing.
    pub(crate) fn register() -> Self {
        let disk = Arc::new(Disk::default());
        let registration = Registration::new(&disk);
        Self { disk, registration }
    }

    /// Returns the name to open connections with.
    pub(crate) fn name(&self) -> &str {
        self.registration.name()
    }

    /// Lets `mutations` more changes happen (create, write, truncate, sync, delete), then cuts the
    /// power.
    pub(crate) fn cut_power_after(&self, mutations: u64) {
        self.disk
            .with_faults(|faults| faults.cut_power_after(mutations));
    }

    /// Cuts the power.
    pub(crate) fn cut_power_now(&self) {
        self.cut_power_after(0);
    }

    /// Says whether the power is gone.
    pub(crate) fn is_dead(&self) -> bool {
        self.disk.with_faults(|faults| faults.is_dead())
    }

    /// Says whether a file was changed since its last sync, so that a cut loses something of it.
    pub(crate) fn is_unsynced(&self, path: &Path) -> bool {
        self.disk.is_unsynced(path)
    }

    /// Writes the files that survive a cut into `directory`, for the ordinary VFS to open.
    ///
    /// After a cut that is what it left, before one what it would leave now. Files keep their names,
    /// so the databases under test belong in one directory.
    pub(crate) fn write_survivors(&self, directory: &Path, survivors: Survivors) -> io::Result<()> {
        for (name, content) in self.disk.survivors(survivors) {
            std::fs::write(directory.join(name), content)?;
        }
        Ok(())
    }

    /// Makes the `n`th write, sync or truncate from now fail, once; 1 is the next one.
    pub(crate) fn fail_nth(&self, n: u64, failure: Failure) {
        self.disk.with_faults(|faults| faults.fail_nth(n, failure));
    }

    /// Makes writes, syncs and truncates fail until [`FaultVfs::heal`].
    pub(crate) fn fail_from_now_on(&self, failure: Failure) {
        self.disk
            .with_faults(|faults| faults.fail_from_now_on(failure));
    }

    /// Ends the injected failures. The power stays off once cut.
    pub(crate) fn heal(&self) {
        self.disk.with_faults(faults::Faults::heal);
    }

    /// Returns how many writes, syncs and truncates were asked for so far: what
    /// [`FaultVfs::fail_nth`] counts.
    pub(crate) fn calls(&self) -> u64 {
        self.disk.with_faults(|faults| faults.calls())
    }

    /// Returns how many changes happened so far: what [`FaultVfs::cut_power_after`] counts.
    pub(crate) fn mutations(&self) -> u64 {
        self.disk.with_faults(|faults| faults.mutations())
    }
}
