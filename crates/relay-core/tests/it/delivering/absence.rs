//! Agents that are away: their messages are their inbox, and what waited comes in shares.

use relay_core::PageQuery;
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::{DeliveryMode, DeliveryState, Priority};
use relay_protocol::delivery_record::Flush;
use relay_protocol::ids::MessageId;
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use relay_protocol::session_event::AgentSessionEventType as Emits;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, Session, mail, minimum, now, only};

const DAY: i64 = 24 * 3_600_000;

/// Bob looks into his inbox and has read what is in it; the texts.
fn take_inbox(lab: &Lab) -> Vec<String> {
    let taken = lab.drive(
        lab.engine()
            .take_inbox(&lab.who("bob"), PageQuery::default()),
    );
    let items = taken.unwrap().items;
    items.iter().map(|item| item.message.text.clone()).collect()
}

fn mark_read(lab: &Lab, message: MessageId) {
    let read = lab.drive(lab.engine().mark_read(&lab.who("bob"), message));
    read.unwrap();
}

#[test]
fn an_agent_without_a_session_keeps_its_messages() {
    let lab = Lab::pair();
    let id = lab.say("hello");
    lab.pass(6 * DAY);
    assert_eq!(lab.state(id), DeliveryState::Pending);
    assert_eq!(lab.course(id), ["created"]);
    let inbox = now(lab.engine().inbox(&lab.who("bob"), PageQuery::default()));
    assert_eq!(inbox.unwrap().items.len(), 1);
    assert_eq!(
        lab.state(id),
        DeliveryState::Pending,
        "looking changes nothing"
    );
}

#[test]
fn what_is_read_in_the_inbox_is_delivered() {
    let lab = Lab::pair();
    let ids = ["one", "two"].map(|text| lab.say(text));
    assert_eq!(take_inbox(&lab), ["one", "two"]);
    for id in ids {
        assert_eq!(lab.state(id), DeliveryState::Delivered);
        assert_eq!(lab.course(id), ["created", "delivered"]);
    }
    let told = lab.last("delivery.delivered");
    assert_eq!(told["metadata"], json!({ "door": "inbox" }));
    assert_eq!([told.get("sessionId"), told.get("event")], [None, None]);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(bob.texts(), [""; 0]);
    assert_eq!(take_inbox(&lab), [""; 0]);
}

#[test]
fn reading_settles_what_came_before_in_the_same_place() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    let first = lab.send("alice", mail("first"));
    let second = lab.send("alice", mail("second"));
    let third = lab.say("third");
    let elsewhere = lab.say_to("#general", "elsewhere");
    mark_read(&lab, second.message_id);
    for sent in [first, second] {
        let id = only(&sent.deliveries).delivery_id;
        assert_eq!(lab.state(id), DeliveryState::Delivered);
    }
    bob.becomes(AgentStatus::Idle);
    let ids: Vec<_> = bob.offers().iter().map(|offer| offer.context.id).collect();
    assert_eq!(ids, [third, elsewhere]);
}

#[test]
fn what_was_put_off_is_settled_by_reading_it() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let id = lab.say("hello");
    bob.answer(&bob.offer(), super::kit::deferred(lab.later(5_000)));
    take_inbox(&lab);
    assert_eq!(lab.state(id), DeliveryState::Delivered);
    lab.pass(60_000);
    assert_eq!(bob.texts(), [""; 0]);
}

#[test]
fn what_a_session_has_is_settled_by_the_session() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let [held, offered] = ["held", "offered"].map(|text| lab.say(text));
    let offers = bob.offers();
    bob.accept(&offers[0]);
    assert_eq!(take_inbox(&lab), ["held", "offered"]);
    assert_eq!(lab.state(held), DeliveryState::Accepted);
    assert_eq!(lab.state(offered), DeliveryState::Offered);
    bob.deliver_held(held);
    bob.deliver(&offers[1]);
    let door = |id| lab.delivery(id).receipts.unwrap().last().unwrap().by;
    assert_eq!(json!(door(held)), "session");
}

/// The numbers that are offered, and how many are told to wait behind the first of them.
fn share(bob: &Session<'_>) -> (Vec<String>, Option<u64>) {
    let offers = bob.offers();
    let waiting = offers.first().and_then(|offer| offer.context.waiting());
    for offer in &offers {
        bob.deliver(offer);
    }
    let texts = offers.iter().map(|offer| offer.message.text.clone());
    (texts.collect(), waiting)
}

fn numbers(range: std::ops::RangeInclusive<u32>) -> Vec<String> {
    range.map(|no| no.to_string()).collect()
}

