//! What happened in a session and was not read yet: in order, and bounded.
//!
//! One reader. Whoever writes never waits: the other side's connection is shared by all sessions, and a reader may be waiting
//! for something else on it. When too much waits, the oldest goes and the reader is told how many that were.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::acp::event::{Event, SessionEvent};

/// Most events that wait for a session's reader.
pub(super) const QUEUED_EVENTS: usize = 10_000;

/// Most bytes of events that wait for a session's reader.
pub(super) const QUEUED_BYTES: usize = 64 * 1024 * 1024;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<(SessionEvent, usize)>,
    bytes: usize,
    dropped: u64,
    closed: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event that takes about this many bytes.
    pub(super) fn push(&self, event: SessionEvent, bytes: usize) {
        let mut waiting = self.waiting();
        waiting.events.push_back((event, bytes));
        waiting.bytes += bytes;
        while waiting.events.len() > QUEUED_EVENTS || waiting.bytes > QUEUED_BYTES {
            if !waiting.drop_oldest() {
                break;
            }
        }
        drop(waiting);
        self.news.notify_one();
    }

    /// Takes out what a turn has left here.
    pub(super) fn purge(&self, turn: u64) {
        let mut waiting = self.waiting();
        let Waiting { events, bytes, .. } = &mut *waiting;
        events.retain(|(event, size)| {
            let stays = event.turn != Some(turn) || event.event.ends_turn();
            if !stays {
                *bytes -= size;
            }
            stays
        });
    }

    /// Nothing more comes. What waits can still be read.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.news.notify_one();
    }

    /// The next event; nothing when it is closed and empty. May be dropped at any time without losing one.
    pub(super) async fn next(&self) -> Option<SessionEvent> {
        loop {
            if let Some(next) = self.next_now() {
                return Some(next);
            }
            if self.waiting().closed {
                return None;
            }
            self.news.notified().await;
        }
    }

    /// The next event, when there is one already.
    pub(super) fn next_now(&self) -> Option<SessionEvent> {
        let mut waiting = self.waiting();
        let dropped = std::mem::take(&mut waiting.dropped);
        if dropped > 0 {
            return Some(SessionEvent {
                turn: None,
                event: Event::Lagged { dropped },
            });
        }
        let (event, bytes) = waiting.events.pop_front()?;
        waiting.bytes -= bytes;
        Some(event)
    }
}

impl Waiting {
    /// Drops the oldest event that is not the end of a turn: somebody waits for that.
    fn drop_oldest(&mut self) -> bool {
        let oldest = self
            .events
            .iter()
            .position(|(event, _)| !event.event.ends_turn());
        let Some((_, bytes)) = oldest.and_then(|oldest| self.events.remove(oldest)) else {
            return false;
        };
        self.bytes -= bytes;
        self.dropped += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::event::StopReason;

    fn text(turn: u64, text: impl ToString) -> SessionEvent {
        SessionEvent {
            turn: Some(turn),
            event: Event::Text {
                text: text.to_string(),
            },
        }
    }

    fn end(turn: u64) -> SessionEvent {
        SessionEvent {
            turn: Some(turn),
            event: Event::TurnEnded {
                stop_reason: StopReason::EndTurn,
                tokens: None,
            },
        }
    }

    fn lagged(dropped: u64) -> SessionEvent {
        SessionEvent {
            turn: None,
            event: Event::Lagged { dropped },
        }
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_what_is_missing() {
        let queue = Queue::default();
        queue.push(end(1), 0);
        for number in 0..QUEUED_EVENTS + 5 {
            queue.push(text(2, number), 1);
        }
        queue.close();
        assert_eq!(queue.next().await, Some(lagged(6)));
        assert_eq!(queue.next().await, Some(end(1)));
        assert_eq!(queue.next().await, Some(text(2, 6)));
        let mut left = 0;
        while queue.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, QUEUED_EVENTS - 2);
        assert_eq!(queue.waiting().bytes, 0);
    }

    #[tokio::test]
    async fn bytes_are_bounded_too() {
        let queue = Queue::default();
        for number in 0..5 {
            queue.push(text(1, number), QUEUED_BYTES / 2);
        }
        assert_eq!(queue.next().await, Some(lagged(3)));
        assert_eq!(queue.next().await, Some(text(1, 3)));
    }

    #[tokio::test]
    async fn a_purged_turn_leaves_its_end_only() {
        let queue = Queue::default();
        for event in [text(1, "a"), text(2, "b"), end(1), text(1, "c")] {
            queue.push(event, 1);
        }
        queue.purge(1);
        assert_eq!(queue.next_now(), Some(text(2, "b")));
        assert_eq!(queue.next_now(), Some(end(1)));
        assert_eq!(queue.next_now(), None);
    }
}
