//! Boundary claims: a session that comes by takes along what is due.

use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, Priority};
use relay_protocol::delivery_record::Flush;
use relay_protocol::problem::ErrorCode;
use relay_protocol::session::{AtBoundary, BoundaryKind, DueDeliveries};
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, delivered, mail, now, only};

/// A session without a link that knows every boundary.
fn hooks() -> Kind {
    Kind::hooks(&[
        DeliveryMode::NextMessage,
        DeliveryMode::NextToolCall,
        DeliveryMode::OnIdle,
        DeliveryMode::Manual,
    ])
}

fn asking(mode: DeliveryMode, text: &str) -> SendMessage {
    SendMessage {
        mode: Some(mode),
        ..mail(text)
    }
}

fn texts(due: &DueDeliveries) -> Vec<&str> {
    let deliveries = due.deliveries.iter();
    deliveries.map(|due| due.message.text.as_str()).collect()
}

/// Says of all that was taken along that it was shown.
fn show(bob: &super::kit::Session<'_>, due: &DueDeliveries) {
    for due in &due.deliveries {
        let id = due.context.id;
        let stored = bob.receipt(id, due.context.epoch(), delivered(id)).unwrap();
        assert!(!stored.late);
    }
}

#[test]
fn a_session_that_comes_by_is_current_and_gets_nothing_by_itself() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    assert!(bob.is_current());
    let id = lab.say("hello");
    lab.pass(3_600_000);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    assert_eq!(bob.summary().status, AgentStatus::Idle, "never offline");
}

#[test]
fn each_boundary_gives_what_waits_for_it() {
    for kind in BoundaryKind::ALL {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &hooks().doing(AgentStatus::Active));
        for mode in [
            DeliveryMode::NextMessage,
            DeliveryMode::NextToolCall,
            DeliveryMode::OnIdle,
            DeliveryMode::Manual,
        ] {
            lab.post(asking(mode, mode.as_str()));
        }
        lab.say("whenever");
        let due = bob.claim(*kind);
        assert_eq!(texts(&due), [kind.as_str(), "whenever"]);
        assert!(!due.more);
        for due in &due.deliveries {
            assert_eq!(due.context.mode, kind.mode());
        }
        show(&bob, &due);
    }
}

#[test]
fn one_at_rest_gets_what_waits_for_that_at_every_boundary() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    lab.post(asking(DeliveryMode::OnIdle, "idle"));
    assert_eq!(texts(&bob.claim(BoundaryKind::NextToolCall)), ["idle"]);
}

#[test]
fn what_is_immediate_or_flushed_comes_at_every_boundary() {
    for kind in BoundaryKind::ALL {
        let lab = Lab::pair();
        let bob = lab.attach("bob", &Kind::able().polling().doing(AgentStatus::Active));
        let flushed = lab.post(asking(DeliveryMode::Manual, "flushed"));
        lab.post(asking(DeliveryMode::Manual, "manual"));
        lab.post(asking(DeliveryMode::Immediate, "immediate"));
        let (engine, key) = (lab.engine(), lab.who("key"));
        let flush = Flush {
            delivery_id: Some(flushed),
            ..Flush::default()
        };
        lab.drive(engine.flush(&key, "bob", flush)).unwrap();
        assert_eq!(texts(&bob.claim(*kind)), ["flushed", "immediate"]);
    }
}

#[test]
fn what_was_taken_is_offered_and_not_given_twice() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    let id = lab.say("hello");
    let due = bob.claim(BoundaryKind::OnIdle);
    assert_eq!(only(&due.deliveries).context.id, id);
    let offered = lab.delivery(id);
    assert_eq!(offered.state, DeliveryState::Offered);
    assert_eq!(offered.session_id, Some(bob.id()));
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), [""; 0]);
    show(&bob, &due);
    assert_eq!(lab.state(id), DeliveryState::Delivered);
    assert_eq!(lab.course(id), ["created", "delivered"]);
}

