//! Directing a session's life: pausing, releasing, snapshots. What it did not declare is refused before
//! anything is sent.

use relay_core::link::CloseReason;
use relay_core::{Error, Result};
use relay_protocol::delivery::{DeliveryMode, DeliveryState};
use relay_protocol::ids::AttachmentId;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::session::{ForkSession, LifecycleRequest, SessionSummary};
use relay_protocol::socket::ControlOp;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::kit::{Call, Kind, Lab, Session, minimum, now};

fn because(reason: &str) -> LifecycleRequest {
    LifecycleRequest {
        reason: Some(reason.to_owned()),
    }
}

fn begin_pause<'l>(lab: &'l Lab, bob: &Session<'l>) -> Call<'l, Result<SessionSummary>> {
    let (engine, key, id) = (lab.engine(), lab.who("key"), bob.id());
    lab.begin(async move { engine.pause_session(&key, id, because("lunch")).await })
}

fn begin_resume<'l>(lab: &'l Lab, bob: &Session<'l>) -> Call<'l, Result<SessionSummary>> {
    let (engine, key, id) = (lab.engine(), lab.who("key"), bob.id());
    lab.begin(async move { engine.resume_session(&key, id, because("back")).await })
}

fn refusal<T>(result: Result<T>) -> Problem {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.problem(),
    }
}

#[test]
fn what_was_not_declared_is_refused_and_nothing_is_sent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    let (engine, key, id) = (lab.engine(), lab.who("key"), bob.id());
    let why = LifecycleRequest::default;
    let refused = [
        (
            "lifecycle.pause",
            refusal(lab.drive(engine.pause_session(&key, id, why()))),
        ),
        (
            "lifecycle.resume",
            refusal(lab.drive(engine.resume_session(&key, id, why()))),
        ),
        (
            "lifecycle.fork",
            refusal(lab.drive(engine.fork_session(&key, id, ForkSession::default()))),
        ),
        (
            "lifecycle.snapshot",
            refusal(lab.drive(engine.snapshot_session(&key, id))),
        ),
    ];
    for (capability, problem) in refused {
        assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
        assert_eq!(problem.capability.as_deref(), Some(capability));
        assert_eq!(problem.requested, Some(json!(true)));
        assert_eq!(problem.supported, Some(json!(false)));
    }
    assert_eq!(bob.controls(), []);
    assert_eq!(bob.summary().status, AgentStatus::Idle);
}

#[test]
fn nobody_directs_the_session_of_another_agent() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let (engine, alice, id) = (lab.engine(), lab.who("alice"), bob.id());
    let why = LifecycleRequest::default;
    let problems = [
        refusal(lab.drive(engine.pause_session(&alice, id, why()))),
        refusal(lab.drive(engine.resume_session(&alice, id, why()))),
        refusal(lab.drive(engine.release_session(&alice, id, why()))),
        refusal(lab.drive(engine.fork_session(&alice, id, ForkSession::default()))),
        refusal(lab.drive(engine.snapshot_session(&alice, id))),
    ];
    for problem in problems {
        assert_eq!(problem.code, ErrorCode::UnknownSession);
    }
    assert_eq!(bob.controls(), []);
}

#[test]
fn pausing_holds_deliveries_and_resuming_lets_them_go() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    bob.becomes(AgentStatus::Blocked);
    let mut pause = begin_pause(&lab, &bob);
    assert!(pause.waits());
    assert_eq!(
        bob.summary().status,
        AgentStatus::Blocked,
        "until it says so"
    );
    let frame = bob.control();
    assert_eq!((frame.op, frame.session_id), (ControlOp::Pause, bob.id()));
    assert_eq!(frame.reason.as_deref(), Some("lunch"));
    bob.confirm(&frame);
    assert_eq!(pause.end().unwrap().status, AgentStatus::Paused);

    let id = lab.say("hello");
    lab.pass(3_600_000);
    assert_eq!(bob.texts(), [""; 0]);
    assert_eq!(lab.state(id), DeliveryState::Pending);

    let resume = begin_resume(&lab, &bob);
    let frame = bob.control();
    assert_eq!(frame.op, ControlOp::Resume);
    bob.confirm(&frame);
    assert_eq!(resume.end().unwrap().status, AgentStatus::Blocked);
    assert_eq!(bob.texts(), ["hello"]);
    assert_eq!(lab.last("session.resumed")["sessionId"], json!(bob.id()));
}

#[test]
fn a_session_that_cannot_be_paused_after_all_goes_on() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let pause = begin_pause(&lab, &bob);
    bob.refuse(&bob.control(), "in the middle of a write");
    let problem = refusal(pause.end());
    assert_eq!(problem.code, ErrorCode::UnsupportedOperation);
    assert_eq!(problem.detail, "in the middle of a write");
    assert_eq!(bob.summary().status, AgentStatus::Idle);
}

#[test]
fn a_session_that_says_nothing_is_not_paused() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let mut pause = begin_pause(&lab, &bob);
    lab.pass(29_999);
    assert!(pause.waits());
    lab.pass(1);
    assert_eq!(refusal(pause.end()).code, ErrorCode::SessionUnreachable);
    assert_eq!(bob.summary().status, AgentStatus::Idle);
    // What comes too late is told that it does.
    let late = bob.try_confirm(&bob.control());
    let Err(Error::Invalid { path, .. }) = late else {
        panic!("{late:?}");
    };
    assert_eq!(path, "controlId");
}

#[test]
fn a_session_without_a_link_cannot_be_asked() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    bob.lose_link();
    let pause = begin_pause(&lab, &bob);
    assert_eq!(refusal(pause.end()).code, ErrorCode::SessionUnreachable);
}

