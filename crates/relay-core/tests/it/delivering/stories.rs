//! Deliveries explained: what people read who ask what happened to a message.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::delivery_record::CancelDelivery;
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, deferred, delivered, failed, mail};

/// A story with names for ids: the delivery is D, sessions are A and B.
fn story(lab: &Lab, id: DeliveryId, sessions: &[SessionId]) -> String {
    let delivery = lab.delivery(id);
    let mut text = delivery.story.unwrap().replace(&id.to_string(), "D");
    for (session, name) in sessions.iter().zip(["A", "B"]) {
        text = text.replace(&session.to_string(), name);
    }
    text
}

#[track_caller]
fn check(found: &str, expected: &str) {
    let lines = expected.trim().lines().map(str::trim);
    let expected: Vec<_> = lines.collect();
    let found: Vec<_> = found.lines().collect();
    assert_eq!(found, expected, "{found:#?}");
}

#[test]
fn an_idle_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    lab.pass(1_200);
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        now: offered to session A, no answer yet
        "#,
    );
    bob.deliver(&offer);
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        +1.2 s  delivered, by the session
        end: delivered
        "#,
    );
}

#[test]
fn a_busy_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let id = lab.say("hello");
    lab.pass(75_000);
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  waits: the session is active; it waits for next-tool-call
        now: pending: the session is active
        "#,
    );
    bob.ran_a_tool();
    bob.deliver(&bob.offer());
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  waits: the session is active; it waits for next-tool-call
        +75.0 s  offered to session A as next-tool-call: the session stands at that boundary (offer 1)
        +75.0 s  delivered, by the session
        end: delivered
        "#,
    );
}

#[test]
fn a_silent_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let first = bob.offer();
    lab.pass(31_000);
    bob.receipt(id, first.context.epoch(), delivered(id))
        .unwrap();
    let second = bob.offer();
    bob.answer(&second, failed("the window is gone", Some(true)));
    lab.pass(2_000);
    bob.deliver(&bob.offer());
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        +30.0 s  offer 1 was not answered in time
        +30.0 s  waits until +31.0 s: 1 of 8 attempts are used up
        +31.0 s  waits again: its time has come
        +31.0 s  too late to count: delivered, by the session (offer 1)
        +31.0 s  offered to session A as on-idle: the session is idle (offer 2)
        +31.0 s  failed, by the session, to be tried again: the window is gone
        +31.0 s  waits until +32.0 s: 2 of 8 attempts are used up
        +32.0 s  waits again: its time has come
        +32.0 s  offered to session A as on-idle: the session is idle (offer 3)
        +33.0 s  delivered, by the session
        end: delivered
        "#,
    );
}

#[test]
fn an_agent_that_lost_its_link() {
    let lab = Lab::pair();
    let other = lab.attach("bob", &Kind::able());
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    bob.lose_link();
    lab.pass(300_000);
    check(
        &story(&lab, id, &[bob.id(), other.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session queues for itself (offer 1)
        +0 ms  accepted, by the session
        now: accepted, held by session A
        "#,
    );
    lab.pass(300_000);
    other.deliver(&other.offer());
    check(
        &story(&lab, id, &[bob.id(), other.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session queues for itself (offer 1)
        +0 ms  accepted, by the session
        +10 min 0 s  offer 1 ended: lease_expired
        +10 min 0 s  waits again: the session that held it was away for too long
        +10 min 0 s  offered to session B as on-idle: the session is idle (offer 2)
        +10 min 0 s  delivered, by the session
        end: delivered
        "#,
    );
}

#[test]
fn another_way() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite().doing(AgentStatus::Active));
    let id = lab.post(SendMessage {
        mode: Some(DeliveryMode::NextToolCall),
        allow_downgrade: Some(true),
        ..mail("hello")
    });
    lab.pass(5_000);
    bob.becomes(AgentStatus::Idle);
    bob.deliver(&bob.offer());
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: next-tool-call or another way, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  waits: next-tool-call is not supported, on-idle is used instead: the session is active; it waits for on-idle
        +5.0 s  offered to session A as on-idle: next-tool-call is not supported, on-idle is used instead: the session is idle (offer 1)
        +5.0 s  delivered, by the session
        end: delivered
        "#,
    );
}

#[test]
fn no_way() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite());
    let id = lab.post(SendMessage {
        mode: Some(DeliveryMode::Immediate),
        ..mail("hello")
    });
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: immediate, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  fails: the session does not support "immediate" for delivery.modes; it supports ["on-idle"]
        end: failed; it was not seen
        "#,
    );
}

