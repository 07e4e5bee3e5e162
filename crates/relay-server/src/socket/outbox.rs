//! What waits to be written to one client. Bounded in three ways: answers by their bytes (the reader waits,
//! so the client is not read any further), parcels for sessions by their number (the link is cut), events
//! not at all queued (the writer pulls them).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relay_core::link::{Deliver, LinkClosed};
use relay_protocol::limits::{UNREAD_ANSWER_BYTES, UNREAD_PARCELS};
use relay_protocol::problem::Problem;
use relay_protocol::socket::{ControlFrame, ErrorFrame, FrameRef, ServerFrame, ServerMessage};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::follow::NewSubscription;

/// Bytes of answers that one permit stands for.
const UNIT_BYTES: usize = 1024;

/// What the writer is given.
pub(super) enum Outgoing {
    /// A frame.
    Frame(Box<Frame>),
    /// A delivery for a session.
    Deliver(Box<Deliver>),
    /// An operation on a session.
    Control(Box<ControlFrame>),
    /// Events to follow from now on.
    Subscribe(Box<NewSubscription>),
    /// Events to follow no more.
    Unsubscribe(Box<str>),
    /// Nothing follows.
    Close(&'static (u16, &'static str)),
}

/// A frame, and the place that it takes until it is written.
pub(super) struct Frame {
    pub(super) text: String,
    pub(super) _space: Option<OwnedSemaphorePermit>,
}

/// The end where things are put.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::UnboundedSender<Outgoing>,
    space: Arc<Semaphore>,
    parcels: Arc<AtomicUsize>,
}

/// The end where things are taken.
pub(super) struct Queue {
    receiver: mpsc::UnboundedReceiver<Outgoing>,
    parcels: Arc<AtomicUsize>,
}

/// Both ends of an empty queue.
pub(super) fn new() -> (Outbox, Queue) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let parcels = Arc::new(AtomicUsize::new(0));
    let space = Arc::new(Semaphore::new(UNREAD_ANSWER_BYTES / UNIT_BYTES));
    let outbox = Outbox {
        sender,
        space,
        parcels: parcels.clone(),
    };
    (outbox, Queue { receiver, parcels })
}

/// A frame as text.
fn text_of(reference: Option<FrameRef>, message: ServerMessage) -> String {
    let frame = ServerFrame { reference, message };
    serde_json::to_string(&frame).unwrap_or_default()
}

impl Outbox {
    /// Queues an answer once there is space for it.
    pub(super) async fn answer(&self, reference: Option<FrameRef>, message: ServerMessage) {
        let text = text_of(reference, message);
        let most = UNREAD_ANSWER_BYTES / UNIT_BYTES;
        let units = text.len().div_ceil(UNIT_BYTES).clamp(1, most);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let space = self.space.clone().acquire_many_owned(units).await;
        self.put(text, space.ok());
    }

    /// Queues a refusal once there is space for it.
    pub(super) async fn refuse(&self, reference: Option<FrameRef>, problem: Box<Problem>) {
        let error = ErrorFrame { problem };
        self.answer(reference, ServerMessage::Error(error)).await;
    }

    /// Queues what comes only once in a connection's or a session's life.
    pub(super) fn say_now(&self, message: ServerMessage) {
        self.put(text_of(None, message), None);
    }

    fn put(&self, text: String, space: Option<OwnedSemaphorePermit>) {
        let frame = Frame {
            text,
            _space: space,
        };
        let _ = self.sender.send(Outgoing::Frame(Box::new(frame)));
    }

    /// Queues something for a session, without waiting.
    pub(super) fn parcel(&self, parcel: Outgoing) -> Result<(), LinkClosed> {
        if self.parcels.fetch_add(1, Ordering::Relaxed) >= UNREAD_PARCELS {
            self.parcels.fetch_sub(1, Ordering::Relaxed);
            return Err(LinkClosed);
        }
        self.sender.send(parcel).map_err(|_| LinkClosed)
    }

    /// Tells the writer something that is not for the client.
    pub(super) fn tell(&self, command: Outgoing) {
        let _ = self.sender.send(command);
    }

    /// Lets the writer end after what is queued.
    pub(super) fn close(&self, why: &'static (u16, &'static str)) {
        let _ = self.sender.send(Outgoing::Close(why));
    }
}

impl Queue {
    /// The next thing; nothing once nobody can put anything there.
    pub(super) async fn next(&mut self) -> Option<Outgoing> {
        let next = self.receiver.recv().await;
        self.taken(next.as_ref());
        next
    }

    /// The next thing that is there already.
    pub(super) fn next_now(&mut self) -> Option<Outgoing> {
        let next = self.receiver.try_recv().ok();
        self.taken(next.as_ref());
        next
    }

    fn taken(&self, next: Option<&Outgoing>) {
        if let Some(Outgoing::Deliver(_) | Outgoing::Control(_)) = next {
            self.parcels.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
