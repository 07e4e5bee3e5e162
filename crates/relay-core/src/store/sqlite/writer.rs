//! The one thread that writes, with group commit.
//!
//! Whatever is queued goes into one transaction. A change that is refused before it has written anything,
//! as nearly all refusals are, costs the others nothing. When one fails half-way, the transaction is
//! rolled back and the same changes are made once more, each in a savepoint of its own, so that only
//! that one is undone: savepoints copy every page they touch, so they are for this case alone.
//!
//! Nobody is answered, and nothing is announced, before the commit is on disk. Then the observer learns of
//! it, subscribers see its entries, and those who asked get their answers, in this order. When a commit
//! fails, every change in it is answered with that failure and nothing of it is kept, in the database or in
//! memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection, Params};

use super::FORMAT;
use super::checkpoint::Checkpointer;
use super::directory::Directory;
use super::log::Heads;
use super::opening::set_format;
use crate::delivery::pace::Pace;
use crate::environment::Random;
use crate::error::{Error, Result, StorageError};
use crate::store::live::{Entry, Hub};
use crate::store::news::News;
use crate::store::reply::{Replier, Reply};

/// Most changes that wait to be written.
const QUEUED_CHANGES: usize = 16_384;

/// Most changes of one commit.
const CHANGES_PER_COMMIT: usize = 512;

/// How long a commit that expects more changes waits for the next one. Commits cost ten times as much.
const NEXT_CHANGE_WITHIN: Duration = Duration::from_micros(20);

/// How long emptying the write-ahead log waits for those who read from it.
const READERS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it waits before it tries again.
const BETWEEN_CHECKPOINTS: Duration = Duration::from_millis(10);

/// A change in the midst of its transaction.
pub(super) struct Tx<'w> {
    pub(super) connection: &'w Connection,
    pub(super) directory: &'w mut Directory,
    pub(super) heads: &'w mut Heads,
    pub(super) pace: &'w mut Pace,
    pub(super) random: &'w dyn Random,
    told: &'w mut Told,
    mode: Mode,
    wrote: bool,
}

/// What is told once the transaction is on disk.
#[derive(Default)]
struct Told {
    entries: Vec<Arc<Entry>>,
    news: Vec<News>,
}

impl Told {
    /// How much there is, to go back to.
    fn len(&self) -> (usize, usize) {
        (self.entries.len(), self.news.len())
    }

    fn truncate(&mut self, (entries, news): (usize, usize)) {
        self.entries.truncate(entries);
        self.news.truncate(news);
    }
}

/// How a change is kept apart from the others of its transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Not at all: if it fails half-way, the whole transaction is made again.
    Together,
    /// By a savepoint, opened by its first write.
    Apart,
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
        self.told.entries.push(Arc::new(entry));
    }

    /// Tells the observer once the transaction is on disk.
    pub(super) fn tell(&mut self, news: News) {
        self.told.news.push(news);
    }

    fn begin_writing(&mut self) -> Result<()> {
        if self.mode == Mode::Apart && !self.wrote {
            self.connection
                .prepare_cached("SAVEPOINT change")?
                .execute([])?;
        }
        self.wrote = true;
        Ok(())
    }
}

/// A change with its answer, without its type.
trait Job: Send {
    /// Makes the change; false when it was refused. It may be called once more after a rollback.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Answers: with the change's own result, or with the failure of the commit.
    fn finish(self: Box<Self>, failure: Option<&Error>);
}

struct Change<T, F> {
    work: F,
    result: Option<Result<T>>,
    reply: Replier<T>,
}

impl<T, F> Job for Change<T, F>
where
    T: Send,
    F: FnMut(&mut Tx<'_>) -> Result<T> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        let result = (self.work)(tx);
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
        self.reply.send(result);
    }
}

/// What the thread is asked to do.
enum Work {
    /// A change, with others in one transaction.
    Change(Box<dyn Job>),
    /// Removing what deleted content has left in the file, between two transactions.
    Scrub(Replier<()>),
}

/// The handle through which changes reach the thread.
pub(super) struct Writer {
    queue: Option<SyncSender<Work>>,
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
        let (queue, work) = sync_channel(QUEUED_CHANGES);
        let commits = Arc::new(AtomicUsize::new(0));
        let mut actor = Actor {
            parts,
            directory: Directory::default(),
            heads: Heads::default(),
            pace: Pace::default(),
            commits: commits.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("relay-writer".to_owned())
            .spawn(move || actor.run(&work))?;
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
        F: FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = Reply::pending();
        let change = Box::new(Change {
            work,
            result: None,
            reply,
        });
        self.enqueue(Work::Change(change), answer)
    }

    /// Queues the removal of what deleted content has left in the file.
    pub(super) fn scrub(&self) -> Reply<()> {
        let (reply, answer) = Reply::pending();
        self.enqueue(Work::Scrub(reply), answer)
    }

