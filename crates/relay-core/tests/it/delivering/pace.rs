//! Senders and conversations that go too fast: what is too much waits, and goes later.

use relay_protocol::api::messages::{MessageSent, ReplyMessage, SendMessage};
use relay_protocol::delivery::{DeliveryReason, DeliveryState, Priority};
use relay_protocol::delivery_record::{DeliverContext, DeliverMessage, WaitCode};
use relay_protocol::ids::MessageId;
use relay_protocol::policy::{PolicyPatch, RunawayPolicy};
use serde_json::json;

use super::kit::{Kind, Lab, mail, only};
use crate::support::target;

fn sender_per_minute(lab: &Lab, most: u32) {
    lab.policy(PolicyPatch {
        sender_per_minute: Some(most),
        ..PolicyPatch::default()
    });
}

fn runaway(lab: &Lab, per_minute: u32, depth: u32) {
    lab.policy(PolicyPatch {
        runaway: Some(RunawayPolicy { per_minute, depth }),
        ..PolicyPatch::default()
    });
}

fn states(sent: &MessageSent) -> Vec<DeliveryState> {
    let deliveries = sent.deliveries.iter();
    deliveries.map(|delivery| delivery.state).collect()
}

#[test]
fn a_sender_that_goes_too_fast_waits() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    sender_per_minute(&lab, 3);
    let bob = lab.attach("bob", &Kind::able());
    for text in ["one", "two", "three"] {
        assert_eq!(
            states(&lab.send("alice", mail(text)))[0],
            DeliveryState::Pending
        );
    }
    let fourth = lab.send("alice", mail("four"));
    assert_eq!(states(&fourth), [DeliveryState::Deferred]);
    assert_eq!(bob.take_all(), ["one", "two", "three"]);
    let told = lab.last("delivery.deferred");
    let id = only(&fourth.deliveries).delivery_id;
    assert_eq!(told["deliveryId"], json!(id));
    assert_eq!(told["reason"], "sender_rate");
    assert_eq!(told["availableAt"], json!(lab.later(20_000)));
    assert_eq!(lab.delivery(id).next_attempt_at, Some(lab.later(20_000)));
    // To whomever it is; each after the one before.
    let fifth = lab.post_all("five");
    assert_eq!(states(&fifth), [DeliveryState::Deferred; 2]);
    lab.pass(19_999);
    assert_eq!(bob.texts(), [""; 0]);
    lab.pass(1);
    assert_eq!(bob.take_all(), ["four"]);
    lab.pass(20_000);
    assert_eq!(bob.take_all(), ["five"]);
}

#[test]
fn others_are_not_slowed_down() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    sender_per_minute(&lab, 1);
    let bob = lab.attach("bob", &Kind::able());
    lab.say("alice");
    lab.say("alice again");
    lab.send("carol", mail("carol"));
    lab.send("key", mail("the workspace"));
    lab.send("key", mail("the workspace again"));
    let expected = ["alice", "carol", "the workspace", "the workspace again"];
    assert_eq!(bob.take_all(), expected);
}

fn to_alice(text: &str) -> SendMessage {
    SendMessage::text(target("@alice"), text)
}

#[test]
fn two_agents_that_answer_each_other_too_fast_wait() {
    let lab = Lab::new(["alice", "bob", "carol"]);
    runaway(&lab, 4, 100);
    let alice = lab.attach("alice", &Kind::able());
    let bob = lab.attach("bob", &Kind::able());
    lab.send("alice", mail("ping"));
    for round in ["pong", "ping again"] {
        lab.send("bob", to_alice(round));
        lab.send("alice", mail(round));
    }
    assert_eq!((alice.take_all().len(), bob.take_all().len()), (2, 3));
    let fifth = lab.send("bob", to_alice("pong"));
    assert_eq!(states(&fifth), [DeliveryState::Deferred]);
    assert_eq!(lab.last("delivery.deferred")["reason"], "runaway_guard");
    let waiting = only(&fifth.deliveries).waiting.clone().unwrap();
    assert_eq!(waiting.code, WaitCode::RunawayGuard);
    assert_eq!(waiting.until, Some(lab.later(15_000)));
    // In another place, and with another agent, they may talk.
    let post = lab.post_all("hello");
    assert_eq!(states(&post), [DeliveryState::Pending; 2]);
    // What is urgent, and what a person says, is not held.
    let urgent = SendMessage {
        priority: Some(Priority::Urgent),
        ..to_alice("stop")
    };
    let urgent = lab.send("bob", urgent);
    assert_eq!(states(&urgent), [DeliveryState::Pending]);
    assert_eq!(alice.take_all(), ["stop"]);
    lab.pass(15_000);
    assert_eq!(alice.take_all(), ["pong"]);
}