#[test]
fn a_link_that_is_lost_ends_the_question() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let pause = begin_pause(&lab, &bob);
    bob.lose_link();
    assert_eq!(refusal(pause.end()).code, ErrorCode::SessionUnreachable);
}

#[test]
fn a_release_is_asked_for_and_what_was_held_goes_to_the_other_session() {
    let lab = Lab::pair();
    let other = lab.attach("bob", &Kind::able());
    let bob = lab.attach("bob", &Kind::able().queueing());
    let [held, open] = ["held", "open"].map(|text| lab.say(text));
    let offers = bob.offers();
    bob.accept(&offers[0]);
    let mut release = bob.begin_release();
    assert!(release.waits());
    assert_eq!(bob.summary().status, AgentStatus::Releasing);
    assert!(other.is_current());
    let next = lab.say("next");
    assert_eq!(
        other.offer().context.id,
        next,
        "nothing new for one that ends"
    );
    // It may still say what it has done.
    bob.deliver(&offers[1]);
    assert_eq!(lab.state(open), DeliveryState::Delivered);

    let frame = bob.control();
    assert_eq!(frame.op, ControlOp::Release);
    bob.confirm(&frame);
    let ended = release.end().unwrap();
    assert_eq!(ended.status, AgentStatus::Released);
    assert_eq!(ended.ended_at, Some(lab.now()));
    assert_eq!(bob.closed(), Some(CloseReason::Ended));
    let passed_on = other.offer();
    assert_eq!(passed_on.context.id, held);
    assert!(passed_on.context.is_redelivered());
    other.deliver(&passed_on);
    assert_eq!(
        lab.course(held),
        ["created", "accepted", "deferred", "delivered"]
    );
    let told = lab.last("session.released");
    assert_eq!(told["sessionId"], json!(bob.id()));
    assert_eq!(told["reason"], "done");
}

#[test]
fn a_session_that_is_asked_to_end_and_says_nothing_has_ended_after_a_while() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    let mut release = bob.begin_release();
    lab.pass(29_999);
    assert!(release.waits());
    assert_eq!(bob.summary().status, AgentStatus::Releasing);
    lab.pass(1);
    assert_eq!(release.end().unwrap().status, AgentStatus::Released);
}

#[test]
fn a_session_that_refuses_to_end_has_ended() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &minimum());
    let release = bob.begin_release();
    bob.refuse(&bob.control(), "no");
    assert_eq!(release.end().unwrap().status, AgentStatus::Released);
}

#[test]
fn a_session_without_a_link_ends_at_once() {
    let lab = Lab::pair();
    let hooks = lab.attach("bob", &Kind::hooks(&[DeliveryMode::OnIdle]));
    assert_eq!(
        hooks.begin_release().end().unwrap().status,
        AgentStatus::Released
    );
    let lost = lab.attach("bob", &minimum());
    lost.lose_link();
    assert_eq!(
        lost.begin_release().end().unwrap().status,
        AgentStatus::Released
    );
}

#[test]
fn what_has_ended_cannot_be_ended_again() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let release = bob.begin_release();
    bob.confirm(&bob.control());
    release.end().unwrap();
    let again = refusal(bob.begin_release().end());
    assert_eq!(again.code, ErrorCode::IllegalTransition);
    let pause = refusal(begin_pause(&lab, &bob).end());
    assert_eq!(pause.code, ErrorCode::SessionUnreachable);
    assert_eq!(lab.events("session.released").len(), 1);
}

#[test]
fn nobody_else_gets_what_was_held_when_it_was_not_to_be_offered_again() {
    let lab = Lab::pair();
    let other = lab.attach("bob", &Kind::able());
    let bob = lab.attach("bob", &Kind::able().queueing());
    let id = lab.say("once");
    bob.accept_once(&bob.offer());
    let release = bob.begin_release();
    bob.confirm(&bob.control());
    release.end().unwrap();
    assert_eq!(other.texts(), [""; 0]);
    assert_eq!(lab.state(id), DeliveryState::Failed);
    let told = lab.last("delivery.failed");
    assert_eq!(
        [&told["reason"], &told["surfaced"]],
        ["session_released", "unknown"]
    );
}

#[test]
fn a_snapshot_is_kept_as_an_attachment() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let (engine, key, id) = (lab.engine(), lab.who("key"), bob.id());
    let call = lab.begin(engine.snapshot_session(&key, id));
    let frame = bob.control();
    assert_eq!(frame.op, ControlOp::Snapshot);
    let state = json!({ "turns": 3, "memory": ["a", "b"] });
    bob.confirm_with(&frame, state.clone());
    let snapshot: AttachmentId = call.end().unwrap().snapshot_id.parse().unwrap();
    // It is no upload that nobody uses.
    lab.pass(3 * 24 * 3_600_000);
    for who in ["bob", "key"] {
        let content = now(engine.attachment(&lab.who(who), snapshot)).unwrap();
        assert_eq!(content.media_type, "application/json");
        let read: serde_json::Value = serde_json::from_slice(&content.data).unwrap();
        assert_eq!(read, state);
    }
    let stranger = now(engine.attachment(&lab.who("alice"), snapshot));
    assert_eq!(refusal(stranger).code, ErrorCode::UnknownAttachment);
}

#[test]
fn a_snapshot_that_was_not_taken_is_none() {
    let lab = Lab::pair();
    let bob = lab.attach("bob", &Kind::able().directed());
    let (engine, key, id) = (lab.engine(), lab.who("key"), bob.id());
    let call = lab.begin(engine.snapshot_session(&key, id));
    bob.refuse(&bob.control(), "not now");
    assert_eq!(refusal(call.end()).detail, "not now");
    let call = lab.begin(engine.snapshot_session(&key, id));
    lab.pass(30_000);
    assert_eq!(refusal(call.end()).code, ErrorCode::SessionUnreachable);
}
