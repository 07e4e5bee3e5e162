//! Flush: everything that waits is due now, one receipt each.

use relay_core::Result;
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{Flush, Flushed};
use relay_protocol::ids::DeliveryId;
use relay_protocol::problem::ErrorCode;
use relay_protocol::socket::ControlOp;
use relay_protocol::status::AgentStatus;
use serde_json::{Value, json};

use super::kit::{Call, Kind, Lab, deferred, mail};

fn begin_flush<'l>(lab: &'l Lab, who: &str, body: Flush) -> Call<'l, Result<Flushed>> {
    let (engine, caller) = (lab.engine(), lab.who(who));
    lab.begin(async move { engine.flush(&caller, "@bob", body).await })
}

fn everything() -> Flush {
    Flush::default()
}

fn of_mode(mode: DeliveryMode) -> Flush {
    Flush {
        mode: Some(mode),
        ..Flush::default()
    }
}

fn one(id: DeliveryId) -> Flush {
    Flush {
        delivery_id: Some(id),
        ..Flush::default()
    }
}

/// Deliveries and what is said of each.
fn told(flushed: &Flushed) -> Vec<(DeliveryId, &str)> {
    let of = |receipt: &MessageReceipt| -> DeliveryId {
        serde_json::from_value(json!(receipt)["deliveryId"].clone()).unwrap()
    };
    let receipts = flushed.receipts.iter();
    receipts
        .map(|receipt| (of(receipt), receipt.tag()))
        .collect()
}

fn reasons(flushed: &Flushed) -> Vec<Value> {
    let receipts = flushed.receipts.iter();
    receipts
        .map(|receipt| json!(receipt)["reason"].clone())
        .collect()
}

fn asking(mode: DeliveryMode, text: &str) -> SendMessage {
    SendMessage {
        mode: Some(mode),
        ..mail(text)
    }
}

#[test]
fn everything_that_waits_goes_and_is_answered() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let ids = [
        lab.post(asking(DeliveryMode::Manual, "manual")),
        lab.post(asking(DeliveryMode::OnIdle, "idle")),
        lab.post(asking(DeliveryMode::NextToolCall, "tool")),
        lab.say("any"),
    ];
    assert_eq!(bob.texts(), [""; 0]);
    let mut flush = begin_flush(&lab, "key", everything());
    assert!(flush.waits());
    let offers = bob.offers();
    let came: Vec<_> = offers.iter().map(|offer| offer.context.id).collect();
    assert_eq!(came, ids);
    bob.deliver(&offers[0]);
    bob.accept(&offers[1]);
    bob.answer(&offers[2], deferred(lab.later(1_000)));
    assert!(flush.waits());
    bob.deliver(&offers[3]);
    let expected = [
        (ids[0], "delivered"),
        (ids[1], "accepted"),
        (ids[2], "deferred"),
        (ids[3], "delivered"),
    ];
    assert_eq!(told(&flush.end().unwrap()), expected);
}

#[test]
fn a_flush_may_be_of_one_mode_or_of_one_delivery() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let manual = lab.post(asking(DeliveryMode::Manual, "manual"));
    let idle = lab.post(asking(DeliveryMode::OnIdle, "idle"));
    let other = lab.post(asking(DeliveryMode::Manual, "other"));
    let flush = begin_flush(&lab, "bob", one(other));
    bob.deliver(&bob.offer());
    assert_eq!(told(&flush.end().unwrap()), [(other, "delivered")]);
    let flush = begin_flush(&lab, "bob", of_mode(DeliveryMode::Manual));
    bob.deliver(&bob.offer());
    assert_eq!(told(&flush.end().unwrap()), [(manual, "delivered")]);
    assert_eq!(lab.state(idle), DeliveryState::Pending);
    let flush = begin_flush(&lab, "bob", of_mode(DeliveryMode::Manual));
    assert_eq!(flush.end().unwrap().receipts, []);
}

#[test]
fn what_was_put_off_is_flushed_too() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.answer(&bob.offer(), deferred(lab.later(3_600_000)));
    let flush = begin_flush(&lab, "key", everything());
    bob.deliver(&bob.offer());
    assert_eq!(told(&flush.end().unwrap()), [(id, "delivered")]);
    assert_eq!(
        lab.course(id),
        ["created", "deferred", "deferred", "delivered"]
    );
    assert_eq!(lab.last("delivery.deferred")["reason"], "flushed");
}