#[test]
fn a_claim_has_the_text_that_a_model_may_read() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    let sent = lab.send("alice", mail("hello\nrelay-x>>>"));
    let due = bob.claim(BoundaryKind::OnIdle);
    let due = only(&due.deliveries);
    let mut lines = due.text.lines();
    let header = format!(
        "[relay] from agent @alice to you; answer with replyTo {}",
        sent.message_id
    );
    assert_eq!(lines.next(), Some(header.as_str()));
    let fence = lines.next().unwrap().strip_prefix("<<<").unwrap();
    assert_eq!(lines.next(), Some("hello"));
    assert_eq!(lines.next(), Some("\\relay-x>>>"));
    assert_eq!(lines.next(), Some(format!("{fence}>>>").as_str()));
    assert_eq!(lines.next(), None);
    // Nobody can foresee the mark.
    lab.say("again");
    let again = bob.claim(BoundaryKind::OnIdle);
    assert!(!again.deliveries[0].text.contains(fence));
}

#[test]
fn urgent_comes_first_then_the_oldest() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    lab.say("one");
    lab.say("two");
    lab.post(SendMessage {
        priority: Some(Priority::Urgent),
        ..mail("now")
    });
    let due = bob.claim(BoundaryKind::NextMessage);
    assert_eq!(texts(&due), ["now", "one", "two"]);
}

#[test]
fn a_claim_gives_at_most_twenty_and_says_that_there_is_more() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    lab.flood(25);
    let first = bob.claim(BoundaryKind::OnIdle);
    assert_eq!((first.deliveries.len(), first.more), (20, true));
    assert_eq!(first.deliveries[0].context.waiting(), Some(24));
    let second = bob.claim(BoundaryKind::OnIdle);
    assert_eq!(texts(&second), ["21", "22", "23", "24", "25"]);
    assert!(!second.more);
}

#[test]
fn a_session_may_ask_for_less() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    lab.flood(4);
    let ask = |limit, max_bytes| {
        bob.try_claim(AtBoundary {
            kind: BoundaryKind::OnIdle,
            limit,
            max_bytes,
        })
    };
    let first = ask(Some(1), None).unwrap();
    assert_eq!((texts(&first), first.more), (vec!["1"], true));
    // One is given however long it is.
    let second = ask(None, Some(1)).unwrap();
    assert_eq!((texts(&second), second.more), (vec!["2"], true));
    let rest = ask(None, None).unwrap();
    assert_eq!((texts(&rest), rest.more), (vec!["3", "4"], false));
    for (limit, max_bytes, path) in [
        (Some(0), None, "limit"),
        (Some(21), None, "limit"),
        (None, Some(0), "maxBytes"),
        (None, Some(32_769), "maxBytes"),
    ] {
        let problem = ask(limit, max_bytes).unwrap_err().problem();
        assert_eq!(problem.code, ErrorCode::InvalidRequest);
        assert_eq!(problem.path.as_deref(), Some(path));
    }
}

#[test]
fn a_claim_gives_at_most_so_many_bytes() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    let long = "x".repeat(10_000);
    for _ in 0..5 {
        lab.say(&long);
    }
    let sizes =
        |due: &DueDeliveries| -> usize { due.deliveries.iter().map(|due| due.text.len()).sum() };
    let first = bob.claim(BoundaryKind::OnIdle);
    assert_eq!((first.deliveries.len(), first.more), (3, true));
    assert!(sizes(&first) <= 32_768);
    let second = bob.claim(BoundaryKind::OnIdle);
    assert_eq!((second.deliveries.len(), second.more), (2, false));
}

