//! What Relay makes of a session's capabilities: the six questions of the spec, each a pure function.
//!
//! Every caller asks here, before anything is sent. A refusal is a [`CapabilityMismatch`], which says
//! which capability is missing, what was asked of it, and what it supports.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capability::AgentSessionCapabilities;
use crate::delivery::DeliveryMode;
use crate::message::{Attachment, AttachmentKind};
use crate::problem::{ErrorCode, Problem};
use crate::selector::Selector;
use crate::session_event::{AgentSessionEvent, AgentSessionEventType};
use crate::status::AgentStatus;
use crate::wire::literals;

/// A capability that a session does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct CapabilityMismatch {
    /// Which one, as a dotted path such as `delivery.modes`.
    pub capability: &'static str,
    /// What was asked of it.
    pub requested: Box<Value>,
    /// What it supports.
    pub supported: Box<Value>,
}

impl fmt::Display for CapabilityMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the session does not support {} for {}; it supports {}",
            self.requested, self.capability, self.supported
        )
    }
}

impl std::error::Error for CapabilityMismatch {}

impl From<CapabilityMismatch> for Problem {
    fn from(mismatch: CapabilityMismatch) -> Self {
        let detail = mismatch.to_string();
        Self {
            capability: Some(mismatch.capability.to_owned()),
            requested: Some(*mismatch.requested),
            supported: Some(*mismatch.supported),
            ..Self::new(ErrorCode::CapabilityNotSupported, detail)
        }
    }
}

literals! {
    /// The operations on a session's life.
    pub enum LifecycleOp {
        /// Ends it.
        Release = "release",
        /// Holds it.
        Pause = "pause",
        /// Lets it go on.
        Resume = "resume",
        /// Makes a second one from it.
        Fork = "fork",
        /// Writes it down.
        Snapshot = "snapshot",
    }
}

impl LifecycleOp {
    /// The capability it needs, as a dotted path.
    #[must_use]
    pub const fn capability(self) -> &'static str {
        match self {
            Self::Release => "lifecycle.release",
            Self::Pause => "lifecycle.pause",
            Self::Resume => "lifecycle.resume",
            Self::Fork => "lifecycle.fork",
            Self::Snapshot => "lifecycle.snapshot",
        }
    }
}

/// Can the session receive the content of a message?
pub fn check_content(
    session: &AgentSessionCapabilities,
    attachments: &[Attachment],
) -> Result<(), CapabilityMismatch> {
    let supported = &session.messaging.attachments;
    let mut kinds = attachments.iter().map(|attachment| attachment.kind);
    match kinds.find(|kind| !supported.contains(kind)) {
        None => Ok(()),
        Some(kind) => Err(CapabilityMismatch {
            capability: "messaging.attachments",
            requested: Box::new(json!(kind)),
            supported: Box::new(json!(supported)),
        }),
    }
}

/// Is this delivery mode valid for the session?
pub fn check_mode(
    session: &AgentSessionCapabilities,
    mode: DeliveryMode,
) -> Result<(), CapabilityMismatch> {
    let supported = &session.delivery.modes;
    if supported.contains(&mode) {
        return Ok(());
    }
    Err(CapabilityMismatch {
        capability: "delivery.modes",
        requested: Box::new(json!(mode)),
        supported: Box::new(json!(supported)),
    })
}

/// Can the session call actions?
pub fn check_invoke(session: &AgentSessionCapabilities) -> Result<(), CapabilityMismatch> {
    let declared = session.actions.as_ref().and_then(|actions| actions.invoke);
    switched_on("actions.invoke", declared)
}

/// Can the session expose actions?
pub fn check_expose(session: &AgentSessionCapabilities) -> Result<(), CapabilityMismatch> {
    let declared = session.actions.as_ref().and_then(|actions| actions.expose);
    switched_on("actions.expose", declared)
}

/// Can the session send messages through Relay?
pub fn check_send(session: &AgentSessionCapabilities) -> Result<(), CapabilityMismatch> {
    switched_on("messaging.send", session.messaging.send)
}

/// Is this operation on the session's life available?
pub fn check_lifecycle(
    session: &AgentSessionCapabilities,
    op: LifecycleOp,
) -> Result<(), CapabilityMismatch> {
    let lifecycle = &session.lifecycle;
    let declared = match op {
        LifecycleOp::Release => Some(true),
        LifecycleOp::Pause => lifecycle.pause,
        LifecycleOp::Resume => lifecycle.resume,
        LifecycleOp::Fork => lifecycle.fork,
        LifecycleOp::Snapshot => lifecycle.snapshot,
    };
    switched_on(op.capability(), declared)
}