#[test]
fn called_back() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.offer();
    let body = CancelDelivery {
        reason: Some("not needed any more".to_owned()),
    };
    let (engine, alice) = (lab.engine(), lab.who("alice"));
    let cancel = lab.begin(engine.cancel_delivery(&alice, id, body));
    lab.pass(30_000);
    cancel.end().unwrap();
    lab.pass(1_000);
    bob.receipt(id, None, delivered(id)).unwrap();
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        +30.0 s  offer 1 ended: cancelled
        +30.0 s  cancelled: not needed any more
        +31.0 s  too late to count: delivered, by the session
        end: cancelled; nobody can tell whether it was seen
        "#,
    );
}

#[test]
fn too_late() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.post(SendMessage {
        deadline: Some(lab.later(3_600_000)),
        ..mail("hello")
    });
    bob.answer(&bob.offer(), deferred(lab.later(1_800_000)));
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-15T10:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        +0 ms  deferred until +30 min 0 s, by the session: busy
        +0 ms  waits until +30 min 0 s: the session put it off
        now: deferred until +30 min 0 s
        "#,
    );
    bob.becomes(AgentStatus::Active);
    lab.pass(3_600_000);
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-15T10:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        +0 ms  deferred until +30 min 0 s, by the session: busy
        +0 ms  waits until +30 min 0 s: the session put it off
        +30 min 0 s  waits again: its time has come
        +30 min 0 s  waits: the session is active; it waits for next-tool-call
        +60 min 0 s  fails: its deadline 2025-11-15T10:46:40.000Z has passed
        end: failed; it was not seen
        "#,
    );
}

#[test]
fn tried_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.answer(&bob.offer(), failed("no hands", None));
    lab.pass(10_000);
    let (engine, alice) = (lab.engine(), lab.who("alice"));
    let retry = lab.begin(engine.retry(&alice, id));
    bob.deliver(&bob.offer());
    retry.end().unwrap();
    check(
        &story(&lab, id, &[bob.id()]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  offered to session A as on-idle: the session is idle (offer 1)
        +0 ms  failed, by the session: no hands
        +10.0 s  waits again: retried, generation 2
        +10.0 s  offered to session A as on-idle: the session is idle (offer 2)
        +10.0 s  delivered, by the session
        end: delivered
        "#,
    );
}

#[test]
fn too_fast_and_read_in_the_inbox() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        sender_per_minute: Some(1),
        ..PolicyPatch::default()
    });
    lab.say("one");
    let id = lab.say("two");
    check(
        &story(&lab, id, &[]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  waits until +60.0 s: sender_rate
        now: deferred until +60.0 s
        "#,
    );
    lab.pass(61_000);
    let (engine, bob) = (lab.engine(), lab.who("bob"));
    lab.drive(engine.take_inbox(&bob, Default::default()))
        .unwrap();
    check(
        &story(&lab, id, &[]),
        r#"
        delivery D to @bob, asked for: first safe boundary, made 2025-11-15T09:46:40.000Z, deadline 2025-11-22T09:46:40.000Z
        +0 ms  waits until +60.0 s: sender_rate
        +60.0 s  waits again: its time has come
        +61.0 s  delivered, read in the inbox
        end: delivered
        "#,
    );
}
