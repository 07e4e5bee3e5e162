//! Deadlines: what nobody has fails at once; what a session has is asked for first.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, Surfaced};
use relay_protocol::delivery_record::CancelDelivery;
use relay_protocol::ids::DeliveryId;
use relay_protocol::policy::PolicyPatch;
use relay_protocol::socket::{ControlFrame, ControlOp};
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, Session, deferred, failed, mail};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// Something that is of no use after a minute.
fn soon(lab: &Lab, text: &str) -> DeliveryId {
    lab.post(SendMessage {
        deadline: Some(lab.later(MINUTE)),
        ..mail(text)
    })
}

fn check_expired(lab: &Lab, id: DeliveryId, surfaced: Surfaced) {
    let end = lab.delivery(id);
    assert_eq!(end.state, DeliveryState::Failed);
    assert_eq!(end.surfaced, Some(surfaced));
    let told = lab.last("delivery.failed");
    assert_eq!(told["deliveryId"], json!(id));
    assert_eq!(told["reason"], "deadline_exceeded");
    assert_eq!(told["surfaced"], json!(surfaced));
    assert_eq!([&told["terminal"], &told["retryable"]], [true, false]);
}

#[test]
fn what_waits_for_nobody_fails_at_its_deadline() {
    let lab = Lab::pair();
    let id = soon(&lab, "hello");
    lab.pass(MINUTE - 1);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    lab.pass(1);
    check_expired(&lab, id, Surfaced::No);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn what_waits_for_a_boundary_fails_at_its_deadline() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let id = soon(&lab, "hello");
    lab.pass(MINUTE);
    check_expired(&lab, id, Surfaced::No);
    bob.becomes(AgentStatus::Idle);
    assert_eq!((bob.texts().len(), bob.controls().len()), (0, 0));
}

#[test]
fn what_was_put_off_fails_at_its_deadline() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = soon(&lab, "hello");
    bob.answer(&bob.offer(), deferred(lab.later(MINUTE - 1)));
    bob.becomes(AgentStatus::Active);
    lab.pass(MINUTE - 1);
    assert_eq!(lab.state(id), DeliveryState::Pending, "its time has come");
    lab.pass(1);
    check_expired(&lab, id, Surfaced::No);
}

#[test]
fn what_rests_between_attempts_fails_at_its_deadline() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = soon(&lab, "hello");
    lab.pass(MINUTE - 500);
    bob.offers();
    bob.receipt(id, None, failed("busy", Some(true))).unwrap();
    let waits = lab.delivery(id).next_attempt_at.unwrap();
    assert!(waits > lab.later(500));
    lab.pass(500);
    check_expired(&lab, id, Surfaced::Unknown);
}

#[test]
fn without_a_deadline_it_is_a_week_or_what_the_policy_says() {
    let lab = Lab::pair();
    let first = lab.say("hello");
    assert_eq!(lab.delivery(first).deadline, lab.later(7 * DAY));
    lab.policy(PolicyPatch {
        default_deadline_ms: Some(5_000),
        ..PolicyPatch::default()
    });
    let second = lab.say("hello");
    assert_eq!(lab.delivery(second).deadline, lab.later(5_000));
    lab.pass(5_000);
    check_expired(&lab, second, Surfaced::No);
    lab.pass(7 * DAY - 5_001);
    assert_eq!(lab.state(first), DeliveryState::Pending);
    lab.pass(1);
    check_expired(&lab, first, Surfaced::No);
}

/// How far a session has got with a delivery whose deadline passes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Has {
    Offer,
    Accepted,
}

/// A session that has a delivery, and what it is asked at the deadline.
fn asked(lab: &Lab, has: Has) -> (Session<'_>, DeliveryId, ControlFrame) {
    let bob = lab.attach("bob", &Kind::able().queueing().doing(AgentStatus::Starting));
    let id = soon(lab, "hello");
    lab.pass(MINUTE - 1_000);
    bob.becomes(AgentStatus::Idle);
    let offer = bob.offer();
    if has == Has::Accepted {
        bob.accept(&offer);
    }
    lab.pass(999);
    assert_eq!(bob.controls(), []);
    lab.pass(1);
    let frame = bob.control();
    assert_eq!((frame.op, frame.delivery_id), (ControlOp::Cancel, Some(id)));
    assert_eq!(frame.reason.as_deref(), Some("its deadline has passed"));
    assert!(!lab.state(id).is_terminal(), "it may have been seen");
    (bob, id, frame)
}

#[test]
fn a_session_gives_back_what_is_of_no_use_any_more() {
    for has in [Has::Offer, Has::Accepted] {
        let lab = Lab::pair();
        let (bob, id, frame) = asked(&lab, has);
        bob.confirm(&frame);
        check_expired(&lab, id, Surfaced::No);
    }
}

#[test]
fn what_was_shown_in_time_or_just_after_is_delivered() {
    for has in [Has::Offer, Has::Accepted] {
        let lab = Lab::pair();
        let (bob, id, frame) = asked(&lab, has);
        bob.deliver_held(id);
        bob.confirm(&frame);
        assert_eq!(lab.state(id), DeliveryState::Delivered, "{has:?}");
    }
}

#[test]
fn a_session_that_cannot_give_it_back_may_have_shown_it() {
    for has in [Has::Offer, Has::Accepted] {
        let lab = Lab::pair();
        let (bob, id, frame) = asked(&lab, has);
        bob.refuse(&frame, "no");
        check_expired(&lab, id, Surfaced::Unknown);
    }
}

#[test]
fn a_session_that_says_nothing_may_have_shown_it() {
    for has in [Has::Offer, Has::Accepted] {
        let lab = Lab::pair();
        let (bob, id, _) = asked(&lab, has);
        lab.pass(29_999);
        assert!(!lab.state(id).is_terminal(), "{has:?}");
        lab.pass(1);
        check_expired(&lab, id, Surfaced::Unknown);
        assert_eq!(bob.controls(), [], "it is asked once");
        let late = bob.receipt(id, None, super::kit::delivered(id)).unwrap();
        assert!(late.late);
    }
}

#[test]
fn a_session_that_is_away_cannot_be_asked() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = soon(&lab, "hello");
    bob.accept(&bob.offer());
    bob.lose_link();
    lab.pass(MINUTE);
    check_expired(&lab, id, Surfaced::Unknown);
}

#[test]
fn whoever_calls_it_back_meanwhile_is_answered() {
    let lab = Lab::pair();
    let (bob, id, frame) = asked(&lab, Has::Offer);
    let (engine, alice) = (lab.engine(), lab.who("alice"));
    let mut cancel = lab.begin(engine.cancel_delivery(&alice, id, CancelDelivery::default()));
    assert!(cancel.waits());
    assert_eq!(bob.controls(), [], "it was asked already");
    bob.confirm(&frame);
    assert_eq!(cancel.end().unwrap().state, DeliveryState::Failed);
}

#[test]
fn many_deadlines_at_once_are_all_kept() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::of(&[DeliveryMode::Manual]));
    let deadline = lab.later(MINUTE);
    for no in 0..600 {
        lab.send(
            "key",
            SendMessage {
                deadline: Some(deadline.plus_millis(no % 3)),
                ..mail("hello")
            },
        );
    }
    lab.pass(MINUTE - 1);
    assert_eq!(lab.events("delivery.failed").len(), 0);
    lab.pass(3);
    assert_eq!(lab.events("delivery.failed").len(), 600);
    assert_eq!(bob.texts(), [""; 0]);
}
