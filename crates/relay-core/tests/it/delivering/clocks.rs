//! Two clocks: leases and timeouts go by the one that only goes forward, deadlines and times that were
//! told by the one on the wall, which may be set.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::DeliveryState;
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, deferred, mail};

const HOUR: i64 = 3_600_000;

/// Sets the clock on the wall. No time passes.
fn set(lab: &Lab, by: i64) {
    lab.clock().set(lab.later(by));
    lab.step();
}

#[test]
fn silence_is_measured_by_time_that_passes() {
    for by in [-HOUR, HOUR] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let id = lab.say("hello");
        bob.offer();
        lab.pass(10_000);
        set(&lab, by);
        assert_eq!(lab.state(id), DeliveryState::Offered, "{by}");
        lab.pass(19_999);
        assert_eq!(lab.state(id), DeliveryState::Offered, "{by}");
        lab.pass(1);
        assert_eq!(lab.last("delivery.failed")["reason"], "no_receipt", "{by}");
    }
}

#[test]
fn grace_and_lease_are_measured_by_time_that_passes() {
    for by in [-HOUR, HOUR] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able().queueing());
        let id = lab.say("hello");
        bob.accept(&bob.offer());
        bob.lose_link();
        set(&lab, by);
        lab.pass(9_999);
        assert_eq!(bob.summary().status, AgentStatus::Idle, "{by}");
        lab.pass(1);
        assert_eq!(bob.summary().status, AgentStatus::Offline, "{by}");
        set(&lab, by);
        lab.pass(600_000 - 10_001);
        assert_eq!(lab.state(id), DeliveryState::Accepted, "{by}");
        lab.pass(1);
        assert_eq!(lab.state(id), DeliveryState::Pending, "{by}");
    }
}

#[test]
fn questions_are_measured_by_time_that_passes() {
    for by in [-HOUR, HOUR] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let mut release = bob.begin_release();
        set(&lab, by);
        lab.pass(29_999);
        assert!(release.waits(), "{by}");
        lab.pass(1);
        assert_eq!(release.end().unwrap().status, AgentStatus::Released);
    }
}

#[test]
fn deadlines_go_by_the_wall() {
    let lab = Lab::pair();
    let deadline = Some(lab.later(2 * HOUR));
    let id = lab.post(SendMessage {
        deadline,
        ..mail("hello")
    });
    set(&lab, -HOUR);
    lab.pass(2 * HOUR);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    set(&lab, HOUR);
    assert_eq!(lab.state(id), DeliveryState::Failed);
    assert_eq!(lab.last("delivery.failed")["reason"], "deadline_exceeded");
}

#[test]
fn times_that_a_session_told_go_by_the_wall() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    lab.say("hello");
    bob.answer(&bob.offer(), deferred(lab.later(2 * HOUR)));
    set(&lab, -HOUR);
    lab.pass(2 * HOUR);
    assert_eq!(bob.texts(), [""; 0]);
    set(&lab, HOUR);
    assert_eq!(bob.texts(), ["hello"]);
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    lab.say("before");
    set(&lab, -24 * HOUR);
    lab.say("after");
    assert_eq!(bob.take_all(), ["before", "after"]);
    let back = lab.attach("bob", &Kind::able().resuming(bob.token()));
    lab.say("again");
    assert_eq!(back.take_all(), ["again"]);
    assert_eq!(lab.events("delivery.delivered").len(), 3);
}
