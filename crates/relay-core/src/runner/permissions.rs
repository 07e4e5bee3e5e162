//! Permission requests that nobody answers in time, and those who wait for an answer.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use relay_protocol::ids::PermissionId;
use relay_protocol::time::Timestamp;
use tokio::sync::oneshot;

use super::state::Input;
use super::{Inbox, Runner};
use crate::error::Result;
use crate::store::{EndingCause, PermissionEnding, PermissionNo};

/// How long it is until an end is stored that could not be.
const AGAIN_AFTER_MS: i64 = 1_000;

/// When requests are taken as unanswered. Pure: what happens goes in, what is over comes out.
#[derive(Default)]
pub(super) struct Expiries {
    by_time: BTreeSet<(Timestamp, PermissionId)>,
    open: HashMap<PermissionId, (u32, Timestamp)>,
    pub(super) over: Vec<(u32, PermissionId)>,
}

impl Expiries {
    /// A request waits until then.
    pub(super) fn asked(&mut self, id: PermissionId, workspace_no: u32, until: Timestamp) {
        if let Some((_, before)) = self.open.insert(id, (workspace_no, until)) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((until, id));
    }

    /// A request waits no longer.
    pub(super) fn ended(&mut self, id: PermissionId) {
        if let Some((_, until)) = self.open.remove(&id) {
            self.by_time.remove(&(until, id));
        }
    }

    /// An end could not be stored; it is tried again in a while.
    pub(super) fn not_ended(&mut self, id: PermissionId, now: Timestamp) {
        if let Some((workspace_no, _)) = self.open.get(&id).copied() {
            self.asked(id, workspace_no, now.plus_millis(AGAIN_AFTER_MS));
        }
    }

    /// Finds those whose time is over. Each comes out once; it stays known until the store has ended it.
    pub(super) fn tick(&mut self, now: Timestamp) {
        while let Some(&(until, id)) = self.by_time.first() {
            if until > now {
                break;
            }
            self.by_time.pop_first();
            if let Some((workspace_no, _)) = self.open.get(&id) {
                self.over.push((*workspace_no, id));
            }
        }
    }

    /// When the next one's time is over.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(until, _)| *until)
    }
}

/// Those who wait until a request is decided.
#[derive(Default)]
pub(super) struct Decisions(Mutex<HashMap<PermissionId, Vec<oneshot::Sender<()>>>>);

impl Decisions {
    fn wait(&self, id: PermissionId) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let others = waiting.entry(id).or_default();
        others.push(tell);
        told
    }

    /// Forgets those who have stopped waiting for this one.
    fn left(&self, id: PermissionId) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = waiting.get_mut(&id) {
            others.retain(|other| !other.is_closed());
            if others.is_empty() {
                waiting.remove(&id);
            }
        }
    }

    /// Wakes those who wait for this one.
    pub(super) fn decided(&self, id: PermissionId) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tell in waiting.remove(&id).unwrap_or_default() {
            let _ = tell.send(());
        }
    }
}

/// Somebody who waits; whoever stops leaves nothing behind.
struct Waiter {
    inbox: Arc<Inbox>,
    id: PermissionId,
    told: Option<oneshot::Receiver<()>>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.told = None;
        self.inbox.decisions.left(self.id);
    }
}

impl Runner {
    /// Learns of the requests that a former run has left waiting.
    pub(super) async fn find_waiting_permissions(&self) -> Result<()> {
        const AT_ONCE: usize = 500;
        let mut after = PermissionNo(0);
        loop {
            let rows = self.store.pending_permissions(after, AT_ONCE).await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = last.no;
            for row in &rows {
                self.with(|state, _| {
                    state
                        .expiries
                        .asked(row.id, row.workspace_no, row.expires_at);
                });
            }
        }
    }

    /// Waits until a request is decided, or has ended in another way, from now on.
    pub(crate) fn permission_ended(&self, id: PermissionId) -> impl Future<Output = ()> + use<> {
        let mut waiter = Waiter {
            told: Some(self.inbox.decisions.wait(id)),
            inbox: self.inbox.clone(),
            id,
        };
        async move {
            if let Some(told) = &mut waiter.told {
                let _ = told.await;
            }
        }
    }

    /// Ends a request that nobody answered.
    pub(super) fn expire(&self, workspace_no: u32, id: PermissionId) {
        let inbox = self.inbox.clone();
        let ending = PermissionEnding {
            viewer: None,
            workspace_no,
            id,
            cause: EndingCause::Expired,
            at: self.environment.clock.now(),
        };
        self.store.end_permission(ending).then(move |result| {
            if !super::is_stored(&result) {
                inbox.put(Input::NotExpired(id));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn id(n: u128) -> PermissionId {
        PermissionId::new(at(0), n)
    }

    #[test]
    fn whoever_waits_is_told_and_whoever_stops_leaves_nothing_behind() {
        let inbox = Arc::new(Inbox::default());
        let waiter = |n| Waiter {
            told: Some(inbox.decisions.wait(id(n))),
            inbox: inbox.clone(),
            id: id(n),
        };
        let known = || inbox.decisions.0.lock().unwrap().len();
        let (first, mut second, other) = (waiter(1), waiter(1), waiter(2));
        drop(first);
        drop(other);
        assert_eq!(known(), 1);
        inbox.decisions.decided(id(1));
        assert_eq!(known(), 0);
        assert!(second.told.as_mut().unwrap().try_recv().is_ok());
    }

    #[test]
    fn each_comes_out_once_when_its_time_is_over() {
        let mut expiries = Expiries::default();
        expiries.asked(id(1), 1, at(20));
        expiries.asked(id(2), 1, at(10));
        expiries.asked(id(3), 1, at(10));
        expiries.ended(id(3));
        expiries.tick(at(9));
        assert!(expiries.over.is_empty());
        assert_eq!(expiries.next(), Some(at(10)));
        expiries.tick(at(10));
        assert_eq!(expiries.over, [(1, id(2))]);
        expiries.tick(at(15));
        assert_eq!(expiries.over, [(1, id(2))]);
        assert_eq!(expiries.next(), Some(at(20)));
    }

    #[test]
    fn what_could_not_be_stored_is_tried_again_unless_it_has_ended() {
        let mut expiries = Expiries::default();
        expiries.asked(id(1), 7, at(10));
        expiries.tick(at(10));
        expiries.over.clear();
        expiries.not_ended(id(1), at(10));
        assert_eq!(expiries.next(), Some(at(10 + AGAIN_AFTER_MS)));
        expiries.ended(id(1));
        expiries.not_ended(id(1), at(20));
        assert_eq!(expiries.next(), None);
    }
}
