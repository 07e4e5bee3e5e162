//! The one thread that writes, with group commit.
//!
//! Whatever is queued goes into one transaction. Each change is a savepoint, opened by its first write,
//! so that one that is refused harms no other. Nobody is answered, and nothing is announced, before the
//! commit is on disk. When a commit fails, every change in it is answered with that failure and nothing
//! of it is kept, in the database or in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::{CachedStatement, Connection, Params};
use tokio::sync::oneshot;

use super::FORMAT;
use super::checkpoint::Checkpointer;
use super::directory::Directory;
use super::log::Heads;
use crate::environment::Random;
use crate::error::{Error, Result, StorageError};
use crate::store::live::{Entry, Hub};
use crate::store::reply::Reply;

/// Most changes that wait to be written.
const QUEUED_CHANGES: usize = 16_384;

/// Most changes of one commit.
const CHANGES_PER_COMMIT: usize = 512;

/// A change in the midst of its transaction.
pub(super) struct Tx<'w> {
    pub(super) connection: &'w Connection,
    pub(super) directory: &'w mut Directory,
    pub(super) heads: &'w mut Heads,
    pub(super) random: &'w dyn Random,
    entries: &'w mut Vec<Arc<Entry>>,
    savepoint: Savepoint,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Savepoint {
    /// Opened by the first write.
    NotYet,
    /// Open.
    Open,
    /// Not needed: the change is alone in its transaction.
    Transaction { wrote: bool },
}

impl Tx<'_> {
    /// Runs a statement that changes something; says how many rows.
    pub(super) fn execute(&mut self, sql: &str, params: impl Params) -> Result<usize> {
        self.begin_writing()?;
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    /// Runs an insert; says the key of the new row.
    pub(super) fn insert(&mut self, sql: &str, params: impl Params) -> Result<i64> {
        self.begin_writing()?;
        Ok(self.connection.prepare_cached(sql)?.insert(params)?)
    }

    /// A statement that only reads.
    pub(super) fn query(&self, sql: &str) -> Result<CachedStatement<'_>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Announces an entry once the transaction is on disk.
    pub(super) fn announce(&mut self, entry: Entry) {
        self.entries.push(Arc::new(entry));
    }

    fn begin_writing(&mut self) -> Result<()> {
        match &mut self.savepoint {
            Savepoint::NotYet => {
                self.connection
                    .prepare_cached("SAVEPOINT change")?
                    .execute([])?;
                self.savepoint = Savepoint::Open;
            }
            Savepoint::Transaction { wrote } => *wrote = true,
            Savepoint::Open => {}
        }
        Ok(())
    }
}

/// A change with its answer, without its type.
trait Job: Send {
    /// Makes the change; false when it was refused.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Answers: with the change's own result, or with the failure of the commit.
    fn finish(self: Box<Self>, failure: Option<&Error>);
}

struct Change<T, F> {
    work: Option<F>,
    result: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Job for Change<T, F>
where
    T: Send,
    F: FnOnce(&mut Tx<'_>) -> Result<T> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let result = match self.work.take() {
            Some(work) => work(tx),
            None => Err(StorageError::Closed.into()),
        };
        let done = result.is_ok();
        self.result = Some(result);
        done
    }

    fn finish(self: Box<Self>, failure: Option<&Error>) {
        let result = match (self.result, failure) {
            (Some(Err(refused)), _) if !matches!(refused, Error::Storage(_)) => Err(refused),
            (_, Some(failure)) => Err(failure.clone()),
            (Some(result), None) => result,
            (None, None) => Err(StorageError::Closed.into()),
        };
        // Whoever asked may have gone; the change is made all the same.
        let _ = self.reply.send(result);
    }
}

/// The handle through which changes reach the thread.
pub(super) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicUsize>,
}

