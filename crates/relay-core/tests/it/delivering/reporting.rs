//! What sessions report: numbered, all of a call or nothing, only what was declared, and never twice in
//! the log.

use relay_core::Error;
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::DeliveryState;
use relay_protocol::ids::{InvocationId, MessageId, SessionId};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::Acked;
use relay_protocol::session_event::AgentSessionEventType as Emits;
use relay_protocol::status::AgentStatus;
use serde_json::{Value, json};

use super::forks::fork;
use super::kit::{Kind, Lab, minimum, now};
use crate::support::target;

fn line(message: &str) -> Value {
    json!({ "type": "log", "level": "info", "message": message })
}

fn refused<T: std::fmt::Debug>(result: relay_core::Result<T>) -> Problem {
    result.unwrap_err().problem()
}

/// The log lines that others see.
fn lines(lab: &Lab) -> Vec<Value> {
    let lines = lab.events("log");
    lines
        .iter()
        .map(|line| line["event"]["message"].clone())
        .collect()
}

#[test]
fn observations_are_logged_with_their_session() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(bob.report(line("one")).unwrap(), Acked { acked: 1 });
    let told = lab.last("log");
    assert_eq!(told["sessionId"], json!(bob.id()));
    assert_eq!(told["agentId"], json!(bob.summary().agent.id));
    assert_eq!(told["event"], line("one"));
}

#[test]
fn repeats_are_dropped_and_acked() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.report_all(&[(1, line("one")), (2, line("two"))])
        .unwrap();
    for again in [1, 2] {
        let acked = bob.report_as(again, line("other")).unwrap();
        assert_eq!(acked.acked, 2);
    }
    // Some of it is new.
    let mixed = [(2, line("two")), (3, line("three"))];
    assert_eq!(bob.report_all(&mixed).unwrap().acked, 3);
    assert_eq!(lines(&lab), ["one", "two", "three"]);
}

#[test]
fn a_gap_is_refused_naming_the_number_that_is_expected() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.report(line("one")).unwrap();
    let cases = [
        vec![(3, line("three"))],
        vec![(2, line("two")), (4, line("four"))],
        vec![(0, line("zero")), (3, line("three"))],
    ];
    for (events, found) in cases.into_iter().zip([3, 4, 3]) {
        let problem = refused(bob.report_all(&events));
        assert_eq!(problem.code, ErrorCode::EventGap);
        assert_eq!(problem.path.as_deref(), Some("n"));
        let expected = if found == 4 { "3" } else { "2" };
        assert_eq!(problem.expected.as_deref(), Some(expected));
        assert_eq!(problem.found, Some(found.to_string()));
    }
    assert_eq!(lines(&lab), ["one"]);
    assert_eq!(bob.report(line("two")).unwrap().acked, 2);
}

#[test]
fn all_of_a_call_is_stored_or_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let events = [
        (1, line("one")),
        (2, json!({ "type": "status.changed", "status": "active" })),
        (3, json!({ "type": "status.changed", "status": "starting" })),
    ];
    let before = lab.log();
    let problem = refused(bob.report_all(&events));
    assert_eq!(problem.code, ErrorCode::IllegalTransition);
    assert_eq!(lab.log(), before);
    assert_eq!(bob.summary().status, AgentStatus::Idle);
    assert_eq!(bob.report_all(&events[..2]).unwrap().acked, 2);
    assert_eq!(bob.summary().status, AgentStatus::Active);
}

#[test]
fn a_batch_has_its_limit() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let many: Vec<_> = (1..=257).map(|n| (n, line("x"))).collect();
    assert_eq!(
        refused(bob.report_all(&many)).code,
        ErrorCode::LimitExceeded
    );
    assert_eq!(bob.report_all(&many[..256]).unwrap().acked, 256);
    assert_eq!(bob.report_all(&[]).unwrap().acked, 256);
}

