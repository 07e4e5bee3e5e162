//! Which calls run without a question, which are asked about, and which never run: the rules of a chat.

use serde_json::{Value, json};

use crate::hall::{Hall, all, bash};

/// What became of a call under some rules.
#[derive(Debug, PartialEq)]
enum Became {
    Ran,
    Asked,
    /// With this reason.
    Denied(Value),
}
use Became::{Asked, Denied, Ran};

/// Has a model make one call, whose question is refused if there is one.
async fn became(hall: &Hall, call: &Value, permissions: &Value) -> Became {
    let script = format!("script:{}", json!([[call], "done"]));
    let mut body = json!({ "messages": [{ "role": "user", "content": script }] });
    // Absent is something else than null.
    if *permissions != json!("absent") {
        body["permissions"] = permissions.clone();
    }
    let before = hall.ran.calls().len();
    let mut look = hall.begin_with(body).await;
    while let Some(event) = look.next().await {
        if event["type"] == "relay" {
            hall.deny(&look, &event).await;
        }
    }
    let events = look.seen;
    let (relays, calls) = (all(&events, "relay").len(), all(&events, "tool_call").len());
    let results = all(&events, "tool_result");
    assert_eq!(results.len(), 1, "{events:#?}");
    // The run goes on whatever was decided.
    assert_eq!(all(&events, "text")[0]["content"], "done");
    let ran = hall.ran.calls().len() - before;
    match (relays, results[0]["output"]["status"].as_str()) {
        (0, None) => {
            assert_eq!((calls, ran), (1, 1));
            Ran
        }
        (1, Some("denied")) => {
            assert_eq!((calls, ran), (0, 0));
            Asked
        }
        (0, Some("denied")) => {
            assert_eq!((calls, ran), (0, 0));
            Denied(results[0]["output"]["reason"].clone())
        }
        other => panic!("{other:?} {events:#?}"),
    }
}

#[tokio::test]
async fn rules_of_a_chat_decide() {
    let hall = Hall::start(json!([])).await;
    let command = |pattern: &str| json!({ "tool": "bash", "params": { "command": pattern } });
    let allow = |rule: Value| json!({ "allowlist": [rule] });
    let numbered = json!({ "tool": "echo", "arguments": { "number": 42 } });
    let more = json!({ "tool": "bash", "arguments": { "command": "ls -la", "timeoutMs": 5 } });
    let table = [
        // C1 to C3: without rules everything is asked about.
        (bash("ls -la"), json!("absent"), Asked),
        (bash("ls -la"), json!(null), Asked),
        (bash("ls -la"), json!({}), Asked),
        (bash("ls -la"), json!({ "allowlist": [] }), Asked),
        // C4 to C7
        (bash("ls -la"), allow(json!({ "tool": "bash" })), Ran),
        (bash("ls -la"), allow(command("ls *")), Ran),
        (bash("rm -rf x"), allow(command("ls *")), Asked),
        (bash("ls"), allow(command("ls *")), Asked),
        // C8 to C10: what is chained, substituted, or on another line is a command of its own.
        (
            bash("git status && rm -rf x"),
            allow(command("git **")),
            Asked,
        ),
        (bash("echo $(rm -rf x)"), allow(command("echo *")), Asked),
        (bash("git log\nrm -rf x"), allow(command("git **")), Asked),
        // C11 to C13
        (
            bash("ls -la"),
            allow(json!({ "tool": "bash", "params": { "cwd": "*" } })),
            Asked,
        ),
        (more, allow(command("ls *")), Ran),
        (bash("ls -la"), allow(json!({ "tool": "BASH" })), Asked),
        // C14
        (bash("ls -la"), allow(json!("bash")), Ran),
        (bash("ls -la"), allow(json!("bash:ls *")), Ran),
        (bash("rm x"), allow(json!("bash:ls *")), Asked),
        // C18
        (
            numbered.clone(),
            allow(json!({ "tool": "echo", "params": { "number": "42" } })),
            Ran,
        ),
        (
            numbered,
            allow(json!({ "tool": "echo", "params": { "number": "43" } })),
            Asked,
        ),
        // C20
        (
            bash("git push"),
            json!({ "allowlist": ["bash"], "ask": [command("git push")] }),
            Asked,
        ),
        (
            bash("git status"),
            json!({ "allowlist": ["bash"], "ask": [command("git push")] }),
            Ran,
        ),
    ];
    for (call, permissions, expected) in table {
        let found = became(&hall, &call, &permissions).await;
        assert_eq!(found, expected, "{call} {permissions}");
    }
}

#[tokio::test]
async fn what_is_denied_is_never_asked_about() {
    let hall = Hall::start(json!([])).await;
    let rule = json!({ "tool": "bash", "params": { "command": "rm *" } });
    let rules = json!({ "allowlist": ["bash"], "deny": [rule] });
    for command in ["rm -rf x", "/bin/rm -rf x", "ls && rm x", "echo $(rm x)"] {
        let found = became(&hall, &bash(command), &rules).await;
        assert!(matches!(found, Denied(_)), "{command}: {found:?}");
    }
    assert_eq!(became(&hall, &bash("ls"), &rules).await, Ran);

    // C16: one very call.
    let mut call = bash("ls");
    call["id"] = json!("call_1");
    let rules =
        json!({ "allowlist": ["bash"], "deny": [{ "toolCallId": "call_1", "reason": "no" }] });
    assert_eq!(became(&hall, &call, &rules).await, Denied(json!("no")));
    call["id"] = json!("call_2");
    assert_eq!(became(&hall, &call, &rules).await, Ran);
}

#[tokio::test]
async fn a_path_is_where_it_leads() {
    let hall = Hall::start(json!([])).await;
    let root = hall.files.path().canonicalize().unwrap();
    let (open, secret) = (root.join("data"), root.join("secret"));
    for directory in [&open, &secret] {
        std::fs::create_dir(directory).unwrap();
        std::fs::write(directory.join("x"), "inside").unwrap();
    }
    std::os::unix::fs::symlink(secret.join("x"), open.join("link")).unwrap();
    let rule = json!({ "tool": "read", "params": { "path": format!("{}/**", open.display()) } });
    let rules = json!({ "allowlist": [rule] });
    let table = [
        (format!("{}/x", open.display()), false),
        ("data/x".to_owned(), false),
        (format!("{}/../secret/x", open.display()), true),
        ("data/../secret/x".to_owned(), true),
        ("data/link".to_owned(), true),
    ];
    for (path, is_asked) in table {
        let call = json!({ "tool": "read", "arguments": { "path": path } });
        let script = format!("script:{}", json!([[call], "done"]));
        let body = json!({
            "messages": [{ "role": "user", "content": script }],
            "permissions": rules,
        });
        let mut look = hall.begin_with(body).await;
        while let Some(event) = look.next().await {
            if event["type"] == "relay" {
                hall.deny(&look, &event).await;
            }
        }
        assert_eq!(all(&look.seen, "relay").len() == 1, is_asked, "{path}");
        let output = &all(&look.seen, "tool_result")[0]["output"];
        assert_eq!(output["status"] == "denied", is_asked, "{path}: {output}");
        assert_eq!(
            output.to_string().contains("inside"),
            !is_asked,
            "{path}: {output}"
        );
    }
}
