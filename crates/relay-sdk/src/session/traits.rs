//! What a session is: the contract of `AgentSession` and `AgentDeliveryAdapter`.

use relay_protocol::agent::AgentIdentity;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::{MessageContext, MessageReceipt};
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::message::RelayMessage;
use serde_json::Value;

use super::handle::EventHandler;

/// Why a session could not take a message. It becomes a `failed` receipt with this reason, not to be retried;
/// answer [`failed_for_now`](crate::failed_for_now) where trying again may help.
pub type SessionError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation on a session was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// This session has no such operation.
    #[error("the session has no such operation")]
    Unsupported,
    /// It has, but it went wrong.
    #[error("{0}")]
    Failed(String),
}

/// Surfaces messages in one runtime: a callback, a terminal, another program's API.
pub trait AgentDeliveryAdapter: Send + Sync + 'static {
    /// Surfaces a message, takes it over for later, or says why neither is possible.
    ///
    /// It is not called again before it has answered, and an offer counts as failed after 30 s: what takes
    /// longer answers [`accepted`](crate::accepted) and says later what happened
    /// ([`AttachedSession::receipt`](crate::AttachedSession::receipt)).
    fn receive_message(
        &self,
        message: RelayMessage,
        ctx: MessageContext,
    ) -> impl Future<Output = Result<MessageReceipt, SessionError>> + Send;

    /// Surfaces now what was accepted and is held back: one delivery, or all. A receipt each.
    fn flush(
        &self,
        delivery_id: Option<DeliveryId>,
    ) -> impl Future<Output = Result<Vec<MessageReceipt>, ControlError>> + Send {
        let _ = delivery_id;
        async { Err(ControlError::Unsupported) }
    }

    /// Gives back a delivery that was accepted and not surfaced.
    fn cancel(
        &self,
        delivery_id: DeliveryId,
        reason: Option<String>,
    ) -> impl Future<Output = Result<(), ControlError>> + Send {
        let _ = (delivery_id, reason);
        async { Err(ControlError::Unsupported) }
    }
}

/// A live body of an agent: an adapter with a name, abilities and a life.
pub trait AgentSession: AgentDeliveryAdapter {
    /// Whose body it is.
    fn identity(&self) -> AgentIdentity;

    /// What it can do.
    fn capabilities(&self) -> AgentSessionCapabilities;

    /// Gives the session a handler for what it observes. Called once, before it is attached.
    fn on_event(&self, handler: EventHandler) {
        drop(handler);
    }

    /// Ends the session.
    fn release(&self, reason: Option<String>) -> impl Future<Output = ()> + Send;

    /// Holds the session; only asked of one that declares `lifecycle.pause`.
    fn pause(
        &self,
        reason: Option<String>,
    ) -> impl Future<Output = Result<(), ControlError>> + Send {
        let _ = reason;
        async { Err(ControlError::Unsupported) }
    }

    /// Lets a paused session go on; only asked of one that declares `lifecycle.resume`.
    fn resume(
        &self,
        reason: Option<String>,
    ) -> impl Future<Output = Result<(), ControlError>> + Send {
        let _ = reason;
        async { Err(ControlError::Unsupported) }
    }

    /// Makes a second session and has it attached; only asked of one that declares `lifecycle.fork`.
    fn fork(&self, fork: Fork) -> impl Future<Output = Result<(), ControlError>> + Send {
        let _ = fork;
        async { Err(ControlError::Unsupported) }
    }

    /// Writes the session down, in a form of its own; only asked of one that declares `lifecycle.snapshot`.
    fn snapshot(&self) -> impl Future<Output = Result<Value, ControlError>> + Send {
        async { Err(ControlError::Unsupported) }
    }
}

/// The session that a fork is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The new session.
    pub session_id: SessionId,
    /// What [`Attaching::resume`](crate::Attaching::resume) of the new session needs.
    pub resume_token: String,
    /// The new agent whose session it is; nothing: the same agent's.
    pub as_agent: Option<String>,
}
