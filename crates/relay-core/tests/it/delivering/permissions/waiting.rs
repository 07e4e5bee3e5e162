//! Waiting: time that passes, sessions that wait or are blocked, and callers who hear of the end.

use relay_protocol::permission::{CancelPermission, PermissionState};
use relay_protocol::problem::ErrorCode;
use relay_protocol::status::AgentStatus;
use serde_json::json;

use super::super::kit::{Kind, Lab, now};
use super::{bash, code, problem};

#[test]
fn whoever_waits_hears_of_the_decision_when_it_is_made() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    let ada = lab.who("ada");
    let mut first = lab.begin(lab.engine().permission_decided(&ada, id));
    let mut second = lab.begin(lab.engine().permission_decided(&ada, id));
    assert!(first.waits() && second.waits());
    lab.approve(id);
    assert_eq!(first.end().unwrap().state, PermissionState::Approved);
    assert_eq!(second.end().unwrap().state, PermissionState::Approved);
    let late = lab.drive(lab.engine().permission_decided(&ada, id));
    assert_eq!(late.unwrap().state, PermissionState::Approved);
}

#[test]
fn nobody_answers_and_that_is_not_a_refusal() {
    let lab = Lab::with_people();
    let mut body = bash("ls");
    body.expires_in_ms = Some(60_000);
    let id = lab.try_ask(None, body).unwrap().permission_id;
    let ada = lab.who("ada");
    let mut waits = lab.begin(lab.engine().permission_decided(&ada, id));
    lab.pass(59_999);
    assert!(waits.waits());
    lab.pass(1);
    assert_eq!(waits.end().unwrap().state, PermissionState::Expired);
    assert_eq!(lab.events("permission.expired").len(), 1);
    let late = problem(lab.resolve("ana", id, json!({ "approved": true })));
    assert_eq!(late.code, ErrorCode::PermissionResolved);
    assert_eq!(late.outcome.unwrap().decision, PermissionState::Expired);
}

#[test]
fn an_answer_that_comes_too_late_ends_what_the_clock_has_not_ended_yet() {
    let lab = Lab::with_people();
    let mut body = bash("ls");
    body.expires_in_ms = Some(1_000);
    let id = lab.try_ask(None, body).unwrap().permission_id;
    // Nobody looks at the clock meanwhile.
    lab.clock().advance(1_000);
    let (engine, ana) = (lab.engine(), lab.who("ana"));
    let late = engine.resolve_permission(&ana, id, super::answer(json!({ "approved": true })));
    let late = problem(now(late));
    assert_eq!(late.outcome.unwrap().decision, PermissionState::Expired);
    assert_eq!(lab.standing(id), PermissionState::Expired);
    lab.pass(5_000);
    assert_eq!(lab.events("permission.expired").len(), 1);
}

#[test]
fn a_request_of_a_former_process_expires_in_the_next_one() {
    let lab = Lab::with_people();
    let mut body = bash("ls");
    body.expires_in_ms = Some(60_000);
    let id = lab.try_ask(None, body).unwrap().permission_id;
    let lab = lab.restarted_after(10_000);
    lab.pass(49_999);
    assert_eq!(lab.standing(id), PermissionState::Pending);
    lab.pass(1);
    assert_eq!(lab.standing(id), PermissionState::Expired);
}

#[test]
fn whoever_asked_may_withdraw_it_and_nobody_else() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    let cancel = |who: &str| {
        let body = CancelPermission {
            reason: Some("not needed".to_owned()),
        };
        lab.drive(lab.engine().cancel_permission(&lab.who(who), id, body))
    };
    assert_eq!(code(cancel("bob")), ErrorCode::UnknownPermission);
    let cancelled = cancel("ada").unwrap();
    assert_eq!(cancelled.state, PermissionState::Cancelled);
    assert_eq!(
        cancelled.outcome.as_ref().unwrap().reason.as_deref(),
        Some("not needed")
    );
    assert_eq!(cancel("ada").unwrap(), cancelled);
    let late = problem(lab.resolve("ana", id, json!({ "approved": true })));
    assert_eq!(late.code, ErrorCode::PermissionResolved);
    let allowed = lab.ask("ls").permission_id;
    lab.approve(allowed);
    let body = CancelPermission::default();
    let late = lab.drive(
        lab.engine()
            .cancel_permission(&lab.who("ada"), allowed, body),
    );
    assert_eq!(code(late), ErrorCode::PermissionResolved);
}

