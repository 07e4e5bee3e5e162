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
