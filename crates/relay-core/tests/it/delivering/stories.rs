//! Deliveries explained: what people read who ask what happened to a message.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::delivery_record::CancelDelivery;
use relay_protocol::ids::{DeliveryId, SessionId};
use relay_protocol::policy::{PolicyPatch, RunawayPolicy};
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, deferred, delivered, failed, mail};

/// A story with names for ids: the delivery is D, sessions are A and B, offers are counted.
fn story(lab: &Lab, id: DeliveryId, sessions: &[SessionId]) -> String {
    let delivery = lab.delivery(id);
    let mut text = delivery.story.unwrap().replace(&id.to_string(), "D");
    for (session, name) in sessions.iter().zip(["A", "B"]) {
        text = text.replace(&session.to_string(), name);
    }
    for (attempt, no) in delivery.attempts.unwrap().iter().zip(1..) {
        let epoch = format!("offer {}", attempt.epoch);
        text = text.replace(&epoch, &format!("offer {no}"));
    }
    text
}

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
    check(&story(&lab, id, &[bob.id()]), "?");
    bob.deliver(&offer);
    check(&story(&lab, id, &[bob.id()]), "?");
}

#[test]
fn a_busy_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let id = lab.say("hello");
    lab.pass(75_000);
    check(&story(&lab, id, &[bob.id()]), "?");
    bob.ran_a_tool();
    bob.deliver(&bob.offer());
    check(&story(&lab, id, &[bob.id()]), "?");
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
    check(&story(&lab, id, &[bob.id()]), "?");
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
    check(&story(&lab, id, &[bob.id(), other.id()]), "?");
    lab.pass(300_000);
    other.deliver(&other.offer());
    check(&story(&lab, id, &[bob.id(), other.id()]), "?");
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
    check(&story(&lab, id, &[bob.id()]), "?");
}

#[test]
fn no_way() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite());
    let id = lab.post(SendMessage {
        mode: Some(DeliveryMode::Immediate),
        ..mail("hello")
    });
    check(&story(&lab, id, &[bob.id()]), "?");
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
    check(&story(&lab, id, &[bob.id()]), "?");
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
    check(&story(&lab, id, &[bob.id()]), "?");
    bob.becomes(AgentStatus::Active);
    lab.pass(3_600_000);
    check(&story(&lab, id, &[bob.id()]), "?");
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
    check(&story(&lab, id, &[bob.id()]), "?");
}

#[test]
fn too_fast_and_read_in_the_inbox() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        runaway: Some(RunawayPolicy {
            per_minute: 1,
            depth: 10,
        }),
        ..PolicyPatch::default()
    });
    lab.say("one");
    let id = lab.say("two");
    check(&story(&lab, id, &[]), "?");
    lab.pass(61_000);
    let (engine, bob) = (lab.engine(), lab.who("bob"));
    lab.drive(engine.take_inbox(&bob, Default::default()))
        .unwrap();
    check(&story(&lab, id, &[]), "?");
}
