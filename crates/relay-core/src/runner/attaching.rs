//! Tracks sessions that are being attached, so that nothing declares one of them lost meanwhile.
//!
//! An attach call stores the session first and connects its link later. Between the two the session looks
//! like one that has been gone for too long. Its grace time and its lease therefore rest while a call is
//! under way, and a resume begins only after the store has answered every earlier request to mark the
//! session offline: such a request would otherwise be carried out after the session came back.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use relay_protocol::ids::SessionId;

use super::state::State;
use crate::store::SessionNo;

/// Counts attach calls and offline requests under way, by session.
#[derive(Default)]
pub(super) struct AttachTracker {
    attaching: HashMap<SessionId, u32>,
    offline_requests: HashMap<SessionNo, u32>,
}

impl AttachTracker {
    /// Whether a call that attaches the session is under way.
    pub(super) fn is_attaching(&self, session: SessionId) -> bool {
        self.attaching.contains_key(&session)
    }

    /// Whether the store was asked to mark the session offline and has not answered.
    pub(super) fn awaits_offline(&self, session: SessionNo) -> bool {
        self.offline_requests.contains_key(&session)
    }

    /// Notes that the store is asked to mark the session offline.
    pub(super) fn offline_requested(&mut self, session: SessionNo) {
        increment(&mut self.offline_requests, session);
    }

    /// Notes that the store has answered such a request.
    pub(super) fn offline_answered(&mut self, session: SessionNo) {
        decrement(&mut self.offline_requests, session);
    }
}

impl State {
    /// Lets the grace time and the lease of a session rest.
    pub(super) fn begin_attach(&mut self, session: SessionId) {
        increment(&mut self.attaches.attaching, session);
        self.schedule_by_id(session);
    }

    /// Lets the grace time and the lease of a session go on.
    pub(super) fn end_attach(&mut self, session: SessionId) {
        decrement(&mut self.attaches.attaching, session);
        self.schedule_by_id(session);
    }

    /// A session that attaches for the first time is not known before it is stored.
    fn schedule_by_id(&mut self, session: SessionId) {
        if let Some(&no) = self.by_id.get(&session) {
            self.schedule(no);
        }
    }
}

fn increment<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    *counts.entry(key).or_default() += 1;
}

fn decrement<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: K) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use relay_protocol::time::Timestamp;

    use super::*;

    #[test]
    fn calls_under_way_are_counted_and_forgotten() {
        let [one, other] = [1, 2].map(|bits| SessionId::new(Timestamp::from_millis(0), bits));
        let mut state = State::default();
        state.begin_attach(one);
        state.begin_attach(one);
        assert!(state.attaches.is_attaching(one) && !state.attaches.is_attaching(other));
        state.end_attach(one);
        assert!(state.attaches.is_attaching(one));
        state.end_attach(one);
        state.end_attach(one);
        assert!(!state.attaches.is_attaching(one));
        let [one, other] = [1, 2].map(SessionNo);
        state.attaches.offline_requested(one);
        assert!(state.attaches.awaits_offline(one) && !state.attaches.awaits_offline(other));
        state.attaches.offline_answered(one);
        assert!(!state.attaches.awaits_offline(one));
    }
}
