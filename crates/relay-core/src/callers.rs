//! Callers that were let in a moment ago, so that not every request reads its credential from the store, and watches on the
//! credentials of those who stay connected.
//!
//! The commit that ends a credential forgets all callers and wakes the watches on that credential, before whoever ended it has
//! an answer. What else changes a caller, such as an agent's metadata, is forgotten after a second at the latest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_protocol::time::Timestamp;
use tokio::sync::watch;

use crate::caller::Caller;
use crate::store::CredentialEnd;
use crate::store::chain::Hash;

/// How long a caller is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// Most callers that are remembered.
const REMEMBERED: usize = 10_000;

/// Callers by the hash of their token.
#[derive(Default)]
pub(crate) struct Callers(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Grows with every change of a credential.
    changes: u64,
    callers: HashMap<Hash, Remembered>,
    /// The credentials of those who stay, with how long each is valid.
    watched: HashMap<Hash, watch::Sender<Validity>>,
}

/// How long a credential is valid, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    /// No end is known.
    Open,
    /// Until then.
    Until(Timestamp),
    /// It has ended.
    Over,
}

impl Validity {
    /// The shorter of two: nothing lets a credential live longer.
    fn shorter(self, other: Self) -> Self {
        match (self, other) {
            (Self::Over, _) | (_, Self::Over) => Self::Over,
            (Self::Until(one), Self::Until(other)) => Self::Until(one.min(other)),
            (Self::Open, validity) | (validity, Self::Open) => validity,
        }
    }
}

/// Watches one credential for as long as it is kept; [`Engine::credential_ended`](crate::Engine::credential_ended) waits with it.
pub struct CredentialWatch {
    callers: Arc<Callers>,
    hash: Hash,
    /// Always there until it is dropped.
    changes: Option<watch::Receiver<Validity>>,
}

impl CredentialWatch {
    pub(crate) const fn hash(&self) -> Hash {
        self.hash
    }

    /// Notes when the credential ends.
    pub(crate) fn limit(&self, until: Timestamp) {
        let known = self.callers.known();
        known.shorten(&self.hash, Validity::Until(until));
    }

    /// How long the credential is valid, from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<Validity> {
        match &self.changes {
            Some(changes) => changes.clone(),
            None => watch::channel(Validity::Over).1,
        }
    }
}

impl Drop for CredentialWatch {
    fn drop(&mut self) {
        let mut known = self.callers.known();
        drop(self.changes.take());
        let sender = known.watched.get(&self.hash);
        if sender.is_some_and(|sender| sender.receiver_count() == 0) {
            known.watched.remove(&self.hash);
        }
    }
}

struct Remembered {
    caller: Caller,
    valid_until: Option<Timestamp>,
    forget_at: Duration,
}

/// Says that no credential has changed since a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Callers {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The caller and the end of its credential, if it was let in a moment ago; otherwise the moment, to be given to [`Callers::note`].
    pub(crate) fn find(
        &self,
        hash: &Hash,
        now: Timestamp,
        mono: Duration,
    ) -> Result<(Caller, Option<Timestamp>), Moment> {
        let known = self.known();
        let found = known.callers.get(hash).filter(|found| {
            found.forget_at > mono && found.valid_until.is_none_or(|until| until > now)
        });
        match found {
            Some(found) => Ok((found.caller.clone(), found.valid_until)),
            None => Err(Moment(known.changes)),
        }
    }

    /// Remembers a caller whose credential was read after a moment, unless one has changed since.
    pub(crate) fn note(
        &self,
        since: Moment,
        hash: Hash,
        caller: &Caller,
        valid_until: Option<Timestamp>,
        mono: Duration,
    ) {
        let mut known = self.known();
        if known.changes != since.0 {
            return;
        }
        if known.callers.len() >= REMEMBERED {
            known.callers.clear();
        }
        let remembered = Remembered {
            caller: caller.clone(),
            valid_until,
            forget_at: mono + REMEMBERED_FOR,
        };
        known.callers.insert(hash, remembered);
    }

    /// What is known of callers has changed.
    pub(crate) fn forget(&self) {
        self.known().forget();
    }

    /// A credential ends; the change is committed.
    pub(crate) fn ends(&self, end: CredentialEnd) {
        let mut known = self.known();
        known.forget();
        let validity = end.valid_until.map_or(Validity::Over, Validity::Until);
        known.shorten(&end.hash, validity);
    }

    /// Watches a credential from now on.
    pub(crate) fn watch(self: &Arc<Self>, hash: Hash) -> CredentialWatch {
        let mut known = self.known();
        let sender = known
            .watched
            .entry(hash)
            .or_insert_with(|| watch::Sender::new(Validity::Open));
        CredentialWatch {
            changes: Some(sender.subscribe()),
            callers: self.clone(),
            hash,
        }
    }
}

