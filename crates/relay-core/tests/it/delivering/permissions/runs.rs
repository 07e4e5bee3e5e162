//! Runs: rules of their own, handed down, narrowed and never widened.

use relay_core::Result;
use relay_protocol::ids::RunId;
use relay_protocol::limits::RUN_DEPTH;
use relay_protocol::permission::{CancelPermission, CreateRun, PermissionRun, PermissionState};
use relay_protocol::problem::ErrorCode;
use serde_json::{Value, json};

use super::super::kit::{Lab, now};
use super::{ask, code, problem, rules};

impl Lab {
    fn try_run(
        &self,
        who: &str,
        parent: Option<RunId>,
        own: Option<Value>,
    ) -> Result<PermissionRun> {
        let body = CreateRun {
            parent_run_id: parent,
            permissions: own.map(rules),
        };
        self.drive(self.engine().create_run(&self.who(who), None, body))
    }

    fn begin_run(&self, parent: Option<&PermissionRun>, own: Option<Value>) -> PermissionRun {
        self.try_run("ada", parent.map(|run| run.run_id), own)
            .unwrap()
    }

    fn state_in(&self, run: &PermissionRun, command: &str) -> PermissionState {
        let body = json!({ "tool": "bash", "params": { "command": command }, "runId": run.run_id });
        self.try_ask(None, ask(body)).unwrap().state
    }
}

#[test]
fn a_run_asks_under_its_own_rules() {
    let lab = Lab::with_people();
    let run = lab.begin_run(None, Some(json!({ "allowlist": ["bash:ls **"] })));
    assert_eq!(lab.state_in(&run, "ls -la"), PermissionState::Approved);
    assert_eq!(lab.state_in(&run, "rm x"), PermissionState::Pending);
    assert_eq!(lab.ask("ls -la").state, PermissionState::Pending);
}

#[test]
fn a_child_has_its_parents_rules_may_narrow_them_and_never_widens_them() {
    let lab = Lab::with_people();
    let parent = lab.begin_run(
        None,
        Some(json!({ "allowlist": ["bash:git **"], "deny": ["bash:git push **"] })),
    );
    let same = lab.begin_run(Some(&parent), None);
    let stricter = lab.begin_run(
        Some(&parent),
        Some(json!({ "deny": ["bash:git reset **"] })),
    );
    let narrower = lab.begin_run(
        Some(&parent),
        Some(json!({ "allowlist": ["bash:git log **"] })),
    );
    let greedy = lab.begin_run(Some(&parent), Some(json!({ "allowlist": ["bash"] })));
    let below = lab.begin_run(Some(&narrower), Some(json!({ "allowlist": ["bash"] })));
    assert_eq!(below.depth, 2);
    use PermissionState::{Approved, Denied, Pending};
    let table = [
        (&same, "git log", Approved),
        (&same, "git push", Denied),
        (&same, "rm x", Pending),
        (&stricter, "git log", Approved),
        (&stricter, "git reset x", Denied),
        (&stricter, "git push", Denied),
        (&narrower, "git log -1", Approved),
        (&narrower, "git status", Pending),
        (&greedy, "git status", Approved),
        (&greedy, "git push", Denied),
        (&greedy, "rm x", Pending),
        (&below, "git log", Approved),
        (&below, "git status", Pending),
        (&below, "rm x", Pending),
    ];
    for (run, command, expected) in table {
        assert_eq!(lab.state_in(run, command), expected, "{command} {run:?}");
    }
}

#[test]
fn what_may_run_once_runs_once() {
    let lab = Lab::with_people();
    let run = lab.begin_run(
        None,
        Some(json!({ "allowOnce": ["bash:make **", "bash:make **"] })),
    );
    assert_eq!(lab.state_in(&run, "make a"), PermissionState::Approved);
    let lab = lab.restarted();
    assert_eq!(lab.state_in(&run, "make b"), PermissionState::Approved);
    assert_eq!(lab.state_in(&run, "make c"), PermissionState::Pending);
}

#[test]
fn a_run_that_ends_takes_those_below_and_their_questions_along() {
    let lab = Lab::with_people();
    let parent = lab.begin_run(None, None);
    let child = lab.begin_run(Some(&parent), None);
    let body = json!({ "tool": "bash", "params": { "command": "rm" }, "runId": child.run_id });
    let asked = lab.try_ask(None, ask(body.clone())).unwrap();
    let why = CancelPermission {
        reason: Some("stopped".to_owned()),
    };
    let ended = lab.drive(lab.engine().end_run(&lab.who("ada"), parent.run_id, why));
    assert!(ended.unwrap().ended_at.is_some());
    let asked = lab.permission(asked.permission_id);
    assert_eq!(asked.state, PermissionState::Cancelled);
    assert_eq!(asked.outcome.unwrap().reason.as_deref(), Some("stopped"));
    let refused = lab.try_ask(None, ask(body));
    assert_eq!(code(refused), ErrorCode::IllegalTransition);
    assert_eq!(
        code(lab.try_run("ada", Some(child.run_id), None)),
        ErrorCode::IllegalTransition
    );
}

#[test]
fn runs_of_others_do_not_exist_and_malformed_rules_are_named() {
    let lab = Lab::with_people();
    let run = lab.begin_run(None, None);
    assert_eq!(
        code(lab.try_run("bob", Some(run.run_id), None)),
        ErrorCode::UnknownRun
    );
    let bob = lab.who("bob");
    assert_eq!(
        code(now(lab.engine().permission_run(&bob, run.run_id))),
        ErrorCode::UnknownRun
    );
    let refused = problem(lab.try_run("ada", None, Some(json!({ "ask": [""] }))));
    assert_eq!(refused.path.as_deref(), Some("permissions.ask[0]"));
}

#[test]
fn runs_are_not_nested_without_end() {
    let lab = Lab::with_people();
    let mut run = lab.begin_run(None, None);
    for _ in 0..RUN_DEPTH {
        run = lab.begin_run(Some(&run), None);
    }
    let refused = lab.try_run("ada", Some(run.run_id), None);
    assert_eq!(code(refused), ErrorCode::LimitExceeded);
}
