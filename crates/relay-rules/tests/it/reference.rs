//! The cases that any implementation of these permissions is measured by, under their numbers.

use std::path::Path;

use relay_protocol::permission::RuleDecision::{self, Allow, Ask, Deny};
use relay_rules::{Call, Policy, Rule, Source, suggestions};
use serde_json::{Value, json};

use crate::support::{PlainFiles, decision, on_bash, params, policy, verdict};

#[test]
fn matching() {
    let ls = json!({ "allowlist": [{ "tool": "bash", "params": { "command": "ls *" } }] });
    let bash = |command: &str| json!({ "command": command });
    let cases: Vec<(&str, Value, &str, Value, RuleDecision)> = vec![
        ("C2", json!({}), "bash", bash("ls -la"), Ask),
        (
            "C3",
            json!({ "allowlist": [] }),
            "bash",
            bash("ls -la"),
            Ask,
        ),
        (
            "C4",
            json!({ "allowlist": [{ "tool": "bash" }] }),
            "bash",
            bash("ls -la"),
            Allow,
        ),
        ("C5", ls.clone(), "bash", bash("ls -la"), Allow),
        ("C5, a path", ls.clone(), "bash", bash("ls /a/b"), Allow),
        ("C6", ls.clone(), "bash", bash("rm -rf x"), Ask),
        ("C7", ls.clone(), "bash", bash("ls"), Ask),
        (
            "C7, another program",
            ls.clone(),
            "bash",
            bash("lsblk -a"),
            Ask,
        ),
        (
            "chained",
            json!({ "allowlist": ["bash:git **"] }),
            "bash",
            bash("git status && rm -rf /"),
            Ask,
        ),
        (
            "C9",
            json!({ "allowlist": ["bash:echo *"] }),
            "bash",
            bash("echo $(rm -rf x)"),
            Ask,
        ),
        (
            "a second line",
            json!({ "allowlist": ["bash:git **"] }),
            "bash",
            bash("git log\nrm -rf /"),
            Ask,
        ),
        (
            "C11",
            json!({ "allowlist": [{ "tool": "bash", "params": { "nope": "*" } }] }),
            "bash",
            bash("ls"),
            Ask,
        ),
        (
            "C12",
            ls.clone(),
            "bash",
            json!({ "command": "ls -la", "timeoutMs": 5 }),
            Allow,
        ),
        (
            "C13",
            json!({ "allowlist": [{ "tool": "BASH" }] }),
            "bash",
            bash("ls"),
            Ask,
        ),
        (
            "C14",
            json!({ "allowlist": ["bash"] }),
            "bash",
            bash("ls -la"),
            Allow,
        ),
        (
            "C14, star",
            json!({ "allowlist": ["bash:*"] }),
            "bash",
            bash("ls -la"),
            Allow,
        ),
        (
            "C15",
            json!({ "allowlist": ["bash"], "deny": [{ "tool": "bash", "params": { "command": "rm *" } }] }),
            "bash",
            bash("rm -rf x"),
            Deny,
        ),
        (
            "C16",
            json!({ "allowlist": ["bash"], "deny": [{ "toolCallId": "call_1", "reason": "no" }] }),
            "bash",
            bash("ls"),
            Deny,
        ),
        (
            "C16, another",
            json!({ "allowlist": ["bash"], "deny": [{ "toolCallId": "call_2" }] }),
            "bash",
            bash("ls"),
            Allow,
        ),
        (
            "C18",
            json!({ "allowlist": [{ "tool": "echo", "params": { "n": "42" } }] }),
            "echo",
            json!({ "n": 42 }),
            Allow,
        ),
        (
            "C18, another",
            json!({ "allowlist": [{ "tool": "echo", "params": { "n": "42" } }] }),
            "echo",
            json!({ "n": 421 }),
            Ask,
        ),
        (
            "C18, a range",
            json!({ "allowlist": [{ "tool": "echo", "params": { "n": "1..10" } }] }),
            "echo",
            json!({ "n": 10 }),
            Allow,
        ),
        (
            "C18, beyond",
            json!({ "allowlist": [{ "tool": "echo", "params": { "n": "1..10" } }] }),
            "echo",
            json!({ "n": 10.5 }),
            Ask,
        ),
        (
            "C19",
            json!({ "allowlist": ["read:/data/**"] }),
            "read",
            json!({ "path": "/data/../secret/x" }),
            Ask,
        ),
        (
            "C19, inside",
            json!({ "allowlist": ["read:/data/**"] }),
            "read",
            json!({ "path": "/data/a/./b" }),
            Allow,
        ),
        (
            "C20",
            json!({ "allowlist": ["bash"], "ask": ["bash:git push **"] }),
            "bash",
            bash("git push origin"),
            Ask,
        ),
        (
            "C20, another",
            json!({ "allowlist": ["bash"], "ask": ["bash:git push **"] }),
            "bash",
            bash("git status"),
            Allow,
        ),
    ];
    for (case, rules, tool, params, expected) in cases {
        let verdict = verdict(&policy(rules), &[], tool, params);
        assert_eq!(verdict.decision, expected, "{case}: {}", verdict.reason);
    }
}

