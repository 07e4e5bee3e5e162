//! Limits at their edge: the last that is taken, and the first that is not.

use std::io::Write as _;

use relay_core::{Caller, PageQuery};
use relay_protocol::limits::{
    CALL_ID_BYTES, GRANT_EXPIRES_MAX_MS, GRANTS, PERMISSION_CWD_BYTES, PERMISSION_EXPIRES_MAX_MS,
    PERMISSION_EXPIRES_MS, PERMISSION_OPTIONS, PERMISSION_PARAMS_BYTES, PERMISSION_TITLE_BYTES,
    PERMISSION_TOLD, PERMISSION_VIA_BYTES, PERMISSIONS_KEPT_MS, RUNS_OPEN, TOOL_NAME_BYTES,
};
use relay_protocol::permission::{CancelPermission, CreateRun, PermissionState};
use relay_protocol::problem::ErrorCode;
use serde_json::{Value, json};

use super::super::kit::{Lab, now};
use super::{ask, bash, code};
use crate::depth::is_full;

/// A call with one more field.
fn with(field: &str, value: Value) -> Value {
    let mut body = json!({ "tool": "bash", "params": { "command": "ls" } });
    body[field] = value;
    body
}

fn options(count: usize) -> Value {
    let option =
        |at: usize| json!({ "optionId": at.to_string(), "kind": "allow_once", "name": "x" });
    (0..count).map(option).collect()
}

#[test]
fn what_is_asked_has_limits() {
    let text = |bytes: usize| Value::from("x".repeat(bytes));
    let path = |bytes: usize| Value::from(format!("/{}", "x".repeat(bytes - 1)));
    // As JSON the parameters are 14 bytes longer than the command.
    let params = |bytes: usize| json!({ "command": "x".repeat(bytes - 14) });
    let most = PERMISSION_PARAMS_BYTES;
    let table = [
        ("tool", text(TOOL_NAME_BYTES), text(TOOL_NAME_BYTES + 1)),
        ("params", params(most), params(most + 1)),
        ("toolCallId", text(CALL_ID_BYTES), text(CALL_ID_BYTES + 1)),
        ("turnId", text(CALL_ID_BYTES), text(CALL_ID_BYTES + 1)),
        (
            "title",
            text(PERMISSION_TITLE_BYTES),
            text(PERMISSION_TITLE_BYTES + 1),
        ),
        (
            "cwd",
            path(PERMISSION_CWD_BYTES),
            path(PERMISSION_CWD_BYTES + 1),
        ),
        (
            "options",
            options(PERMISSION_OPTIONS),
            options(PERMISSION_OPTIONS + 1),
        ),
        (
            "expiresInMs",
            PERMISSION_EXPIRES_MAX_MS.into(),
            (PERMISSION_EXPIRES_MAX_MS + 1).into(),
        ),
    ];
    let lab = Lab::with_people();
    for (field, last, first) in table {
        let taken = lab.try_ask(None, ask(with(field, last)));
        assert!(taken.is_ok(), "{field}: {taken:?}");
        let problem = lab
            .try_ask(None, ask(with(field, first)))
            .unwrap_err()
            .problem();
        assert_eq!(problem.path.as_deref(), Some(field));
    }
}

#[test]
fn what_is_answered_has_limits() {
    let text = |bytes: usize| Value::from("x".repeat(bytes));
    let table = [
        (
            "via",
            text(PERMISSION_VIA_BYTES),
            text(PERMISSION_VIA_BYTES + 1),
        ),
        (
            "policy",
            text(PERMISSION_VIA_BYTES),
            text(PERMISSION_VIA_BYTES + 1),
        ),
        ("responseId", text(CALL_ID_BYTES), text(CALL_ID_BYTES + 1)),
        (
            "grantExpiresInMs",
            GRANT_EXPIRES_MAX_MS.into(),
            (GRANT_EXPIRES_MAX_MS + 1).into(),
        ),
    ];
    let lab = Lab::with_people();
    for (at, (field, last, first)) in table.into_iter().enumerate() {
        let id = lab.ask(&format!("rm {at}")).permission_id;
        let answer = |value: Value| {
            let mut body = json!({ "approved": true, "always": true });
            body[field] = value;
            lab.resolve("ana", id, body)
        };
        let problem = answer(first).unwrap_err().problem();
        assert_eq!(problem.path.as_deref(), Some(field));
        answer(last).unwrap();
    }
}

