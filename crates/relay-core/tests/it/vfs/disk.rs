//! The disk below all connections of one VFS: files, and the names they have now and after a cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsString, c_int};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use rusqlite::ffi;

use super::Survivors;
use super::faults::{Call, Faults};
use super::file::File;
use super::random::SplitMix64;

/// The model, shared by every connection and thread.
///
/// The lock is held while the real file is changed, so that both change in the same order.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<State>,
}

/// A file without its name, which may be deleted and given to another file while this one is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId(usize);

/// What opening a file means for the disk.
pub(super) struct Opening<'a> {
    pub(super) path: &'a Path,
    /// Whether SQLite lets the file be created.
    pub(super) may_create: bool,
    /// Whether the file has content already.
    pub(super) exists: bool,
    /// Whether the first sync of the file also syncs its directory.
    pub(super) syncs_directory: bool,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    files: Vec<Entry>,
    /// What a running program sees.
    live_names: BTreeMap<PathBuf, FileId>,
    /// What is found after a cut.
    durable_names: BTreeMap<PathBuf, FileId>,
}

#[derive(Debug)]
struct Entry {
    content: File,
    path: PathBuf,
    syncs_directory: bool,
}

impl Disk {
    pub(super) fn with_faults<T>(&self, use_them: impl FnOnce(&mut Faults) -> T) -> T {
        use_them(&mut self.lock().faults)
    }

    /// Opens a file with `really`; `load` then reads what a file not seen before has in it.
    pub(super) fn open(
        &self,
        opening: &Opening<'_>,
        really: impl FnOnce() -> c_int,
        load: impl FnOnce() -> Result<Vec<u8>, c_int>,
    ) -> Result<FileId, c_int> {
        let mut state = self.lock();
        let known = state.live_names.get(opening.path).copied();
        let creates = opening.may_create && known.is_none() && !opening.exists;
        let code = if creates {
            state.faults.attempt(Call::Create, really)
        } else {
            really()
        };
        if code != ffi::SQLITE_OK {
            return Err(code);
        }
        let file = match known {
            Some(file) => file,
            None if opening.exists => state.adopt(opening.path, File::synced(load()?)),
            None => state.create(opening.path),
        };
        state.entry(file).syncs_directory |= opening.syncs_directory;
        Ok(file)
    }

    pub(super) fn write(
        &self,
        file: FileId,
        offset: usize,
        data: &[u8],
        really: impl FnOnce() -> c_int,
    ) -> c_int {
        let mut state = self.lock();
        state.change(Call::Write, really, |state| {
            state.entry(file).content.write(offset, data);
        })
    }

    pub(super) fn truncate(
        &self,
        file: FileId,
        size: usize,
        really: impl FnOnce() -> c_int,
    ) -> c_int {
        let mut state = self.lock();
        state.change(Call::Truncate, really, |state| {
            state.entry(file).content.truncate(size);
        })
    }

    /// Syncs the model only: the real file is never opened after a real power loss.
    pub(super) fn sync(&self, file: FileId) -> c_int {
        self.lock()
            .change(Call::Sync, || ffi::SQLITE_OK, |state| state.sync(file))
    }

    pub(super) fn delete(
        &self,
        path: &Path,
        syncs_directory: bool,
        really: impl FnOnce() -> c_int,
    ) -> c_int {
        self.lock().change(Call::Delete, really, |state| {
            state.live_names.remove(path);
            if syncs_directory {
                state.sync_directory_of(path);
            }
        })
    }

    /// Says whether the file that has this name now was changed since its last sync.
    pub(super) fn is_unsynced(&self, path: &Path) -> bool {
        let state = self.lock();
        let file = state.live_names.get(path);
        file.is_some_and(|file| state.files[file.0].content.has_pending())
    }

    /// Returns name and content of each file found after a cut.
    pub(super) fn survivors(&self, survivors: Survivors) -> BTreeMap<OsString, Vec<u8>> {
        let state = self.lock();
        match survivors {
            Survivors::SyncedOnly => {
                state.contents(&state.durable_names, |file| file.after_losing_pending())
            }
            Survivors::SomeUnsynced { seed } => {
                let mut random = SplitMix64::new(seed);
                let names = state.some_names(&mut random);
                state.contents(&names, |file| file.after_keeping_some(&mut random))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no call panics while it holds the disk")
    }
}

impl State {
    /// Changes the real file and then the model, if the call may happen and works.
    fn change(
        &mut self,
        call: Call,
        really: impl FnOnce() -> c_int,
        model: impl FnOnce(&mut Self),
    ) -> c_int {
        let code = self.faults.attempt(call, really);
        if code == ffi::SQLITE_OK {
            model(self);
        }
        code
    }

    fn create(&mut self, path: &Path) -> FileId {
        self.files.push(Entry {
            content: File::default(),
            path: path.to_owned(),
            syncs_directory: false,
        });
        let file = FileId(self.files.len() - 1);
        self.live_names.insert(path.to_owned(), file);
        file
    }

    /// Takes in a file that was there before.
    fn adopt(&mut self, path: &Path, content: File) -> FileId {
        let file = self.create(path);
        self.entry(file).content = content;
        self.durable_names.insert(path.to_owned(), file);
        file
    }

    fn sync(&mut self, file: FileId) {
        let entry = self.entry(file);
        entry.content.sync();
        let path = entry.path.clone();
        let syncs_directory = std::mem::take(&mut entry.syncs_directory);
        if self.live_names.get(&path) == Some(&file) {
            self.durable_names.insert(path.clone(), file);
        }
        if syncs_directory {
            self.sync_directory_of(&path);
        }
    }

    fn sync_directory_of(&mut self, path: &Path) {
        let inside = |other: &PathBuf| other.parent() == path.parent();
        self.durable_names.retain(|name, _| !inside(name));
        for (name, file) in self.live_names.iter().filter(|(name, _)| inside(name)) {
            self.durable_names.insert(name.clone(), *file);
        }
    }

    /// Decides for each name that a cut leaves open whether the old or the new state of it is kept.
    fn some_names(&self, random: &mut SplitMix64) -> BTreeMap<PathBuf, FileId> {
        let paths = self.durable_names.keys().chain(self.live_names.keys());
        let unique: BTreeSet<_> = paths.collect();
        let pick = |path: &PathBuf| {
            let names = if random.coin() {
                &self.live_names
            } else {
                &self.durable_names
            };
            names.get(path).map(|file| (path.clone(), *file))
        };
        unique.into_iter().filter_map(pick).collect()
    }

    fn contents(
        &self,
        names: &BTreeMap<PathBuf, FileId>,
        mut read: impl FnMut(&File) -> Vec<u8>,
    ) -> BTreeMap<OsString, Vec<u8>> {
        let named = |path: &PathBuf| path.file_name().expect("SQLite opens files").to_owned();
        names
            .iter()
            .map(|(path, file)| (named(path), read(&self.files[file.0].content)))
            .collect()
    }

    fn entry(&mut self, file: FileId) -> &mut Entry {
        &mut self.files[file.0]
    }
}
