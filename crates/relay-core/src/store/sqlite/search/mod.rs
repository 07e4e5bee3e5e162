//! Full-text search, in a file of its own that is filled behind the sends.
//!
//! The index is derived: it can be deleted at any time and is then made anew. It holds no text, only
//! which words are in which message, and for each message its room and author as words of a second
//! column, so that filters are part of the same look-up. A thread fills it a moment after sends; a
//! search first indexes whatever is still missing, so it always finds what was sent before it.
//!
//! [`fill`] reads from the database what is to be indexed, [`index`] keeps it, [`query`] understands
//! what is looked for, [`scope`] where, [`snippet`] shows it. What the index says is never trusted
//! alone: each hit is looked up in the database, and only what the viewer may see there is shown.

mod fill;
mod index;
mod query;
mod scope;
mod snippet;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, park, park_timeout};
use std::time::{Duration, Instant};

use relay_protocol::api::Page;
use relay_protocol::api::messages::SearchHit;
use rusqlite::Connection;

use self::index::Index;
use self::query::Query;
use self::scope::Scope;
use super::connection::{SqliteOptions, is_full};
use super::log::read_head;
use super::message_read::cursor;
use crate::error::{Error, Result, StorageError};
use crate::store::records::WorkspaceRow;
use crate::store::requests::{Search, Viewer};

/// How long the thread waits after a send, so that it indexes many at once.
const BATCHING: Duration = Duration::from_millis(200);

/// How long it waits for sends to pause.
const BEHIND_AT_MOST: Duration = Duration::from_secs(2);

/// How long the thread leaves the index alone after it could not be written.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The index and the thread that fills it.
pub(super) struct SearchIndex {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl SearchIndex {
    /// Starts the thread, which opens the file: a store whose index can't be used works without.
    ///
    /// A database on a VFS of its own belongs to a test that counts what happens to its files. Its
    /// index is in memory and has no thread; searches alone fill it. They do as well where nothing is to
    /// be indexed ahead.
    pub(super) fn open(options: &SqliteOptions) -> rusqlite::Result<Self> {
        let is_observed = options.vfs.is_some();
        let shared = Arc::new(Shared {
            door: Mutex::default(),
            state: Mutex::new(State {
                path: (!is_observed).then(|| index_path(options)),
                options: options.clone(),
                opened: None,
            }),
            wanted: AtomicBool::new(true),
            closed: AtomicBool::new(false),
        });
        let thread = (options.index_ahead && !is_observed)
            .then(|| start_thread(shared.clone()))
            .transpose()
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        Ok(Self { shared, thread })
    }

    /// Notes that something is about to be committed that searches should find. Only a hint: what the
    /// thread misses, the next search adds.
    pub(super) fn soon(&self) {
        let wanted = &self.shared.wanted;
        if !wanted.load(Ordering::Relaxed)
            && !wanted.swap(true, Ordering::AcqRel)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Indexes what a workspace has up to a sequence number, and removes from the file what words of erased messages
    /// have left there.
    pub(super) fn scrub(&self, workspace_no: u32, head: u64) -> Result<()> {
        let scrub = || {
            self.shared.catch_up(workspace_no, head)?;
            let scrubbed = |opened: &mut Opened| opened.index.scrub().map_err(Failure::Index);
            self.shared.with(scrubbed)
        };
        let done = match scrub() {
            // A damaged index is thrown away, with all that is in its file; the next one is made of what is left.
            Err(Failure::Index(error)) if index::is_damage(&error) => scrub(),
            done => done,
        };
        done.map_err(|failure| {
            let why = Error::from(failure).to_string();
            StorageError::NotScrubbed(why).into()
        })
    }

    /// The messages that hold the words, newest first.
    pub(super) fn find(
        &self,
        connection: &Connection,
        workspace: &WorkspaceRow,
        viewer: Viewer,
        search: &Search,
    ) -> Result<Page<SearchHit>> {
        let query = Query::parse(&search.words)?;
        let scope = Scope::of(connection, viewer, search)?;
        let head = read_head(connection, workspace.no)?.seq;
        // What was sent after this view of the database is not in it, and can't be shown.
        let before = cursor(&search.page)?.map_or(head + 1, |seq| seq.min(head + 1));
        let find = || {
            self.shared.catch_up(workspace.no, head)?;
            let hits = scope::Hits {
                shared: &self.shared,
                connection,
                workspace,
                query: &query,
                scope: &scope,
            };
            hits.page(before, search.page.limit)
        };
        // A damaged index was thrown away when that was noticed, so the second time finds a new one.
        let found = match find() {
            Err(Failure::Index(error)) if index::is_damage(&error) => find(),
            found => found,
        };
        found.map_err(Error::from)
    }
}

impl Drop for SearchIndex {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn index_path(options: &SqliteOptions) -> PathBuf {
    let mut name = options.path.as_os_str().to_owned();
    name.push(".search");
    name.into()
}

fn start_thread(shared: Arc<Shared>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("relay-search".to_owned())
        .spawn(move || shared.fill_when_wanted())
}

/// What the thread and searches share.
struct Shared {
    door: Mutex<()>,
    state: Mutex<State>,
    wanted: AtomicBool,
    closed: AtomicBool,
}

struct State {
    /// The file; `None` for an index in memory.
    path: Option<PathBuf>,
    options: SqliteOptions,
    opened: Option<Opened>,
}

/// The index, and the database as the index sees it: one connection, so that the view never goes back.
struct Opened {
    index: Index,
    main: Connection,
}

/// Why something could not be done, and in which of the two files.
enum Failure {
    Main(Error),
    Index(rusqlite::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Main(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Main(error) => error,
            Failure::Index(error) if is_full(&error) => StorageError::Full.into(),
            // Never "damaged, restore a backup": nothing is in the index that can't be made again.
            Failure::Index(error) => {
                StorageError::Unavailable(format!("the search index: {error}")).into()
            }
        }
    }
}

impl Shared {
    /// Does something with the index.
    fn with<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T, Failure>) -> Result<T, Failure> {
        self.lock().with(work)
    }