#[test]
fn what_was_taken_and_never_answered_comes_back_without_using_up_an_attempt() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    let id = lab.say("hello");
    for round in 0..12 {
        let due = bob.claim(BoundaryKind::OnIdle);
        let due = only(&due.deliveries);
        assert_eq!(due.context.is_redelivered(), round > 0);
        lab.pass(29_999);
        assert_eq!(lab.state(id), DeliveryState::Offered);
        lab.pass(1);
        let waits = lab.delivery(id);
        assert_eq!((waits.state, waits.attempt), (DeliveryState::Pending, 0));
        lab.pass(300_000);
    }
    show(&bob, &bob.claim(BoundaryKind::OnIdle));
}

#[test]
fn what_one_that_comes_by_has_accepted_is_taken_back_when_it_is_not_heard_of() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    let id = lab.say("hello");
    let due = bob.claim(BoundaryKind::OnIdle);
    let epoch = due.deliveries[0].context.epoch();
    bob.receipt(id, epoch, super::kit::accepted(id)).unwrap();
    lab.pass(599_999);
    assert_eq!(texts(&bob.claim(BoundaryKind::NextToolCall)), [""; 0]);
    lab.pass(599_999);
    assert_eq!(lab.state(id), DeliveryState::Accepted, "it came by");
    bob.ran_a_tool();
    lab.pass(599_999);
    assert_eq!(lab.state(id), DeliveryState::Accepted, "it reported");
    lab.pass(1);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), ["hello"]);
}

#[test]
fn one_that_takes_nothing_gets_nothing() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks().directed().doing(AgentStatus::Starting));
    lab.say("hello");
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), [""; 0]);
    bob.becomes(AgentStatus::Idle);
    bob.becomes(AgentStatus::Paused);
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), [""; 0]);
    bob.becomes(AgentStatus::Active);
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), ["hello"]);
}

#[test]
fn an_older_session_that_comes_by_gets_nothing() {
    let lab = Lab::pair();
    let old = lab.attach("bob", &hooks());
    let new = lab.attach("bob", &hooks());
    lab.say("hello");
    assert_eq!(texts(&old.claim(BoundaryKind::OnIdle)), [""; 0]);
    assert_eq!(texts(&new.claim(BoundaryKind::OnIdle)), ["hello"]);
}

#[test]
fn one_with_a_link_takes_along_what_did_not_come_over_it() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    lab.post(asking(DeliveryMode::Immediate, "over the link"));
    lab.post(asking(DeliveryMode::NextToolCall, "at the boundary"));
    let over_link = bob.offer();
    let due = bob.claim(BoundaryKind::NextToolCall);
    assert_eq!(texts(&due), ["at the boundary"]);
    assert_eq!(bob.texts(), [""; 0]);
    show(&bob, &due);
    bob.deliver(&over_link);
}

#[test]
fn one_that_queues_for_itself_gets_only_what_it_was_not_offered() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("hello");
    let offer = bob.offer();
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), [""; 0]);
    bob.accept(&offer);
    assert_eq!(texts(&bob.claim(BoundaryKind::OnIdle)), [""; 0]);
    bob.deliver_held(id);
}

#[test]
fn one_that_asks_without_standing_anywhere_gets_what_is_due_at_any_moment() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    let due = lab.say("due");
    lab.post(asking(DeliveryMode::NextToolCall, "not due"));
    let taken = bob.due_now(None).unwrap();
    assert_eq!(only(&taken.deliveries).context.id, due);
    show(&bob, &taken);
    assert_eq!(lab.state(due), DeliveryState::Delivered);
}

#[test]
fn nobody_takes_what_is_for_another_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &hooks());
    lab.say("hello");
    let body = AtBoundary {
        kind: BoundaryKind::OnIdle,
        limit: None,
        max_bytes: None,
    };
    let (engine, alice) = (lab.engine(), lab.who("alice"));
    let tried = now(engine.boundary(&alice, bob.id(), body));
    assert_eq!(tried.unwrap_err().code(), ErrorCode::UnknownSession);
    let at = now(engine.at_boundary(&alice, bob.id(), BoundaryKind::OnIdle));
    assert_eq!(at.unwrap_err().code(), ErrorCode::UnknownSession);
}
