//! The process ends and another one begins: nothing that was acknowledged is lost, and what waits is not
//! loaded.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, deferred, failed, mail};
use crate::support::target;

#[test]
fn what_waited_goes_to_the_session_that_comes_back() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    bob.ran_a_tool();
    let id = lab.say("hello");
    let (session, token) = (bob.id(), bob.token().to_owned());
    drop(bob);
    let lab = lab.restarted();
    let back = lab.attach("bob", &Kind::able().resuming(&token));
    assert_eq!(back.id(), session);
    assert_eq!((back.attached.keep.len(), back.attached.acked), (0, 1));
    assert_eq!(back.summary().status, AgentStatus::Active);
    assert_eq!(back.texts(), [""; 0]);
    back.becomes(AgentStatus::Idle);
    let offer = back.offer();
    assert_eq!(offer.context.id, id);
    back.deliver(&offer);
}

#[test]
fn what_was_out_is_offered_again_under_a_greater_epoch() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    let before = bob.offer().context.epoch();
    let token = bob.token().to_owned();
    drop(bob);
    let lab = lab.restarted();
    let back = lab.attach("bob", &Kind::able().resuming(&token));
    let again = back.offer();
    assert!(again.context.epoch() > before);
    // What is said to the offer of before comes too late.
    assert!(back.receipt(id, before, failed("no", None)).unwrap().late);
    back.deliver(&again);
    assert_eq!(lab.state(id), DeliveryState::Delivered);
}

#[test]
fn what_was_accepted_stays_with_the_session_that_comes_back() {
    let lab = Lab::pair();
    let kind = Kind::able().queueing();
    let bob = lab.attach("bob", &kind);
    let ids = ["one", "two"].map(|text| lab.say(text));
    for offer in bob.offers() {
        bob.accept(&offer);
    }
    let token = bob.token().to_owned();
    drop(bob);
    let lab = lab.restarted();
    lab.pass(599_999);
    let back = lab.attach("bob", &kind.resuming(&token));
    assert_eq!(back.attached.keep, ids);
    assert_eq!(back.texts(), [""; 0]);
    lab.pass(3_600_000);
    for id in ids {
        back.deliver_held(id);
        assert_eq!(lab.state(id), DeliveryState::Delivered);
    }
}

#[test]
fn what_was_accepted_waits_again_when_its_session_does_not_come_back() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    bob.accept(&bob.offer());
    drop(bob);
    let lab = lab.restarted();
    let other = lab.attach("bob", &Kind::able());
    lab.pass(599_999);
    assert_eq!(lab.state(id), DeliveryState::Accepted);
    lab.pass(1);
    let offer = other.offer();
    assert_eq!(offer.context.id, id);
    assert!(offer.context.is_redelivered());
}

#[test]
fn a_session_that_does_not_come_back_is_offline() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = bob.id();
    drop(bob);
    let lab = lab.restarted();
    let status = || lab.session(id).status;
    lab.pass(9_999);
    assert_eq!(status(), AgentStatus::Idle);
    lab.pass(1);
    assert_eq!(status(), AgentStatus::Offline);
}

#[test]
fn times_that_have_come_meanwhile_have_come() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let [put_off, resting] = ["put off", "resting"].map(|text| lab.say(text));
    let offers = bob.offers();
    bob.answer(&offers[0], deferred(lab.later(30_000)));
    bob.answer(&offers[1], failed("busy", Some(true)));
    let over = lab.post(SendMessage {
        deadline: Some(lab.later(60_000)),
        mode: Some(DeliveryMode::Manual),
        ..mail("over")
    });
    let token = bob.token().to_owned();
    drop(bob);
    let lab = lab.restarted_after(60_000);
    assert_eq!(lab.state(over), DeliveryState::Failed);
    assert_eq!(lab.last("delivery.failed")["reason"], "deadline_exceeded");
    let back = lab.attach("bob", &Kind::able().resuming(&token));
    let ids: Vec<_> = back.offers().iter().map(|offer| offer.context.id).collect();
    assert_eq!(ids, [put_off, resting]);
    assert_eq!(lab.delivery(resting).attempt, 1);
}

