//! What `always` offers.

use std::path::Path;

use relay_protocol::permission::GrantScope;
use relay_rules::{Call, NoFiles, suggestions};
use serde_json::{Value, json};

use crate::support::{PlainFiles, params};

fn offered(tool: &str, given: Value) -> Vec<String> {
    let params = params(given);
    let call = Call {
        tool,
        params: &params,
        tool_call_id: None,
        cwd: Some(Path::new("/work")),
    };
    let offers = suggestions(&call, &PlainFiles);
    assert!(
        offers
            .iter()
            .all(|offer| offer.scope == GrantScope::Session && !offer.covers.is_empty())
    );
    offers.into_iter().map(|offer| offer.rule).collect()
}

#[test]
fn for_commands() {
    let cases: &[(&str, &[&str])] = &[
        ("ls -la", &["bash:ls **", "bash:ls -la"]),
        ("git status", &["bash:git status **", "bash:git status"]),
        ("git -C x status", &["bash:git -C x status"]),
        (
            "cargo test -p x",
            &["bash:cargo test **", "bash:cargo test -p x"],
        ),
        ("npm run build", &["bash:npm run **", "bash:npm run build"]),
        ("ls | wc", &["bash:ls | wc"]),
        ("ls > x", &["bash:ls > x"]),
        ("ls 2>&1", &["bash:ls 2>&1"]),
        ("ls $(x)", &["bash:ls $(x)"]),
        ("rm -rf x", &["bash:rm -rf x"]),
        ("sudo ls", &["bash:sudo ls"]),
        ("python x.py", &["bash:python x.py"]),
        ("bash -c 'ls'", &["bash:bash -c 'ls'"]),
        ("./build.sh", &["bash:./build.sh"]),
        ("ls *", &[r"bash:ls \*"]),
        ("ls 'a*?\\'", &["bash:ls **", r"bash:ls 'a\*\?\\'"]),
        ("X=1 ls", &["bash:X=1 ls"]),
        ("cat <<E\nx\nE", &["bash:cat <<E\nx\nE"]),
        ("find . -delete", &["bash:find . -delete"]),
        ("git config a b", &["bash:git config a b"]),
        ("", &[]),
        ("  ", &[]),
        ("# nothing", &["bash:# nothing"]),
    ];
    for (command, expected) in cases {
        assert_eq!(
            offered("bash", json!({ "command": command })),
            *expected,
            "{command}"
        );
    }
}

#[test]
fn for_other_tools() {
    assert_eq!(
        offered("read", json!({ "path": "a/b", "limit": 5 })),
        ["read:/work/a/b"]
    );
    assert_eq!(
        offered("read", json!({ "path": "/link/b" })),
        ["read:/secret/b"]
    );
    assert_eq!(
        offered("write", json!({ "path": "/a*", "content": "x" })),
        [r"write:/a\*"]
    );
    assert_eq!(offered("agent", json!({ "task": "t" })), ["agent:t"]);
    assert_eq!(
        offered("x", json!({ "b": 1, "a": "q*" })),
        [r#"{"tool":"x","params":{"a":"q\\*","b":"1"}}"#]
    );
    assert_eq!(offered("a:b", json!({})), [r#"{"tool":"a:b"}"#]);
    assert_eq!(offered("x", json!({})), ["x"]);
    assert_eq!(
        offered(
            "WebFetch",
            json!({ "url": "https://x.org/a?b=c", "prompt": "p" })
        ),
        ["WebFetch:https://x.org/a?b=c"]
    );
    assert!(offered("WebFetch", json!({ "url": "https://u@x.org/" })).is_empty());
    let patch =
        "*** Begin Patch\n*** Add File: src/a\n+x\n*** Add File: src/b/c\n+x\n*** End Patch";
    assert_eq!(
        offered("patch", json!({ "patch": patch })),
        ["patch:/work/src/**"]
    );
    let params = params(json!({ "path": "/a" }));
    let call = Call {
        tool: "read",
        params: &params,
        tool_call_id: None,
        cwd: None,
    };
    assert!(
        suggestions(&call, &NoFiles).is_empty(),
        "a rule that would not cover the call is no offer"
    );
}
