//! What a session says about a delivery, and what follows from it.

use relay_core::{Caller, Result};
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{
    DeliveredReceipt, DeliveryState, FailedReceipt, MessageReceipt, Surfaced,
};
use relay_protocol::delivery_record::ReceiptSource;
use relay_protocol::ids::DeliveryId;
use relay_protocol::problem::ErrorCode;
use relay_protocol::socket::ReceiptFrame;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, Session, accepted, deferred, delivered, failed, mail, now, only};
use crate::support::{named, target};

/// Ten minutes: how long something accepted stays with a session whose link is gone.
const LEASE: i64 = 600_000;

/// The names of the events about a delivery after the first.
fn course_after(lab: &Lab, id: DeliveryId) -> Vec<String> {
    let mut course = lab.course(id);
    assert_eq!(course.remove(0), "created");
    course
}

#[test]
fn accepted_then_delivered() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    let held = lab.delivery(id);
    assert_eq!(held.state, DeliveryState::Accepted);
    assert_eq!(held.session_id, Some(bob.id()));
    let metadata = json!({ "door": "pty", "evidence": "echoed" });
    let receipt = MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: id,
        metadata: serde_json::from_value(metadata.clone()).unwrap(),
    });
    bob.receipt(id, None, receipt).unwrap();
    let end = lab.delivery(id);
    assert_eq!((end.state, end.attempt), (DeliveryState::Delivered, 0));
    assert_eq!(course_after(&lab, id), ["accepted", "delivered"]);
    let told = lab.last("delivery.delivered");
    assert_eq!(told["metadata"], metadata);
    assert_eq!(
        [&told["agent"]["name"], &told["terminal"]],
        [&json!("bob"), &json!(true)]
    );
    let by: Vec<_> = end.receipts.unwrap().iter().map(|one| one.by).collect();
    assert_eq!(by, [ReceiptSource::Session, ReceiptSource::Session]);
}

#[test]
fn delivered_is_not_read() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    lab.say("hello");
    bob.deliver(&bob.offer());
    assert_eq!(lab.events("message.read").len(), 0);
    let inbox = now(lab.engine().inbox(&lab.who("bob"), Default::default()));
    assert_eq!(inbox.unwrap().items.len(), 1);
}

#[test]
fn something_accepted_stays_while_the_link_is_up() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    lab.pass(24 * LEASE);
    assert_eq!(lab.state(id), DeliveryState::Accepted);
    bob.deliver_held(id);
}

#[test]
fn something_accepted_waits_again_when_the_link_is_gone_for_too_long() {
    let lab = Lab::pair();
    let kind = Kind::able().queueing();
    let bob = lab.attach("bob", &kind);
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    bob.lose_link();
    lab.pass(LEASE - 1);
    assert_eq!(lab.state(id), DeliveryState::Accepted);
    lab.pass(1);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    assert_eq!(lab.last("delivery.deferred")["reason"], "lease_expired");
    let back = lab.attach("bob", &kind.resuming(bob.token()));
    assert_eq!(back.attached.keep, []);
    let again = back.offer();
    assert_eq!(again.context.id, id);
    assert!(again.context.is_redelivered());
}

#[test]
fn the_lease_begins_anew_with_each_loss_of_the_link() {
    let lab = Lab::pair();
    let kind = Kind::able().queueing();
    let first = lab.attach("bob", &kind);
    let id = lab.say("hello");
    first.accept(&first.offer());
    first.lose_link();
    lab.pass(LEASE - 1);
    let second = lab.attach("bob", &kind.clone().resuming(first.token()));
    assert_eq!(second.attached.keep, [id]);
    assert_eq!(second.texts(), [""; 0], "it has it");
    second.lose_link();
    lab.pass(LEASE - 1);
    assert_eq!(lab.state(id), DeliveryState::Accepted);
    lab.pass(1);
    assert_eq!(lab.state(id), DeliveryState::Pending);
}

#[test]
fn what_was_not_to_be_offered_again_fails_at_the_end_of_its_lease() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept_once(&bob.offer());
    bob.lose_link();
    lab.pass(LEASE);
    let end = lab.delivery(id);
    assert_eq!(end.state, DeliveryState::Failed);
    assert_eq!(end.surfaced, Some(Surfaced::Unknown));
    let told = lab.last("delivery.failed");
    assert_eq!(told["reason"], "lease_expired");
    assert_eq!([&told["retryable"], &told["terminal"]], [false, true]);
}

