//! One process per database: a lock on a file beside it, held while the store is open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::OpenError;

/// The lock; the operating system lets go of it when the process ends, however it ends.
pub(super) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Takes the lock of this database, or says who has it.
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_path(database);
        let io = |error| OpenError::from_io(&path, error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Best effort: the number only makes the message more helpful.
                let _ = file.read_to_string(&mut holder);
                let holder = holder.trim().to_owned();
                return Err(OpenError::Locked {
                    path: database.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self(file))
    }
}

/// The number of the process that has a database open, if one has; empty where it can't be read, or not yet.
///
/// The system has no way to only ask: for an instant the lock is taken, and a server that starts in that
/// instant is refused. So this is for when no server answers.
pub(super) fn holder(database: &Path) -> std::io::Result<Option<String>> {
    let mut file = match File::open(lock_path(database)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Best effort: not every system lets others read what is locked.
            let _ = file.read_to_string(&mut holder);
            Ok(Some(holder.trim().to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
