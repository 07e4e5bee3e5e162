//! When a message that `check` told counts as read: once the answer was written out, not before.
//!
//! Between reading the inbox and the client there are a queue, a task and a pipe, and the process may die at each of
//! them. The MCP library tells a handler nothing of what becomes of its answer, but a transport's `send` ends when the
//! bytes were written and flushed. So the handler leaves here, under the request's id, what its answer tells; the transport
//! ([`crate::witness`]) takes it when it is given that answer, and has it marked as read after the write went well.
//! An answer that is never written (the request was cancelled, the client is gone, the process died) marks nothing, and
//! the messages are told again: twice at worst, never not at all.
//!
//! Over HTTP the library's transport is not ours; there, whoever writes the body says so ([`crate::McpServer::answered`]).
//!
//! A client that has its answer may ask again before the marks are stored. What is on its way is therefore left out of
//! the next answer, from before the first byte is written until the server has the marks or refused them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use relay_protocol::ids::MessageId;
use rmcp::model::RequestId;

use crate::limits::UNWRITTEN_ANSWERS;

/// What an answer tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// The messages.
    pub(crate) messages: Vec<MessageId>,
    /// The last one of each place: marking it as read marks those before it.
    pub(crate) marks: Vec<MessageId>,
}

/// The answers that were made and not written yet, and the messages that are being marked.
#[derive(Default)]
pub(crate) struct Settling {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    unwritten: VecDeque<(RequestId, Told)>,
    on_the_way: Vec<MessageId>,
}

impl Settling {
    /// Keeps what the answer of a request tells, until it is written.
    pub(crate) fn keep(&self, request: RequestId, told: Told) {
        let mut state = self.state();
        state.unwritten.retain(|(id, _)| *id != request);
        if state.unwritten.len() == UNWRITTEN_ANSWERS {
            state.unwritten.pop_front();
        }
        state.unwritten.push_back((request, told));
    }

    /// The answer of a request is about to be written: what it tells, if that is to be settled.
    pub(crate) fn leaves(&self, request: &RequestId) -> Option<Told> {
        let mut state = self.state();
        let at = state.unwritten.iter().position(|(id, _)| id == request)?;
        let (_, told) = state.unwritten.remove(at)?;
        state.on_the_way.extend(&told.messages);
        Some(told)
    }

    /// Its marks are stored, or will not be.
    pub(crate) fn arrived(&self, told: &Told) {
        let mut state = self.state();
        for message in &told.messages {
            // Two answers may have told the same message; each has its own entry.
            let at = state.on_the_way.iter().position(|id| id == message);
            at.map(|at| state.on_the_way.swap_remove(at));
        }
    }

    /// Forgets the answer of a request that was cancelled.
    pub(crate) fn forget(&self, request: &RequestId) {
        self.state().unwritten.retain(|(id, _)| id != request);
    }

    /// The messages that are being marked. To be asked before the inbox is: what is gone from here by then is gone
    /// from the inbox, too.
    pub(crate) fn on_the_way(&self) -> HashSet<MessageId> {
        self.state().on_the_way.iter().copied().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use relay_protocol::time::Timestamp;

    use super::*;

    fn message(number: u128) -> MessageId {
        MessageId::new(Timestamp::from_millis(1), number)
    }

    fn told(numbers: &[u128]) -> Told {
        let messages: Vec<_> = numbers.iter().map(|number| message(*number)).collect();
        let marks = messages.last().copied().into_iter().collect();
        Told { messages, marks }
    }

    #[test]
    fn what_leaves_is_left_out_until_it_arrived() {
        let settling = Settling::default();
        let request = RequestId::Number(1);
        settling.keep(request.clone(), told(&[1, 2]));
        assert!(settling.on_the_way().is_empty(), "nothing was written");
        let leaving = settling.leaves(&request).unwrap();
        assert_eq!(leaving, told(&[1, 2]));
        assert_eq!(
            settling.on_the_way(),
            HashSet::from([message(1), message(2)])
        );
        assert_eq!(settling.leaves(&request), None, "it leaves once");
        settling.arrived(&leaving);
        assert!(settling.on_the_way().is_empty());
    }

    #[test]
    fn a_message_in_two_answers_is_on_the_way_until_both_arrived() {
        let settling = Settling::default();
        let leave = |id| {
            settling.keep(RequestId::Number(id), told(&[7]));
            settling.leaves(&RequestId::Number(id)).unwrap()
        };
        let (one, other) = (leave(1), leave(2));
        settling.arrived(&one);
        assert_eq!(settling.on_the_way(), HashSet::from([message(7)]));
        settling.arrived(&other);
        assert!(settling.on_the_way().is_empty());
    }

    #[test]
    fn cancelled_answers_settle_nothing_and_take_no_room() {
        let settling = Settling::default();
        settling.keep(RequestId::Number(-1), told(&[1]));
        settling.forget(&RequestId::Number(-1));
        assert_eq!(settling.leaves(&RequestId::Number(-1)), None);
        for id in 0..=UNWRITTEN_ANSWERS as i64 {
            settling.keep(RequestId::Number(id), told(&[1]));
        }
        assert_eq!(
            settling.leaves(&RequestId::Number(0)),
            None,
            "the oldest went"
        );
        assert!(settling.leaves(&RequestId::Number(1)).is_some());
    }
}
