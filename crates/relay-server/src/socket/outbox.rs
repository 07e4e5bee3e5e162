//! What waits to be written to one client. Bounded in three ways: answers by their bytes (the reader waits,
//! so the client is not read any further), parcels for sessions by their number (the link is cut), events
//! not at all queued (the writer pulls them).
//!
//! By hand, because a connection that is silent should cost next to nothing: two channels, a semaphore and
//! a token take two kilobytes, this takes a tenth of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_core::link::{Deliver, LinkClosed};
use relay_protocol::limits::{UNREAD_ANSWER_BYTES, UNREAD_PARCELS};
use relay_protocol::problem::Problem;
use relay_protocol::socket::{
    ControlFrame, ErrorFrame, FrameRef, InvokeFrame, ServerFrame, ServerMessage,
};
use tokio::sync::Notify;

use super::follow::NewSubscription;
use super::link::LinkClosing;

/// Places in the queue that stay when it is empty.
const KEPT: usize = 16;

/// What the writer is given.
pub(super) enum Outgoing {
    /// An answer, as text.
    Answer(String),
    /// A delivery for a session.
    Deliver(Box<Deliver>),
    /// An operation on a session.
    Control(Box<ControlFrame>),
    /// A call of an action.
    Invoke(Box<InvokeFrame>),
    /// Events to follow from now on.
    Subscribe(Box<NewSubscription>),
    /// Events to follow no more.
    Unsubscribe(Box<str>),
    /// Nothing follows.
    Close(&'static (u16, &'static str)),
}

/// What the reader has to attend to besides the client.
pub(super) enum Attention {
    /// Nothing comes over a session's link any more.
    LinkClosing(LinkClosing),
    /// Nobody writes any more.
    WriterGone,
}

/// The end where things are put.
#[derive(Clone)]
pub(super) struct Outbox(Arc<Shared>);

/// The end where things are taken. Once it is dropped, what is put there is dropped as well.
pub(super) struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// For the writer: something was put.
    put: Notify,
    /// For the reader: answers were written.
    room: Notify,
    /// For the reader: a link closes, or the writer is gone.
    attention: Notify,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<Outgoing>,
    answer_bytes: usize,
    parcels: usize,
    closing: Vec<LinkClosing>,
    writer_gone: bool,
}

/// Both ends of an empty queue.
pub(super) fn new() -> (Outbox, Queue) {
    let shared = Arc::new(Shared::default());
    (Outbox(shared.clone()), Queue(shared))
}

/// A frame as text.
fn text_of(reference: Option<FrameRef>, message: ServerMessage) -> String {
    let frame = ServerFrame { reference, message };
    serde_json::to_string(&frame).unwrap_or_default()
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Whether an answer may be queued. One that is larger than the limit is, when it is the only one.
    const fn has_room_for(&self, bytes: usize) -> bool {
        self.writer_gone
            || self.answer_bytes == 0
            || self.answer_bytes + bytes <= UNREAD_ANSWER_BYTES
    }

    fn push(&mut self, outgoing: Outgoing) {
        if self.writer_gone {
            return;
        }
        match &outgoing {
            Outgoing::Answer(text) => self.answer_bytes += text.len(),
            Outgoing::Deliver(_) | Outgoing::Control(_) | Outgoing::Invoke(_) => self.parcels += 1,
            _ => {}
        }
        self.queue.push_back(outgoing);
    }

    fn pop(&mut self) -> Option<Outgoing> {
        let outgoing = self.queue.pop_front()?;
        if self.queue.is_empty() && self.queue.capacity() > KEPT {
            self.queue = VecDeque::new();
        }
        match &outgoing {
            Outgoing::Answer(text) => self.answer_bytes -= text.len(),
            Outgoing::Deliver(_) | Outgoing::Control(_) | Outgoing::Invoke(_) => self.parcels -= 1,
            _ => {}
        }
        Some(outgoing)
    }
}

impl Outbox {
    /// Queues an answer once there is space for it. Only the reader answers.
    pub(super) async fn answer(&self, reference: Option<FrameRef>, message: ServerMessage) {
        let text = text_of(reference, message);
        while !self.0.waiting().has_room_for(text.len()) {
            self.0.room.notified().await;
        }
        self.tell(Outgoing::Answer(text));
    }

    /// Queues a refusal once there is space for it.
    pub(super) async fn refuse(&self, reference: Option<FrameRef>, problem: Box<Problem>) {
        let error = ErrorFrame { problem };
        self.answer(reference, ServerMessage::Error(error)).await;
    }