#[test]
fn the_counter_goes_on_after_a_link_was_lost() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.report_all(&[(1, line("one")), (2, line("two"))])
        .unwrap();
    bob.lose_link();
    let back = lab.attach("bob", &Kind::able().resuming(bob.token()));
    assert_eq!(back.attached.acked, 2);
    back.report(line("three")).unwrap();
    assert_eq!(lines(&lab), ["one", "two", "three"]);
}

#[test]
fn what_was_not_declared_is_refused() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    let problem = refused(bob.report(line("one")));
    assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
    assert_eq!(problem.capability.as_deref(), Some("events.emits"));
    assert_eq!(problem.requested, Some(json!("log")));
    assert_eq!(problem.supported, Some(json!(["status.changed"])));
    assert_eq!(
        bob.report_as(1, json!({ "type": "status.idle" }))
            .unwrap()
            .acked,
        1
    );
}

#[test]
fn a_single_status_allows_only_that_one() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum().emitting(&[Emits::StatusIdle]));
    for status in ["active", "blocked", "waiting", "offline", "failed"] {
        let event = json!({ "type": "status.changed", "status": status });
        let problem = refused(bob.report(event));
        assert_eq!(
            problem.capability.as_deref(),
            Some("events.emits"),
            "{status}"
        );
    }
    bob.report(json!({ "type": "status.idle" })).unwrap();
    bob.report(json!({ "type": "status.changed", "status": "idle" }))
        .unwrap();
}

#[test]
fn one_that_has_ended_reports_nothing_more() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.report(line("one")).unwrap();
    let release = bob.begin_release();
    bob.confirm(&bob.control());
    release.end().unwrap();
    let problem = refused(bob.report(line("two")));
    assert_eq!(problem.code, ErrorCode::IllegalTransition);
    assert!(problem.detail.contains("released"), "{}", problem.detail);
    // What was stored before is acked as ever.
    assert_eq!(bob.report_as(1, line("one")).unwrap().acked, 1);
    assert_eq!(lines(&lab), ["one"]);
}

#[test]
fn nothing_follows_the_report_of_the_end() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let events = [
        (1, json!({ "type": "status.changed", "status": "failed" })),
        (2, line("after the end")),
    ];
    let tried = bob.report_all(&events);
    assert!(
        matches!(tried, Err(Error::SessionEnded { .. })),
        "{tried:?}"
    );
    assert_eq!(bob.summary().status, AgentStatus::Idle);
}

#[test]
fn nobody_reports_for_the_session_of_another_agent() {
    let lab = Lab::pair();
    let alice = lab.attach("alice", &Kind::able());
    let bob = lab.attach("bob", &Kind::able());
    let tried = alice.report_for(bob.id(), line("I am bob"));
    assert_eq!(refused(tried).code, ErrorCode::UnknownSession);
    let nobody = SessionId::new(lab.now(), 7);
    let tried = alice.report_for(nobody, line("I am nobody"));
    assert_eq!(refused(tried).code, ErrorCode::UnknownSession);
}

#[test]
fn reports_about_deliveries_are_receipts_and_are_logged_once() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let ids = ["a", "b", "c", "d"].map(|text| lab.say(text));
    let offers = bob.offers();
    let about = |name: &str, at: usize| json!({ "type": name, "deliveryId": ids[at], "messageId": offers[at].message.id });
    let mut put_off = about("delivery.deferred", 2);
    put_off["availableAt"] = json!(lab.later(5_000));
    let mut lost = about("delivery.failed", 3);
    lost["reason"] = json!("gone");
    for event in [
        about("delivery.accepted", 0),
        about("delivery.delivered", 1),
        put_off,
        lost,
    ] {
        bob.report(event).unwrap();
    }
    let states = ids.map(|id| lab.state(id));
    use DeliveryState::{Accepted, Deferred, Delivered, Failed};
    assert_eq!(states, [Accepted, Delivered, Deferred, Failed]);
    let last = ["accepted", "delivered", "deferred", "failed"];
    for (id, last) in ids.into_iter().zip(last) {
        assert_eq!(lab.course(id), ["created", last]);
        let told = lab.last(&format!("delivery.{last}"));
        assert_eq!(told["sessionId"], json!(bob.id()));
        assert_eq!(told["event"]["type"], format!("delivery.{last}"));
    }
    // What it accepted it may report as delivered; what it reports again is known.
    for _ in 0..2 {
        bob.report(about("delivery.delivered", 0)).unwrap();
    }
    assert_eq!(
        lab.course(ids[0]),
        ["created", "accepted", "delivered", "late_receipt"]
    );
}

