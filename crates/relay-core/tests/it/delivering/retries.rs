//! Attempts: what uses one up, how long the next one waits, and the end of it.

use relay_protocol::delivery::{DeliveryState, Surfaced};
use relay_protocol::delivery_record::Delivery;
use relay_protocol::ids::DeliveryId;
use relay_protocol::policy::{PolicyPatch, RetryPolicy};
use serde_json::json;

use super::kit::{Kind, Lab, deferred, failed};

/// Which offers of a delivery used up an attempt.
fn counted(delivery: &Delivery) -> Vec<bool> {
    let attempts = delivery.attempts.iter().flatten();
    attempts.map(|attempt| attempt.counted).collect()
}

/// How long it is until a delivery is tried again.
fn wait(lab: &Lab, id: DeliveryId) -> i64 {
    let next = lab.delivery(id).next_attempt_at.unwrap();
    next.as_millis() - lab.now().as_millis()
}

#[test]
fn what_failed_for_good_is_not_tried_again() {
    for retryable in [None, Some(false)] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let id = lab.say("hello");
        bob.answer(&bob.offer(), failed("no hands", retryable));
        let end = lab.delivery(id);
        assert_eq!(end.state, DeliveryState::Failed);
        assert_eq!((end.attempt, end.surfaced), (1, Some(Surfaced::No)));
        let told = lab.last("delivery.failed");
        assert_eq!([&told["reason"], &told["surfaced"]], ["no hands", "no"]);
        assert_eq!([&told["retryable"], &told["terminal"]], [false, true]);
        assert_eq!(told["attempt"], 1);
        assert_eq!(told.get("nextAttemptAt"), None);
        lab.pass(3_600_000);
        assert_eq!(bob.texts(), [""; 0]);
    }
}

#[test]
fn what_may_succeed_later_is_tried_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.answer(&bob.offer(), failed("busy", Some(true)));
    let told = lab.last("delivery.failed");
    assert_eq!(
        [&told["reason"], &told["retryable"]],
        [&json!("busy"), &json!(true)]
    );
    assert_eq!(told["attempt"], 1);
    assert_eq!(told["nextAttemptAt"], json!(lab.later(1_000)));
    assert_eq!(told.get("terminal"), None);
    let waits = lab.delivery(id);
    assert_eq!((waits.state, waits.attempt), (DeliveryState::Pending, 1));
    lab.pass(999);
    assert_eq!(bob.texts(), [""; 0]);
    lab.pass(1);
    bob.deliver(&bob.offer());
    assert_eq!(counted(&lab.delivery(id)), [true, false]);
}

#[test]
fn waits_grow_within_bounds_and_after_eight_attempts_it_is_over() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let mut most = 1_000;
    for attempt in 1..=7 {
        bob.answer(&bob.offer(), failed("busy", Some(true)));
        let wait = wait(&lab, id);
        assert!((most / 2..=most).contains(&wait), "{attempt}: {wait}");
        assert!(wait >= 1_000);
        assert_eq!(lab.delivery(id).attempt, attempt);
        lab.pass(wait - 1);
        assert_eq!(bob.texts(), [""; 0]);
        lab.pass(1);
        most *= 2;
    }
    bob.answer(&bob.offer(), failed("busy", Some(true)));
    let end = lab.delivery(id);
    assert_eq!((end.state, end.attempt), (DeliveryState::Failed, 8));
    assert_eq!(counted(&end), [true; 8]);
    let told = lab.last("delivery.failed");
    assert_eq!(told["reason"], "attempts_exhausted: busy");
    assert_eq!([&told["retryable"], &told["terminal"]], [false, true]);
    assert_eq!(
        [&told["attempt"], &told["surfaced"]],
        [&json!(8), &json!("no")]
    );
    lab.pass(3_600_000);
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn no_wait_is_longer_than_the_policy_says() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        retry: Some(RetryPolicy {
            attempts: 100,
            min_ms: 1_000,
            max_ms: 5_000,
        }),
        ..PolicyPatch::default()
    });
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    for _ in 0..20 {
        bob.answer(&bob.offer(), failed("busy", Some(true)));
        let wait = wait(&lab, id);
        assert!((1_000..=5_000).contains(&wait), "{wait}");
        lab.pass(wait);
    }
    bob.deliver(&bob.offer());
}

