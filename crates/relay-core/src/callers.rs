//! Callers that were let in a moment ago, so that not every request reads its credential from the store.
//!
//! What changes a credential forgets all of them. Should that be missed (whoever asked for the change went
//! away half-way), they are forgotten after a second anyway.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use relay_protocol::time::Timestamp;

use crate::caller::Caller;
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

    /// The caller, if it was let in a moment ago; otherwise the moment, to be given to [`Callers::note`].
    pub(crate) fn find(
        &self,
        hash: &Hash,
        now: Timestamp,
        mono: Duration,
    ) -> Result<Caller, Moment> {
        let known = self.known();
        let found = known.callers.get(hash).filter(|found| {
            found.forget_at > mono && found.valid_until.is_none_or(|until| until > now)
        });
        match found {
            Some(found) => Ok(found.caller.clone()),
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

    /// A credential has changed.
    pub(crate) fn forget(&self) {
        let mut known = self.known();
        known.changes += 1;
        known.callers.clear();
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
        callers.find(&HASH, NOW, at(0)).unwrap_err()
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
}