#[test]
fn a_report_about_a_delivery_of_somebody_else_is_refused() {
    let lab = Lab::pair();
    let alice = lab.attach("alice", &Kind::able());
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    let event =
        json!({ "type": "delivery.delivered", "deliveryId": id, "messageId": offer.message.id });
    assert_eq!(
        refused(alice.report(event)).code,
        ErrorCode::UnknownDelivery
    );
    assert_eq!(lab.state(id), DeliveryState::Offered);
    bob.deliver(&offer);
}

#[test]
fn a_batch_that_is_refused_settles_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    let delivered =
        json!({ "type": "delivery.delivered", "deliveryId": id, "messageId": offer.message.id });
    let starting = json!({ "type": "status.changed", "status": "starting" });
    let problem = refused(bob.report_all(&[(1, delivered.clone()), (2, starting)]));
    assert_eq!(problem.code, ErrorCode::IllegalTransition);
    assert_eq!(lab.state(id), DeliveryState::Offered);
    bob.report(delivered).unwrap();
    assert_eq!(lab.state(id), DeliveryState::Delivered);
}

#[test]
fn facts_that_relay_knows_are_answered_and_not_logged_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let before = lab.log();
    let session = bob.id();
    let known = [
        json!({ "type": "session.started", "sessionId": session }),
        json!({ "type": "session.resumed", "sessionId": session }),
    ];
    for (n, event) in (1..).zip(known) {
        assert_eq!(bob.report(event).unwrap().acked, n);
    }
    assert_eq!(lab.log(), before);
    let nobody = SessionId::new(lab.now(), 7);
    let unknown = [(
        json!({ "type": "session.started", "sessionId": nobody }),
        ErrorCode::UnknownSession,
    )];
    for (event, code) in unknown {
        assert_eq!(refused(bob.report(event)).code, code);
    }
    assert_eq!(lab.log(), before);
}

/// A session could say that it was released, or forked, when it was not: the report was acknowledged as known.
#[test]
fn a_release_or_fork_that_there_is_not_is_refused() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let session = bob.id();
    let nobody = SessionId::new(lab.now(), 7);
    let forked = |id: SessionId, parent: SessionId| json!({ "type": "session.forked", "sessionId": id, "parentSessionId": parent });
    let released = |id: SessionId| json!({ "type": "session.released", "sessionId": id });
    for (event, code) in [
        (forked(session, session), ErrorCode::UnknownSession),
        (forked(session, nobody), ErrorCode::UnknownSession),
        (forked(nobody, session), ErrorCode::UnknownSession),
        (released(nobody), ErrorCode::UnknownSession),
        (released(session), ErrorCode::InvalidRequest),
    ] {
        assert_eq!(refused(bob.report(event)).code, code);
    }
    let grant = fork(&lab, &bob);
    bob.report(forked(grant.session_id, session)).unwrap();
    let swapped = refused(bob.report(forked(session, grant.session_id)));
    assert_eq!(swapped.code, ErrorCode::UnknownSession);
    let release = bob.begin_release();
    let control = bob.control();
    bob.report(released(session)).unwrap();
    bob.confirm(&control);
    release.end().unwrap();
}

