//! The seam to a live session: how the runner hands things to it.
//!
//! A link only carries. What comes back (receipts, reports, results of controls) are calls of the
//! engine, so a link needs no way to answer and the engine no task per session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::SessionId;
use relay_protocol::message::RelayMessage;
use relay_protocol::socket::{ControlFrame, InvokeFrame};
use tokio::sync::Notify;

/// Carries things to one session.
pub trait SessionLink: Send + Sync {
    /// Takes something over for the session, in order, without waiting. A link that can't take it,
    /// because it broke or its peer reads too slowly, says so, and is given nothing more.
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed>;

    /// Gives back deliveries that the session has not fetched, oldest first: each that `take` agrees to is
    /// on the link no more. It stops at the first that `take` leaves. Most links hand over at once and have
    /// none.
    fn take_unfetched(&self, take: &mut dyn FnMut(&Deliver) -> bool) {
        let _ = take;
    }
}

/// What a link carries.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// A delivery; answered by a receipt.
    Deliver(Box<Deliver>),
    /// An operation on the session; answered by its result.
    Control(Box<ControlFrame>),
    /// A call of an action that the peer handles; answered by its result.
    Invoke(Box<InvokeFrame>),
    /// Nothing more comes over this link.
    Close(CloseReason),
}

/// A delivery on its way.
#[derive(Clone, Debug)]
pub struct Deliver {
    /// The session.
    pub session_id: SessionId,
    /// The message.
    pub message: Arc<RelayMessage>,
    /// Why it exists and how to treat it.
    pub context: MessageContext,
}

/// Why a link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The session came back over another link.
    Superseded,
    /// The session has ended.
    Ended,
}

/// The link is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link to the session is closed")]
pub struct LinkClosed;

/// Names one link among those that a session had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkId(pub u64);

/// Most parcels that wait in a [`MemoryLink`] for the session to take them.
const PARCELS: usize = 1_024;

/// A link to a session in the same process.
#[derive(Default)]
pub struct MemoryLink {
    parcels: Mutex<Parcels>,
    arrived: Notify,
}

#[derive(Default)]
struct Parcels {
    waiting: VecDeque<Parcel>,
    closed: bool,
}

impl MemoryLink {
    /// A link that nothing has come over yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What has arrived and was not taken yet.
    pub fn try_take(&self) -> Option<Parcel> {
        self.parcels().waiting.pop_front()
    }

    /// Waits for the next parcel; `None` once the link is closed and empty.
    pub async fn take(&self) -> Option<Parcel> {
        loop {
            let arrived = self.arrived.notified();
            if let Some(parcel) = self.try_take() {
                return Some(parcel);
            }
            if self.parcels().closed {
                return None;
            }
            arrived.await;
        }
    }

    /// Breaks the link: nothing more is taken, and what waits is gone.
    pub fn close(&self) {
        let mut parcels = self.parcels();
        parcels.closed = true;
        parcels.waiting.clear();
        drop(parcels);
        self.arrived.notify_waiters();
    }

    fn parcels(&self) -> std::sync::MutexGuard<'_, Parcels> {
        self.parcels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionLink for MemoryLink {
    fn carry(&self, parcel: Parcel) -> Result<(), LinkClosed> {
        let mut parcels = self.parcels();
        if parcels.closed || parcels.waiting.len() >= PARCELS {
            parcels.closed = true;
            return Err(LinkClosed);
        }
        if matches!(parcel, Parcel::Close(_)) {
            parcels.closed = true;
        }
        parcels.waiting.push_back(parcel);
        drop(parcels);
        self.arrived.notify_one();
        Ok(())
    }
}
