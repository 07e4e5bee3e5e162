//! May this session have this delivery now, and in which mode?

use std::borrow::Cow;

use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::negotiation::CapabilityMismatch;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;

/// A session, as decisions see it.
#[derive(Clone, Copy, Debug)]
pub struct SessionView<'a> {
    /// What it can do.
    pub capabilities: &'a AgentSessionCapabilities,
    /// The states in which `on-idle` is open.
    pub safe_states: &'a [AgentStatus],
    /// What it is doing.
    pub status: AgentStatus,
    /// Whether something can be handed to it now without its asking.
    pub linked: bool,
}

/// The moment at which a decision is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Any moment.
    Now,
    /// The session stands at this boundary.
    At(BoundaryKind),
}

/// What is decided about a delivery and a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is offered.
    Offer {
        /// The mode in which it is.
        mode: DeliveryMode,
        /// Why now, and why in this mode.
        why: Cow<'static, str>,
    },
    /// It waits.
    Hold {
        /// The mode whose boundary it waits for.
        waits_for: Option<DeliveryMode>,
        /// Why.
        why: Cow<'static, str>,
    },
    /// The session can't take it at all.
    Mismatch(CapabilityMismatch),
}
