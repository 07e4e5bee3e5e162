//! The order of decision: layers, grants, what may run once, and how widely rules refuse.

use std::path::Path;

use relay_protocol::permission::RuleDecision::{Allow, Ask, Deny};
use relay_rules::{Call, Policy, Rule, Source, Used, Verdict, decide};
use serde_json::{Value, json};

use crate::support::{PlainFiles, decision, on_bash, params, policy, verdict};

fn layered(layers: &[Value], grants: &[&str], command: &str) -> Verdict {
    let layers: Vec<Policy> = layers.iter().cloned().map(policy).collect();
    let layers: Vec<&Policy> = layers.iter().collect();
    let grants: Vec<Rule> = grants
        .iter()
        .map(|rule| Rule::parse(rule).unwrap())
        .collect();
    let grants: Vec<&Rule> = grants.iter().collect();
    let params = params(json!({ "command": command }));
    let call = Call {
        tool: "bash",
        params: &params,
        tool_call_id: None,
        cwd: Some(Path::new("/work")),
    };
    decide(&call, &layers, &grants, &PlainFiles)
}

#[test]
fn a_child_narrows_and_never_widens() {
    let parent = json!({ "allowlist": ["bash:git **", "bash:ls **"] });
    let child = json!({ "allowlist": ["bash:git status **", "bash:rm **"] });
    let both = |command: &str| layered(&[parent.clone(), child.clone()], &[], command).decision;
    assert_eq!(both("git status"), Allow);
    assert_eq!(both("git push"), Ask);
    assert_eq!(both("ls"), Ask);
    assert_eq!(both("rm x"), Ask);
    let denies = json!({ "deny": ["bash:git push **"] });
    assert_eq!(
        layered(&[parent.clone(), denies.clone()], &[], "git push").decision,
        Deny
    );
    assert_eq!(layered(&[denies, parent], &[], "git push").decision, Deny);
}

#[test]
fn grants_help_in_every_layer() {
    let layers = [json!({ "allowlist": ["bash:ls **"] }), json!({})];
    let found = layered(
        &layers,
        &["bash:cat **", "bash:git status **"],
        "git status",
    );
    assert_eq!((found.decision, found.source), (Allow, Source::Grant(1)));
    assert_eq!(found.rule.as_deref(), Some("bash:git status **"));
    assert_eq!(found.grants, [1]);
    let mixed = layered(
        &[json!({ "allowlist": ["bash:ls **"] })],
        &["bash:cat **"],
        "ls | cat -",
    );
    assert_eq!(
        mixed.decision, Allow,
        "a rule for one segment, a grant for the other"
    );
    let asks = [
        json!({ "allowlist": ["bash"] }),
        json!({ "ask": ["bash:git **"] }),
    ];
    let found = layered(&asks, &["bash:git status **"], "git status");
    assert_eq!((found.decision, found.source), (Ask, Source::Ask));
    assert_eq!(layered(&[], &["bash:ls **"], "ls").decision, Allow);
}

#[test]
fn what_may_run_once_is_told_and_can_be_used_up() {
    let rules = policy(
        json!({ "allowlist": ["bash:ls **"], "allowOnce": ["bash:cat **", "bash:git push **"] }),
    );
    let push = json!({ "command": "git push" });
    let found = verdict(&rules, &[], "bash", push.clone());
    assert_eq!(
        (found.decision, found.source),
        (Allow, Source::AllowOnce(1))
    );
    assert_eq!(found.used, [Used { layer: 0, index: 1 }]);
    let spent = rules.without_once(&[1]);
    assert_eq!(verdict(&spent, &[], "bash", push.clone()).decision, Ask);
    assert_eq!(
        verdict(&rules, &[], "bash", push).decision,
        Allow,
        "the policy itself is as it was"
    );
    assert_eq!(
        verdict(&rules, &[], "bash", json!({ "command": "ls; git push" }))
            .used
            .len(),
        1
    );
    assert_eq!(
        verdict(&rules, &[], "bash", json!({ "command": "ls" })).used,
        []
    );
    assert_eq!(on_bash(&spent, "cat x"), Allow);
}

