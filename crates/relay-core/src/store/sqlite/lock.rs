//! One process per database: a lock on a file beside it, held while the store is open.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::OpenError;

/// How often taking the lock is tried while others only ask about it.
const ATTEMPTS: u32 = 200;

/// How long one question about the lock may take.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

/// The exclusive right to write to a database. The operating system releases it when the process ends, however it
/// ends.
pub struct DatabaseLock(#[expect(dead_code, reason = "held, not read")] File);

impl DatabaseLock {
    /// Takes the lock of this database, or says who has it.
    pub fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_path(database);
        let io = |error| OpenError::from_io(&path, error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        if !lock_exclusively(&file).map_err(io)? {
            return Err(OpenError::Locked {
                path: database.to_owned(),
                holder: read_holder(&mut file),
            });
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self(file))
    }
}

/// Locks a file exclusively; false if another process holds it that way.
///
/// [`holder`] shares the lock for an instant, which must not keep a server from starting. So where the lock can be
/// shared, those who have it only ask, and it is tried again.
fn lock_exclusively(file: &File) -> std::io::Result<bool> {
    for _ in 0..ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        match file.try_lock_shared() {
            Ok(()) => file.unlock()?,
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        std::thread::sleep(BETWEEN_ATTEMPTS);
    }
    Ok(false)
}

/// The number of the process that has a database open, if one has; empty where it can't be read, or not yet.
///
/// The system has no way to only ask: for an instant the lock is shared, which a server that starts waits for.
pub(super) fn holder(database: &Path) -> std::io::Result<Option<String>> {
    let mut file = match File::open(lock_path(database)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(read_holder(&mut file))),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The number that the holder wrote down. Best effort: not every system lets others read what is locked.
fn read_holder(file: &mut File) -> String {
    let mut holder = String::new();
    let _ = file.read_to_string(&mut holder);
    holder.trim().to_owned()
}

fn lock_path(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Commands ask who runs over the data; a server that starts meanwhile is not refused.
    #[test]
    fn asking_who_holds_the_lock_keeps_no_server_from_starting() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("relay.db");
        drop(DatabaseLock::take(&database).unwrap());
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    holder(&database).unwrap();
                }
            });
            for _ in 0..50 {
                let held = DatabaseLock::take(&database).map_err(|error| error.to_string());
                held.unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let held = DatabaseLock::take(&database).map_err(|error| error.to_string());
        let found = holder(&database).unwrap();
        assert_eq!(found, Some(std::process::id().to_string()));
        let second = DatabaseLock::take(&database).map(drop);
        assert!(matches!(second, Err(OpenError::Locked { .. })));
        drop(held);
        assert_eq!(holder(&database).unwrap(), None);
    }
}
