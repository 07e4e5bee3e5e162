//! Paths, patches, URLs, numbers and values; and what is refused to be a rule.

use std::path::Path;

use relay_protocol::permission::RuleDecision::{self, Allow, Ask, Deny};
use relay_rules::{Call, Files as _, NoFiles, RealFiles, Rule, decide};
use serde_json::{Value, json};

use crate::support::{compile, decision, params, policy};

fn check(cases: &[(&str, &str, &str, RuleDecision)], parameter: &str, tool: &str) {
    for (list, pattern, value, expected) in cases {
        let rule = json!({ "tool": tool, "params": { parameter: pattern } });
        let rules = match *list {
            "deny" => json!({ "allowlist": [tool], "deny": [rule] }),
            _ => json!({ "allowlist": [rule] }),
        };
        let found = decision(&policy(rules), tool, json!({ parameter: value }));
        assert_eq!(found, *expected, "{list} {pattern} {value}");
    }
}

#[test]
fn paths() {
    let cases = [
        ("allow", "/data/**", "/data/a", Allow),
        ("allow", "/data/**", "/data/a/b", Allow),
        ("allow", "/data/**", "/data//a/./b", Allow),
        ("allow", "/data/**", "/data/.hidden", Allow),
        ("allow", "/data/**", "/data", Ask),
        ("allow", "/data/**", "/database", Ask),
        ("allow", "/data/**", "/data/../etc/x", Ask),
        ("allow", "/data/**", "/data/a/../../etc/x", Ask),
        ("allow", "/data/**", "/data/a/../b", Allow),
        ("allow", "/data/**", "~/data/x", Ask),
        ("allow", "/data/**", "", Ask),
        ("allow", "/data/**", "/data/a\u{0}b", Ask),
        ("allow", "/data/*", "/data/a", Allow),
        ("allow", "/data/*", "/data/a/b", Ask),
        ("allow", "/data/*.txt", "/data/a.txt", Allow),
        ("allow", "/data/*.txt", "/data/a/b.txt", Ask),
        ("allow", "/data/**/x", "/data/x", Allow),
        ("allow", "/data/**/x", "/data/a/b/x", Allow),
        ("allow", "/data/**/x", "/data/a/b/y", Ask),
        ("allow", "/link/**", "/link/a", Ask),
        ("allow", "/secret/**", "/link/a", Allow),
        ("allow", "src/**", "src/a.rs", Allow),
        ("allow", "src/**", "/work/src/a.rs", Allow),
        ("allow", "src/**", "/other/src/a.rs", Ask),
        ("allow", "src/**", "../src/a.rs", Ask),
        ("allow", "**", "a/b", Allow),
        ("allow", "**", "/etc/x", Ask),
        ("allow", r"/data/\*", "/data/*", Allow),
        ("allow", r"/data/\*", "/data/a", Ask),
        ("deny", "/secret/**", "/secret/a", Deny),
        ("deny", "/secret/**", "/secret", Deny),
        ("deny", "/secret/**", "/link/a", Deny),
        ("deny", "/link/**", "/link/a", Deny),
        ("deny", "/secret/**", "/data/../secret/a", Deny),
        ("deny", "**/.env", "/anywhere/.env", Deny),
        ("deny", "**/.env", "a/b/.env", Deny),
        ("deny", "src/**", "src/a", Deny),
        ("deny", "/secret/**", "/data/a", Allow),
        ("deny", "/secret/**", "~/x", Ask),
    ];
    check(&cases, "path", "read");
    check(&cases, "file_path", "Edit");
    check(&cases, "path", "some_other_tool");
}

#[test]
fn a_path_that_nobody_can_resolve_asks() {
    let given = params(json!({ "path": "/data/a" }));
    let relative = params(json!({ "path": "a" }));
    let allows = policy(json!({ "allowlist": ["read:/data/**", "read:**"] }));
    let denies = policy(json!({ "allowlist": ["read"], "deny": ["read:/secret/**"] }));
    for (params, cwd) in [(&given, Some(Path::new("/work"))), (&relative, None)] {
        let call = Call {
            tool: "read",
            params,
            tool_call_id: None,
            cwd,
        };
        assert_eq!(decide(&call, &[&allows], &[], &NoFiles).decision, Ask);
        assert_eq!(decide(&call, &[&denies], &[], &NoFiles).decision, Ask);
    }
}

