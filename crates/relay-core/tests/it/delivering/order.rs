//! What comes first, how much at once, and what a session is told about it.

use relay_protocol::api::messages::{ReplyMessage, SendMessage};
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, Priority};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, deferred, failed, mail};
use crate::support::target;

fn urgent(text: &str) -> SendMessage {
    SendMessage {
        priority: Some(Priority::Urgent),
        ..mail(text)
    }
}

#[test]
fn what_waits_comes_in_its_order() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::polite().doing(AgentStatus::Active));
    for text in ["one", "two", "three"] {
        lab.say(text);
    }
    bob.becomes(AgentStatus::Idle);
    assert_eq!(bob.texts(), ["one", "two", "three"]);
}

#[test]
fn urgent_comes_first_then_the_oldest() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    lab.say("one");
    lab.post(urgent("two"));
    lab.say("three");
    lab.post(urgent("four"));
    lab.post(SendMessage {
        mode: Some(DeliveryMode::OnIdle),
        ..mail("five")
    });
    bob.becomes(AgentStatus::Idle);
    let offers = bob.offers();
    let came: Vec<_> = offers
        .iter()
        .map(|offer| (offer.message.text.as_str(), offer.context.priority))
        .collect();
    let urgent = Some(Priority::Urgent);
    let expected = [
        ("two", urgent),
        ("four", urgent),
        ("one", None),
        ("three", None),
        ("five", None),
    ];
    assert_eq!(came, expected);
}

#[test]
fn at_most_so_many_are_out_at_once() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    lab.flood(40);
    let offers = bob.offers();
    assert_eq!(offers.len(), 32);
    bob.deliver(&offers[5]);
    assert_eq!(bob.texts(), ["33"]);
    bob.answer(&offers[6], failed("no", None));
    bob.answer(&offers[7], deferred(lab.later(1_000)));
    assert_eq!(bob.texts(), ["34", "35"]);
    // What it accepted is out no more.
    bob.accept(&offers[8]);
    assert_eq!(bob.texts(), ["36"]);
}

#[test]
fn urgent_overtakes_what_is_not_out() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        window: Some(2),
        ..PolicyPatch::default()
    });
    let bob = lab.attach("bob", &Kind::able());
    lab.flood(4);
    let offers = bob.offers();
    assert_eq!(offers.len(), 2);
    lab.post(urgent("now"));
    bob.deliver(&offers[0]);
    assert_eq!(bob.texts(), ["now"]);
}

#[test]
fn what_is_put_off_holds_back_no_other_and_says_that_it_is_late() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        window: Some(1),
        ..PolicyPatch::default()
    });
    let bob = lab.attach("bob", &Kind::able());
    lab.say("first");
    lab.say("second");
    lab.say("third");
    bob.answer(&bob.offer(), deferred(lab.later(90_000)));
    bob.answer(&bob.offer(), failed("busy", Some(true)));
    let third = bob.offer();
    assert_eq!(third.message.text, "third");
    bob.deliver(&third);
    lab.pass(1_000);
    let second = bob.offer();
    assert_eq!(
        (second.message.text.as_str(), second.context.late_ms()),
        ("second", None)
    );
    bob.deliver(&second);
    lab.pass(89_000);
    let first = bob.offer();
    assert_eq!(
        (first.message.text.as_str(), first.context.late_ms()),
        ("first", Some(90_000))
    );
}

#[test]
fn a_session_is_told_what_it_needs_to_know_of_an_offer() {
    let lab = Lab::pair();
    let ids = lab.flood(3);
    lab.pass(61_000);
    let bob = lab.attach("bob", &Kind::able());
    let offers = bob.offers();
    let waiting: Vec<_> = offers.iter().map(|offer| offer.context.waiting()).collect();
    assert_eq!(waiting, [Some(2), Some(1), None]);
    let first = &offers[0].context;
    assert_eq!((first.id, first.mode), (ids[0], DeliveryMode::OnIdle));
    assert_eq!(first.reason, DeliveryReason::Dm);
    assert_eq!(first.late_ms(), Some(61_000));
    let week = 7 * 24 * 3_600_000;
    assert_eq!(first.deadline, Some(lab.later(week - 61_000)));
    assert!(!first.is_redelivered());
    let epochs: Vec<_> = offers.iter().map(|offer| offer.context.epoch()).collect();
    assert!(epochs.is_sorted() && epochs[0].is_some() && epochs[0] != epochs[1]);
    assert_eq!(first.idempotency_key, None);

    let deadline = lab.later(5_000);
    lab.post(SendMessage {
        deadline: Some(deadline),
        ..urgent("soon")
    });
    let soon = bob.offer().context;
    assert_eq!((soon.deadline, soon.late_ms()), (Some(deadline), None));
    assert_eq!(soon.priority, Some(Priority::Urgent));
}

#[test]
fn the_reason_says_how_the_message_concerns_the_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let reason = || bob.offer().context.reason;
    let to = |place: &str, text: &str| SendMessage::text(target(place), text);
    let post = lab.send("alice", to("#general", "hello"));
    assert_eq!(reason(), DeliveryReason::Message);
    lab.post(to("#general", "@bob hello"));
    assert_eq!(reason(), DeliveryReason::Mention);
    lab.post(to("@bob", "hello"));
    assert_eq!(reason(), DeliveryReason::Dm);
    let (alice, own) = (lab.who("alice"), lab.who("bob"));
    let reply = |text: &str| ReplyMessage::text(text);
    let answer = lab.engine().reply(&own, post.message_id, reply("yes"));
    lab.drive(answer).unwrap();
    let answer = lab.engine().reply(&alice, post.message_id, reply("no"));
    lab.drive(answer).unwrap();
    assert_eq!(reason(), DeliveryReason::ThreadReply);
}

#[test]
fn sessions_do_not_wait_for_each_other() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    let bob = lab.attach("bob", &Kind::able());
    let carol = lab.attach("carol", &Kind::able());
    lab.post_all("hello");
    assert_eq!((bob.texts().len(), carol.texts().len()), (1, 1));
    // Bob stays silent.
    lab.pass(20_000);
    lab.post_all("again");
    assert_eq!(carol.texts(), ["again"]);
    let told = json!(lab.last("delivery.created")["agent"]["name"]);
    assert_eq!(told, "carol");
}