#[test]
fn what_was_flushed_or_addressed_still_is() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let flushed = lab.post(SendMessage {
        mode: Some(DeliveryMode::Manual),
        ..mail("flushed")
    });
    bob.becomes(AgentStatus::Active);
    let sent = lab.post_all("addressed");
    bob.lose_link();
    let (engine, key) = (lab.engine(), lab.who("key"));
    lab.drive(engine.flush(&key, "bob", Default::default()))
        .unwrap();
    let other = lab.attach("bob", &Kind::able().doing(AgentStatus::Starting));
    let addressed = lab.deliver_to(sent.message_id, other.id());
    let (token, token_of_other) = (bob.token().to_owned(), other.token().to_owned());
    drop((bob, other));
    let lab = lab.restarted();
    let other = lab.attach("bob", &Kind::able().resuming(&token_of_other));
    let bob = lab.attach("bob", &Kind::able().resuming(&token));
    assert_eq!(bob.texts(), [""; 0]);
    other.becomes(AgentStatus::Active);
    let ids: Vec<_> = other
        .offers()
        .iter()
        .map(|offer| offer.context.id)
        .collect();
    assert!(ids.contains(&flushed), "{ids:?}");
    other.becomes(AgentStatus::Idle);
    let later: Vec<_> = other
        .offers()
        .iter()
        .map(|offer| offer.context.id)
        .collect();
    assert!(later.contains(&addressed) || ids.contains(&addressed));
}

#[test]
fn a_release_that_was_under_way_can_be_asked_for_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let mut release = bob.begin_release();
    assert!(release.waits());
    let token = bob.token().to_owned();
    drop((release, bob));
    let lab = lab.restarted();
    let back = lab.attach("bob", &Kind::able().resuming(&token));
    assert_eq!(back.summary().status, AgentStatus::Releasing);
    let release = back.begin_release();
    back.confirm(&back.control());
    assert_eq!(release.end().unwrap().status, AgentStatus::Released);
}

#[test]
fn runs_follow_each_other() {
    let mut lab = Lab::pair();
    let id = lab.say("hello");
    let mut epochs = Vec::new();
    let mut kind = Kind::able();
    for _ in 0..4 {
        let bob = lab.attach("bob", &kind);
        epochs.push(bob.offer().context.epoch());
        kind = kind.resuming(bob.token());
        drop(bob);
        lab = lab.restarted();
    }
    assert!(epochs.is_sorted_by(|one, two| one < two), "{epochs:?}");
    let bob = lab.attach("bob", &kind);
    bob.deliver(&bob.offer());
    assert_eq!(lab.course(id), ["created", "delivered"]);
}

/// A long queue of each of many agents is not what starting costs.
#[test]
fn what_waits_is_read_in_pages() {
    const AGENTS: usize = 100;
    const POSTS: u64 = 1_000;
    let lab = Lab::new(["bob"]);
    for no in 1..AGENTS {
        lab.register(&format!("agent-{no}"));
    }
    for no in 1..=POSTS {
        let post = SendMessage::text(target("#general"), no.to_string());
        assert_eq!(lab.send("key", post).deliveries.len(), AGENTS);
    }
    let lab = lab.restarted();
    assert_eq!(lab.store.rows_read(), 0, "to start");
    let bob = lab.attach("bob", &Kind::able());
    let offers = bob.offers();
    let texts: Vec<_> = offers.iter().map(|offer| &*offer.message.text).collect();
    let expected: Vec<_> = (1..=20).map(|no| no.to_string()).collect();
    assert_eq!(texts, expected);
    assert_eq!(offers[0].context.waiting(), Some(POSTS - 1));
    assert_eq!(json!(offers[0].context.reason), "message");
    let read = lab.store.rows_read();
    assert!(read < 400, "{read} rows were read for twenty offers");
    // All of it comes in the end, and nothing of the others is read for it.
    let mut came = 0;
    while came < 300 {
        came += bob.take_all().len();
        bob.becomes(AgentStatus::Active);
        bob.becomes(AgentStatus::Idle);
    }
    let read = lab.store.rows_read();
    assert!(read < 1_500, "{read} rows were read for {came} offers");
}
