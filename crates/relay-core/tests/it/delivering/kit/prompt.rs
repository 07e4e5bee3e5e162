//! The real store, made to answer on the spot: what a call changes is on disk, told and answered before
//! the call returns. It counts the waiting deliveries that were read.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use relay_core::error::{Error, StorageError};
use relay_core::store::sqlite::SqliteStore;
use relay_core::store::{DeliveryRow, DueNow, Reply, WaitingPage};

/// A store that answers on the spot.
pub(crate) struct Prompt {
    real: Arc<SqliteStore>,
    rows_read: AtomicUsize,
    is_dead: AtomicBool,
}

impl Prompt {
    pub(super) fn new(real: Arc<SqliteStore>) -> Self {
        Self {
            real,
            rows_read: AtomicUsize::new(0),
            is_dead: AtomicBool::new(false),
        }
    }

    /// The process is gone: nothing reaches the disk any more.
    pub(super) fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    pub(crate) fn real(&self) -> &SqliteStore {
        &self.real
    }

    /// How many rows of waiting deliveries were read so far.
    pub(crate) fn rows_read(&self) -> usize {
        self.rows_read.load(Ordering::SeqCst)
    }

    /// Makes a call and waits for its answer.
    pub(crate) fn at_once<T: Unpin + 'static>(
        &self,
        make: impl FnOnce(&SqliteStore) -> Reply<T>,
    ) -> Reply<T> {
        if self.is_dead.load(Ordering::SeqCst) {
            return Reply::ready(Err(Error::Storage(StorageError::Closed)));
        }
        let result = make(&self.real).wait();
        if let Ok(value) = &result {
            self.rows_read.fetch_add(rows(value), Ordering::SeqCst);
        }
        Reply::ready(result)
    }
}

/// How many deliveries an answer has.
fn rows(value: &dyn Any) -> usize {
    let page = value
        .downcast_ref::<WaitingPage>()
        .map(|page| page.rows.len());
    let due = value.downcast_ref::<DueNow>().map(|due| due.rows.len());
    let listed = value.downcast_ref::<Vec<DeliveryRow>>().map(Vec::len);
    page.or(due).or(listed).unwrap_or(0)
}
