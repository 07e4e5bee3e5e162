//! The reports of one session between their arrival and the disk: numbers, order, and who waits.
//!
//! Pure: a report is accepted here, handed to the store by `held`, and confirmed or undone when the store has
//! answered. Callers are answered when everything up to their last number is stored, so that what is
//! acknowledged is on disk.

use std::collections::{HashMap, VecDeque};

use relay_protocol::redact::Redactor;
use relay_protocol::session::{Acked, NumberedEvent};
use tokio::sync::oneshot;

use super::streams::TextStreams;
use crate::error::{Error, Result};
use crate::store::NumberedReport;

/// The reports of one session that are not stored yet, and what its text streams remember.
#[derive(Default)]
pub(crate) struct PendingReports {
    pub(super) text: TextStreams,
    /// Reports that may be stored, in order.
    pub(super) ready: Vec<NumberedReport>,
    /// The highest number that was taken in. Those above `stored` are held, or on their way.
    accepted: u64,
    /// The highest number that is known to be stored.
    stored: u64,
    /// What the store has not answered yet, oldest first.
    in_flight: VecDeque<InFlight>,
    last_id: u64,
    waiters: Vec<Waiter>,
    /// Whether it is known what the text streams ended with before this process.
    has_recalled: bool,
}

struct InFlight {
    id: u64,
    first: u64,
    last: u64,
}

struct Waiter {
    first: u64,
    last: u64,
    answer: oneshot::Sender<Result<Acked>>,
}

impl PendingReports {
    /// The highest number that was taken in.
    pub(super) const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether the text streams have to be recalled from the log.
    pub(super) const fn needs_recall(&self) -> bool {
        !self.has_recalled
    }

    /// Recalls what the text streams ended with, unless that has happened meanwhile.
    pub(super) fn recall(&mut self, redactor: &Redactor, ends: HashMap<String, String>) {
        if std::mem::replace(&mut self.has_recalled, true) {
            return;
        }
        for (kind, end) in ends {
            self.text.recall(redactor, kind, &end);
        }
    }

    /// Learns what the store has.
    pub(super) fn is_stored(&mut self, n: u64) {
        self.stored = self.stored.max(n);
        self.accepted = self.accepted.max(n);
    }

    /// How many of these reports were taken in before. The others have to follow without a gap.
    pub(super) fn count_known(&self, events: &[NumberedEvent]) -> Result<usize> {
        let known = events.iter().take_while(|event| event.n <= self.accepted);
        let known = known.count();
        for (expected, event) in (self.accepted + 1..).zip(&events[known..]) {
            if event.n != expected {
                return Err(Error::EventGap {
                    expected,
                    found: event.n,
                });
            }
        }
        Ok(known)
    }

    /// Takes in the reports up to this number.
    pub(super) fn accept(&mut self, n: u64) {
        self.accepted = self.accepted.max(n);
    }

    /// Answers once everything up to `last` is stored, which may be now.
    pub(super) fn wait_for(&mut self, first: u64, last: u64) -> oneshot::Receiver<Result<Acked>> {
        let (answer, answered) = oneshot::channel();
        let waiter = Waiter {
            first,
            last,
            answer,
        };
        if last <= self.stored {
            self.acknowledge(waiter);
        } else {
            self.waiters.push(waiter);
        }
        answered
    }

    fn acknowledge(&self, waiter: Waiter) {
        let acked = self.stored;
        let _ = waiter.answer.send(Ok(Acked { acked }));
    }

    /// Notes that the store was given reports.
    pub(super) fn begin(&mut self, first: u64, last: u64) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.in_flight.push_back(InFlight { id, first, last });
        id
    }

    /// Everything up to `acked` is on disk, by the store's answer to what it was given.
    pub(super) fn confirm(&mut self, id: u64, acked: u64) {
        self.in_flight.retain(|given| given.id != id);
        self.is_stored(acked);
        self.text.confirm(self.stored);
        let waiters = std::mem::take(&mut self.waiters);
        for waiter in waiters {
            if waiter.last <= self.stored {
                self.acknowledge(waiter);
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    /// The store did not take what it was given, so it takes nothing that follows either. All of that is undone;
    /// whoever sent it has to send it again.
    pub(super) fn undo(&mut self, id: u64, error: &Error) {
        let Some(at) = self.in_flight.iter().position(|given| given.id == id) else {
            // Undone already, with something before it.
            return;
        };
        let InFlight { first, last, .. } = self.in_flight[at];
        self.in_flight.truncate(at);
        self.text.undo_from(first);
        self.accepted = first.saturating_sub(1).max(self.stored);
        let waiters = std::mem::take(&mut self.waiters);
        for waiter in waiters {
            if waiter.last < first {
                self.waiters.push(waiter);
                continue;
            }
            let is_its_own = waiter.first <= last || matches!(error, Error::Storage(_));
            let error = if is_its_own {
                error.clone()
            } else {
                Error::EventGap {
                    expected: first,
                    found: waiter.first,
                }
            };
            let _ = waiter.answer.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StorageError;

    fn waiting(pending: &mut PendingReports, n: u64) -> oneshot::Receiver<Result<Acked>> {
        pending.accept(n);
        pending.wait_for(n, n)
    }

    #[test]
    fn a_caller_is_answered_when_its_last_number_is_stored() {
        let mut pending = PendingReports::default();
        let mut one = waiting(&mut pending, 1);
        let mut two = waiting(&mut pending, 2);
        let given = pending.begin(1, 1);
        assert!(one.try_recv().is_err());
        pending.confirm(given, 1);
        assert_eq!(one.try_recv().unwrap(), Ok(Acked { acked: 1 }));
        assert!(two.try_recv().is_err());
        let again = pending.wait_for(1, 1).try_recv().unwrap();
        assert_eq!(again, Ok(Acked { acked: 1 }));
    }

    #[test]
    fn what_follows_something_that_was_refused_is_undone_with_it() {
        let refusal = Error::UnknownSession(relay_protocol::ids::SessionId::new(
            relay_protocol::time::Timestamp::from_millis(1),
            1,
        ));
        for storage in [false, true] {
            let error = match storage {
                true => Error::Storage(StorageError::Busy),
                false => refusal.clone(),
            };
            let gap = Error::EventGap {
                expected: 2,
                found: 3,
            };
            let mut pending = PendingReports::default();
            let mut callers = [1, 2, 3].map(|n| waiting(&mut pending, n));
            let ids = [1, 2, 3].map(|n| pending.begin(n, n));
            // The answers may come in any order.
            pending.undo(ids[2], &gap);
            pending.undo(ids[1], &error);
            pending.confirm(ids[0], 1);
            assert_eq!(pending.accepted(), 1);
            let [one, two, three] = &mut callers;
            assert_eq!(one.try_recv().unwrap(), Ok(Acked { acked: 1 }));
            assert_eq!(two.try_recv().unwrap(), Err(error));
            assert_eq!(three.try_recv().unwrap(), Err(gap));
            // The same numbers are taken again.
            let again = pending.begin(2, 2);
            pending.undo(ids[2], &Error::Storage(StorageError::Busy));
            pending.confirm(again, 2);
            assert_eq!(pending.accepted(), 2);
        }
    }
}