#[test]
#[cfg(unix)]
fn real_files_follow_links() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("data")).unwrap();
    std::fs::create_dir(root.join("secret")).unwrap();
    std::os::unix::fs::symlink(root.join("secret"), root.join("data/link")).unwrap();
    std::os::unix::fs::symlink(root.join("nowhere"), root.join("data/broken")).unwrap();
    let resolve = |path: &str| RealFiles.resolve(&root.join(path));
    assert_eq!(resolve("data/new/file"), Some(root.join("data/new/file")));
    assert_eq!(resolve("data/link/x"), Some(root.join("secret/x")));
    assert_eq!(resolve("data/link/../x"), Some(root.join("x")));
    assert_eq!(resolve("data/broken"), None);
    assert_eq!(resolve("data/broken/x"), None);
    assert_eq!(resolve("data/new/../x"), None);
    assert_eq!(RealFiles.resolve(Path::new("relative")), None);

    let rule = Rule::parse(&format!("write:{}/data/**", root.display())).unwrap();
    let covers = |path: &str| {
        let params = params(json!({ "path": root.join(path), "content": "" }));
        rule.covers(
            &Call {
                tool: "write",
                params: &params,
                tool_call_id: None,
                cwd: None,
            },
            &RealFiles,
        )
    };
    assert!(covers("data/new"));
    assert!(!covers("data/link/new"));
    assert!(!covers("data/broken"));
    // Whoever takes `..` out before it opens the file ends in `data`, everybody else does not.
    assert!(!covers("data/link/../new"));
}

#[test]
fn a_patch_is_covered_file_by_file() {
    let patch = |files: &[&str]| {
        let headers = files
            .iter()
            .map(|file| format!("*** Update File: {file}\n@@\n-a\n+b\n"));
        json!({ "patch": format!("*** Begin Patch\n{}*** End Patch", headers.collect::<String>()) })
    };
    let rules = policy(
        json!({ "allowlist": ["patch:src/**", "patch:docs/*"], "deny": ["patch:**/secret"] }),
    );
    let decide = |params: Value| decision(&rules, "patch", params);
    assert_eq!(decide(patch(&["src/a", "src/b/c"])), Allow);
    assert_eq!(decide(patch(&["src/a", "docs/x"])), Allow);
    assert_eq!(decide(patch(&["src/a", "/etc/x"])), Ask);
    assert_eq!(decide(patch(&["src/../x"])), Ask);
    assert_eq!(decide(patch(&["src/a", "src/secret"])), Deny);
    assert_eq!(decide(json!({ "patch": "--- a\n+++ b" })), Ask);
    let moved = "*** Begin Patch\n*** Update File: src/a\n*** Move to: /etc/x\n*** End Patch";
    assert_eq!(decide(json!({ "patch": moved })), Ask);
}

#[test]
fn urls() {
    let api = "https://api.example.com/**";
    let cases = [
        ("allow", api, "https://api.example.com/a/b?c=d", Allow),
        ("allow", api, "https://api.example.com/", Allow),
        ("allow", api, "https://api.example.com", Allow),
        ("allow", api, "https://API.example.com./a", Allow),
        ("allow", api, "https://api.example.com:443/a", Allow),
        ("allow", api, "https://api.example.com:444/a", Ask),
        ("allow", api, "http://api.example.com/a", Ask),
        ("allow", api, "https://api.example.com.evil.com/a", Ask),
        ("allow", api, "https://api.example.com@evil.com/a", Ask),
        ("allow", api, "https://user@api.example.com/a", Ask),
        (
            "allow",
            api,
            "https://evil.com/https://api.example.com/",
            Ask,
        ),
        ("allow", api, "https:/api.example.com/a", Ask),
        ("allow", api, "https:\\\\api.example.com\\a", Ask),
        ("allow", api, "https://api.example.com\\@evil.com/", Ask),
        ("allow", api, "https://api.example.com/ a", Ask),
        ("allow", api, "//api.example.com/a", Ask),
        ("allow", "https://x.org/a/**", "https://x.org/a/../b", Ask),
        (
            "allow",
            "https://x.org/a/**",
            "https://x.org/a/%2e%2e/b",
            Ask,
        ),
        ("allow", "https://x.org/a/*", "https://x.org/a/b", Allow),
        ("allow", "https://x.org/a/*", "https://x.org/a/b/c", Ask),
        ("allow", "https://x.org/a", "https://x.org/a", Allow),
        ("allow", "https://x.org/a", "https://x.org/a#part", Allow),
        ("allow", "https://x.org/a", "https://x.org/a?b", Ask),
        ("allow", "https://x.org/a?b", "https://x.org/a?b", Allow),
        ("allow", "https://x.org", "https://x.org/", Allow),
        ("allow", "https://x.org", "https://x.org/a", Ask),
        ("allow", "https://*.x.org/**", "https://a.b.x.org/c", Allow),
        ("allow", "https://*.x.org/**", "https://x.org/c", Ask),
        ("allow", "https://*.x.org/**", "https://evilx.org/c", Ask),
        ("allow", "http://[::1]:80/**", "http://[::1]/a", Allow),
        ("allow", "*", "https://x.org/", Allow),
        ("deny", "https://evil.com/**", "https://evil.com/a", Deny),
        ("deny", "https://evil.com/**", "http://EVIL.com:81/a", Deny),
        ("deny", "https://evil.com/**", "https://good.com/a", Allow),
        (
            "deny",
            "https://evil.com/**",
            "https://good.com@evil.com/",
            Ask,
        ),
        ("deny", "http://127.0.0.1/**", "http://2130706433/", Ask),
    ];
    check(&cases, "url", "WebFetch");
    check(&cases, "uri", "some_other_tool");
}

