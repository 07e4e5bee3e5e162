//! Attaching: what is agreed, which declarations no session can keep, and going on with a token.

use relay_core::link::CloseReason;
use relay_protocol::capability::AgentSessionCapabilities;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::negotiation::LifecycleOp;
use relay_protocol::problem::ErrorCode;
use relay_protocol::session_event::AgentSessionEventType as Emits;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, minimum};

#[test]
fn the_specs_minimum_is_valid_as_it_stands() {
    let lab = Lab::pair();
    let minimum = Kind {
        capabilities: serde_json::from_value::<AgentSessionCapabilities>(json!({
            "messaging": { "receive": true, "attachments": ["text"] },
            "delivery": { "modes": ["immediate"] },
            "events": { "emits": ["status.changed"] },
            "lifecycle": { "release": true },
        }))
        .unwrap(),
        ..minimum()
    };
    let bob = lab.attach("bob", &minimum);
    let agreed = json!({
        "attachments": ["text"],
        "modes": ["immediate"],
        "queue": false,
        "send": false,
        "invoke": false,
        "expose": false,
        "emits": ["status.changed"],
        "lifecycle": ["release"],
        "safeStates": ["idle", "waiting", "blocked"],
    });
    assert_eq!(json!(bob.attached.negotiated), agreed);
    assert_eq!((bob.attached.keep.len(), bob.attached.acked), (0, 0));
    let seen = bob.summary();
    assert_eq!(seen.status, AgentStatus::Idle);
    assert!(seen.current);
    assert_eq!(lab.last("session.started")["sessionId"], json!(bob.id()));
}

#[test]
fn what_is_declared_is_agreed() {
    let lab = Lab::pair();
    let kind = Kind::able()
        .queueing()
        .with_images()
        .directed()
        .safe_in(&[AgentStatus::Idle]);
    let bob = lab.attach("bob", &kind);
    let agreed = &bob.attached.negotiated;
    assert!(agreed.queue);
    assert_eq!(agreed.modes, DeliveryMode::ALL);
    assert_eq!(agreed.lifecycle, LifecycleOp::ALL);
    assert_eq!(agreed.safe_states, [AgentStatus::Idle]);
    assert_eq!(json!(agreed.attachments), json!(["text", "image"]));
}

#[test]
fn declarations_that_no_session_can_keep_are_refused() {
    let lab = Lab::pair();
    let without_text = {
        let mut kind = Kind::able();
        kind.capabilities.messaging.attachments = vec![];
        kind
    };
    let text_twice = {
        let mut kind = Kind::able();
        let text = kind.capabilities.messaging.attachments[0];
        kind.capabilities.messaging.attachments.push(text);
        kind
    };
    let idle = DeliveryMode::OnIdle;
    let immediate = DeliveryMode::Immediate;
    let cases = [
        (
            without_text,
            "messaging.attachments",
            "text among them, each once",
            "[]",
        ),
        (
            text_twice,
            "messaging.attachments",
            "text among them, each once",
            "[text, text]",
        ),
        (
            Kind::of(&[]),
            "delivery.modes",
            "at least one mode, each once",
            "[]",
        ),
        (
            Kind::of(&[idle, idle]),
            "delivery.modes",
            "at least one mode, each once",
            "[on-idle, on-idle]",
        ),
        (
            Kind::of(&[idle]).emitting(&[Emits::ToolCalled]),
            "events.emits",
            "a status, because `on-idle` without `queue` waits for one",
            "[tool.called]",
        ),
        (
            Kind::hooks(&[idle, immediate]),
            "delivery.modes",
            "no `immediate` for a session without a link",
            "[on-idle, immediate]",
        ),
        (
            Kind::able().safe_in(&[]),
            "safeStates",
            "some of starting, active, idle, waiting, blocked, paused, releasing, offline, each once",
            "[]",
        ),
        (
            Kind::able().safe_in(&[AgentStatus::Idle, AgentStatus::Released]),
            "safeStates",
            "some of starting, active, idle, waiting, blocked, paused, releasing, offline, each once",
            "[idle, released]",
        ),
        (
            Kind::able().doing(AgentStatus::Offline),
            "status",
            "starting, active, idle, waiting or blocked",
            "offline",
        ),
        (
            Kind::able().doing(AgentStatus::Paused),
            "status",
            "starting, active, idle, waiting or blocked",
            "paused",
        ),
    ];
    for (kind, path, expected, found) in cases {
        let problem = lab.try_attach("bob", &kind).err().unwrap().problem();
        assert_eq!(problem.code, ErrorCode::InvalidRequest);
        assert_eq!(problem.path.as_deref(), Some(path));
        assert_eq!(problem.expected.as_deref(), Some(expected), "{path}");
        assert_eq!(problem.found.as_deref(), Some(found), "{path}");
    }
    assert_eq!(
        lab.events("session.started"),
        Vec::<serde_json::Value>::new()
    );
}

