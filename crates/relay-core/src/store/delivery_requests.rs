//! What the engine asks of a store about deliveries.

use relay_protocol::agent::{AgentIdentity, Metadata};
use relay_protocol::delivery::{
    DeliveryMode, DeliveryReason, DeliveryState, MessageReceipt, Priority,
};
use relay_protocol::delivery_record::DeliveryDecision;
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::time::Timestamp;

use super::chain::Hash;
use super::position::Position;
use super::records::{AgentNo, DeliveryRow};
use super::requests::Viewer;
use crate::delivery::apply::Step;
use crate::delivery::history::Entry;
use crate::delivery::shelf::Wanted;
use crate::delivery::waiting::LastChange;

/// A step of one delivery.
pub struct Advance {
    /// The delivery.
    pub position: Position,
    /// When.
    pub at: Timestamp,
    /// What happens to it.
    pub step: Step,
    /// What was decided about it since the last step, for its explanation.
    pub decisions: Vec<DeliveryDecision>,
    /// Any number, for the spread of waits.
    pub jitter: u64,
}

/// A step that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Advanced {
    /// The delivery from now on.
    pub row: DeliveryRow,
    /// Whether the step changed it.
    pub moved: bool,
    /// What it means for somebody who waits for a receipt.
    pub receipt: Option<MessageReceipt>,
}

/// Asks for what waits for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingQuery {
    /// The workspace.
    pub workspace_no: u32,
    /// The agent.
    pub agent: AgentNo,
    /// Which part of it.
    pub wanted: Wanted,
    /// Most rows.
    pub limit: usize,
}

/// What waits for an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingPage {
    /// In the order in which they are due: urgent first, then the oldest first.
    pub rows: Vec<DeliveryRow>,
    /// Whether these are all that were asked for.
    pub complete: bool,
    /// How many unfinished deliveries the agent has in all.
    pub total: u32,
}

/// Deliveries whose time has come.
#[derive(Clone, Debug, PartialEq)]
pub struct DueNow {
    /// The earliest of them.
    pub rows: Vec<DeliveryRow>,
    /// When the next one after these is due.
    pub next: Option<Timestamp>,
}

/// Lets waiting deliveries go.
pub struct FlushRequest {
    /// The workspace.
    pub workspace_no: u32,
    /// The agent.
    pub agent: AgentNo,
    /// Only those that wait in this mode.
    pub mode: Option<DeliveryMode>,
    /// Only this one.
    pub delivery: Option<DeliveryId>,
    /// When.
    pub at: Timestamp,
    /// Most deliveries.
    pub limit: usize,
}

/// A delivery to make for a message that was sent before.
pub struct NewDelivery {
    /// Who asks for it.
    pub viewer: Viewer,
    /// The message.
    pub message: MessageId,
    /// For whom.
    pub to: DeliverTo,
    /// The delivery that is meant, if one is named.
    pub id: Option<DeliveryId>,
    /// The mode that is asked for.
    pub mode: Option<DeliveryMode>,
    /// Whether another boundary will do.
    pub allow_downgrade: bool,
    /// What comes first.
    pub priority: Priority,
    /// Why; absent: as a send would say.
    pub reason: Option<DeliveryReason>,
    /// When it is of no use any more; absent: the policy's default.
    pub deadline: Option<Timestamp>,
    /// For the harness to read.
    pub metadata: Option<Metadata>,
    /// When.
    pub at: Timestamp,
    /// The caller's key and the hash of the request.
    pub idempotency: Option<(String, Hash)>,
}

/// For whom a delivery is.
pub enum DeliverTo {
    /// An agent, by name.
    Agent(String),
    /// One session only.
    Session(SessionId),
}

/// A delivery with all that is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryStory {
    /// Its id.
    pub id: DeliveryId,
    /// The row.
    pub row: DeliveryRow,
    /// The message it carries.
    pub message_id: MessageId,
    /// For whom.
    pub agent: AgentIdentity,
    /// Who holds it.
    pub holder: Option<SessionId>,
    /// The last thing that happened to it. Of one that has ended nobody asks: it is when it was made.
    pub change: LastChange,
    /// What happened to it, oldest first; empty in lists.
    pub history: Vec<Entry>,
}

/// Which deliveries a list shows.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Only those of this agent, by name.
    pub agent: Option<String>,
    /// Only those in this state.
    pub state: Option<DeliveryState>,
}
