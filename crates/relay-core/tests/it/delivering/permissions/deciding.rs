//! Deciding: who may, what an answer can say, that the first one counts, and that all learn of it.

use relay_protocol::permission::{DeciderKind, PermissionState, args_hash};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use serde_json::{Value, json};

use super::super::forks::begin_fork;
use super::super::kit::{Kind, Lab, now};
use super::{ask, bash, code, problem, rules};

#[test]
fn the_first_answer_counts_and_the_second_learns_whose_it_was() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    let body = json!({ "approved": true, "via": "cli", "reason": "fine" });
    let won = lab.resolve("ana", id, body).unwrap();
    assert_eq!(won.state, PermissionState::Approved);
    let lost = problem(lab.resolve("key", id, json!({ "approved": false })));
    assert_eq!(lost.code, ErrorCode::PermissionResolved);
    let outcome = lost.outcome.unwrap();
    assert_eq!(outcome.decision, PermissionState::Approved);
    let by = outcome.by.unwrap();
    assert_eq!(
        (by.kind, by.name.as_deref()),
        (DeciderKind::Human, Some("ana"))
    );
    assert_eq!(outcome.via.as_deref(), Some("cli"));
    assert!(
        lost.detail.contains("by human ana via cli"),
        "{}",
        lost.detail
    );
    assert_eq!(lab.permission(id), won);
    let told = lab.events("permission.resolved");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["outcome"], json!(won.outcome));
}

#[test]
fn whoever_asks_does_not_decide_and_to_other_agents_it_does_not_exist() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    let body = json!({ "approved": true });
    assert_eq!(
        code(lab.resolve("ada", id, body.clone())),
        ErrorCode::Forbidden
    );
    let refused = lab.last("permission.refused");
    assert_eq!(refused["by"], json!({ "kind": "agent", "name": "ada" }));
    assert_eq!(
        code(lab.resolve("bob", id, body.clone())),
        ErrorCode::UnknownPermission
    );
    let bob = lab.who("bob");
    let seen = now(lab.engine().permission(&bob, id));
    assert_eq!(code(seen), ErrorCode::UnknownPermission);
    assert!(lab.asked_for(&bob, None).is_empty());
    assert_eq!(lab.standing(id), PermissionState::Pending);
    // A person does not decide about what they ask themselves either.
    let ana = lab.who("ana");
    let own = now(lab.engine().ask_permission(&ana, None, bash("ls"))).unwrap();
    let own = own.permission_id;
    assert_eq!(
        code(lab.resolve("ana", own, body.clone())),
        ErrorCode::Forbidden
    );
    lab.resolve("key", own, body).unwrap();
}

#[test]
fn an_agent_does_not_decide_about_what_was_forked_from_it() {
    let lab = Lab::with_people();
    lab.person("dan");
    let parent = lab.attach("dan", &Kind::able().directed());
    let fork = begin_fork(&lab, "key", &parent, Some("ada2"));
    let frame = parent.control();
    parent.confirm(&frame);
    let fork = fork.end().unwrap().session_id;
    let resumes = Kind::able()
        .directed()
        .resuming(&frame.fork.unwrap().resume_token);
    let _child = lab.attach_as("dan", "ada2", &resumes).unwrap();
    lab.let_in("ada2");
    let child = lab.who("ada2");
    let asked = lab.drive(lab.engine().ask_permission(&child, Some(fork), bash("ls")));
    let id = asked.unwrap().permission_id;
    assert_eq!(
        code(lab.resolve("dan", id, json!({ "approved": true }))),
        ErrorCode::Forbidden
    );
    lab.resolve("ana", id, json!({ "approved": true })).unwrap();
}

#[test]
fn an_answer_can_be_repeated_under_its_id() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    let body = json!({ "approved": true, "responseId": "r1" });
    let first = lab.resolve("ana", id, body.clone()).unwrap();
    assert_eq!(lab.resolve("ana", id, body).unwrap(), first);
    let other = json!({ "approved": false, "responseId": "r1" });
    assert_eq!(
        code(lab.resolve("ana", id, other)),
        ErrorCode::IdempotencyConflict
    );
    let another = json!({ "approved": true, "responseId": "r2" });
    assert_eq!(
        code(lab.resolve("ana", id, another)),
        ErrorCode::PermissionResolved
    );
    assert_eq!(lab.events("permission.resolved").len(), 1);
}

#[test]
fn an_answer_that_does_not_fit_is_refused_and_the_request_waits_on() {
    let lab = Lab::with_people();
    let record = lab.ask("ls");
    let id = record.permission_id;
    let cases = [
        (json!({ "approved": true, "optionId": "maybe" }), "optionId"),
        (
            json!({ "approved": false, "optionId": "allow_once" }),
            "approved",
        ),
        (
            json!({ "approved": true, "optionId": "allow_once", "always": true }),
            "always",
        ),
        (json!({ "approved": true, "stop": true }), "stop"),
        (json!({ "approved": true, "guidance": "go" }), "guidance"),
        (json!({ "approved": false, "guidance": " " }), "guidance"),
        (
            json!({ "approved": false, "updatedParams": {} }),
            "updatedParams",
        ),
        (json!({ "approved": true, "rule": "bash" }), "rule"),
        (
            json!({ "approved": true, "always": true, "rule": "bash:rm **" }),
            "rule",
        ),
        (
            json!({ "approved": true, "always": true, "rule": "bash:" }),
            "rule",
        ),
        (
            json!({ "approved": true, "always": true, "scope": "turn" }),
            "scope",
        ),
        (
            json!({ "approved": true, "always": true, "scope": "session" }),
            "scope",
        ),
        (
            json!({ "approved": true, "always": true, "grantExpiresInMs": 0 }),
            "grantExpiresInMs",
        ),
        (json!({ "approved": true, "argsHash": "other" }), "argsHash"),
        (
            json!({ "approved": true, "reason": "x".repeat(10_000) }),
            "reason",
        ),
    ];
    for (body, path) in cases {
        let refused = problem(lab.resolve("ana", id, body.clone()));
        assert_eq!(refused.path.as_deref(), Some(path), "{body}");
    }
    assert_eq!(lab.permission(id), record);
    assert!(lab.grants("key", true).is_empty());
    lab.resolve(
        "ana",
        id,
        json!({ "approved": true, "argsHash": record.args_hash }),
    )
    .unwrap();
}