#[test]
fn something_put_off_comes_at_its_time() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let at = lab.later(5_000);
    bob.answer(&bob.offer(), deferred(at));
    let waits = lab.delivery(id);
    assert_eq!(waits.state, DeliveryState::Deferred);
    assert_eq!((waits.next_attempt_at, waits.attempt), (Some(at), 0));
    let told = lab.last("delivery.deferred");
    assert_eq!(
        [&told["availableAt"], &told["reason"]],
        [&json!(at), &json!("busy")]
    );
    lab.pass(4_999);
    assert_eq!(bob.texts(), [""; 0]);
    lab.pass(1);
    assert_eq!(bob.texts(), ["hello"]);
}

#[test]
fn something_put_off_into_the_past_comes_after_the_shortest_wait() {
    for ago in [0, 1, 3_600_000] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let id = lab.say("hello");
        bob.answer(&bob.offer(), deferred(lab.later(-ago)));
        assert_eq!(lab.delivery(id).next_attempt_at, Some(lab.later(1_000)));
        lab.pass(999);
        assert_eq!(bob.texts(), [""; 0]);
        lab.pass(1);
        assert_eq!(bob.texts(), ["hello"]);
    }
}

#[test]
fn something_put_off_beyond_its_deadline_fails_at_once() {
    for (beyond, ends) in [(-1, false), (0, true), (1, true)] {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let deadline = lab.later(60_000);
        let id = lab.post(SendMessage {
            deadline: Some(deadline),
            ..mail("hello")
        });
        bob.answer(&bob.offer(), deferred(deadline.plus_millis(beyond)));
        let state = lab.state(id);
        assert_eq!(state == DeliveryState::Failed, ends, "{beyond}: {state}");
        if ends {
            let told = lab.last("delivery.failed");
            assert_eq!(told["reason"], "deferred_past_deadline");
            assert_eq!([&told["retryable"], &told["terminal"]], [false, true]);
            assert_eq!(told["surfaced"], "no");
        }
    }
}

#[test]
fn something_accepted_can_be_put_off_or_fail() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let [later, never] = ["later", "never"].map(|text| lab.say(text));
    for offer in bob.offers() {
        bob.accept(&offer);
    }
    bob.receipt(later, None, deferred(lab.later(5_000)))
        .unwrap();
    bob.receipt(never, None, failed("no", None)).unwrap();
    assert_eq!(lab.state(later), DeliveryState::Deferred);
    assert_eq!(lab.state(never), DeliveryState::Failed);
    lab.pass(5_000);
    assert_eq!(bob.texts(), ["later"]);
}

#[test]
fn a_receipt_of_an_older_offer_changes_nothing() {
    let lab = Lab::pair();
    let kind = Kind::able();
    let bob = lab.attach("bob", &kind);
    let id = lab.say("hello");
    let first = bob.offer();
    let bob = lab.attach("bob", &kind.resuming(bob.token()));
    let second = bob.offer();
    assert!(second.context.epoch() > first.context.epoch());
    let stored = bob.receipt(id, first.context.epoch(), failed("no", None));
    let stored = stored.unwrap();
    assert!(stored.late);
    assert_eq!(lab.state(id), DeliveryState::Offered);
    let course = course_after(&lab, id);
    bob.deliver(&second);
    assert_eq!(lab.state(id), DeliveryState::Delivered);
    assert_eq!(course, ["deferred"], "nothing was told");
    let receipts = lab.delivery(id).receipts.unwrap();
    let late: Vec<_> = receipts.iter().map(|stored| stored.late).collect();
    assert_eq!(late, [false, true, false], "but it is kept");
}

#[test]
fn a_receipt_without_an_epoch_is_for_the_last_offer() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.offer();
    let stored = bob.receipt(id, None, delivered(id)).unwrap();
    assert_eq!(
        (stored.state, stored.late),
        (DeliveryState::Delivered, false)
    );
}

#[test]
fn a_receipt_of_a_session_that_was_not_asked_changes_nothing() {
    let lab = Lab::pair();
    let other = lab.attach("bob", &Kind::able());
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    let offer = bob.offer();
    let epoch = offer.context.epoch();
    assert!(other.receipt(id, epoch, delivered(id)).unwrap().late);
    bob.accept(&offer);
    assert!(other.receipt(id, epoch, delivered(id)).unwrap().late);
    assert_eq!(lab.state(id), DeliveryState::Accepted);
    bob.deliver_held(id);
}