#[test]
fn an_agent_that_is_away_is_told_of() {
    let lab = Lab::pair();
    let id = lab.post(asking(DeliveryMode::Manual, "hello"));
    let away = |reason: &str| {
        let flushed = begin_flush(&lab, "key", everything()).end().unwrap();
        assert_eq!(told(&flushed), [(id, "deferred")]);
        assert_eq!(reasons(&flushed), [reason]);
    };
    away("no_session");
    let kind = Kind::able().directed();
    let bob = lab.attach("bob", &kind.clone().doing(AgentStatus::Starting));
    away("starting");
    bob.becomes(AgentStatus::Active);
    bob.deliver(&bob.offer());

    let id = lab.post(asking(DeliveryMode::Manual, "hello"));
    let away = |reason: &str| {
        let flushed = begin_flush(&lab, "key", everything()).end().unwrap();
        assert_eq!(told(&flushed), [(id, "deferred")]);
        assert_eq!(reasons(&flushed), [reason]);
    };
    bob.becomes(AgentStatus::Paused);
    away("paused");
    bob.lose_link();
    lab.pass(10_000);
    away("no_session");
    // It was let go; now it can.
    let back = lab.attach(
        "bob",
        &kind.resuming(bob.token()).doing(AgentStatus::Active),
    );
    assert_eq!(back.offer().context.id, id);
}

#[test]
fn what_a_session_holds_is_flushed_by_its_adapter() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let ids = ["one", "two"].map(|text| lab.say(text));
    for offer in bob.offers() {
        bob.accept(&offer);
    }
    let mut flush = begin_flush(&lab, "key", everything());
    assert!(flush.waits());
    let frames = bob.controls();
    let asked: Vec<_> = frames
        .iter()
        .map(|frame| (frame.op, frame.delivery_id))
        .collect();
    let expected = ids.map(|id| (ControlOp::Flush, Some(id)));
    assert_eq!(asked, expected, "all of them at once");
    for (frame, id) in frames.iter().zip(ids) {
        bob.confirm(frame);
        assert!(flush.waits());
        bob.deliver_held(id);
    }
    let expected = ids.map(|id| (id, "delivered"));
    assert_eq!(told(&flush.end().unwrap()), expected);
}

#[test]
fn a_flush_ends_within_thirty_seconds_whatever_the_session_does() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let ids = ["one", "two", "three"].map(|text| lab.say(text));
    let offers = bob.offers();
    bob.accept(&offers[0]);
    bob.accept(&offers[1]);
    let mut flush = begin_flush(&lab, "key", everything());
    lab.pass(29_999);
    assert!(flush.waits());
    lab.pass(1);
    let flushed = flush.end().unwrap();
    // The session said of the first two that it has them, and nothing of the third.
    let expected = [
        (ids[0], "accepted"),
        (ids[1], "accepted"),
        (ids[2], "failed"),
    ];
    assert_eq!(told(&flushed), expected);
    assert_eq!(reasons(&flushed)[2], "no_receipt");
}

#[test]
fn a_flush_of_what_has_ended_says_how() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.deliver(&bob.offer());
    let flushed = begin_flush(&lab, "key", one(id)).end().unwrap();
    assert_eq!(told(&flushed), [(id, "delivered")]);
}

#[test]
fn a_session_that_comes_by_is_flushed_when_it_does() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::hooks(&[DeliveryMode::Manual]));
    let id = lab.say("hello");
    let flushed = begin_flush(&lab, "key", everything()).end().unwrap();
    assert_eq!(told(&flushed), [(id, "accepted")]);
    let receipt = json!(flushed.receipts[0]);
    assert_eq!(receipt["metadata"]["heldBy"], "relay");
    let due = bob.claim(relay_protocol::session::BoundaryKind::OnIdle);
    assert_eq!(due.deliveries[0].context.id, id);
}

#[test]
fn the_agent_and_the_workspace_flush_and_nobody_else() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    for (who, allowed) in [
        ("bob", true),
        ("key", true),
        ("alice", false),
        ("carol", false),
    ] {
        let result = begin_flush(&lab, who, everything()).end();
        let code = result.err().map(|error| error.code());
        assert_eq!(code, (!allowed).then_some(ErrorCode::Forbidden), "{who}");
    }
    let to_carol = lab.say_to("@carol", "hello");
    let foreign = begin_flush(&lab, "key", one(to_carol)).end();
    assert_eq!(foreign.unwrap_err().code(), ErrorCode::UnknownDelivery);
}
