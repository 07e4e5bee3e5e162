//! What the task of a session is asked to do, by the relay, by its owner, and by what it has begun itself.

use relay_protocol::delivery::MessageContext;
use relay_protocol::ids::DeliveryId;
use relay_protocol::message::RelayMessage;
use relay_sdk::{ControlError, Fork};
use tokio::sync::oneshot;

use crate::acp::content::PromptContent;
use crate::acp::host::{HostError, Steered};
use crate::acp::session::RelaySession;
use crate::acp::session::parcel::{Delivery, Reply};

/// What the task is asked to do.
pub(in crate::acp::session) enum Order {
    /// Surface a message.
    Receive {
        message: Box<RelayMessage>,
        context: Box<MessageContext>,
        reply: Reply,
    },
    /// Prompt as the agent's user.
    Prompt {
        content: Vec<PromptContent>,
        reply: oneshot::Sender<Result<(), HostError>>,
    },
    /// Give back a delivery that was not surfaced.
    GiveBack {
        id: DeliveryId,
        reply: oneshot::Sender<Result<(), ControlError>>,
    },
    /// Text that was put into a turn, and what became of it.
    Steered {
        delivery: Box<Delivery>,
        result: Result<Steered, HostError>,
    },
    /// Make a copy of the session, and put it on the relay.
    Fork {
        fork: Fork,
        reply: oneshot::Sender<Result<(), ControlError>>,
    },
    /// A copy is on the relay, as long as this is kept.
    Forked(Box<RelaySession>),
    /// Go on with the user's prompt: what was due before it has been received.
    DueReceived,
    /// Cancel the turn that runs.
    Cancel,
    /// A turn has ended, and whatever waited for that has come.
    Rested {
        /// How many turns had begun by then.
        since: u64,
    },
    /// End the session.
    Release { reply: oneshot::Sender<()> },
}