#[test]
fn options_of_the_asker_are_kept_and_the_chosen_one_is_told() {
    let lab = Lab::with_people();
    let options = json!([
        { "optionId": "yes", "kind": "allow_once", "name": "Yes" },
        { "optionId": "never", "kind": "reject_always", "name": "Never" },
    ]);
    let body = json!({ "tool": "bash", "params": { "command": "make x" }, "options": options });
    let record = lab.try_ask(None, ask(body.clone())).unwrap();
    assert_eq!(json!(record.options), options);
    let never = json!({ "approved": false, "optionId": "never" });
    let done = lab.resolve("ana", record.permission_id, never).unwrap();
    assert_eq!(done.outcome.unwrap().option_id.as_deref(), Some("never"));
    // What was refused for good is refused without a question.
    let again = lab.try_ask(None, ask(body)).unwrap();
    assert_eq!(again.state, PermissionState::Denied);
    let grant = &lab.grants("key", false)[0];
    assert_eq!(grant.effect.as_str(), "deny");
}

#[test]
fn a_refusal_has_three_strengths() {
    let lab = Lab::with_people();
    let plain = lab.ask("ls").permission_id;
    let plain = lab.resolve(
        "ana",
        plain,
        json!({ "approved": false, "reason": "not now" }),
    );
    let outcome = plain.unwrap().outcome.unwrap();
    assert_eq!(
        (outcome.reason.as_deref(), outcome.stop),
        (Some("not now"), None)
    );
    let stop = lab.ask("ls").permission_id;
    let stop = lab.resolve("ana", stop, json!({ "approved": false, "stop": true }));
    assert_eq!(stop.unwrap().outcome.unwrap().stop, Some(true));
    let guided = lab.ask("ls").permission_id;
    let body = json!({ "approved": false, "guidance": "Use exa instead." });
    let guided = lab.resolve("ana", guided, body).unwrap();
    let message = guided.outcome.unwrap().guidance_message_id.unwrap();
    let sent = lab.last("message.created");
    assert_eq!(sent["message"]["id"], json!(message));
    assert_eq!(sent["message"]["text"], "Use exa instead.");
    assert_eq!(sent["message"]["from"]["name"], "ana");
    let inbox = now(lab.engine().inbox(&lab.who("ada"), Default::default())).unwrap();
    assert_eq!(inbox.items[0].message.text, "Use exa instead.");
}

#[test]
fn a_call_can_be_changed_before_it_is_allowed_but_not_into_what_is_refused() {
    let lab = Lab::with_people();
    lab.policy(PolicyPatch {
        permissions: Some(rules(json!({ "deny": ["bash:rm **"] }))),
        ..PolicyPatch::default()
    });
    let record = lab.ask("ls -la");
    let id = record.permission_id;
    let change =
        |command: &str| json!({ "approved": true, "updatedParams": { "command": command } });
    let refused = problem(lab.resolve("ana", id, change("rm -rf x")));
    assert_eq!(refused.code, ErrorCode::DeniedByRule);
    let secret = change("curl -u me:ghp_0123456789abcdefghijABCDEFGHIJ012345 x");
    assert_eq!(
        code(lab.resolve("ana", id, secret)),
        ErrorCode::SecretRefused
    );
    assert_eq!(lab.permission(id), record);
    let changed = lab.resolve("ana", id, change("ls -l")).unwrap();
    let updated = json!({ "command": "ls -l" });
    let outcome = changed.outcome.as_ref().unwrap();
    assert_eq!(json!(outcome.updated_params), updated);
    assert_eq!(json!(changed.params), json!({ "command": "ls -la" }));
    // What was asked about may not run any more, and what was allowed may.
    assert_eq!(code(lab.start(&record)), ErrorCode::PermissionNotGranted);
    let hash = args_hash("bash", updated.as_object().unwrap());
    lab.start_with(&record, &hash, None).unwrap();
}

#[test]
fn a_policy_may_decide_in_the_place_of_a_person() {
    let lab = Lab::with_people();
    let id = lab.ask("ls").permission_id;
    let body = json!({ "approved": true, "policy": "night.json", "via": "watch" });
    let outcome = lab.resolve("ana", id, body).unwrap().outcome.unwrap();
    assert_eq!(
        json!(outcome.by),
        json!({ "kind": "policy", "name": "night.json" })
    );
}

#[test]
fn observers_see_that_something_is_asked_and_not_what_unless_that_was_granted() {
    let lab = Lab::with_people();
    let id = lab.ask("cat /etc/shadow").permission_id;
    let look = |grants: Value| {
        let body = json!({ "name": "eye", "scope": { "grants": grants } });
        let body = relay_protocol::wire::decode_value(body).unwrap();
        let made = now(lab.engine().create_observer(&lab.who("key"), body)).unwrap();
        let eye = now(lab.engine().authenticate(&made.token)).unwrap();
        now(lab.engine().permission(&eye, id)).unwrap()
    };
    assert!(!json!(look(json!([]))).to_string().contains("shadow"));
    assert!(
        json!(look(json!(["permissions"])))
            .to_string()
            .contains("shadow")
    );
}
