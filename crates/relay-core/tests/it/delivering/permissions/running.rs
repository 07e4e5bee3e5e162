//! What was allowed: started once, with what was allowed, and its end is known or said to be unknown.

use relay_core::Caller;
use relay_protocol::agent::AgentIdentity;
use relay_protocol::permission::{ExecutionState, PermissionState};
use relay_protocol::problem::ErrorCode;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::super::kit::{Kind, Lab, now};
use super::code;

#[test]
fn it_is_started_once_and_only_after_it_was_allowed() {
    let lab = Lab::with_people();
    let record = lab.ask("ls");
    assert_eq!(code(lab.start(&record)), ErrorCode::PermissionNotGranted);
    lab.approve(record.permission_id);
    assert_eq!(
        code(lab.start_with(&record, "other", None)),
        ErrorCode::PermissionNotGranted
    );
    let started = lab
        .start_with(&record, &record.args_hash, Some("s1"))
        .unwrap();
    let execution = started.execution.clone().unwrap();
    assert_eq!(execution.state, ExecutionState::Started);
    // The same start, sent once more because its answer was lost, is the same start.
    let again = lab
        .start_with(&record, &record.args_hash, Some("s1"))
        .unwrap();
    assert_eq!(again, started);
    let other = lab.start_with(&record, &record.args_hash, Some("s2"));
    assert_eq!(code(other), ErrorCode::AlreadyStarted);
    assert_eq!(
        code(lab.finish(&record, "cancelled")),
        ErrorCode::AlreadyStarted
    );
    let done = lab.finish(&record, "completed").unwrap();
    assert_eq!(done.execution.unwrap().state, ExecutionState::Completed);
    lab.finish(&record, "completed").unwrap();
    assert_eq!(
        code(lab.finish(&record, "failed")),
        ErrorCode::IllegalTransition
    );
    assert_eq!(code(lab.start(&record)), ErrorCode::AlreadyStarted);
    assert_eq!(
        lab.course_of_permissions(),
        [
            "permission.requested",
            "permission.resolved",
            "permission.started",
            "permission.finished"
        ]
    );
}

#[test]
fn what_is_refused_never_starts() {
    let lab = Lab::with_people();
    let record = lab.ask("ls");
    lab.resolve("ana", record.permission_id, json!({ "approved": false }))
        .unwrap();
    assert_eq!(code(lab.start(&record)), ErrorCode::PermissionNotGranted);
    assert_eq!(
        code(lab.finish(&record, "completed")),
        ErrorCode::PermissionNotGranted
    );
}

#[test]
fn only_whoever_asked_starts_and_ends_it() {
    let lab = Lab::with_people();
    let record = lab.ask("ls");
    lab.approve(record.permission_id);
    for who in ["bob", "ana"] {
        let body = relay_protocol::permission::StartPermission {
            args_hash: record.args_hash.clone(),
            start_id: None,
        };
        let engine = lab.engine();
        let started = now(engine.start_permission(&lab.who(who), record.permission_id, body));
        assert_eq!(code(started), ErrorCode::UnknownPermission);
    }
}

#[test]
fn a_session_that_ends_leaves_nothing_open_and_nothing_is_called_denied() {
    let lab = Lab::with_people();
    let session = lab.attach("ada", &Kind::able());
    let waiting = lab.ask_in(session.id(), "rm 1");
    let allowed = lab.ask_in(session.id(), "rm 2");
    let mut third = super::bash("rm 3");
    third.tool_call_id = Some("c3".to_owned());
    let started = lab.try_ask(Some(session.id()), third).unwrap();
    let done = lab.ask_in(session.id(), "rm 4");
    for record in [&allowed, &started, &done] {
        lab.approve(record.permission_id);
    }
    lab.start(&started).unwrap();
    lab.start(&done).unwrap();
    lab.finish(&done, "completed").unwrap();
    let release = session.begin_release();
    session.confirm(&session.control());
    release.end().unwrap();

    let waiting = lab.permission(waiting.permission_id);
    assert_eq!(waiting.state, PermissionState::Cancelled);
    let reason = waiting.outcome.unwrap().reason.unwrap();
    assert_eq!(reason, "the session is released: done");
    let state = |record: &relay_protocol::permission::PermissionRecord| {
        let execution = lab.permission(record.permission_id).execution.unwrap();
        (execution.state, execution.error)
    };
    let (cancelled, why) = state(&allowed);
    assert_eq!(cancelled, ExecutionState::Cancelled);
    assert_eq!(why.as_deref(), Some("the session is released: done"));
    let (unknown, why) = state(&started);
    assert_eq!(unknown, ExecutionState::Unknown);
    assert!(why.unwrap().contains("nobody knows"));
    assert_eq!(state(&done), (ExecutionState::Completed, None));
    // Asked about again, it is the request that it was.
    let mut body = super::bash("rm 3");
    body.tool_call_id.clone_from(&started.tool_call_id);
    let again = lab.try_ask(Some(session.id()), body).unwrap();
    assert_eq!(again.permission_id, started.permission_id);
    // It is not run again, and whoever does know how it ended may still say so.
    assert_eq!(code(lab.start(&started)), ErrorCode::AlreadyStarted);
    lab.finish(&started, "failed").unwrap();
    assert_eq!(state(&started).0, ExecutionState::Failed);
}