#[test]
fn a_coordinator_with_a_hundred_tasks_is_not_held() {
    let lab = Lab::pair();
    let alice = lab.attach("alice", &Kind::able());
    let bob = lab.attach("bob", &Kind::able());
    for task in 0..100 {
        let sent = lab.send("alice", mail(&task.to_string()));
        assert_eq!(states(&sent), [DeliveryState::Pending], "{task}");
    }
    // The worker answers one by one.
    let mut done = 0;
    while done < 100 {
        for task in bob.take_all() {
            let sent = lab.send("bob", to_alice(&task));
            assert_eq!(states(&sent), [DeliveryState::Pending], "{task}");
            done += 1;
        }
        alice.take_all();
    }
    // And one after the other, each once the one before is done.
    lab.pass(60_000);
    for task in 0..100 {
        let sent = lab.send("alice", mail(&task.to_string()));
        assert_eq!(states(&sent), [DeliveryState::Pending], "{task}");
        let sent = lab.send("bob", to_alice(&task.to_string()));
        assert_eq!(states(&sent), [DeliveryState::Pending], "{task}");
    }
    bob.take_all();
    alice.take_all();
}

#[test]
fn a_person_and_an_agent_are_not_held() {
    let lab = Lab::pair();
    lab.person("pat");
    runaway(&lab, 1, 1);
    for round in 0..10 {
        let sent = lab.send("pat", mail(&round.to_string()));
        assert_eq!(states(&sent), [DeliveryState::Pending]);
        let to_pat = SendMessage::text(target("@pat"), round.to_string());
        let sent = lab.send("bob", to_pat);
        assert_eq!(states(&sent), [DeliveryState::Pending]);
    }
}

#[test]
fn a_chain_of_answers_that_is_too_long_waits() {
    let lab = Lab::pair();
    runaway(&lab, 1_000, 3);
    let bob = lab.attach("bob", &Kind::able());
    let alice = lab.attach("alice", &Kind::able());
    let reply = |who: &str, to: MessageId| -> MessageSent {
        let (engine, caller) = (lab.engine(), lab.who(who));
        let reply = engine.reply(&caller, to, ReplyMessage::text("so?"));
        lab.drive(reply).unwrap()
    };
    let root = lab.send("alice", mail("hello"));
    let mut last = root.message_id;
    for who in ["bob", "alice", "bob"] {
        let sent = reply(who, last);
        assert_eq!(states(&sent), [DeliveryState::Pending], "{who}");
        last = sent.message_id;
    }
    bob.take_all();
    alice.take_all();
    let too_far = reply("alice", last);
    assert_eq!(states(&too_far), [DeliveryState::Deferred]);
    assert_eq!(lab.last("delivery.deferred")["reason"], "runaway_guard");
    lab.pass(59_999);
    assert_eq!(bob.texts(), [""; 0]);
    lab.pass(1);
    assert_eq!(bob.texts(), ["so?"]);
    // A new message begins a new chain.
    lab.say("something else");
    assert_eq!(bob.texts(), ["something else"]);
}

#[test]
fn notifications_are_not_held() {
    let lab = Lab::pair();
    sender_per_minute(&lab, 1);
    let bob = lab.attach("bob", &Kind::able());
    let first = lab.send("alice", mail("one"));
    bob.take_all();
    let second = lab.send("alice", mail("two"));
    assert_eq!(states(&second), [DeliveryState::Deferred]);
    let third = lab.send("key", mail("three"));
    bob.take_all();
    for message_id in [first.message_id, third.message_id] {
        let to_alice = DeliverMessage {
            message_id,
            agent: Some("alice".to_owned()),
            session_id: None,
            context: Some(DeliverContext {
                reason: Some(DeliveryReason::Notification),
                ..DeliverContext::default()
            }),
        };
        let (engine, key) = (lab.engine(), lab.who("key"));
        let receipt = lab.drive(engine.deliver(&key, to_alice)).unwrap();
        assert_eq!(receipt.tag(), "accepted");
    }
    let alice = lab.attach("alice", &Kind::able());
    assert_eq!(alice.texts(), ["one", "three"]);
}