#[test]
fn accepted_once_more_changes_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    assert!(bob.receipt(id, None, accepted(id)).unwrap().late);
    assert_eq!(course_after(&lab, id), ["accepted"]);
}

/// Sends a receipt as somebody, through no session.
fn post(lab: &Lab, who: &Caller, id: DeliveryId, receipt: MessageReceipt) -> Result<bool> {
    let frame = ReceiptFrame {
        delivery_id: id,
        epoch: None,
        receipt,
    };
    let stored = lab.drive(lab.engine().receipt(who, None, frame));
    stored.map(|stored| !stored.late)
}

#[test]
fn the_recipient_and_the_workspace_answer_for_a_delivery_and_nobody_else() {
    for (who, code) in [
        ("bob", None),
        ("key", None),
        ("alice", Some(ErrorCode::UnknownDelivery)),
        ("carol", Some(ErrorCode::UnknownDelivery)),
    ] {
        let lab = Lab::new(["alice", "bob", "carol"]);
        let bob = lab.attach("bob", &Kind::able());
        let id = lab.say("hello");
        bob.offer();
        let result = post(&lab, &lab.who(who), id, delivered(id));
        assert_eq!(
            result.as_ref().ok(),
            code.is_none().then_some(&true),
            "{who}"
        );
        assert_eq!(result.err().map(|error| error.code()), code, "{who}");
    }
}

#[test]
fn deliveries_that_do_not_exist_for_somebody_are_unknown() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    let bob = lab.attach("bob", &Kind::able());
    let engine = lab.engine();
    let to_carol = lab.say_to("@carol", "hello");
    let nothing = DeliveryId::new(lab.now(), 7);
    let owner = Caller::process_owner();
    let other = now(engine.create_workspace(&owner, "other")).unwrap();
    let key = now(engine.authenticate(&other.workspace_key)).unwrap();
    now(engine.register_agent(&key, named("bob"))).unwrap();
    let body = SendMessage::text(target("@bob"), "elsewhere");
    let sent = now(engine.send(&key, body)).unwrap();
    let elsewhere = only(&sent.deliveries).delivery_id;
    for (what, id) in [
        ("carol's", to_carol),
        ("nobody's", nothing),
        ("another bob's", elsewhere),
    ] {
        for result in [
            bob.receipt(id, None, delivered(id))
                .map(|stored| stored.late),
            post(&lab, &lab.who("bob"), id, delivered(id)),
        ] {
            assert_eq!(
                result.unwrap_err().code(),
                ErrorCode::UnknownDelivery,
                "{what}"
            );
        }
    }
    let by_key = lab.attach_as("key", "bob", &Kind::able()).unwrap();
    let result = by_key.receipt(to_carol, None, delivered(to_carol));
    assert_eq!(result.unwrap_err().code(), ErrorCode::UnknownDelivery);
    assert_eq!(lab.state(to_carol), DeliveryState::Pending);
}

#[test]
fn ids_that_disagree_are_refused() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let [one, two] = ["one", "two"].map(|text| lab.say(text));
    bob.offers();
    let of_two = MessageReceipt::Failed(FailedReceipt {
        delivery_id: Some(two),
        reason: "no".to_owned(),
        retryable: None,
        metadata: None,
    });
    for receipt in [delivered(two), accepted(two), of_two] {
        let problem = bob.receipt(one, None, receipt).unwrap_err().problem();
        assert_eq!(problem.path.as_deref(), Some("receipt.deliveryId"));
        assert_eq!(problem.expected, Some(one.to_string()));
        assert_eq!(problem.found, Some(two.to_string()));
    }
    assert_eq!(lab.state(one), DeliveryState::Offered);
}

#[test]
fn what_comes_after_the_end_is_kept_and_told_and_changes_nothing() {
    type End = fn(&Session<'_>, DeliveryId);
    let ends: [(End, DeliveryState); 2] = [
        (|bob, _| bob.deliver(&bob.offer()), DeliveryState::Delivered),
        (
            |bob, _| bob.answer(&bob.offer(), failed("no", None)),
            DeliveryState::Failed,
        ),
    ];
    for (end, state) in ends {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able());
        let id = lab.say("hello");
        end(&bob, id);
        let before = lab.delivery(id);
        assert_eq!(before.state, state);
        for receipt in [
            delivered(id),
            failed("so", Some(true)),
            deferred(lab.later(1)),
        ] {
            let told = lab.events("delivery.late_receipt").len();
            let stored = bob.receipt(id, None, receipt.clone()).unwrap();
            assert_eq!((stored.state, stored.late), (state, true));
            let events = lab.events("delivery.late_receipt");
            assert_eq!(events.len(), told + 1);
            assert_eq!(events[told]["receipt"]["status"], receipt.tag());
        }
        let after = lab.delivery(id);
        assert_eq!(after.state, state);
        assert_eq!(after.surfaced, before.surfaced);
        let late = after.receipts.unwrap();
        assert_eq!(late.iter().filter(|stored| stored.late).count(), 3);
        let story = after.story.unwrap();
        assert!(story.contains("too late to count"), "{story}");
        lab.pass(600_000);
        assert_eq!(bob.texts(), [""; 0]);
    }
}