/// Regression: the backlog ended when nothing was open at the moment, and a session that came back in the
/// middle of a turn got all of it at the end of the turn.
#[test]
fn a_session_that_comes_back_busy_gets_its_backlog_in_shares() {
    let lab = Lab::pair();
    lab.flood(60);
    lab.post(SendMessage {
        mode: Some(DeliveryMode::Immediate),
        ..mail("at once")
    });
    let bob = lab.attach("bob", &Kind::able().doing(AgentStatus::Active));
    assert_eq!(share(&bob).0, ["at once"]);
    lab.pass(60_000);
    assert_eq!(bob.texts(), [""; 0], "it is busy");
    bob.becomes(AgentStatus::Idle);
    assert_eq!(share(&bob), (numbers(1..=20), Some(59)));
    assert_eq!(share(&bob), (vec![], None), "not in this turn");
    for numbers in [numbers(21..=40), numbers(41..=60)] {
        bob.becomes(AgentStatus::Active);
        bob.becomes(AgentStatus::Idle);
        assert_eq!(share(&bob).0, numbers);
    }
    // From here on nothing is a backlog.
    lab.flood(30);
    assert_eq!(share(&bob).0, numbers(1..=30));
}

#[test]
fn a_flush_lets_all_of_a_backlog_go() {
    let lab = Lab::pair();
    for no in 1..=30 {
        let body = SendMessage {
            mode: Some(DeliveryMode::Manual),
            ..mail(&no.to_string())
        };
        lab.send("key", body);
    }
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(bob.texts(), [""; 0]);
    let caller = lab.who("bob");
    let flushing = lab.begin(lab.engine().flush(&caller, "bob", Flush::default()));
    assert_eq!(share(&bob).0, numbers(1..=30));
    assert_eq!(flushing.end().unwrap().receipts.len(), 30);
}

#[test]
fn what_waited_comes_oldest_first_and_at_most_so_much_in_a_turn() {
    let lab = Lab::pair();
    lab.flood(50);
    lab.pass(6 * DAY);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(share(&bob), (numbers(1..=20), Some(49)));
    assert_eq!(share(&bob), (vec![], None), "not in this turn");
    bob.becomes(AgentStatus::Waiting);
    bob.becomes(AgentStatus::Idle);
    assert_eq!(share(&bob), (vec![], None), "that was no turn");
    bob.becomes(AgentStatus::Active);
    assert_eq!(share(&bob), (vec![], None), "nor is a turn that goes on");
    bob.becomes(AgentStatus::Idle);
    assert_eq!(share(&bob), (numbers(21..=40), Some(29)));
    bob.becomes(AgentStatus::Active);
    bob.becomes(AgentStatus::Blocked);
    assert_eq!(share(&bob), (numbers(41..=50), Some(9)));
    // From here on everything comes as it is sent.
    lab.flood(25);
    assert_eq!(share(&bob).0, numbers(1..=25));
}

#[test]
fn what_is_new_does_not_wait_for_what_is_old() {
    let lab = Lab::pair();
    lab.flood(30);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(share(&bob).0, numbers(1..=20));
    lab.say("new");
    assert_eq!(share(&bob), (vec!["new".to_owned()], Some(10)));
    bob.becomes(AgentStatus::Active);
    bob.becomes(AgentStatus::Idle);
    assert_eq!(share(&bob).0, numbers(21..=30));
}

#[test]
fn urgent_is_the_first_of_what_waited() {
    let lab = Lab::pair();
    lab.flood(25);
    lab.send(
        "key",
        SendMessage {
            priority: Some(Priority::Urgent),
            ..mail("now")
        },
    );
    let bob = lab.attach("bob", &Kind::able());
    let (texts, _) = share(&bob);
    assert_eq!((texts.len(), texts[0].as_str()), (20, "now"));
    assert_eq!(texts[1..], numbers(1..=19));
}

#[test]
fn one_that_stays_at_rest_gets_the_next_share_after_a_while() {
    let lab = Lab::pair();
    lab.flood(30);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(share(&bob).0.len(), 20);
    lab.pass(1_999);
    assert_eq!(share(&bob).0.len(), 0);
    lab.pass(1);
    assert_eq!(share(&bob).0, numbers(21..=30));
}

#[test]
fn one_that_does_not_tell_of_turns_gets_the_next_share_when_it_has_taken_the_last() {
    let lab = Lab::pair();
    lab.flood(50);
    let bob = lab.attach("bob", &minimum().emitting(&[Emits::StatusIdle]));
    let offers = bob.offers();
    assert_eq!(offers.len(), 20);
    for offer in &offers[..19] {
        bob.deliver(offer);
    }
    assert_eq!(bob.texts(), [""; 0]);
    bob.deliver(&offers[19]);
    assert_eq!(share(&bob).0, numbers(21..=40));
    assert_eq!(share(&bob).0, numbers(41..=50));
}

#[test]
fn one_that_comes_back_is_not_flooded_either() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.lose_link();
    lab.flood(30);
    let back = lab.attach("bob", &Kind::able().resuming(bob.token()));
    assert_eq!(share(&back).0, numbers(1..=20));
    assert_eq!(share(&back).0.len(), 0);
}