    /// Waits for a turn. Whoever waits holds the door, so that a long run of the thread, which takes
    /// the lock again and again, lets others in between.
    fn lock(&self) -> MutexGuard<'_, State> {
        let _door = self.door.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Indexes what a workspace has up to a sequence number.
    fn catch_up(&self, workspace_no: u32, head: u64) -> Result<(), Failure> {
        while self.with(|opened| opened.step(workspace_no, head))? {}
        Ok(())
    }

    /// Indexes all there is, unless the store is closed meanwhile.
    fn fill(&self) -> Result<(), Failure> {
        for workspace_no in self.with(|opened| Ok(fill::workspaces(&opened.main)?))? {
            while !self.is_closed() && self.with(|opened| opened.step(workspace_no, u64::MAX))? {}
        }
        Ok(())
    }

    fn fill_when_wanted(&self) {
        while self.wait_for_work() {
            if let Err(failure) = self.fill() {
                let error = Error::from(failure);
                tracing::warn!(%error, "messages could not be indexed; it will be tried again");
                self.pause(AFTER_FAILURE);
            }
        }
    }

    /// Waits for something to index, and then for more of it; false when the store is closed.
    fn wait_for_work(&self) -> bool {
        while !self.is_closed() && !self.wanted.load(Ordering::Acquire) {
            park();
        }
        let begun = Instant::now();
        // A burst of sends is not disturbed; a search that comes meanwhile adds what it needs itself.
        while self.wanted.swap(false, Ordering::AcqRel) && begun.elapsed() < BEHIND_AT_MOST {
            self.pause(BATCHING);
        }
        !self.is_closed()
    }

    fn pause(&self, duration: Duration) {
        let end = Instant::now() + duration;
        while !self.is_closed() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            park_timeout(left);
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl State {
    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Opened) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let opened = match &mut self.opened {
            Some(opened) => opened,
            none => none.insert(open(self.path.as_deref(), &self.options)?),
        };
        let result = work(opened);
        if let Err(Failure::Index(error)) = &result
            && index::is_damage(error)
        {
            self.throw_away();
        }
        result
    }

    fn throw_away(&mut self) {
        self.opened = None;
        if let Some(path) = &self.path {
            tracing::warn!(path = %path.display(), "the search index is damaged; it is made anew");
            // What can't be removed is found damaged again at the next opening.
            let _ = index::remove(path);
        }
    }
}

/// Opens the index of a database, a new one if the old one can't be used.
fn open(path: Option<&std::path::Path>, options: &SqliteOptions) -> Result<Opened, Failure> {
    let main = options.open_reader().map_err(Error::from)?;
    let Some(path) = path else {
        let index = Index::in_memory().map_err(Failure::Index)?;
        return Ok(Opened { index, main });
    };
    let mut kept = Index::open(path).map_err(Failure::Index)?;
    if let Some(index) = &kept
        && !fill::is_of(&main, index.all_progress())?
    {
        kept = None;
    }
    let index = match kept {
        Some(index) => index,
        None => Index::create(path).map_err(Failure::Index)?,
    };
    Ok(Opened { index, main })
}

impl Opened {
    /// Indexes the next of what a workspace lacks up to a sequence number; false when it lacks nothing.
    fn step(&mut self, workspace_no: u32, head: u64) -> Result<bool, Failure> {
        let progress = self.index.progress(workspace_no);
        if progress.is_some_and(|progress| progress.covers(head)) {
            return Ok(false);
        }
        let Some(batch) = fill::next_batch(&self.main, workspace_no, progress)? else {
            return Ok(false);
        };
        self.index
            .apply(workspace_no, &batch)
            .map_err(Failure::Index)?;
        Ok(true)
    }
}