#[test]
fn messages_that_a_session_reports_are_its_own_and_reach_listeners() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let message = bob.offer().message.id;
    let answer = lab.send("bob", SendMessage::text(target("@alice"), "hi"));
    let aside = lab.send("alice", SendMessage::text(target("@carol"), "psst"));
    let reports = [
        json!({ "type": "message.received", "messageId": message, "deliveryId": id }),
        json!({ "type": "message.received", "messageId": message }),
        json!({ "type": "message.sent", "messageId": answer.message_id }),
    ];
    for report in &reports {
        bob.report(report.clone()).unwrap();
        let told = lab.last(report["type"].as_str().unwrap());
        assert_eq!(told["sessionId"], json!(bob.id()));
        assert_eq!(told["event"], *report);
    }
    let before = lab.log();
    let other = lab.say("another");
    let unknown = MessageId::new(lab.now(), 7);
    let received = |message: MessageId| json!({ "type": "message.received", "messageId": message });
    let sent = |message: MessageId| json!({ "type": "message.sent", "messageId": message });
    let wrong_delivery =
        json!({ "type": "message.received", "messageId": message, "deliveryId": other });
    let cases = [
        (received(unknown), ErrorCode::UnknownMessage),
        (received(aside.message_id), ErrorCode::UnknownMessage),
        // It is in the conversation, but nothing was to be delivered to it.
        (received(answer.message_id), ErrorCode::InvalidRequest),
        (wrong_delivery, ErrorCode::InvalidRequest),
        (sent(unknown), ErrorCode::UnknownMessage),
        (sent(aside.message_id), ErrorCode::UnknownMessage),
        (sent(message), ErrorCode::InvalidRequest),
    ];
    let of_bob = |log: Vec<Value>| {
        let own = log
            .iter()
            .filter(|event| event["event"]["type"] != json!(null));
        own.count()
    };
    let before = of_bob(before);
    for (event, code) in cases {
        assert_eq!(refused(bob.report(event.clone())).code, code, "{event}");
    }
    assert_eq!(of_bob(lab.log()), before);
}

#[test]
fn calls_that_a_session_reports_are_its_own_and_as_it_says() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    let bob = lab.attach("bob", &Kind::able());
    let carol = lab.attach("carol", &Kind::able());
    let engine = lab.engine();
    let action = body_of(
        json!({ "name": "deploy", "description": "deploys", "inputSchema": { "type": "object" } }),
    );
    now(engine.register_action(&lab.who("alice"), action)).unwrap();
    let call = now(engine.invoke(
        &lab.who("bob"),
        "deploy",
        body_of(json!({ "input": {} })),
        None,
    ))
    .unwrap();
    let call = call.invocation_id;
    let about = |name: &str, action: &str, id: InvocationId| {
        let mut event = json!({ "type": name, "action": action, "invocationId": id });
        let more = match name {
            "action.failed" => "error",
            "action.denied" => "reason",
            _ => return event,
        };
        event[more] = json!("no");
        event
    };
    bob.report(about("action.invoked", "deploy", call)).unwrap();
    let before = lab.log();
    let unknown = InvocationId::new(lab.now(), 7);
    let cases = [
        (
            about("action.invoked", "deploy", unknown),
            ErrorCode::UnknownInvocation,
        ),
        (
            about("action.invoked", "other", call),
            ErrorCode::InvalidRequest,
        ),
        // It has not ended.
        (
            about("action.completed", "deploy", call),
            ErrorCode::InvalidRequest,
        ),
        (
            about("action.failed", "deploy", call),
            ErrorCode::InvalidRequest,
        ),
        (
            about("action.denied", "deploy", call),
            ErrorCode::InvalidRequest,
        ),
    ];
    for (event, code) in cases {
        assert_eq!(refused(bob.report(event.clone())).code, code, "{event}");
    }
    let stolen = about("action.invoked", "deploy", call);
    assert_eq!(
        refused(carol.report(stolen)).code,
        ErrorCode::UnknownInvocation
    );
    assert_eq!(lab.log(), before);
    let (alice, output) = (lab.who("alice"), body_of(json!({ "output": 1 })));
    now(engine.complete_invocation(&alice, call, output)).unwrap();
    // Listeners have heard of it from Relay, once.
    bob.report(about("action.completed", "deploy", call))
        .unwrap();
    assert_eq!(lab.events("action.completed").len(), 1);
    let failed = about("action.failed", "deploy", call);
    assert_eq!(refused(bob.report(failed)).code, ErrorCode::InvalidRequest);
}

fn body_of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