#[test]
fn the_policy_says_how_much_a_turn_gets() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        backlog_per_turn: Some(3),
        ..PolicyPatch::default()
    });
    lab.flood(5);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(share(&bob).0, numbers(1..=3));
    bob.becomes(AgentStatus::Active);
    bob.becomes(AgentStatus::Idle);
    assert_eq!(share(&bob).0, numbers(4..=5));
}

#[test]
fn a_full_queue_fails_the_delivery_and_no_other() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    lab.policy(PolicyPatch {
        queue_limit: Some(2),
        ..PolicyPatch::default()
    });
    lab.say("one");
    lab.say("two");
    let sent = lab.post_all("three");
    let [to_bob, to_carol] = sent.deliveries.as_slice() else {
        panic!("{sent:?}");
    };
    assert_eq!(to_bob.state, DeliveryState::Failed);
    assert_eq!(to_carol.state, DeliveryState::Pending);
    let problem = to_bob.error.as_ref().unwrap();
    assert_eq!(
        (problem.code, problem.retryable),
        (ErrorCode::QueueFull, true)
    );
    assert_eq!(
        problem.expected.as_deref(),
        Some("fewer than 2 waiting deliveries")
    );
    assert_eq!(problem.found.as_deref(), Some("2"));
    let told = only(&lab.events("delivery.failed")).clone();
    assert_eq!([&told["reason"], &told["surfaced"]], ["queue_full", "no"]);
    assert_eq!(told["error"], json!(problem));
    // What was taken makes room.
    let bob = lab.attach("bob", &Kind::able());
    bob.take_all();
    assert_eq!(lab.state(lab.say("four")), DeliveryState::Offered);
}

#[test]
fn other_policies_take_effect_on_what_is_under_way() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    lab.flood(40);
    assert_eq!(bob.offers().len(), 32);
    lab.policy(PolicyPatch {
        window: Some(35),
        ..PolicyPatch::default()
    });
    let offers = bob.offers();
    assert_eq!(offers.len(), 3);
    bob.accept(&offers[0]);
    assert_eq!(bob.offers().len(), 1);
    lab.policy(PolicyPatch {
        offer_timeout_ms: Some(5_000),
        accepted_lease_ms: Some(20_000),
        offline_grace_ms: Some(2_000),
        ..PolicyPatch::default()
    });
    lab.pass(4_999);
    assert_eq!(lab.events("delivery.failed").len(), 0);
    lab.pass(1);
    assert_eq!(lab.events("delivery.failed").len(), 35);
    bob.lose_link();
    lab.pass(2_000);
    assert_eq!(bob.summary().status, AgentStatus::Offline);
    let held = offers[0].context.id;
    lab.pass(17_999);
    assert_eq!(lab.state(held), DeliveryState::Accepted);
    lab.pass(1);
    assert_eq!(lab.state(held), DeliveryState::Pending);
}

#[test]
fn the_messages_of_an_agent_that_is_gone_fail() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    let held = lab.say("held");
    bob.accept(&bob.offer());
    let offered = lab.say("offered");
    assert_eq!(bob.offer().context.id, offered);
    let waiting = lab.post(SendMessage {
        mode: Some(DeliveryMode::Manual),
        ..mail("waiting")
    });
    lab.drive(lab.engine().release_agent(&lab.who("key"), "bob", None))
        .unwrap();
    let ends = [(held, "unknown"), (offered, "unknown"), (waiting, "no")];
    for (id, surfaced) in ends {
        assert_eq!(lab.state(id), DeliveryState::Failed);
        let mut told = lab.events("delivery.failed");
        told.retain(|event| event["deliveryId"] == json!(id));
        let told = only(&told);
        assert_eq!(
            [&told["reason"], &told["surfaced"]],
            ["agent_released", surfaced]
        );
    }
    assert!(bob.closed().is_some());
}

#[test]
fn a_session_that_was_away_for_days_comes_back_to_its_messages() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().queueing());
    let held = lab.say("held");
    bob.accept(&bob.offer());
    bob.lose_link();
    lab.pass(DAY);
    assert_eq!(bob.summary().status, AgentStatus::Offline);
    assert_eq!(lab.state(held), DeliveryState::Pending, "its lease is over");
    lab.say("later");
    lab.pass(DAY);
    let back = lab.attach("bob", &Kind::able().queueing().resuming(bob.token()));
    assert_eq!(back.id(), bob.id());
    assert_eq!(back.texts(), ["held", "later"]);
    lab.say("now");
    assert_eq!(back.texts(), ["now"]);
}

#[test]
fn a_session_that_was_away_for_days_can_be_ended() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    bob.lose_link();
    lab.pass(DAY);
    let released = bob.begin_release().end().unwrap();
    assert_eq!(released.status, AgentStatus::Released);
    let next = lab.attach("bob", &Kind::able());
    lab.say("hello");
    assert_eq!(next.texts(), ["hello"]);
}