fn switched_on(capability: &'static str, declared: Option<bool>) -> Result<(), CapabilityMismatch> {
    if declared == Some(true) {
        return Ok(());
    }
    Err(CapabilityMismatch {
        capability,
        requested: Box::new(json!(true)),
        supported: Box::new(json!(false)),
    })
}

/// Can live sessions satisfy this selector by what they observe?
///
/// Events that Relay itself emits need no session, so a selector that includes one is always
/// satisfied. `sessions` are those that the selector could be about.
pub fn check_observable<'a>(
    sessions: impl IntoIterator<Item = &'a AgentSessionCapabilities>,
    selector: &Selector,
) -> Result<(), CapabilityMismatch> {
    let mut wanted = Vec::new();
    for event_type in selector.event_types() {
        match observations(event_type, selector) {
            Some(reports) => wanted.extend(reports),
            None => return Ok(()),
        }
    }
    let mut emitted = Vec::new();
    for session in sessions {
        emitted.extend_from_slice(&session.events.emits);
    }
    if wanted.iter().any(|event| emitted.contains(event)) {
        return Ok(());
    }
    for list in [&mut wanted, &mut emitted] {
        list.sort_unstable();
        list.dedup();
    }
    Err(CapabilityMismatch {
        capability: "events.emits",
        requested: Box::new(json!(wanted)),
        supported: Box::new(json!(emitted)),
    })
}

/// The session events any of which brings about an event; nothing when Relay emits it by itself.
fn observations(event_type: &str, selector: &Selector) -> Option<Vec<AgentSessionEventType>> {
    if let Some(name) = event_type.strip_prefix("agent.status.") {
        return status_observations(name, selector);
    }
    let by_relay = ["message", "delivery", "action", "session"];
    let family = event_type.split('.').next().unwrap_or_default();
    let reported = !by_relay.contains(&family);
    let event: AgentSessionEventType = event_type.parse().ok()?;
    reported.then(|| vec![event])
}

fn status_observations(name: &str, selector: &Selector) -> Option<Vec<AgentSessionEventType>> {
    let mut reports = vec![AgentSessionEventType::StatusChanged];
    for status in AgentStatus::ALL.iter().copied() {
        let meant = match name {
            "changed" => selector.may_match_status("agent.status.changed", status),
            name => status.as_str() == name,
        };
        match status.session_event() {
            // Relay says so itself when it loses a session.
            Some(AgentSessionEventType::StatusOffline) if meant && name != "changed" => {
                return None;
            }
            Some(event) if meant => reports.push(event),
            _ => {}
        }
    }
    Some(reports)
}

/// May the session report this, going by what it declared?
pub fn check_emits(
    session: &AgentSessionCapabilities,
    event: &AgentSessionEvent,
) -> Result<(), CapabilityMismatch> {
    let emits = &session.events.emits;
    let own = match event {
        AgentSessionEvent::StatusChanged(change) => change.status.session_event(),
        _ => None,
    };
    let declared = emits
        .iter()
        .any(|emitted| emitted.as_str() == event.tag() || Some(*emitted) == own);
    if declared {
        return Ok(());
    }
    Err(CapabilityMismatch {
        capability: "events.emits",
        requested: Box::new(json!(
            own.map_or(event.tag(), AgentSessionEventType::as_str)
        )),
        supported: Box::new(json!(emits)),
    })
}

/// What was agreed with a session, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Negotiated {
    /// The content it is given.
    pub attachments: Vec<AttachmentKind>,
    /// The modes it is given messages in.
    pub modes: Vec<DeliveryMode>,
    /// Whether it holds deliveries itself.
    pub queue: bool,
    /// Whether it may send.
    pub send: bool,
    /// Whether it may call actions.
    pub invoke: bool,
    /// Whether it may expose actions.
    pub expose: bool,
    /// The events it may report.
    pub emits: Vec<AgentSessionEventType>,
    /// The operations that are available on it.
    pub lifecycle: Vec<LifecycleOp>,
    /// The states in which `on-idle` is open.
    pub safe_states: Vec<AgentStatus>,
}

/// Says what was agreed, given a valid declaration.
#[must_use]
pub fn negotiate(session: &AgentSessionCapabilities, safe_states: &[AgentStatus]) -> Negotiated {
    Negotiated {
        attachments: session.messaging.attachments.clone(),
        modes: session.delivery.modes.clone(),
        queue: session.queues(),
        send: check_send(session).is_ok(),
        invoke: check_invoke(session).is_ok(),
        expose: check_expose(session).is_ok(),
        emits: session.events.emits.clone(),
        lifecycle: LifecycleOp::ALL
            .iter()
            .copied()
            .filter(|op| check_lifecycle(session, *op).is_ok())
            .collect(),
        safe_states: safe_states.to_vec(),
    }
}

#[cfg(test)]
mod tests;