#[test]
fn a_session_waits_while_somebody_is_there_and_goes_on_after_the_last_answer() {
    let lab = Lab::with_people();
    let ana = lab.attach("ana", &Kind::able());
    let ada = lab.attach("ada", &Kind::able());
    ada.becomes(AgentStatus::Active);
    let first = lab.ask_in(ada.id(), "rm 1").permission_id;
    let second = lab.ask_in(ada.id(), "rm 2").permission_id;
    assert_eq!(ada.summary().status, AgentStatus::Waiting);
    assert_eq!(ana.take_all().len(), 2);
    lab.approve(first);
    assert_eq!(ada.summary().status, AgentStatus::Waiting);
    lab.approve(second);
    assert_eq!(ada.summary().status, AgentStatus::Active);
}

#[test]
fn a_session_is_never_active_while_its_question_waits() {
    let lab = Lab::with_people();
    let _ana = lab.attach("ana", &Kind::able());
    let ada = lab.attach("ada", &Kind::able());
    let id = lab.ask_in(ada.id(), "rm 1").permission_id;
    // The report of the turn that asks is stored after the question.
    ada.becomes(AgentStatus::Active);
    assert_eq!(ada.summary().status, AgentStatus::Waiting);
    // Also when it was idle in between, and works on something else.
    ada.becomes(AgentStatus::Idle);
    ada.becomes(AgentStatus::Active);
    assert_eq!(ada.summary().status, AgentStatus::Waiting);
    lab.approve(id);
    assert_eq!(ada.summary().status, AgentStatus::Active);
    assert_eq!(lab.events("agent.status.active").len(), 1);
}

#[test]
fn a_session_is_blocked_until_somebody_is_reached() {
    let lab = Lab::with_people();
    let ada = lab.attach("ada", &Kind::able());
    let id = lab.ask_in(ada.id(), "rm 1").permission_id;
    assert_eq!(ada.summary().status, AgentStatus::Blocked);
    let ana = lab.attach("ana", &Kind::able());
    ana.deliver(&ana.offer());
    assert_eq!(ada.summary().status, AgentStatus::Waiting);
    lab.approve(id);
    assert_eq!(ada.summary().status, AgentStatus::Active);
}

#[test]
fn somebody_who_looks_without_a_mailbox_counts_too() {
    let lab = Lab::new(["ada"]);
    let ada = lab.attach("ada", &Kind::able());
    let id = lab.ask_in(ada.id(), "rm 1").permission_id;
    assert_eq!(ada.summary().status, AgentStatus::Blocked);
    let seen = |who: &str| lab.drive(lab.engine().see_permission(&lab.who(who), id));
    assert_eq!(code(seen("ada")), ErrorCode::Forbidden);
    assert_eq!(ada.summary().status, AgentStatus::Blocked);
    seen("key").unwrap();
    assert_eq!(ada.summary().status, AgentStatus::Waiting);
    assert_eq!(
        lab.last("permission.seen")["by"],
        json!({ "kind": "workspace" })
    );
}

#[test]
fn a_notice_that_nobody_needs_any_more_is_called_back() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    lab.resolve("key", id, json!({ "approved": true })).unwrap();
    lab.step();
    let ana = lab.attach("ana", &Kind::able());
    assert_eq!(ana.texts(), Vec::<String>::new());
    assert_eq!(lab.events("delivery.cancelled").len(), 1);
}