impl Known {
    fn forget(&mut self) {
        self.changes += 1;
        self.callers.clear();
    }

    /// Tells those who watch a credential that it is valid no longer than this.
    fn shorten(&self, hash: &Hash, than: Validity) {
        let Some(sender) = self.watched.get(hash) else {
            return;
        };
        sender.send_if_modified(|validity| {
            let before = std::mem::replace(validity, validity.shorter(than));
            before != *validity
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: Hash = [7; 32];
    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn moment(callers: &Callers) -> Moment {
        callers.find(&HASH, NOW, at(0)).err().unwrap()
    }

    #[test]
    fn a_caller_is_remembered_for_a_moment() {
        let callers = Callers::default();
        let owner = Caller::process_owner();
        callers.note(moment(&callers), HASH, &owner, None, at(0));
        assert!(callers.find(&HASH, NOW, at(999)).is_ok());
        assert!(callers.find(&HASH, NOW, at(1_000)).is_err());
        assert!(callers.find(&[8; 32], NOW, at(0)).is_err());
    }

    #[test]
    fn a_credential_that_ends_is_not_remembered_longer() {
        let callers = Callers::default();
        let owner = Caller::process_owner();
        let until = Some(NOW.plus_millis(5));
        callers.note(moment(&callers), HASH, &owner, until, at(0));
        assert!(callers.find(&HASH, NOW.plus_millis(4), at(4)).is_ok());
        assert!(callers.find(&HASH, NOW.plus_millis(5), at(5)).is_err());
    }

    #[test]
    fn what_was_read_before_a_change_is_not_remembered_after_it() {
        let callers = Callers::default();
        let owner = Caller::process_owner();
        let before = moment(&callers);
        callers.note(before, HASH, &owner, None, at(0));
        callers.forget();
        assert!(callers.find(&HASH, NOW, at(1)).is_err());
        callers.note(before, HASH, &owner, None, at(1));
        assert!(callers.find(&HASH, NOW, at(2)).is_err());
    }

    #[test]
    fn a_watch_sees_the_end_of_its_credential_and_of_no_other() {
        let callers = Arc::new(Callers::default());
        let (first, second) = (callers.watch(HASH), callers.watch(HASH));
        let other = callers.watch([8; 32]);
        let ends = |valid_until| {
            callers.ends(CredentialEnd {
                hash: HASH,
                valid_until,
            });
        };
        let seen = |watch: &CredentialWatch| *watch.changes().borrow();
        assert_eq!(seen(&first), Validity::Open);
        ends(Some(NOW));
        assert_eq!(seen(&first), Validity::Until(NOW));
        ends(Some(NOW.plus_millis(5)));
        assert_eq!(seen(&first), Validity::Until(NOW));
        second.limit(NOW.plus_millis(-5));
        assert_eq!(seen(&first), Validity::Until(NOW.plus_millis(-5)));
        ends(None);
        assert_eq!(seen(&first), Validity::Over);
        ends(Some(NOW));
        assert_eq!(seen(&second), Validity::Over);
        assert_eq!(seen(&other), Validity::Open);
        drop((first, second, other));
        assert!(callers.known().watched.is_empty());
    }

    #[test]
    fn the_end_of_a_credential_forgets_who_was_let_in_by_it() {
        let callers = Callers::default();
        let owner = Caller::process_owner();
        callers.note(moment(&callers), HASH, &owner, None, at(0));
        callers.ends(CredentialEnd {
            hash: HASH,
            valid_until: None,
        });
        assert!(callers.find(&HASH, NOW, at(1)).is_err());
    }
}