#[test]
fn a_queueing_session_need_not_report_a_status() {
    let lab = Lab::pair();
    let kind = Kind::polite().queueing().emitting(&[]);
    lab.attach("bob", &kind);
}

#[test]
fn only_the_agent_itself_and_the_workspace_attach() {
    let lab = Lab::pair();
    for (who, allowed) in [("alice", false), ("bob", true), ("key", true)] {
        let tried = lab.attach_as(who, "@Bob", &minimum());
        let code = tried.err().map(|error| error.code());
        assert_eq!(code, (!allowed).then_some(ErrorCode::Forbidden), "{who}");
    }
    let nobody = lab.attach_as("key", "carol", &minimum()).err().unwrap();
    assert_eq!(nobody.code(), ErrorCode::UnknownAgent);
}

#[test]
fn a_session_goes_on_with_its_token() {
    let lab = Lab::pair();
    let kind = Kind::able().queueing();
    let before = lab.attach("bob", &kind);
    before.ran_a_tool();
    let [held, seen, open] = ["held", "seen", "open"].map(|text| lab.say(text));
    let offers = before.offers();
    before.accept(&offers[0]);
    before.accept(&offers[1]);
    before.deliver_held(seen);

    let after = lab.attach("bob", &kind.clone().resuming(before.token()));
    assert_eq!(after.id(), before.id());
    assert_eq!(after.token(), before.token());
    assert_eq!(after.attached.keep, [held]);
    assert_eq!(after.attached.acked, 1);
    assert_eq!(before.closed(), Some(CloseReason::Superseded));
    let again = after.offer();
    assert_eq!(again.context.id, open);
    assert!(again.context.epoch() > offers[2].context.epoch());
    assert_eq!(lab.last("session.resumed")["sessionId"], json!(after.id()));
    // The link of before is gone; that it is noticed late changes nothing.
    before.lose_link();
    lab.pass(60_000);
    assert_eq!(after.summary().status, AgentStatus::Idle);
}

#[test]
fn tokens_that_are_of_no_use_are_refused() {
    let lab = Lab::new(["alice", "bob"]);
    let alice = lab.attach("alice", &minimum());
    let ended = lab.attach("bob", &minimum());
    ended.becomes(AgentStatus::Failed);
    let cases = [
        ("unknown", "st_nothing", "bob", "bob"),
        ("of another", alice.token(), "bob", "bob"),
        ("of another", alice.token(), "key", "bob"),
        ("of another", alice.token(), "bob", "alice"),
        ("ended", ended.token(), "bob", "bob"),
    ];
    for (case, token, who, agent) in cases {
        let tried = lab.attach_as(who, agent, &minimum().resuming(token));
        let problem = tried.err().unwrap().problem();
        let case = format!("{case}, by {who} for {agent}");
        assert_eq!(problem.code, ErrorCode::UnknownSession, "{case}");
        assert!(problem.detail.contains("attach again without"), "{case}");
    }
    assert_eq!(alice.closed(), None);
}

#[test]
fn a_session_may_declare_something_else_when_it_comes_back() {
    let lab = Lab::pair();
    let before = lab.attach("bob", &Kind::polite().doing(AgentStatus::Active));
    let waiting = lab.say("hello");
    assert_eq!(before.texts(), [""; 0]);
    let now = Kind::of(&[DeliveryMode::Immediate]).resuming(before.token());
    let after = lab.attach("bob", &now);
    assert_eq!(after.attached.negotiated.modes, [DeliveryMode::Immediate]);
    assert_eq!(after.summary().status, AgentStatus::Active);
    after.becomes(AgentStatus::Idle);
    let offer = after.offer();
    assert_eq!(
        (offer.context.id, offer.context.mode),
        (waiting, DeliveryMode::Immediate)
    );
}
