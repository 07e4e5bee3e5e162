//! What a store tells the delivery runner of committed changes, in the order of the commits.
//!
//! Unlike the entries of the log these are not for users: they carry whole rows, and there is one for
//! every change of a delivery or a session, also for those that no event tells.

use std::sync::Arc;

use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::PermissionId;
use relay_protocol::time::Timestamp;

use super::action_requests::{ActionNo, ActionRow, InvocationRow};
use super::chain::Hash;
use super::position::Position;
use super::records::{AgentNo, DeliveryRow, SessionRow, WorkspaceRow};
use super::sent::SendRecord;

/// Learns of committed changes.
pub trait Observer: Send + Sync {
    /// Takes what one commit brought. It must return at once and must not call the store.
    fn learn(&self, news: Vec<News>);
}

/// A committed change.
pub enum News {
    /// A message was sent; its deliveries wait, those that failed at once excepted.
    Sent(Arc<SendRecord>),
    /// A delivery was made or changed.
    Moved(Box<DeliveryMoved>),
    /// A session was made or changed.
    Session(Arc<SessionRow>),
    /// A message says something else now.
    Edited(Position),
    /// A workspace's policy changed.
    Workspace(Arc<WorkspaceRow>),
    /// An agent is gone.
    AgentReleased(AgentNo),
    /// A credential ends: at once, or at a time.
    Credential(CredentialEnd),
    /// An action was registered, again perhaps.
    Action(Arc<ActionRow>),
    /// An action is gone, and all of its calls have ended.
    ActionRemoved(ActionNo),
    /// A call was written down and waits for a handler.
    Invoked(Arc<InvocationRow>),
    /// A call has ended.
    InvocationEnded(Position),
    /// A permission request waits until then.
    PermissionAsked(PermissionId, u32, Timestamp),
    /// A permission request waits no longer.
    PermissionEnded(PermissionId),
    /// Deliveries that nobody needs any more.
    NoticesOver(Vec<DeliveryRow>),
}

/// How long a credential is valid from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialEnd {
    /// The SHA-256 of its token.
    pub hash: Hash,
    /// When it ends; none: it has ended.
    pub valid_until: Option<Timestamp>,
}

/// A delivery that was made or changed.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryMoved {
    /// The row from now on.
    pub row: DeliveryRow,
    /// The offer that this settled.
    pub settles: Option<u64>,
    /// What it means for somebody who waits for a receipt.
    pub receipt: Option<MessageReceipt>,
}
