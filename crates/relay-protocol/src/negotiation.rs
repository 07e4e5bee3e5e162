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
mod tests {
    use super::*;
    use crate::capability::ActionCapabilities;
    use crate::selector::Filter;
    use crate::status::DEFAULT_SAFE_STATES;
    use crate::wire::decode_value;
    use AgentSessionEventType as E;

    fn minimum() -> AgentSessionCapabilities {
        AgentSessionCapabilities::minimum()
    }

    fn refused(result: Result<(), CapabilityMismatch>) -> (&'static str, Value, Value) {
        let CapabilityMismatch {
            capability,
            requested,
            supported,
        } = result.unwrap_err();
        (capability, *requested, *supported)
    }

    fn attachment(kind: &str) -> Attachment {
        decode_value(json!({ "type": kind, "mediaType": "x/y", "size": 1 })).unwrap()
    }

    #[test]
    fn content() {
        assert_eq!(check_content(&minimum(), &[]), Ok(()));
        assert_eq!(check_content(&minimum(), &[attachment("text")]), Ok(()));
        let both = [attachment("text"), attachment("image")];
        assert_eq!(
            refused(check_content(&minimum(), &both)),
            ("messaging.attachments", json!("image"), json!(["text"]))
        );
        let mut sees = minimum();
        sees.messaging.attachments.push(AttachmentKind::Image);
        assert_eq!(check_content(&sees, &both), Ok(()));
    }

    #[test]
    fn modes() {
        for mode in DeliveryMode::ALL.iter().copied() {
            let mut session = minimum();
            session.delivery.modes = vec![mode];
            for asked in DeliveryMode::ALL.iter().copied() {
                let result = check_mode(&session, asked);
                assert_eq!(result.is_ok(), asked == mode);
                if asked != mode {
                    let expected = ("delivery.modes", json!(asked), json!([mode]));
                    assert_eq!(refused(result), expected);
                }
            }
        }
    }

    #[test]
    fn switches_are_off_unless_declared() {
        for declared in [None, Some(false), Some(true)] {
            let mut session = minimum();
            session.messaging.send = declared;
            session.actions = Some(ActionCapabilities {
                invoke: declared,
                expose: declared,
            });
            for (check, capability) in [
                (check_send as fn(&_) -> _, "messaging.send"),
                (check_invoke, "actions.invoke"),
                (check_expose, "actions.expose"),
            ] {
                let result = check(&session);
                assert_eq!(result.is_ok(), declared == Some(true), "{capability}");
                if result.is_err() {
                    assert_eq!(refused(result), (capability, json!(true), json!(false)));
                }
            }
        }
        assert!(check_invoke(&minimum()).is_err());
        assert!(check_expose(&minimum()).is_err());
    }

    #[test]
    fn lifecycle() {
        for op in LifecycleOp::ALL.iter().copied() {
            let result = check_lifecycle(&minimum(), op);
            assert_eq!(result.is_ok(), op == LifecycleOp::Release);
            if result.is_err() {
                let capability = format!("lifecycle.{op}");
                assert_eq!(refused(result).0, capability);
            }
        }
        let mut session = minimum();
        session.lifecycle.fork = Some(true);
        session.lifecycle.pause = Some(false);
        assert_eq!(check_lifecycle(&session, LifecycleOp::Fork), Ok(()));
        assert!(check_lifecycle(&session, LifecycleOp::Pause).is_err());
    }

    fn emitting(emits: &[E]) -> AgentSessionCapabilities {
        let mut session = minimum();
        session.events.emits = emits.to_vec();
        session
    }

    #[test]
    fn predicates_that_sessions_can_satisfy() {
        let becomes = |status| Filter::status_becomes("e", status);
        let cases: [(Filter, &[E], bool); 16] = [
            (Filter::event("*"), &[], true),
            (Filter::message(), &[], true),
            (Filter::delivery_failed(), &[], true),
            (Filter::action("x"), &[], true),
            (Filter::event("session.*"), &[], true),
            (Filter::event("tool.*"), &[], false),
            (Filter::event("tool.*"), &[E::ToolFailed], true),
            (Filter::event("tool.called"), &[E::ToolFailed], false),
            (
                Filter::event("terminal.*").or(Filter::event("log")),
                &[E::Log],
                true,
            ),
            (becomes(AgentStatus::Idle), &[E::StatusChanged], true),
            (becomes(AgentStatus::Idle), &[E::StatusIdle], true),
            (becomes(AgentStatus::Idle), &[E::StatusActive], false),
            (Filter::event("agent.status.idle"), &[E::StatusIdle], true),
            (
                Filter::event("agent.status.idle"),
                &[E::StatusActive],
                false,
            ),
            (
                Filter::event("agent.status.changed"),
                &[E::StatusActive],
                true,
            ),
            (Filter::event("agent.status.offline"), &[], true),
        ];
        for (filter, emits, expected) in cases {
            let shown = serde_json::to_string(&filter).unwrap();
            let selector = Selector::from_filter(filter).unwrap();
            let sessions = [emitting(&[]), emitting(emits)];
            let result = check_observable(&sessions, &selector);
            assert_eq!(result.is_ok(), expected, "{shown} {emits:?}");
        }
    }

    #[test]
    fn a_predicate_that_nobody_satisfies_says_what_it_needs() {
        let selector = Selector::parse("terminal.*").unwrap();
        let result = check_observable([&emitting(&[E::Log])], &selector);
        assert_eq!(
            refused(result),
            (
                "events.emits",
                json!(["terminal.output", "terminal.screen"]),
                json!(["log"])
            )
        );
    }

    #[test]
    fn reports_must_be_declared() {
        let report = |value| decode_value::<AgentSessionEvent>(value).unwrap();
        let idle = report(json!({ "type": "status.changed", "status": "idle" }));
        let paused = report(json!({ "type": "status.changed", "status": "paused" }));
        let error = report(json!({ "type": "error", "error": "e" }));
        let cases: [(&[E], [bool; 3]); 4] = [
            (&[E::StatusChanged], [true, true, false]),
            (&[E::StatusIdle], [true, false, false]),
            (&[E::Error], [false, false, true]),
            (&[], [false, false, false]),
        ];
        for (emits, expected) in cases {
            let session = emitting(emits);
            let found = [&idle, &paused, &error].map(|event| check_emits(&session, event).is_ok());
            assert_eq!(found, expected, "{emits:?}");
        }
    }

    #[test]
    fn a_mismatch_is_a_problem() {
        let mismatch = check_mode(&minimum(), DeliveryMode::OnIdle).unwrap_err();
        let problem = Problem::from(mismatch);
        assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
        assert_eq!(problem.capability.as_deref(), Some("delivery.modes"));
        assert_eq!(problem.requested, Some(json!("on-idle")));
        assert_eq!(problem.supported, Some(json!(["immediate"])));
        assert!(problem.detail.contains("on-idle"));
    }

    #[test]
    fn the_answer_fills_in_defaults() {
        let negotiated = negotiate(&minimum(), DEFAULT_SAFE_STATES);
        assert_eq!(
            serde_json::to_value(negotiated).unwrap(),
            json!({
                "attachments": ["text"], "modes": ["immediate"], "queue": false, "send": false,
                "invoke": false, "expose": false, "emits": ["status.changed"],
                "lifecycle": ["release"], "safeStates": ["idle", "waiting", "blocked"],
            })
        );
    }
}
