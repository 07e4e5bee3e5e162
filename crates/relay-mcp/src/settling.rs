//! When a message that `check` told counts as read: once the answer was written out, not before.
//!
//! Between reading the inbox and the client there are a queue, a task and a pipe, and the process may die at each of
//! them. The MCP library tells a handler nothing of what becomes of its answer, but a transport's `send` ends when the
//! bytes were written and flushed. So the handler leaves here, under the request's id, what its answer tells; the transport
//! ([`crate::witness`]) takes it when it is given that answer, and has it marked as read after the write went well.
//! An answer that is never written (the request was cancelled, the client is gone, the process died) marks nothing, and
//! the messages are told again: twice at worst, never not at all.
//!
//! Over HTTP the library's transport is not ours; there, what an answer tells is left with its request (`http/leaving.rs`).
//!
//! A client that has its answer may ask again before the marks are stored. What is on its way is therefore left out of
//! the next answer, from before the first byte is written until the server has the marks or refused them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::api::messages::ReadDoor;
use relay_protocol::ids::MessageId;
use relay_protocol::render::UnsurfacedAttachment;
use relay_sdk::AgentClient;
use rmcp::model::RequestId;

use crate::limits::UNWRITTEN_ANSWERS;

/// What an answer tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// The messages.
    pub(crate) messages: Vec<MessageId>,
    /// The last one of each place: marking it as read marks those before it.
    pub(crate) marks: Vec<MessageId>,
    /// Messages with attachments that were not shown, or not all of them; oldest first.
    pub(crate) unsurfaced: Vec<(MessageId, Vec<UnsurfacedAttachment>)>,
}

/// Marks as read what was told, for one agent. Clones are the same.
#[derive(Clone)]
pub(crate) struct Settler {
    /// The agent.
    pub(crate) client: AgentClient,
    on_the_way: Arc<OnTheWay>,
}

impl Settler {
    pub(crate) fn new(client: AgentClient) -> Self {
        Self {
            client,
            on_the_way: Arc::default(),
        }
    }

    /// An answer that tells this is about to be written.
    pub(crate) fn leaves(&self, told: &Told) {
        self.on_the_way.add(&told.messages);
    }

    /// It was written, or it was not.
    pub(crate) async fn settle(&self, told: Told, is_written: bool) {
        if is_written {
            // By themselves and first: what is marked with the last one of a place was shown whole.
            let marks = told.marks.iter().map(|message| (*message, Vec::new()));
            for (message, unsurfaced) in told.unsurfaced.iter().cloned().chain(marks) {
                let marked = self
                    .client
                    .mark_read_without(message, ReadDoor::Mcp, unsurfaced);
                if let Err(error) = marked.await {
                    // It stays unread, and is told again.
                    tracing::warn!(message.id = %message, %error, "a message that was told could not be marked as read");
                }
            }
        }
        self.on_the_way.remove(&told.messages);
    }

    /// The messages that are being marked. To be asked before the inbox is: what is gone from here by then is gone
    /// from the inbox, too.
    pub(crate) fn on_the_way(&self) -> HashSet<MessageId> {
        self.on_the_way.all()
    }
}

/// Messages that are being marked.
#[derive(Default)]
struct OnTheWay(Mutex<Vec<MessageId>>);

impl OnTheWay {
    fn add(&self, messages: &[MessageId]) {
        self.messages().extend(messages);
    }

    fn remove(&self, messages: &[MessageId]) {
        let mut left = self.messages();
        for message in messages {
            // Two answers may have told the same message; each has its own entry.
            let at = left.iter().position(|id| id == message);
            at.map(|at| left.swap_remove(at));
        }
    }

    fn all(&self) -> HashSet<MessageId> {
        self.messages().iter().copied().collect()
    }

    fn messages(&self) -> MutexGuard<'_, Vec<MessageId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answers that were made and not written yet, by their requests.
#[derive(Default)]
pub(crate) struct Unwritten(Mutex<VecDeque<(RequestId, Told)>>);

impl Unwritten {
    /// Keeps what the answer of a request tells, until it is written.
    pub(crate) fn keep(&self, request: RequestId, told: Told) {
        let mut answers = self.answers();
        answers.retain(|(id, _)| *id != request);
        if answers.len() == UNWRITTEN_ANSWERS {
            answers.pop_front();
        }
        answers.push_back((request, told));
    }

    /// What the answer of a request tells, if that is to be settled.
    pub(crate) fn take(&self, request: &RequestId) -> Option<Told> {
        let mut answers = self.answers();
        let at = answers.iter().position(|(id, _)| id == request)?;
        answers.remove(at).map(|(_, told)| told)
    }

    /// Forgets the answer of a request that was cancelled.
    pub(crate) fn forget(&self, request: &RequestId) {
        self.answers().retain(|(id, _)| id != request);
    }

    fn answers(&self) -> MutexGuard<'_, VecDeque<(RequestId, Told)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        Told {
            messages,
            marks,
            unsurfaced: Vec::new(),
        }
    }

    #[test]
    fn a_message_in_two_answers_is_on_the_way_until_both_arrived() {
        let on_the_way = OnTheWay::default();
        let (one, two) = (told(&[1, 7]).messages, told(&[7]).messages);
        on_the_way.add(&one);
        on_the_way.add(&two);
        on_the_way.remove(&one);
        assert_eq!(on_the_way.all(), HashSet::from([message(7)]));
        on_the_way.remove(&two);
        assert!(on_the_way.all().is_empty());
    }

    #[test]
    fn an_answer_is_taken_once() {
        let unwritten = Unwritten::default();
        let request = RequestId::Number(1);
        unwritten.keep(request.clone(), told(&[1, 2]));
        assert_eq!(unwritten.take(&request), Some(told(&[1, 2])));
        assert_eq!(unwritten.take(&request), None);
    }

    #[test]
    fn cancelled_answers_settle_nothing_and_take_no_room() {
        let unwritten = Unwritten::default();
        unwritten.keep(RequestId::Number(-1), told(&[1]));
        unwritten.forget(&RequestId::Number(-1));
        assert_eq!(unwritten.take(&RequestId::Number(-1)), None);
        for id in 0..=UNWRITTEN_ANSWERS as i64 {
            unwritten.keep(RequestId::Number(id), told(&[1]));
        }
        let oldest = unwritten.take(&RequestId::Number(0));
        assert_eq!(oldest, None, "the oldest went");
        assert!(unwritten.take(&RequestId::Number(1)).is_some());
    }
}
