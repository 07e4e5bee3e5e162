//! Copying the write-ahead log into the database, away from commits.
//!
//! A thread of its own copies while work goes on. Under steady load it never catches up with the end of
//! the log, which then could not start over; so when the log passes its bound, the writer itself copies
//! the little that is left between two commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread::{JoinHandle, Thread};

use rusqlite::Connection;

use super::connection::SqliteOptions;

/// Pages of the write-ahead log after which it is copied.
const COPY_AFTER_PAGES: i32 = 500;

/// Pages after which the writer makes the log start over: 6 MiB. A log that is written over again is
/// synced faster than one that grows, and reopens in a few milliseconds.
const START_OVER_PAGES: i32 = 1_500;

/// The thread and the count that tells it when to work.
pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    waker: Thread,
}

#[derive(Default)]
struct Shared {
    /// Pages in the log after the last commit.
    pages: AtomicI32,
    /// Pages in it when the thread last began to copy.
    copied: AtomicI32,
    wanted: AtomicBool,
    closed: AtomicBool,
}

impl Checkpointer {
    /// Starts the thread, and counts the pages that this connection commits.
    pub(super) fn start(
        options: &SqliteOptions,
        writer: &mut Connection,
    ) -> rusqlite::Result<Self> {
        let shared = Arc::new(Shared::default());
        let counted = shared.clone();
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            if pages < counted.pages.swap(pages, Ordering::Relaxed) {
                // The log has started over.
                counted.copied.store(0, Ordering::Relaxed);
            }
            Ok(())
        }))?;
        let connection = options.open_checkpointer()?;
        let working = shared.clone();
        let thread = std::thread::Builder::new()
            .name("relay-checkpoint".to_owned())
            .spawn(move || copy_when_wanted(&connection, &working))
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let waker = thread.thread().clone();
        Ok(Self {
            shared,
            thread: Some(thread),
            waker,
        })
    }

    /// To be called by the writer between two transactions.
    pub(super) fn after_commit(&self, writer: &Connection) {
        let pages = self.shared.pages.load(Ordering::Relaxed);
        if pages > START_OVER_PAGES {
            copy(writer);
            self.shared.pages.store(0, Ordering::Relaxed);
            self.shared.copied.store(0, Ordering::Relaxed);
        } else if pages - self.shared.copied.load(Ordering::Relaxed) > COPY_AFTER_PAGES
            && !self.shared.wanted.swap(true, Ordering::AcqRel)
        {
            self.shared.copied.store(pages, Ordering::Relaxed);
            self.waker.unpark();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.waker.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn copy_when_wanted(connection: &Connection, shared: &Shared) {
    while !shared.closed.load(Ordering::Acquire) {
        if shared.wanted.load(Ordering::Acquire) {
            copy(connection);
            shared.wanted.store(false, Ordering::Release);
        }
        std::thread::park();
    }
}

/// Copies what no reader needs. A failure loses nothing: the log keeps it, the next call tries again.
fn copy(connection: &Connection) {
    let result = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    if let Err(error) = result {
        tracing::warn!(%error, "the write-ahead log could not be copied; it will be tried again");
    }
}
