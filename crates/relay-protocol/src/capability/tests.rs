use super::*;
use crate::status::DEFAULT_SAFE_STATES;
use crate::wire::decode_value;
use serde_json::{Value, json};

fn minimum() -> Value {
    json!({
        "messaging": { "receive": true, "attachments": ["text"] },
        "delivery": { "modes": ["immediate"] },
        "events": { "emits": ["status.changed"] },
        "lifecycle": { "release": true },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut capabilities = minimum();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    capabilities.pointer_mut(parent).unwrap()[field] = value;
    capabilities
}

fn validate(capabilities: Value, link: LinkKind) -> Result<(), (&'static str, String)> {
    let capabilities: AgentSessionCapabilities = decode_value(capabilities).unwrap();
    capabilities
        .validate(link, DEFAULT_SAFE_STATES)
        .map_err(|error| (error.path, error.found))
}

#[test]
fn the_minimum_of_the_spec_is_valid() {
    let read: AgentSessionCapabilities = decode_value(minimum()).unwrap();
    assert_eq!(read, AgentSessionCapabilities::minimum());
    assert_eq!(serde_json::to_value(&read).unwrap(), minimum());
    for link in LinkKind::ALL.iter().filter(|link| **link != LinkKind::None) {
        assert_eq!(validate(minimum(), *link), Ok(()));
    }
}

#[test]
fn what_every_session_must_do_cannot_be_denied() {
    for (pointer, path) in [
        ("/messaging/receive", "messaging.receive"),
        ("/lifecycle/release", "lifecycle.release"),
    ] {
        let error = decode_value::<AgentSessionCapabilities>(with(pointer, json!(false)));
        assert_eq!(
            error.unwrap_err().to_string(),
            format!("{path}: must be true, found false")
        );
    }
}

#[test]
fn contradictions_are_refused() {
    let emits_nothing = |modes: Value, queue: bool| {
        let mut capabilities = with("/delivery/modes", modes);
        capabilities["events"]["emits"] = json!([]);
        capabilities["delivery"]["queue"] = json!(queue);
        capabilities
    };
    let cases = [
        (
            with("/messaging/attachments", json!([])),
            Some("messaging.attachments"),
        ),
        (
            with("/messaging/attachments", json!(["image"])),
            Some("messaging.attachments"),
        ),
        (
            with("/messaging/attachments", json!(["image", "text"])),
            None,
        ),
        (with("/delivery/modes", json!([])), Some("delivery.modes")),
        (
            with("/delivery/modes", json!(["manual", "manual"])),
            Some("delivery.modes"),
        ),
        (with("/delivery/modes", json!(["manual"])), None),
        (emits_nothing(json!(["immediate"]), false), None),
        (
            emits_nothing(json!(["on-idle"]), false),
            Some("events.emits"),
        ),
        (emits_nothing(json!(["on-idle"]), true), None),
        (with("/delivery/modes", json!(["on-idle"])), None),
    ];
    for (capabilities, path) in cases {
        let shown = capabilities.to_string();
        let result = validate(capabilities, LinkKind::WebSocket);
        assert_eq!(result.err().map(|(path, _)| path), path, "{shown}");
    }
}

#[test]
fn without_a_link_nothing_is_immediate() {
    assert_eq!(
        validate(minimum(), LinkKind::None),
        Err(("delivery.modes", "[immediate]".to_owned()))
    );
    let waits = with("/delivery/modes", json!(["next-tool-call", "on-idle"]));
    assert_eq!(validate(waits, LinkKind::None), Ok(()));
}

#[test]
fn safe_states_are_any_that_a_session_goes_on_from() {
    use AgentStatus as S;
    let valid = |states: &[S]| {
        AgentSessionCapabilities::minimum()
            .validate(LinkKind::Poll, states)
            .is_ok()
    };
    assert!(valid(&[S::Idle]));
    assert!(valid(&[S::Active, S::Idle, S::Waiting, S::Blocked]));
    assert!(valid(&[S::Paused]));
    assert!(valid(&[S::Starting, S::Releasing, S::Offline]));
    for states in [
        &[][..],
        &[S::Idle, S::Idle],
        &[S::Released],
        &[S::Idle, S::Failed],
    ] {
        assert!(!valid(states), "{states:?}");
    }
}