#[test]
fn text_numbers_and_values() {
    let cases = [
        ("ab*", json!("abc"), Allow),
        ("ab*", json!("ab"), Allow),
        ("ab*", json!("xab"), Ask),
        ("ab*", json!("ab\nc"), Ask),
        ("ab**", json!("ab\nc"), Allow),
        ("a?c", json!("abc"), Allow),
        (r"a\*", json!("a*"), Allow),
        (r"a\*", json!("ab"), Ask),
        ("[a]", json!("[a]"), Allow),
        ("42", json!(42), Allow),
        ("42", json!("42"), Allow),
        ("42", json!(42.5), Ask),
        ("4*", json!(42), Ask),
        ("*", json!(42), Allow),
        ("-1..1.5", json!(1.5), Allow),
        ("true", json!(true), Allow),
        ("*", json!(true), Ask),
        (r#"{"a":1,"b":[2]}"#, json!({ "b": [2], "a": 1 }), Allow),
        ("*", json!({ "a": 1 }), Ask),
        ("*", json!(null), Ask),
    ];
    for (pattern, value, expected) in cases {
        let rules = policy(json!({ "allowlist": [{ "tool": "t", "params": { "x": pattern } }] }));
        assert_eq!(
            decision(&rules, "t", json!({ "x": value })),
            expected,
            "{pattern} {value}"
        );
    }
}

#[test]
fn an_array_of_arguments_is_a_command() {
    let rules = policy(json!({ "allowlist": ["shell:ls *"], "deny": ["shell:rm **"] }));
    let decide = |words: Value| decision(&rules, "shell", json!({ "command": words }));
    assert_eq!(decide(json!(["ls", "-la"])), Allow);
    assert_eq!(decide(json!(["ls", "-la", "; x"])), Allow);
    assert_eq!(decide(json!(["rm", "x"])), Deny);
    assert_eq!(decide(json!(["bash", "-lc", "cd x && rm y"])), Deny);
    assert_eq!(decide(json!(["bash", "-lc", "ls -la"])), Ask);
    assert_eq!(decide(json!(["ls", 1])), Ask);
    assert_eq!(decide(json!({})), Ask);
}

#[test]
fn what_is_no_rule_is_refused_with_its_place() {
    let cases = [
        (
            json!({ "allowlist": [""] }),
            "permissions.allowlist[0]: expected the name of a tool, found ``",
        ),
        (
            json!({ "allowlist": ["bash", "bash:"] }),
            "permissions.allowlist[1]: expected a pattern, found ``",
        ),
        (
            json!({ "ask": [{ "tool": "" }] }),
            "permissions.ask[0].tool: expected the name of a tool, found ``",
        ),
        (
            json!({ "deny": [{ "tool": "bash", "params": { "command": "" } }] }),
            "permissions.deny[0].params.command: expected a pattern, found ``",
        ),
        (
            json!({ "allowOnce": ["bash: "] }),
            "permissions.allowOnce[0]: expected a command, found ` `",
        ),
        (
            json!({ "allowlist": ["bash:ls ***"] }),
            "permissions.allowlist[0]: expected at most two stars in a row, found `ls ***`",
        ),
        (
            json!({ "allowlist": ["bash:ls ** x"] }),
            "permissions.allowlist[0]: expected `**` only as the last word, found `ls ** x`",
        ),
        (
            json!({ "allowlist": ["bash:ls 'a *"] }),
            "permissions.allowlist[0]: expected quotes that are closed, found `ls 'a *`",
        ),
        (
            json!({ "allowlist": ["read:/a/../b"] }),
            "permissions.allowlist[0]: expected a path without `..`, found `/a/../b`",
        ),
        (
            json!({ "allowlist": ["read:~/b"] }),
            "permissions.allowlist[0]: expected a path that does not begin with `~`, found `~/b`",
        ),
        (
            json!({ "allowlist": ["read:/a**"] }),
            "permissions.allowlist[0]: expected `**` as a part of its own, found `/a**`",
        ),
        (
            json!({ "allowlist": ["WebFetch:example.com"] }),
            "permissions.allowlist[0]: expected a URL such as `https://example.com/**`, found `example.com`",
        ),
        (
            json!({ "allowlist": ["WebFetch:https://a*.com/"] }),
            "permissions.allowlist[0]: expected a host, `*`, or `*.` and a host, found `https://a*.com/`",
        ),
        (
            json!({ "allowlist": [{ "tool": "t", "params": { "n": "9..1" } }] }),
            "permissions.allowlist[0].params.n: expected a range from the smaller to the larger number, found `9..1`",
        ),
        (
            json!({ "allowlist": [r#"{"tool":"t","x":1}"#] }),
            "permissions.allowlist[0].x: expected a rule, found unknown field `x`, expected `tool` or `params`",
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(compile(rules).unwrap_err().to_string(), expected);
    }
}

#[test]
fn limits_are_kept_at_the_edge() {
    use relay_protocol::limits::{PERMISSION_PATTERN_BYTES, PERMISSION_RULES};
    let long = |bytes: usize| json!({ "allowlist": [format!("bash:{}", "x".repeat(bytes))] });
    assert!(compile(long(PERMISSION_PATTERN_BYTES)).is_ok());
    let fault = compile(long(PERMISSION_PATTERN_BYTES + 1)).unwrap_err();
    assert!(fault.to_string().contains("4096"), "{fault}");
    assert!(fault.to_string().ends_with("found 4097 bytes"), "{fault}");
    let many = |count: usize| json!({ "deny": vec!["bash:x"; count] });
    assert!(compile(many(PERMISSION_RULES)).is_ok());
    let fault = compile(many(PERMISSION_RULES + 1)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "permissions.deny: expected at most 10000 rules, found 10001"
    );
}

#[test]
fn commands_are_read_up_to_their_limits() {
    use relay_protocol::limits::{COMMAND_BYTES, COMMAND_DEPTH};
    use relay_rules::shell::read;
    let long = |bytes: usize| format!("ls {}", "x".repeat(bytes - 3));
    assert!(read(&long(COMMAND_BYTES)).understood());
    assert!(!read(&long(COMMAND_BYTES + 1)).understood());
    let deep = |depth: usize| format!("ls {}id{}", "$(".repeat(depth), ")".repeat(depth));
    assert!(read(&deep(COMMAND_DEPTH)).understood());
    assert!(!read(&deep(COMMAND_DEPTH + 1)).understood());
}

/// What grows with its depth or with the square of its length would not end, or overflow the stack.
#[test]
fn no_command_takes_long() {
    let rules = policy(
        json!({ "allowlist": ["bash", "bash:*a*a*a*b"], "deny": ["bash:*a*a*a*b", "bash:rm -rf x", "bash:git push"] }),
    );
    for (piece, count) in [
        ("$(", 30_000),
        ("${x:-", 12_000),
        ("\"${", 20_000),
        ("`", 60_000),
        ("\\`", 30_000),
        ("\"", 60_000),
        ("find -exec ", 5_000),
        ("sudo ", 12_000),
        ("eval ", 12_000),
        ("sh -c '", 9_000),
        ("xargs ", 10_000),
        ("env -S ", 9_000),
        ("a;", 30_000),
        ("a ", 30_000),
        ("<(", 30_000),
        ("{a,", 20_000),
        ("(", 60_000),
        ("docker run ", 5_000),
        ("\\\n", 30_000),
        ("ssh h ", 10_000),
        ("if ", 20_000),
        ("x=", 30_000),
        ("a=$(", 12_000),
        ("git -C ", 9_000),
    ] {
        let command = piece.repeat(count);
        assert_ne!(
            decision(&rules, "bash", json!({ "command": command })),
            Deny,
            "{piece}"
        );
        let _ = relay_rules::shell::marks(&command);
    }
}