    fn enqueue<T>(&self, work: Work, answer: Reply<T>) -> Reply<T> {
        let Some(queue) = &self.queue else {
            return Reply::ready(Err(StorageError::Closed.into()));
        };
        match queue.try_send(work) {
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

/// Takes what is queued, and what those who were just answered ask next: as many as the last time, if
/// they come one upon the other. A lone sender never waits.
fn gather(first: Work, work: &Receiver<Work>, expected: usize) -> Vec<Work> {
    let mut batch = vec![first];
    batch.extend(work.try_iter().take(CHANGES_PER_COMMIT - 1));
    let mut quiet_since = Instant::now();
    while batch.len() < expected && quiet_since.elapsed() < NEXT_CHANGE_WITHIN {
        match work.try_recv() {
            Ok(work) => {
                batch.push(work);
                quiet_since = Instant::now();
            }
            Err(_) => std::hint::spin_loop(),
        }
    }
    batch
}

/// Rewrites the file with what is alive in it, and empties the write-ahead log.
///
/// Overwriting what is deleted is not enough: pages that were split keep copies of rows that moved to another page.
fn scrub(connection: &Connection) -> Result<()> {
    let not_done = |why: String| Error::Storage(StorageError::NotScrubbed(why));
    let failed = |error: rusqlite::Error| not_done(error.to_string());
    connection.execute_batch("VACUUM").map_err(failed)?;
    let begun = Instant::now();
    loop {
        let is_busy: bool = connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map_err(failed)?;
        if !is_busy {
            return Ok(());
        }
        if begun.elapsed() > READERS_TIMEOUT {
            return Err(not_done(
                "a reader such as a backup still uses them".to_owned(),
            ));
        }
        // SQLite waits for readers, but not for the thread that copies the log.
        std::thread::sleep(BETWEEN_CHECKPOINTS);
    }
}

struct Actor {
    parts: WriterParts,
    directory: Directory,
    heads: Heads,
    /// Not thrown away with a change: it was counted, and holding somebody back a little longer is harmless.
    pace: Pace,
    commits: Arc<AtomicUsize>,
}

impl Actor {
    fn run(&mut self, work: &Receiver<Work>) {
        let mut expected = 1;
        while let Ok(first) = work.recv() {
            let batch = gather(first, work, expected);
            expected = batch.len();
            let (mut changes, mut scrubs) = (Vec::new(), Vec::new());
            for work in batch {
                match work {
                    Work::Change(change) => changes.push(change),
                    Work::Scrub(reply) => scrubs.push(reply),
                }
            }
            if !changes.is_empty() {
                self.commit(changes);
            }
            if !scrubs.is_empty() {
                let done = scrub(&self.parts.connection);
                for reply in scrubs {
                    reply.send(done.clone());
                }
            }
            self.parts.checkpointer.after_commit(&self.parts.connection);
        }
    }

    fn commit(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let mut told = Told::default();
        let failure = self.write(&mut batch, &mut told).err();
        if failure.is_some() {
            self.abandon();
            self.overwrite_failed();
        } else {
            self.commits.fetch_add(1, Ordering::Relaxed);
            self.parts.hub.tell(told.news);
            self.parts.hub.publish(told.entries);
        }
        for job in batch {
            job.finish(failure.as_ref());
        }
    }

    /// Makes all changes in one transaction.
    fn write(&mut self, batch: &mut [Box<dyn Job>], told: &mut Told) -> Result<()> {
        if !self.attempt(batch, told, Mode::Together)? {
            self.abandon();
            *told = Told::default();
            self.attempt(batch, told, Mode::Apart)?;
        }
        self.step("COMMIT")
    }

    /// Begins a transaction and makes the changes in it; false when one failed half-way.
    fn attempt(&mut self, batch: &mut [Box<dyn Job>], told: &mut Told, mode: Mode) -> Result<bool> {
        self.step("BEGIN IMMEDIATE")?;
        for job in batch {
            let before = told.len();
            self.heads.begin_change();
            let mut tx = Tx {
                connection: &self.parts.connection,
                directory: &mut self.directory,
                heads: &mut self.heads,
                pace: &mut self.pace,
                random: &*self.parts.random,
                told,
                mode,
                wrote: false,
            };
            let done = job.run(&mut tx);
            let wrote = tx.wrote;
            if self.parts.connection.is_autocommit() {
                // SQLite itself has rolled the transaction back (disk full, out of memory).
                let why = "the transaction was rolled back".to_owned();
                return Err(StorageError::Unavailable(why).into());
            }
            match (done, wrote, mode) {
                (_, false, _) | (true, true, Mode::Together) => {}
                (false, true, Mode::Together) => return Ok(false),
                (true, true, Mode::Apart) => self.step("RELEASE change")?,
                (false, true, Mode::Apart) => {
                    self.step("ROLLBACK TO change")?;
                    self.step("RELEASE change")?;
                    self.undo(told, before);
                }
            }
        }
        Ok(true)
    }

    fn step(&self, sql: &str) -> Result<()> {
        self.parts.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Takes a refused change out of memory, too.
    fn undo(&mut self, told: &mut Told, before: (usize, usize)) {
        told.truncate(before);
        self.heads.undo_change();
        self.directory.forget();
    }

    /// Ends the transaction without a trace: nothing in memory may be ahead of the disk.
    fn abandon(&mut self) {
        if !self.parts.connection.is_autocommit() {
            let _ = self.parts.connection.execute_batch("ROLLBACK");
        }
        self.heads.forget();
        self.directory.forget();
    }

    /// Writes something harmless where the failed commit was. Its pages may be in the write-ahead log
    /// although it could not be synced, and a restart would take them for a commit.
    fn overwrite_failed(&self) {
        let written = set_format(&self.parts.connection, FORMAT);
        if let Err(error) = written {
            tracing::warn!(%error, "a failed commit could not be overwritten; the next one will do it");
        }
    }
}