    /// Queues what comes only once in a connection's or a session's life.
    pub(super) fn say_now(&self, message: ServerMessage) {
        self.tell(Outgoing::Answer(text_of(None, message)));
    }

    /// Queues something for a session, without waiting.
    pub(super) fn parcel(&self, parcel: Outgoing) -> Result<(), LinkClosed> {
        {
            let mut waiting = self.0.waiting();
            if waiting.parcels >= UNREAD_PARCELS || waiting.writer_gone {
                return Err(LinkClosed);
            }
            waiting.push(parcel);
        }
        self.0.put.notify_one();
        Ok(())
    }

    /// Gives the writer something without waiting for space.
    pub(super) fn tell(&self, outgoing: Outgoing) {
        self.0.waiting().push(outgoing);
        self.0.put.notify_one();
    }

    /// Lets the writer end after what is queued.
    pub(super) fn close(&self, why: &'static (u16, &'static str)) {
        self.tell(Outgoing::Close(why));
    }

    /// Tells the reader that nothing comes over a link any more.
    pub(super) fn link_closing(&self, closing: LinkClosing) {
        self.0.waiting().closing.push(closing);
        self.0.attention.notify_one();
    }

    /// What the reader has to attend to next. Safe to cancel.
    pub(super) async fn attention(&self) -> Attention {
        loop {
            {
                let mut waiting = self.0.waiting();
                if waiting.writer_gone {
                    return Attention::WriterGone;
                }
                if !waiting.closing.is_empty() {
                    return Attention::LinkClosing(waiting.closing.remove(0));
                }
            }
            self.0.attention.notified().await;
        }
    }

    /// Waits until nobody writes any more.
    pub(super) async fn writer_gone(&self) {
        while !self.0.waiting().writer_gone {
            self.0.attention.notified().await;
        }
    }
}

impl Queue {
    /// The next thing. Safe to cancel.
    pub(super) async fn next(&mut self) -> Outgoing {
        loop {
            if let Some(next) = self.next_now() {
                return next;
            }
            self.0.put.notified().await;
        }
    }

    /// The next thing that is there already.
    pub(super) fn next_now(&mut self) -> Option<Outgoing> {
        let next = self.0.waiting().pop();
        if matches!(next, Some(Outgoing::Answer(_))) {
            self.0.room.notify_one();
        }
        next
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let dropped = {
            let mut waiting = self.0.waiting();
            waiting.writer_gone = true;
            std::mem::take(&mut waiting.queue)
        };
        drop(dropped);
        self.0.room.notify_one();
        self.0.attention.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use relay_protocol::ids::{ControlId, SessionId};
    use relay_protocol::link::NoOptions;
    use relay_protocol::socket::ControlOp;
    use relay_protocol::time::Timestamp;

    use super::*;

    fn answer(outbox: &Outbox, bytes: usize) -> impl Future<Output = ()> {
        let outbox = outbox.clone();
        async move {
            let reference = Some(FrameRef::Text("x".repeat(bytes)));
            let pong = ServerMessage::Pong(NoOptions {});
            outbox.answer(reference, pong).await;
        }
    }

    #[test]
    fn answers_wait_for_a_client_that_does_not_read() {
        let (outbox, mut queue) = new();
        assert!(
            answer(&outbox, 2 * UNREAD_ANSWER_BYTES)
                .now_or_never()
                .is_some()
        );
        let mut second = Box::pin(answer(&outbox, 1));
        assert!((&mut second).now_or_never().is_none());
        assert!(matches!(queue.next_now(), Some(Outgoing::Answer(_))));
        assert!(second.now_or_never().is_some());
    }

    #[test]
    fn parcels_are_refused_when_too_many_wait_and_when_nobody_writes() {
        let (outbox, mut queue) = new();
        let parcel = || {
            let at = Timestamp::from_millis(0);
            Outgoing::Control(Box::new(ControlFrame {
                control_id: ControlId::new(at, 0),
                session_id: SessionId::new(at, 0),
                op: ControlOp::Pause,
                delivery_id: None,
                mode: None,
                as_agent: None,
                fork: None,
                reason: None,
            }))
        };
        for _ in 0..UNREAD_PARCELS {
            assert!(outbox.parcel(parcel()).is_ok());
        }
        assert!(outbox.parcel(parcel()).is_err());
        assert!(queue.next_now().is_some());
        assert!(outbox.parcel(parcel()).is_ok());
        drop(queue);
        assert!(outbox.parcel(parcel()).is_err());
        assert!(outbox.writer_gone().now_or_never().is_some());
        assert!(
            answer(&outbox, 2 * UNREAD_ANSWER_BYTES)
                .now_or_never()
                .is_some()
        );
    }
}
