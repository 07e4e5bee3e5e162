//! The inbox keeps to the modes: what was sent for a moment is not read before it.

use relay_core::PageQuery;
use relay_protocol::api::messages::{Inbox, SendMessage};
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::delivery_record::{Flush, WaitCode};
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, mail, now, only};

use DeliveryMode::{Immediate, Manual, NextMessage, NextToolCall, OnIdle};

fn asking(mode: DeliveryMode, text: &str) -> SendMessage {
    SendMessage {
        mode: Some(mode),
        ..mail(text)
    }
}

fn look(lab: &Lab) -> Inbox {
    lab.step();
    lab.drive(lab.engine().inbox(&lab.who("bob"), PageQuery::default()))
        .unwrap()
}

fn take(lab: &Lab) -> Inbox {
    let engine = lab.engine();
    lab.drive(engine.take_inbox(&lab.who("bob"), PageQuery::default()))
        .unwrap()
}

fn texts(inbox: &Inbox) -> Vec<&str> {
    let items = inbox.items.iter();
    items.map(|item| item.message.text.as_str()).collect()
}

/// What waits, and why.
fn waiting(inbox: &Inbox) -> Vec<(DeliveryMode, WaitCode, &str)> {
    let waiting = inbox.waiting.iter().map(|one| &one.waiting);
    waiting
        .map(|one| (one.waits_for.unwrap(), one.code, one.why.as_str()))
        .collect()
}

fn flush(lab: &Lab, mode: DeliveryMode) {
    let body = Flush {
        mode: Some(mode),
        ..Flush::default()
    };
    let (engine, key) = (lab.engine(), lab.who("key"));
    // Who waits for the receipts is not the question here.
    drop(lab.begin(async move { engine.flush(&key, "bob", body).await }));
    lab.step();
}

#[test]
fn what_an_active_session_gets_later_is_listed_in_the_inbox_and_not_read() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let modes = [Manual, OnIdle, NextToolCall, NextMessage];
    let ids = modes.map(|mode| lab.post(asking(mode, mode.as_str())));
    let plain = lab.say("plain");
    let expected = [
        (Manual, WaitCode::Manual, "it waits for a flush"),
        (OnIdle, WaitCode::Boundary, "the session is active"),
        (NextToolCall, WaitCode::Boundary, "the session is active"),
        (NextMessage, WaitCode::Boundary, "the session is active"),
    ];
    let inbox = look(&lab);
    assert_eq!((texts(&inbox), inbox.unread), (vec!["plain"], 1));
    assert_eq!(waiting(&inbox), expected);
    let listed: Vec<_> = inbox.waiting.iter().map(|one| one.delivery_id).collect();
    assert_eq!(listed, ids);

    // Reading what came behind them settles none of them.
    assert_eq!(texts(&take(&lab)), ["plain"]);
    assert_eq!(lab.state(plain), DeliveryState::Delivered);
    for id in ids {
        assert_eq!(lab.state(id), DeliveryState::Pending);
    }
    let inbox = look(&lab);
    assert_eq!((texts(&inbox), inbox.unread), (vec![], 0));
    assert_eq!(waiting(&inbox), expected);

    // Each comes at its moment, by the session.
    bob.becomes(AgentStatus::Idle);
    bob.deliver(&bob.offer());
    flush(&lab, Manual);
    bob.deliver(&bob.offer());
    for id in &ids[..2] {
        assert_eq!(lab.state(*id), DeliveryState::Delivered);
    }
    let inbox = look(&lab);
    assert_eq!(waiting(&inbox).len(), 2);
    assert_eq!(inbox.unread, 0);
}

#[test]
fn without_a_session_only_a_flush_is_waited_for() {
    let lab = Lab::pair();
    let held = lab.post(asking(Manual, "held"));
    let others = [OnIdle, NextToolCall, NextMessage, Immediate];
    let ids = others.map(|mode| lab.post(asking(mode, mode.as_str())));
    let last = lab.send("alice", mail("last"));
    let inbox = look(&lab);
    assert_eq!(inbox.items.len(), 5);
    assert_eq!(
        waiting(&inbox),
        [(Manual, WaitCode::Manual, "it waits for a flush")]
    );
    lab.drive(lab.engine().mark_read(&lab.who("bob"), last.message_id))
        .unwrap();
    for id in ids {
        assert_eq!(lab.state(id), DeliveryState::Delivered);
    }
    assert_eq!(
        lab.state(only(&last.deliveries).delivery_id),
        DeliveryState::Delivered
    );
    assert_eq!(lab.state(held), DeliveryState::Pending);

    // Read past and then released, it is there again, and counts.
    flush(&lab, Manual);
    let inbox = look(&lab);
    assert_eq!((texts(&inbox), inbox.unread), (vec!["held"], 1));
    assert_eq!(inbox.conversations[0].unread, 1);
    assert_eq!(waiting(&inbox), []);
    assert_eq!(texts(&take(&lab)), ["held"]);
    assert_eq!(lab.state(held), DeliveryState::Delivered);
    let nothing = now(lab.engine().inbox(&lab.who("bob"), PageQuery::default())).unwrap();
    assert_eq!((nothing.items.len(), nothing.unread), (0, 0));
}

#[test]
fn what_waits_does_not_take_the_places_of_what_can_be_read() {
    let lab = Lab::pair();
    for number in 0..5 {
        lab.post(asking(Manual, &format!("held {number}")));
        lab.say(&format!("said {number}"));
    }
    let page = PageQuery {
        limit: Some(3),
        ..PageQuery::default()
    };
    let inbox = lab
        .drive(lab.engine().inbox(&lab.who("bob"), page))
        .unwrap();
    assert_eq!(texts(&inbox), ["said 0", "said 1", "said 2"]);
    assert_eq!((inbox.unread, inbox.more), (5, true));
}
