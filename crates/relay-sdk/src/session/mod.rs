//! Sessions: live bodies of an agent that this process serves over the socket.
//!
//! Implement [`AgentDeliveryAdapter`] and [`AgentSession`] (or take [`CallbackSession`]) and give it to
//! [`Client::attach`](crate::Client::attach). From then on the SDK
//!
//! - hands over deliveries one at a time, in order, and answers each with a receipt, also when the session
//!   fails, panics or is asked twice;
//! - remembers in a file what was surfaced, so that a delivery that is offered again after a restart is not
//!   surfaced again ([`Attaching::memory`]);
//! - looks at the deadline right before it surfaces something, by the server's clock;
//! - reports events in order, each once;
//! - comes back after a lost connection as the same session, keeping what it still owns;
//! - answers what is asked of the session, with "not supported" where it does not know how.

mod callback;
mod controls;
mod handle;
mod memory;
mod offers;
mod receipts;
mod reports;
mod serve;
mod served;
mod traits;

use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::{ControlId, DeliveryId};
use relay_protocol::session::BoundaryKind;
use relay_protocol::session_event::AgentSessionEvent;
use tokio::sync::oneshot;

use crate::error::Result;

pub use callback::CallbackSession;
pub use handle::{AttachedSession, Attaching, EventHandler};
pub use receipts::{accepted, deferred, delivered, failed, failed_for_now};
pub use traits::{AgentDeliveryAdapter, AgentSession, ControlError, Fork, SessionError};

pub(crate) use handle::Directory;

/// What the owner of a session wants of it.
pub(crate) enum Order {
    /// To report something.
    Emit(AgentSessionEvent, Option<Done>),
    /// To say that it stands at a boundary.
    Boundary(BoundaryKind, Wait, Done),
    /// To say what became of a delivery that was accepted before.
    Receipt(MessageReceipt, Done),
    /// To be served no longer.
    Stop,
}

/// What the owner waits for at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Until what is due was offered.
    Offered,
    /// Until the session has also answered those offers.
    Answered,
}

/// Told when something was done, or why not.
pub(crate) type Done = oneshot::Sender<Result<()>>;

/// How a session recognises the answer to something it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// A receipt for an offer.
    Receipt(DeliveryId),
    /// A receipt that nobody asked for.
    LateReceipt(DeliveryId),
    /// A report.
    Report {
        /// Which numbering it belongs to.
        generation: u64,
        /// Its number.
        n: u64,
    },
    /// A boundary, counted.
    Boundary(u64),
    /// The answer to an operation.
    Control(ControlId),
    /// The answer to the operation that ended the session.
    Released,
}