/// What the thread owns.
pub(super) struct WriterParts {
    pub(super) connection: Connection,
    pub(super) hub: Arc<Hub>,
    pub(super) random: Arc<dyn Random>,
    pub(super) checkpointer: Checkpointer,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(parts: WriterParts) -> std::io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUED_CHANGES);
        let commits = Arc::new(AtomicUsize::new(0));
        let mut actor = Actor {
            parts,
            directory: Directory::default(),
            heads: Heads::default(),
            commits: commits.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("relay-writer".to_owned())
            .spawn(move || actor.run(&jobs))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
            commits,
        })
    }

    /// Queues a change; the reply comes once it is on disk.
    pub(super) fn submit<T, F>(&self, work: F) -> Reply<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = Reply::pending();
        let change = Box::new(Change {
            work: Some(work),
            result: None,
            reply,
        });
        let Some(queue) = &self.queue else {
            return Reply::ready(Err(StorageError::Closed.into()));
        };
        match queue.try_send(change) {
            Ok(()) => answer,
            Err(TrySendError::Full(_)) => Reply::ready(Err(StorageError::Busy.into())),
            Err(TrySendError::Disconnected(_)) => Reply::ready(Err(StorageError::Closed.into())),
        }
    }

    /// How many transactions were committed.
    pub(super) fn commits(&self) -> usize {
        self.commits.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    /// Lets what is queued be written, then ends the thread.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Actor {
    parts: WriterParts,
    directory: Directory,
    heads: Heads,
    commits: Arc<AtomicUsize>,
}

impl Actor {
    fn run(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = jobs.recv() {
            let mut batch = vec![first];
            batch.extend(jobs.try_iter().take(CHANGES_PER_COMMIT - 1));
            self.commit(batch);
            self.parts.checkpointer.after_commit(&self.parts.connection);
        }
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let mut entries = Vec::new();
        let failure = self.write(&mut batch, &mut entries).err();
        if failure.is_some() {
            self.forget();
        } else {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.parts.hub.publish(entries);
        }
        for job in batch {
            job.finish(failure.as_ref());
        }
    }

    /// Runs the batch in one transaction.
    fn write(&mut self, batch: &mut [Box<dyn Job>], entries: &mut Vec<Arc<Entry>>) -> Result<()> {
        self.parts
            .connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        let alone = batch.len() == 1;
        for job in batch {
            self.run_one(job.as_mut(), alone, entries)?;
        }
        self.parts
            .connection
            .prepare_cached("COMMIT")?
            .execute([])?;
        Ok(())
    }

    fn run_one(
        &mut self,
        job: &mut dyn Job,
        alone: bool,
        entries: &mut Vec<Arc<Entry>>,
    ) -> Result<()> {
        let announced = entries.len();
        self.heads.begin_change();
        let connection = &self.parts.connection;
        let mut tx = Tx {
            connection,
            directory: &mut self.directory,
            heads: &mut self.heads,
            random: &*self.parts.random,
            entries,
            savepoint: if alone {
                Savepoint::Transaction { wrote: false }
            } else {
                Savepoint::NotYet
            },
        };
        let done = job.run(&mut tx);
        let savepoint = tx.savepoint;
        if connection.is_autocommit() {
            // SQLite itself has rolled the whole transaction back (disk full, out of memory).
            return Err(
                StorageError::Unavailable("the transaction was rolled back".to_owned()).into(),
            );
        }
        match (done, savepoint) {
            (true, Savepoint::Open) => {
                connection.prepare_cached("RELEASE change")?.execute([])?;
            }
            (false, Savepoint::Open) => {
                connection
                    .prepare_cached("ROLLBACK TO change")?
                    .execute([])?;
                connection.prepare_cached("RELEASE change")?.execute([])?;
                self.undo(entries, announced);
            }
            (false, Savepoint::Transaction { wrote: true }) => {
                connection.prepare_cached("ROLLBACK")?.execute([])?;
                self.undo(entries, announced);
                // An empty transaction, so that the commit which follows has one to end.
                self.parts
                    .connection
                    .prepare_cached("BEGIN IMMEDIATE")?
                    .execute([])?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a refused change out of memory, too.
    fn undo(&mut self, entries: &mut Vec<Arc<Entry>>, announced: usize) {
        entries.truncate(announced);
        self.heads.undo_change();
        self.directory.forget();
    }

    /// After a failed commit: nothing in memory may be ahead of the disk, and nothing on disk ahead of
    /// what will be answered.
    fn forget(&mut self) {
        if !self.parts.connection.is_autocommit() {
            let _ = self.parts.connection.execute_batch("ROLLBACK");
        }
        self.heads.forget();
        self.directory.forget();
        self.overwrite_failed();
    }

    /// Writes something harmless where the failed commit was. Its pages may be in the write-ahead log
    /// although it could not be synced, and a restart would take them for a commit.
    fn overwrite_failed(&self) {
        let written = self
            .parts
            .connection
            .pragma_update(None, "user_version", FORMAT);
        if let Err(error) = written {
            tracing::warn!(%error, "a failed commit could not be overwritten; the next one will do it");
        }
    }
}
