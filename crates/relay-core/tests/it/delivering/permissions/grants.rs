//! Grants: what `always` covers, how far it reaches, what it settles, and how it ends.

use relay_protocol::ids::GrantId;
use relay_protocol::permission::{GrantScope, PermissionState};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use serde_json::{Value, json};

use super::super::kit::{Kind, Lab, now};
use super::{ask, code, rules};

fn always(extra: Value) -> Value {
    let mut body = json!({ "approved": true, "always": true });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

impl Lab {
    fn revoke(
        &self,
        who: &str,
        id: GrantId,
    ) -> relay_core::Result<relay_protocol::permission::Grant> {
        self.drive(self.engine().revoke_grant(&self.who(who), id))
    }
}

#[test]
fn always_grants_the_rule_that_was_shown_for_the_session_and_nothing_else() {
    let lab = Lab::with_people();
    let session = lab.attach("ada", &Kind::able());
    let other = lab.attach("ada", &Kind::able());
    let record = lab.ask_in(session.id(), "git status");
    assert_eq!(record.suggestions[0].rule, "bash:git status **");
    let done = lab
        .resolve("ana", record.permission_id, always(json!({})))
        .unwrap();
    let outcome = done.outcome.unwrap();
    assert_eq!(outcome.rule.as_deref(), Some("bash:git status **"));
    let grant = &lab.grants("ada", false)[0];
    assert_eq!(Some(grant.grant_id), outcome.grant_id);
    assert_eq!(grant.scope, GrantScope::Session);
    assert_eq!(grant.permission_id, Some(record.permission_id));
    assert_eq!(grant.by.name.as_deref(), Some("ana"));
    let state = |session, command: &str| lab.ask_in(session, command).state;
    assert_eq!(
        state(session.id(), "git status -s"),
        PermissionState::Approved
    );
    assert_eq!(state(session.id(), "git push"), PermissionState::Pending);
    assert_eq!(
        state(session.id(), "git status && rm -rf x"),
        PermissionState::Pending
    );
    assert_eq!(state(other.id(), "git status"), PermissionState::Pending);
    let used = lab.grants("key", false)[0].last_used_at;
    assert_eq!(used, Some(lab.now()));
}

#[test]
fn a_grant_reaches_as_far_as_its_scope() {
    let lab = Lab::with_people();
    let session = lab.attach("ada", &Kind::able());
    let turn = |turn: &str, command: &str| {
        ask(json!({ "tool": "bash", "params": { "command": command }, "turnId": turn }))
    };
    let grant = |command: &str, scope: &str| {
        let record = lab
            .try_ask(Some(session.id()), turn("t1", command))
            .unwrap();
        let body = always(json!({ "scope": scope }));
        lab.resolve("ana", record.permission_id, body).unwrap();
    };
    grant("make a", "turn");
    grant("cargo build", "agent");
    grant("npm test", "workspace");
    let ada = |turn_id: &str, command: &str| {
        let asked = lab.try_ask(Some(session.id()), turn(turn_id, command));
        asked.unwrap().state
    };
    assert_eq!(ada("t1", "make a"), PermissionState::Approved);
    assert_eq!(ada("t2", "make a"), PermissionState::Pending);
    assert_eq!(
        lab.ask("cargo build --release").state,
        PermissionState::Approved
    );
    let bob = |command: &str| {
        let bob = lab.who("bob");
        let asked = lab
            .engine()
            .ask_permission(&bob, None, super::bash(command));
        now(asked).unwrap().state
    };
    assert_eq!(bob("cargo build"), PermissionState::Pending);
    assert_eq!(bob("npm test"), PermissionState::Approved);
}

#[test]
fn a_new_grant_settles_the_waiting_requests_that_it_covers() {
    let lab = Lab::with_people();
    let first = lab.ask("git log -1");
    let covered = lab.ask("git log -5");
    let other = lab.ask("git push");
    let hidden = lab.ask("git log --author=x 'token=ghp_0123456789abcdefghijABCDEFGHIJ012345'");
    assert_eq!(hidden.masked, Some(true));
    let granted = lab
        .resolve("ana", first.permission_id, always(json!({})))
        .unwrap();
    let grant = granted.outcome.unwrap().grant_id;
    let settled = lab.permission(covered.permission_id);
    assert_eq!(settled.state, PermissionState::Approved);
    let outcome = settled.outcome.unwrap();
    assert_eq!(outcome.via.as_deref(), Some("grant"));
    assert_eq!(outcome.grant_id, grant);
    assert_eq!(lab.standing(other.permission_id), PermissionState::Pending);
    // Of what is masked the rule would not see all.
    assert_eq!(lab.standing(hidden.permission_id), PermissionState::Pending);
}

#[test]
fn a_grant_that_was_taken_back_decides_nothing_from_the_next_call_on() {
    let lab = Lab::with_people();
    let record = lab.ask("git log");
    let granted = lab
        .resolve("ana", record.permission_id, always(json!({})))
        .unwrap();
    let id = granted.outcome.unwrap().grant_id.unwrap();
    assert_eq!(lab.ask("git log -1").state, PermissionState::Approved);
    assert_eq!(code(lab.revoke("ada", id)), ErrorCode::Forbidden);
    assert_eq!(code(lab.revoke("bob", id)), ErrorCode::UnknownGrant);
    let gone = lab.revoke("ana", id).unwrap();
    assert_eq!(
        gone.revoked_by.clone().unwrap().name.as_deref(),
        Some("ana")
    );
    assert_eq!(lab.revoke("key", id).unwrap(), gone);
    assert_eq!(lab.ask("git log -1").state, PermissionState::Pending);
    assert!(lab.grants("key", false).is_empty());
    assert_eq!(lab.grants("key", true), [gone]);
    assert_eq!(lab.events("grant.revoked").len(), 1);
}

#[test]
fn a_grant_can_end_by_itself() {
    let lab = Lab::with_people();
    let record = lab.ask("git log");
    let body = always(json!({ "grantExpiresInMs": 60_000 }));
    lab.resolve("ana", record.permission_id, body).unwrap();
    lab.pass(59_999);
    assert_eq!(lab.ask("git log").state, PermissionState::Approved);
    lab.pass(1);
    assert_eq!(lab.ask("git log").state, PermissionState::Pending);
    assert!(lab.grants("key", false).is_empty());
}

#[test]
fn grants_lose_to_deny_and_to_explicit_ask() {
    let lab = Lab::with_people();
    let record = lab.ask("git push");
    lab.resolve(
        "ana",
        record.permission_id,
        always(json!({ "rule": "bash:git **" })),
    )
    .unwrap();
    assert_eq!(lab.ask("git push").state, PermissionState::Approved);
    lab.policy(PolicyPatch {
        permissions: Some(rules(
            json!({ "ask": ["bash:git push **"], "deny": ["bash:git reset **"] }),
        )),
        ..PolicyPatch::default()
    });
    assert_eq!(lab.ask("git push").state, PermissionState::Pending);
    assert_eq!(lab.ask("git reset --hard").state, PermissionState::Denied);
    assert_eq!(lab.ask("git log").state, PermissionState::Approved);
}

#[test]
fn where_no_rule_can_be_offered_always_means_once() {
    let lab = Lab::with_people();
    let record = lab.ask("");
    assert_eq!(record.suggestions, []);
    let done = lab
        .resolve("ana", record.permission_id, always(json!({})))
        .unwrap();
    assert_eq!(done.state, PermissionState::Approved);
    assert_eq!(done.outcome.unwrap().grant_id, None);
    assert_eq!(lab.ask("ls").state, PermissionState::Pending);
}

#[test]
fn what_was_granted_for_a_session_ends_with_it() {
    let lab = Lab::with_people();
    let session = lab.attach("ada", &Kind::able());
    let record = lab.ask_in(session.id(), "git log");
    lab.resolve("ana", record.permission_id, always(json!({})))
        .unwrap();
    assert_eq!(lab.grants("key", false).len(), 1);
    session.lose_link();
    let body = relay_protocol::session::LifecycleRequest { reason: None };
    let engine = lab.engine();
    lab.drive(engine.release_session(&lab.who("ada"), session.id(), body))
        .unwrap();
    assert!(lab.grants("key", false).is_empty());
    assert_eq!(lab.events("grant.revoked").len(), 1);
}
