//! Links that come and go: which session an agent's messages go to, and when it is offline.

use relay_core::link::CloseReason;
use relay_protocol::api::messages::SendMessage;
use relay_protocol::delivery::DeliveryMode;
use relay_protocol::limits::ATTACH_CLIENT_BYTES;
use relay_protocol::problem::ErrorCode;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Kind, Lab, Session, mail, minimum};

/// Which of these is the current one.
fn current(sessions: &[&Session<'_>]) -> Vec<bool> {
    sessions
        .iter()
        .map(|session| session.is_current())
        .collect()
}

#[test]
fn messages_go_to_the_newest_session() {
    let lab = Lab::pair();
    let old = lab.attach("bob", &minimum());
    let new = lab.attach("bob", &minimum());
    assert_eq!(current(&[&old, &new]), [false, true]);
    lab.say("hello");
    assert_eq!(old.texts(), [""; 0]);
    assert_eq!(new.texts(), ["hello"]);
}

#[test]
fn a_session_that_starts_is_current_but_gets_nothing() {
    let lab = Lab::pair();
    let old = lab.attach("bob", &minimum());
    let new = lab.attach("bob", &minimum().doing(AgentStatus::Starting));
    assert_eq!(current(&[&old, &new]), [false, true]);
    lab.say("hello");
    assert_eq!((old.texts().len(), new.texts().len()), (0, 0));
    new.becomes(AgentStatus::Idle);
    assert_eq!(new.texts(), ["hello"]);
}

#[test]
fn a_paused_session_stays_current() {
    let lab = Lab::pair();
    let old = lab.attach("bob", &Kind::able());
    let new = lab.attach("bob", &Kind::able().directed());
    new.becomes(AgentStatus::Paused);
    assert_eq!(current(&[&old, &new]), [false, true]);
    lab.say("hello");
    assert_eq!((old.texts().len(), new.texts().len()), (0, 0));
    new.becomes(AgentStatus::Idle);
    assert_eq!(new.texts(), ["hello"]);
}

/// Regression: only four of the states could be named.
#[test]
fn a_harness_may_name_paused_as_a_safe_state() {
    let lab = Lab::pair();
    let kind = Kind::able().directed().safe_in(&[AgentStatus::Paused]);
    let bob = lab.attach("bob", &kind);
    lab.say("hello");
    assert_eq!(bob.texts(), [""; 0], "idle is not safe for this one");
    bob.becomes(AgentStatus::Paused);
    assert_eq!(bob.offer().context.mode, DeliveryMode::OnIdle);
    lab.post(SendMessage {
        mode: Some(DeliveryMode::Immediate),
        ..mail("at once")
    });
    assert_eq!(bob.texts(), [""; 0], "on-idle is open, and nothing else");
    bob.becomes(AgentStatus::Active);
    assert_eq!(bob.texts(), ["at once"]);
}

#[test]
fn an_offline_session_gives_way_to_the_older_one_and_takes_over_again() {
    let lab = Lab::pair();
    let old = lab.attach("bob", &minimum());
    let new = lab.attach("bob", &minimum());
    new.lose_link();
    lab.say("hello");
    lab.pass(9_999);
    assert_eq!(current(&[&old, &new]), [false, true]);
    assert_eq!(old.texts(), [""; 0], "it may come back");
    lab.pass(1);
    assert_eq!(current(&[&old, &new]), [true, false]);
    assert_eq!(old.texts(), ["hello"]);
    let back = lab.attach("bob", &minimum().resuming(new.token()));
    assert_eq!(current(&[&old, &back]), [false, true]);
    lab.say("again");
    assert_eq!(back.texts(), ["again"]);
    assert_eq!(old.texts(), [""; 0]);
}

#[test]
fn without_any_session_that_can_be_reached_none_is_current() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    bob.lose_link();
    lab.pass(10_000);
    assert!(!bob.is_current());
    let id = lab.say("hello");
    assert_eq!(lab.course(id), ["created"]);
    let back = lab.attach("bob", &minimum().resuming(bob.token()));
    assert_eq!(back.texts(), ["hello"]);
}

#[test]
fn a_session_is_offline_after_the_grace_time_and_not_before() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    bob.becomes(AgentStatus::Active);
    lab.pass(3_600_000);
    assert_eq!(bob.summary().status, AgentStatus::Active);
    bob.lose_link();
    lab.pass(9_999);
    assert_eq!(bob.summary().status, AgentStatus::Active);
    lab.pass(1);
    let seen = bob.summary();
    assert_eq!(seen.status, AgentStatus::Offline);
    assert_eq!(seen.reason.as_deref(), Some("its link was lost"));
    let told = lab.last("agent.status.offline");
    assert_eq!(told["previousStatus"], "active");
    assert_eq!(told["sessionId"], json!(bob.id()));

    let back = lab.attach("bob", &minimum().resuming(bob.token()));
    assert_eq!(back.summary().status, AgentStatus::Active);
    let told = lab.last("agent.status.changed");
    assert_eq!(
        [&told["previousStatus"], &told["status"]],
        ["offline", "active"]
    );
}