/// Regression: the message was shown once more.
#[test]
fn what_was_shown_before_the_link_broke_counts_and_is_not_shown_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    bob.lose_link();
    lab.step();
    assert_eq!(lab.state(id), DeliveryState::Pending);
    let stored = bob
        .receipt(id, offer.context.epoch(), delivered(id))
        .unwrap();
    assert_eq!(
        (stored.state, stored.late),
        (DeliveryState::Delivered, false)
    );
    assert_eq!(lab.last("delivery.delivered")["sessionId"], json!(bob.id()));
    assert_eq!(lab.events("delivery.late_receipt").len(), 0);
    let end = lab.delivery(id);
    assert_eq!(end.mode, Some(offer.context.mode));
    assert_eq!(end.attempts.unwrap().len(), 1);
    let back = lab.attach("bob", &Kind::able().resuming(bob.token()));
    assert_eq!(back.texts(), [""; 0]);
}

#[test]
fn what_was_shown_counts_also_when_it_is_said_too_late() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    lab.pass(30_000);
    assert_eq!(lab.state(id), DeliveryState::Pending, "no receipt in time");
    let stored = bob
        .receipt(id, offer.context.epoch(), delivered(id))
        .unwrap();
    assert_eq!(
        (stored.state, stored.late),
        (DeliveryState::Delivered, false)
    );
    lab.pass(600_000);
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn what_was_shown_and_is_offered_anew_is_told_and_changes_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let first = bob.offer();
    bob.lose_link();
    let back = lab.attach("bob", &Kind::able().resuming(bob.token()));
    let second = back.offer();
    let stored = back
        .receipt(id, first.context.epoch(), delivered(id))
        .unwrap();
    assert!(stored.late);
    assert_eq!(lab.state(id), DeliveryState::Offered);
    let told = lab.last("delivery.late_receipt");
    assert_eq!(told["receipt"]["status"], "delivered");
    // What does not say that it was shown is not told.
    let stored = back.receipt(id, first.context.epoch(), failed("no", Some(true)));
    assert!(stored.unwrap().late);
    assert_eq!(lab.events("delivery.late_receipt").len(), 1);
    back.deliver(&second);
    assert_eq!(lab.state(id), DeliveryState::Delivered);
}

/// A receipt for an offer of before a retry says nothing about what comes after it.
#[test]
fn what_was_shown_before_a_retry_does_not_count_after_it() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    bob.answer(&offer, failed("no", None));
    bob.becomes(AgentStatus::Active);
    let who = lab.who("alice");
    let retrying = lab.begin(lab.engine().retry(&who, id));
    let stored = bob
        .receipt(id, offer.context.epoch(), delivered(id))
        .unwrap();
    assert_eq!((stored.state, stored.late), (DeliveryState::Pending, true));
    assert_eq!(lab.events("delivery.late_receipt").len(), 1);
    bob.becomes(AgentStatus::Idle);
    bob.deliver(&bob.offer());
    drop(retrying);
}

#[test]
fn what_a_receipt_may_hold_is_bounded() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let offer = bob.offer();
    let long = "x".repeat(1_025);
    let problem = bob.receipt(id, None, failed(&long, None));
    assert_eq!(problem.unwrap_err().code(), ErrorCode::LimitExceeded);
    let big = json!({ "evidence": "x".repeat(20_000) });
    let receipt = MessageReceipt::Delivered(DeliveredReceipt {
        delivery_id: id,
        metadata: serde_json::from_value(big).unwrap(),
    });
    let problem = bob.receipt(id, None, receipt);
    assert_eq!(problem.unwrap_err().code(), ErrorCode::LimitExceeded);
    bob.deliver(&offer);
    assert_eq!(bob.summary().status, AgentStatus::Idle);
}
