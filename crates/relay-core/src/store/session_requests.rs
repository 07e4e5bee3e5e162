//! What the engine asks of a store about sessions. Everything here was checked for form already.

use std::sync::Arc;

use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::link::{LinkKind, WebhookLink};
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;

use super::chain::Hash;
use super::position::Position;
use super::records::{SessionNo, SessionRow};
use super::requests::Viewer;
use crate::delivery::history::Offer;

/// A session that attaches, for the first time or again.
pub struct NewSession {
    /// Who attaches it: the agent itself, or the workspace.
    pub viewer: Viewer,
    /// The agent's name.
    pub agent: String,
    /// When.
    pub at: Timestamp,
    /// Its id, if it is new.
    pub id: SessionId,
    /// The hash of the token with which it can come back: of the one it brings, or of a new one.
    pub token: Hash,
    /// Whether it brought the token, and thus goes on.
    pub resume: bool,
    /// What made it.
    pub harness: String,
    /// How the server reaches it.
    pub link: LinkKind,
    /// What a webhook link needs.
    pub webhook: Option<WebhookLink>,
    /// What it can do.
    pub capabilities: AgentSessionCapabilities,
    /// The states in which `on-idle` is open.
    pub safe_states: Vec<AgentStatus>,
    /// What it is doing; absent: idle, or what it was doing before its link was lost.
    pub status: Option<AgentStatus>,
    /// Whether messages to its agent are for it alone while it is the newest such session.
    pub keeps_messages: bool,
}

/// A session to make from another one, before it attaches by itself.
pub struct NewFork {
    /// The session it comes from.
    pub parent: SessionNo,
    /// Its id.
    pub id: SessionId,
    /// The hash of the token with which it attaches.
    pub token: Hash,
    /// The agent whose session it is; absent: the parent's, and it gets only what names it.
    pub as_agent: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A session that has attached.
#[derive(Clone, Debug)]
pub struct AttachedSession {
    /// The session.
    pub session: Arc<SessionRow>,
    /// The end of the log at that time: what is older waited while it was away.
    pub head: Position,
}

/// A change that the server makes to a session.
pub struct SessionChange {
    /// The session.
    pub session: SessionNo,
    /// When.
    pub at: Timestamp,
    /// What becomes of it.
    pub to: SessionTurn,
    /// Why.
    pub reason: Option<String>,
    /// Any number, for the spread of waits.
    pub jitter: u64,
}

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionTurn {
    /// Its link was gone for too long.
    Offline,
    /// It is held.
    Paused,
    /// It does again what it did before it was paused.
    Resumed,
    /// Its release has begun.
    Releasing,
    /// It has ended. What it held waits again.
    Released,
    /// It has ended badly. What it held waits again.
    Failed,
}

/// Reports of a session.
pub struct Report {
    /// The session.
    pub session: SessionNo,
    /// When.
    pub at: Timestamp,
    /// Whether they were taken in while the session went on. Then they are stored even if it has ended since.
    pub accepted: bool,
    /// The reports, their numbers rising by one.
    pub events: Vec<NumberedReport>,
    /// Any number, for the spread of waits.
    pub jitter: u64,
}

/// One report with its number.
pub struct NumberedReport {
    /// Its number in the session, counted from 1.
    pub n: u64,
    /// What it says.
    pub report: ReportKind,
}

impl NumberedReport {
    /// A report with its number.
    #[must_use]
    pub const fn new(n: u64, report: ReportKind) -> Self {
        Self { n, report }
    }
}

/// What a report says. Secrets are removed already.
pub enum ReportKind {
    /// Something for the log.
    Observation(Box<AgentSessionEvent>),
    /// What it is doing.
    Status {
        /// The status.
        status: AgentStatus,
        /// Why.
        reason: Option<String>,
    },
    /// What happened to a delivery.
    Receipt {
        /// The delivery.
        delivery: DeliveryId,
        /// The offer that it answers, if that is still out.
        offer: Option<Box<Offer>>,
        /// What it says.
        receipt: MessageReceipt,
    },
    /// A fact about messages, calls or the session's life, which is compared with what is stored.
    Known(Box<AgentSessionEvent>),
}

/// Reports that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The highest number that is stored.
    pub acked: u64,
    /// How many of them were there already or told nothing new.
    pub duplicates: u64,
}