#[test]
fn a_session_that_comes_back_in_time_was_never_away() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    bob.lose_link();
    lab.pass(9_999);
    let back = lab.attach("bob", &minimum().resuming(bob.token()));
    lab.pass(60_000);
    assert_eq!(back.summary().status, AgentStatus::Idle);
    assert_eq!(lab.events("agent.status.offline").len(), 0);
    // Every time has its own grace.
    back.lose_link();
    lab.pass(9_999);
    assert_eq!(back.summary().status, AgentStatus::Idle);
    lab.pass(1);
    assert_eq!(back.summary().status, AgentStatus::Offline);
}

#[test]
fn a_status_told_on_return_counts() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    bob.lose_link();
    lab.pass(10_000);
    let blocked = minimum().resuming(bob.token()).doing(AgentStatus::Blocked);
    let back = lab.attach("bob", &blocked);
    assert_eq!(back.summary().status, AgentStatus::Blocked);
}

#[test]
fn a_paused_session_that_was_away_is_paused_again() {
    let lab = Lab::pair();
    let kind = Kind::able().directed();
    let bob = lab.attach("bob", &kind);
    bob.becomes(AgentStatus::Paused);
    bob.lose_link();
    lab.pass(10_000);
    assert_eq!(bob.summary().status, AgentStatus::Offline);
    let back = lab.attach("bob", &kind.resuming(bob.token()));
    assert_eq!(back.summary().status, AgentStatus::Paused);
    lab.say("hello");
    assert_eq!(back.texts(), [""; 0]);
}

#[test]
fn the_older_of_two_links_is_closed_and_its_loss_means_nothing() {
    let lab = Lab::pair();
    let first = lab.attach("bob", &minimum());
    let second = lab.attach("bob", &minimum().resuming(first.token()));
    assert_eq!(first.closed(), Some(CloseReason::Superseded));
    first.lose_link();
    lab.say("hello");
    assert_eq!(second.texts(), ["hello"]);
    assert_eq!(second.closed(), None);
}

#[test]
fn a_broken_link_is_noticed_when_something_is_handed_over() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    bob.breaks_unnoticed();
    let id = lab.say("hello");
    lab.step();
    assert_eq!(lab.course(id), ["created", "deferred"]);
    lab.pass(10_000);
    assert_eq!(bob.summary().status, AgentStatus::Offline);
}

#[test]
fn an_attempt_that_comes_late_takes_nothing_over() {
    let lab = Lab::pair();
    let first = lab.attach("bob", &minimum().attempt("a", 1));
    let again = || minimum().resuming(first.token());
    let third = lab.attach("bob", &again().attempt("a", 3));
    // What the client said over the connection before arrives only now.
    let refused = lab
        .try_attach("bob", &again().attempt("a", 2))
        .err()
        .unwrap();
    let problem = refused.problem();
    assert_eq!(problem.code, ErrorCode::SessionUnreachable);
    assert!(problem.retryable);
    assert_eq!(third.closed(), None);
    lab.say("hello");
    assert_eq!(third.texts(), ["hello"]);
    // Another client is another matter, whatever it counts; and so is one that does not count.
    let other = lab.attach("bob", &again().attempt("b", 1));
    assert_eq!(third.closed(), Some(CloseReason::Superseded));
    lab.say("to the other");
    assert_eq!(other.texts(), ["hello", "to the other"]);
    let plain = lab.attach("bob", &again());
    assert_eq!(other.closed(), Some(CloseReason::Superseded));
    let last = lab.attach("bob", &again().attempt("a", 1));
    assert_eq!(plain.closed(), Some(CloseReason::Superseded));
    assert!(last.is_current());
}

#[test]
fn what_a_client_calls_itself_has_a_limit() {
    let lab = Lab::pair();
    let name = "x".repeat(ATTACH_CLIENT_BYTES);
    lab.attach("bob", &minimum().attempt(&name, 1));
    let refused = lab.try_attach("bob", &minimum().attempt(&format!("{name}x"), 1));
    let problem = refused.err().unwrap().problem();
    assert_eq!(problem.path.as_deref(), Some("attempt.client"));
}