#[test]
fn an_agent_has_so_many_runs_at_a_time() {
    let lab = Lab::with_people();
    let begin = || {
        lab.drive(
            lab.engine()
                .create_run(&lab.who("ada"), None, CreateRun::default()),
        )
    };
    let mut last = begin().unwrap();
    for _ in 1..RUNS_OPEN {
        last = begin().unwrap();
    }
    assert_eq!(code(begin()), ErrorCode::LimitExceeded);
    let ada = lab.who("ada");
    let ended = lab
        .engine()
        .end_run(&ada, last.run_id, CancelPermission::default());
    lab.drive(ended).unwrap();
    begin().unwrap();
}

/// Whether a slow test is to run; where it is not, the summary of `scripts/test` says so.
fn is_full_for(test: &str) -> bool {
    if is_full() {
        return true;
    }
    eprintln!("SKIPPED {test}: only at full depth");
    if let Some(notes) = std::env::var_os("RELAY_SKIPPED") {
        let mut notes = std::fs::File::options().append(true).open(notes).unwrap();
        writeln!(notes, "{test}: only at full depth").unwrap();
    }
    false
}

/// Ten agents, so that each call is held against a tenth of the grants only.
#[test]
fn a_workspace_has_so_many_grants() {
    if !is_full_for("the limit of grants") {
        return;
    }
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let lab = Lab::new(names);
    lab.person("ana");
    let grant = |at: usize| {
        let who = lab.who(names[at % names.len()]);
        let asked = lab
            .engine()
            .ask_permission(&who, None, bash(&format!("rm {at}")));
        let id = lab.drive(asked).unwrap().permission_id;
        lab.resolve("ana", id, json!({ "approved": true, "always": true }))
    };
    for at in 0..GRANTS {
        grant(at).unwrap();
    }
    assert_eq!(code(grant(GRANTS)), ErrorCode::LimitExceeded);
}

#[test]
fn so_many_people_are_told() {
    let lab = Lab::new(["ada"]);
    for at in 0..=PERMISSION_TOLD {
        lab.person(&format!("person{at}"));
    }
    let asked = lab.ask("rm x");
    let told = |name: &str| {
        let caller = lab.who(name);
        let unread = now(lab.engine().inbox(&caller, PageQuery::default())).unwrap();
        !unread.items.is_empty()
    };
    assert!(told(&format!("person{}", PERMISSION_TOLD - 1)));
    assert!(!told(&format!("person{PERMISSION_TOLD}")));
    // Who was not told may decide all the same.
    lab.resolve(
        &format!("person{PERMISSION_TOLD}"),
        asked.permission_id,
        json!({ "approved": true }),
    )
    .unwrap();
}

#[test]
fn what_has_ended_can_be_read_for_so_long() {
    let lab = Lab::with_people();
    let denied = lab.ask("rm x").permission_id;
    lab.resolve("ana", denied, json!({ "approved": false }))
        .unwrap();
    let allowed = lab.ask("ls").permission_id;
    lab.approve(allowed);
    let waiting = ask(with("expiresInMs", PERMISSION_EXPIRES_MAX_MS.into()));
    let waiting = lab.try_ask(None, waiting).unwrap().permission_id;
    let read = |id| now(lab.engine().permission(&lab.who("key"), id));
    let tidy = || {
        let owner = Caller::process_owner();
        let tidied = lab.engine().collect_garbage(&owner);
        lab.drive(tidied).unwrap()
    };
    let waited = PERMISSION_EXPIRES_MS.cast_signed();
    lab.pass(waited + PERMISSIONS_KEPT_MS);
    tidy();
    read(denied).unwrap();
    lab.pass(1);
    tidy();
    assert_eq!(code(read(denied)), ErrorCode::UnknownPermission);
    // It was not begun in all that time, and can't be any more.
    assert_eq!(code(read(allowed)), ErrorCode::UnknownPermission);
    // One that waited for as long as that has only just ended.
    assert_eq!(read(waiting).unwrap().state, PermissionState::Expired);
}