#[test]
fn c1_without_a_policy_it_asks() {
    assert_eq!(on_bash(&Policy::asks_always(), "ls -la"), Ask);
    let params = params(json!({ "command": "ls" }));
    let call = Call {
        tool: "bash",
        params: &params,
        tool_call_id: None,
        cwd: None,
    };
    assert_eq!(
        relay_rules::decide(&call, &[], &[], &PlainFiles).decision,
        Ask
    );
}

#[test]
fn c16_the_reason_of_a_denied_call_is_told() {
    let rules = policy(json!({ "deny": [{ "toolCallId": "call_1", "reason": "no" }] }));
    let verdict = verdict(&rules, &[], "bash", json!({ "command": "ls" }));
    assert_eq!(verdict.deny_reason.as_deref(), Some("no"));
    assert_eq!(verdict.source, Source::Deny);
}

/// The rule that `always` would grant for a command.
fn always(command: &str) -> Option<Rule> {
    let params = params(json!({ "command": command }));
    let call = Call {
        tool: "bash",
        params: &params,
        tool_call_id: None,
        cwd: Some(Path::new("/work")),
    };
    let first = suggestions(&call, &PlainFiles).into_iter().next()?;
    Some(Rule::parse(&first.rule).unwrap())
}

#[test]
fn always_covers_what_was_shown_and_no_more() {
    let nothing = Policy::asks_always();
    let next = |granted: &str, command: &str| {
        let rule = always(granted).unwrap();
        verdict(&nothing, &[&rule], "bash", json!({ "command": command })).decision
    };
    assert_eq!(next("ls -la", "ls /x"), Allow, "D11");
    assert_eq!(next("ls -la", "rm x"), Ask, "D12");
    assert_eq!(next("git status", "git push && rm -rf x"), Ask, "D13");
    assert_eq!(
        next("git status", "git status -s"),
        Allow,
        "D13, with arguments"
    );
    assert_eq!(
        next("git status", "git push"),
        Ask,
        "D13, another subcommand"
    );
    assert_eq!(
        next("ls", "ls -la"),
        Allow,
        "D14: the rule that was offered is `ls **`"
    );
    assert_eq!(always("ls").unwrap().text(), "bash:ls **");
}

#[test]
fn a_grant_loses_to_deny_and_to_ask() {
    let rule = always("git push origin").unwrap();
    for (list, expected) in [("deny", Deny), ("ask", Ask)] {
        let rules = policy(json!({ list: ["bash:git push **"] }));
        let verdict = verdict(
            &rules,
            &[&rule],
            "bash",
            json!({ "command": "git push origin" }),
        );
        assert_eq!(verdict.decision, expected);
    }
}

#[test]
fn d17_always_on_nothing_grants_nothing() {
    assert!(always("").is_none());
    assert!(always(" \n").is_none());
    assert_eq!(
        on_bash(&policy(json!({ "allowlist": ["bash:ls **"] })), ""),
        Ask
    );
    assert_eq!(
        decision(
            &policy(json!({ "allowlist": ["bash"] })),
            "bash",
            json!({ "command": "" })
        ),
        Allow
    );
}