#[test]
fn silence_is_a_failed_attempt() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let first = bob.offer();
    assert!(!first.context.is_redelivered());
    lab.pass(29_999);
    assert_eq!(lab.state(id), DeliveryState::Offered);
    lab.pass(1);
    let told = lab.last("delivery.failed");
    assert_eq!(
        [&told["reason"], &told["retryable"]],
        [&json!("no_receipt"), &json!(true)]
    );
    assert_eq!(told["attempt"], 1);
    let wait = wait(&lab, id);
    lab.pass(wait);
    let second = bob.offer();
    assert!(second.context.is_redelivered(), "it may have seen it");
    // What it says to the first offer comes too late.
    let late = bob.receipt(id, first.context.epoch(), failed("no", None));
    assert!(late.unwrap().late);
    bob.deliver(&second);
    assert_eq!(counted(&lab.delivery(id)), [true, false]);
}

#[test]
fn one_that_never_answers_uses_up_all_attempts() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    lab.pass(3_600_000);
    assert_eq!(bob.offers().len(), 8);
    let end = lab.delivery(id);
    assert_eq!((end.state, end.attempt), (DeliveryState::Failed, 8));
    assert_eq!(end.surfaced, Some(Surfaced::Unknown));
    let told = lab.last("delivery.failed");
    assert_eq!(told["reason"], "attempts_exhausted: no_receipt");
    assert_eq!(told["surfaced"], "unknown");
}

#[test]
fn a_lost_link_uses_up_nothing() {
    let lab = Lab::pair();
    let mut bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    for _ in 0..20 {
        assert_eq!(bob.texts(), ["hello"]);
        bob.lose_link();
        lab.pass(60_000);
        bob = lab.attach("bob", &Kind::able().resuming(bob.token()));
    }
    let waits = lab.delivery(id);
    assert_eq!((waits.state, waits.attempt), (DeliveryState::Offered, 0));
    assert_eq!(counted(&waits), [false; 21]);
    assert!(bob.offer().context.is_redelivered());
}

#[test]
fn being_put_off_uses_up_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    for _ in 0..20 {
        bob.answer(&bob.offer(), deferred(lab.later(2_000)));
        lab.pass(2_000);
    }
    bob.deliver(&bob.offer());
    let end = lab.delivery(id);
    assert_eq!(end.attempt, 0);
    assert_eq!(counted(&end), [false; 21]);
}

#[test]
fn being_offered_again_after_it_was_accepted_uses_up_nothing() {
    let lab = Lab::pair();
    let kind = Kind::able().queueing();
    let bob = lab.attach("bob", &kind);
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    bob.lose_link();
    lab.pass(600_000);
    let back = lab.attach("bob", &kind.resuming(bob.token()));
    back.answer(&back.offer(), failed("busy", Some(true)));
    let waits = lab.delivery(id);
    assert_eq!((waits.state, waits.attempt), (DeliveryState::Pending, 0));
    // The next one is an attempt like any other.
    lab.pass(wait(&lab, id));
    back.answer(&back.offer(), failed("busy", Some(true)));
    assert_eq!(lab.delivery(id).attempt, 1);
    assert_eq!(counted(&lab.delivery(id)), [false, false, true]);
}

#[test]
fn what_a_session_accepted_and_then_could_not_do_is_an_attempt() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    bob.receipt(id, None, failed("busy", Some(true))).unwrap();
    let waits = lab.delivery(id);
    assert_eq!((waits.state, waits.attempt), (DeliveryState::Pending, 1));
}
