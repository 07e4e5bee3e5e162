//! What a delivery waits for is the same answer at every door: the send's, the list, the delivery itself, and
//! the message's deliveries.

use relay_core::PageQuery;
use relay_core::store::DeliveryFilter;
use relay_protocol::api::messages::{MessageSent, SendMessage};
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::delivery_record::{WaitCode, WaitReason};
use relay_protocol::policy::{PolicyPatch, RetryPolicy};
use relay_protocol::status::AgentStatus;

use super::kit::{Kind, Lab, accepted, deferred, failed, mail, now, only};

/// What a delivery waits for, after all doors were asked.
fn waits(lab: &Lab, sent: &MessageSent) -> Option<WaitReason> {
    let id = only(&sent.deliveries).delivery_id;
    let (engine, key) = (lab.engine(), lab.who("key"));
    let shown = lab.delivery(id);
    let listed =
        now(engine.deliveries_where(&key, DeliveryFilter::default(), PageQuery::default()));
    let mut listed = listed.unwrap().items.into_iter();
    let listed = listed.find(|delivery| delivery.delivery_id == id).unwrap();
    assert_eq!(
        (listed.state, &listed.waiting),
        (shown.state, &shown.waiting)
    );
    let summaries = now(engine.deliveries(&key, sent.message_id)).unwrap();
    let summary = only(&summaries);
    assert_eq!(
        (summary.state, &summary.waiting),
        (shown.state, &shown.waiting)
    );
    shown.waiting
}

#[track_caller]
fn code(lab: &Lab, sent: &MessageSent) -> WaitCode {
    waits(lab, sent).expect("it waits").code
}

/// What the send's answer says.
#[track_caller]
fn told(sent: &MessageSent) -> WaitCode {
    let waiting = only(&sent.deliveries).waiting.as_ref();
    waiting.expect("the answer says why it waits").code
}

#[test]
fn a_delivery_to_an_absent_agent_says_that_no_session_is_connected() {
    let lab = Lab::pair();
    let made = lab.now();
    let sent = lab.send("alice", mail("hello"));
    assert_eq!(told(&sent), WaitCode::NoSession);
    lab.pass(60_000);
    let expected = WaitReason {
        why: "no session of the agent is connected".to_owned(),
        code: WaitCode::NoSession,
        waits_for: None,
        since: made,
        until: None,
    };
    assert_eq!(waits(&lab, &sent), Some(expected));
    let bob = lab.attach("bob", &Kind::able());
    bob.deliver(&bob.offer());
    assert_eq!(waits(&lab, &sent), None);
}

#[test]
fn a_repeated_send_says_what_its_deliveries_wait_for_now() {
    let lab = Lab::pair();
    let keyed = || SendMessage {
        idempotency_key: Some("once".to_owned()),
        ..mail("hello")
    };
    let first = lab.send("alice", keyed());
    assert_eq!(lab.send("alice", keyed()), first);
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(told(&lab.send("alice", keyed())), WaitCode::Offered);
    bob.deliver(&bob.offer());
    let again = lab.send("alice", keyed());
    assert_eq!(only(&again.deliveries).state, DeliveryState::Pending);
    assert_eq!(only(&again.deliveries).waiting, None);
}

#[test]
fn a_delivery_says_which_boundary_or_session_state_it_waits_for() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed().doing(AgentStatus::Starting));
    let sent = lab.send("alice", mail("hello"));
    assert_eq!(told(&sent), WaitCode::SessionStarting);
    bob.becomes(AgentStatus::Active);
    let waiting = waits(&lab, &sent).unwrap();
    assert_eq!(waiting.code, WaitCode::Boundary);
    assert_eq!(waiting.waits_for, Some(DeliveryMode::NextToolCall));
    bob.becomes(AgentStatus::Paused);
    assert_eq!(code(&lab, &sent), WaitCode::SessionPaused);
    let manual = lab.send(
        "alice",
        SendMessage {
            mode: Some(DeliveryMode::Manual),
            ..mail("by hand")
        },
    );
    bob.becomes(AgentStatus::Idle);
    assert_eq!(code(&lab, &manual), WaitCode::Manual);
    // What was not taken yet is offered; then the session has it; then the session is gone with it.
    let made = lab.now();
    assert_eq!(code(&lab, &sent), WaitCode::Offered);
    lab.pass(5_000);
    let offer = bob.offer();
    bob.answer(&offer, accepted(offer.context.id));
    let waiting = waits(&lab, &sent).unwrap();
    assert_eq!(waiting.code, WaitCode::Accepted);
    assert_eq!(waiting.since, made.plus_millis(5_000));
    bob.lose_link();
    assert_eq!(code(&lab, &sent), WaitCode::AcceptedUnreachable);
    assert_eq!(code(&lab, &manual), WaitCode::Manual);
    lab.pass(11_000);
    assert_eq!(code(&lab, &manual), WaitCode::NoSession);
}

#[test]
fn a_delivery_says_until_when_it_is_put_off() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able());
    lab.policy(PolicyPatch {
        retry: Some(RetryPolicy {
            attempts: 3,
            min_ms: 1_000,
            max_ms: 1_000,
        }),
        ..PolicyPatch::default()
    });
    let tried = lab.send("alice", mail("try"));
    bob.answer(&bob.offer(), failed("no hands", Some(true)));
    let waiting = waits(&lab, &tried).unwrap();
    assert_eq!(waiting.code, WaitCode::RetryBackoff);
    assert!(waiting.until.is_some_and(|until| until > lab.now()));
    let put_off = lab.send("alice", mail("later"));
    bob.answer(&bob.offer(), deferred(lab.later(90_000)));
    let waiting = waits(&lab, &put_off).unwrap();
    assert_eq!(waiting.code, WaitCode::Deferred);
    assert_eq!(waiting.until, Some(lab.later(90_000)));
    lab.policy(PolicyPatch {
        sender_per_minute: Some(1),
        ..PolicyPatch::default()
    });
    let paced = (0..2)
        .map(|_| lab.send("alice", mail("fast")))
        .last()
        .unwrap();
    assert_eq!(told(&paced), WaitCode::SenderRate);
    let waiting = waits(&lab, &paced).unwrap();
    assert_eq!(waiting.code, WaitCode::SenderRate);
    assert_eq!(only(&paced.deliveries).waiting, Some(waiting));
}

#[test]
fn a_delivery_behind_a_full_window_says_so() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        window: Some(1),
        ..PolicyPatch::default()
    });
    let bob = lab.attach("bob", &Kind::able());
    let first = lab.send("alice", mail("first"));
    let second = lab.send("alice", mail("second"));
    assert_eq!(
        (told(&first), told(&second)),
        (WaitCode::Due, WaitCode::WindowFull)
    );
    assert_eq!(code(&lab, &first), WaitCode::Offered);
    assert_eq!(code(&lab, &second), WaitCode::WindowFull);
    bob.deliver(&bob.offer());
    assert_eq!(code(&lab, &second), WaitCode::Offered);
}

#[test]
fn a_later_share_of_a_backlog_says_so() {
    let lab = Lab::pair();
    lab.policy(PolicyPatch {
        backlog_per_turn: Some(1),
        ..PolicyPatch::default()
    });
    let first = lab.send("alice", mail("first"));
    let second = lab.send("alice", mail("second"));
    let bob = lab.attach("bob", &Kind::able());
    assert_eq!(code(&lab, &first), WaitCode::Offered);
    assert_eq!(code(&lab, &second), WaitCode::Backlog);
    assert_eq!(bob.texts(), ["first"]);
}