#[test]
fn what_lived_in_a_process_that_is_gone_leaves_nothing_open() {
    let lab = Lab::with_people();
    let (gone, elsewhere) = (
        lab.attach("ada", &Kind::able()),
        lab.attach("bob", &Kind::able()),
    );
    let waiting = lab.ask_in(gone.id(), "rm 1");
    let started = lab.ask_in(gone.id(), "rm 2");
    lab.approve(started.permission_id);
    lab.start(&started).unwrap();
    let (gone_id, elsewhere_id) = (gone.id(), elsewhere.id());
    drop((gone, elsewhere));

    let lab = lab.restarted();
    let engine = lab.engine();
    let is_ada = |agent: &AgentIdentity| agent.name == "ada";
    let refused = now(engine.release_left(&lab.who("key"), is_ada, "it is gone"));
    assert_eq!(code(refused), ErrorCode::Forbidden);
    let owner = Caller::process_owner();
    let left = lab.drive(engine.release_left(&owner, is_ada, "it is gone"));
    assert_eq!(left.unwrap(), 1);
    let again = lab.drive(engine.release_left(&owner, is_ada, "it is gone"));
    assert_eq!(again.unwrap(), 0);

    let ended = lab.session(gone_id);
    assert_eq!(ended.status, AgentStatus::Released);
    assert_eq!(ended.reason.as_deref(), Some("it is gone"));
    assert_ne!(lab.session(elsewhere_id).status, AgentStatus::Released);
    let waiting = lab.permission(waiting.permission_id);
    assert_eq!(waiting.state, PermissionState::Cancelled);
    let reason = waiting.outcome.unwrap().reason.unwrap();
    assert_eq!(reason, "the session is released: it is gone");
    let execution = lab.permission(started.permission_id).execution.unwrap();
    assert_eq!(execution.state, ExecutionState::Unknown);
}

#[test]
fn an_agent_that_is_released_leaves_nothing_open() {
    let lab = Lab::with_people();
    let waiting = lab.ask("rm 1");
    let started = lab.ask("rm 2");
    lab.approve(started.permission_id);
    lab.start(&started).unwrap();
    let engine = lab.engine();
    lab.drive(engine.release_agent(&lab.who("key"), "ada", None))
        .unwrap();
    let waiting = lab.permission(waiting.permission_id);
    assert_eq!(waiting.state, PermissionState::Cancelled);
    let started = lab.permission(started.permission_id);
    assert_eq!(started.execution.unwrap().state, ExecutionState::Unknown);
}

#[test]
fn a_restart_forgets_nothing_asks_nothing_twice_and_runs_nothing_twice() {
    let lab = Lab::with_people();
    let mut body = super::bash("rm 1");
    body.tool_call_id = Some("c1".to_owned());
    let waiting = lab.try_ask(None, body.clone()).unwrap();
    let allowed = lab.ask("rm 2");
    let started = lab.ask("rm 3");
    lab.approve(allowed.permission_id);
    lab.approve(started.permission_id);
    lab.start_with(&started, &started.args_hash, Some("s"))
        .unwrap();

    let lab = lab.restarted_after(1_000);
    assert_eq!(lab.try_ask(None, body).unwrap(), waiting);
    lab.approve(waiting.permission_id);
    lab.start(&waiting).unwrap();
    lab.start(&allowed).unwrap();
    let again = lab.start_with(&started, &started.args_hash, Some("new process"));
    assert_eq!(code(again), ErrorCode::AlreadyStarted);
    assert_eq!(lab.events("permission.requested").len(), 3);
    assert_eq!(lab.events("permission.started").len(), 3);
}