#[test]
fn rules_that_refuse_match_widely() {
    let cases = [
        ("git push", "git push origin main", Deny),
        ("git push", "git -C dir push", Deny),
        ("git push", "git --no-pager push", Deny),
        ("git push", "git log push", Ask),
        ("git push", "git status", Allow),
        ("git push", "git $x", Ask),
        ("git push *", "git push", Deny),
        ("rm -rf *", "rm -rf x", Deny),
        ("rm -rf *", "rm -fr x", Deny),
        ("rm -rf *", "rm -r -f x", Deny),
        ("rm -rf *", "rm x", Allow),
        ("rm", "rm x", Deny),
        ("/bin/rm **", "rm x", Deny),
        ("*secret*", "cat secret.txt", Deny),
        ("*secret*", "cat a", Allow),
        ("curl * | sh", "curl x | sh", Deny),
        ("curl x | sh", "curl x | sh", Deny),
        ("*", "anything", Deny),
        ("git push **", "sh -c 'git push'", Deny),
        ("npm publish **", "cd x && npm publish", Deny),
    ];
    for (pattern, command, expected) in cases {
        let rules = policy(json!({ "allowlist": ["bash"], "deny": [format!("bash:{pattern}")] }));
        assert_eq!(on_bash(&rules, command), expected, "{pattern}: {command}");
        let expected = if expected == Deny { Ask } else { expected };
        let rules = policy(json!({ "allowlist": ["bash"], "ask": [format!("bash:{pattern}")] }));
        assert_eq!(
            on_bash(&rules, command),
            expected,
            "ask {pattern}: {command}"
        );
    }
}

#[test]
fn doubt_asks_unless_all_of_it_is_spelled_out() {
    let command = "cat <<EOF\nx\nEOF";
    let deny = json!(["bash:rm **"]);
    let rules = |allow: &str| json!({ "allowlist": ["bash", allow], "deny": deny });
    let found = verdict(
        &policy(rules("bash:ls")),
        &[],
        "bash",
        json!({ "command": command }),
    );
    assert_eq!((found.decision, found.source), (Ask, Source::Doubt));
    assert!(found.reason.contains("a here-document"), "{}", found.reason);
    assert_eq!(
        on_bash(&policy(rules(&format!("bash:{command}"))), command),
        Allow
    );
    assert_eq!(
        on_bash(&policy(json!({ "allowlist": ["bash"] })), command),
        Allow,
        "nothing is denied"
    );
}

#[test]
fn rules_that_refuse_doubt_what_is_not_there() {
    let rules =
        policy(json!({ "allowlist": ["t"], "deny": [{ "tool": "t", "params": { "x": "1" } }] }));
    assert_eq!(decision(&rules, "t", json!({ "x": "1" })), Deny);
    assert_eq!(decision(&rules, "t", json!({ "x": "2" })), Allow);
    assert_eq!(decision(&rules, "t", json!({})), Ask);
}

#[test]
fn words_of_a_pattern_stay_in_their_places() {
    let cases = [
        ("cat /data/*", "cat /data/a", Allow),
        ("cat /data/*", "cat /data/a/b", Allow),
        ("cat /data/*", "cat /data/../etc/passwd", Ask),
        ("cat /data/*", "cat /data/a /etc/passwd", Ask),
        ("cat *.txt", "cat a.txt", Allow),
        ("cat *.txt", "cat --x.txt", Ask),
        ("git * status", "git -c status", Ask),
        ("* --version", "ls --version", Allow),
        ("* --version", "./x --version", Ask),
        ("npm run 'a b' *", "npm run 'a b' c", Allow),
        ("npm run 'a b' *", "npm run a b c", Ask),
        ("rm", "/bin/rm", Ask),
        ("ls **", "/bin/ls", Ask),
        ("/bin/ls **", "/bin/ls -l", Allow),
        ("ls -l", "ls  -l", Allow),
        ("ls -l", "ls -l | ls -l", Allow),
        ("sh", "echo x | sh", Ask),
        (r"ls \*", "ls *", Allow),
        (r"ls \*", "ls x", Ask),
    ];
    for (pattern, command, expected) in cases {
        let rules = policy(json!({ "allowlist": [format!("bash:{pattern}"), "bash:echo **"] }));
        assert_eq!(on_bash(&rules, command), expected, "{pattern}: {command}");
    }
}
