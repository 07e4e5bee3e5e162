//! `relay acp detect`: programs that only look like agents are told apart from those that work.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{json_of, ok, refused};
use crate::support::{Setup, fake_agent};

/// Puts a program of this name into the PATH: shell text.
fn program(setup: &Setup, name: &str, text: &str) {
    let folder = setup.file("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A program that plays a script.
fn plays(script: &Value) -> String {
    let agent = Path::new(fake_agent()).display();
    format!("exec '{agent}' '{script}'")
}

#[tokio::test]
async fn ready_is_what_opens_a_session() {
    let setup = Setup::new();
    let says = |name: &str| {
        json!({"handshake": {
            "protocolVersion": 1, "agentInfo": {"name": name, "version": "2.5"}, "agentCapabilities": {},
        }})
    };
    program(&setup, "claude-agent-acp", &plays(&says("claude")));
    program(&setup, "codex-acp", &plays(&says("codex-acp")));
    let signed_out =
        json!({"errors": {"session/new": {"code": -32000, "message": "Authentication required"}}});
    program(&setup, "opencode", &plays(&signed_out));
    program(&setup, "gemini", "echo 'this is no agent' >&2; exit 3");
    program(&setup, "qwen", &plays(&json!({"silent": ["initialize"]})));
    let chosen = [
        "claude",
        "codex",
        "codex-zed",
        "opencode",
        "gemini",
        "qwen",
        "goose",
    ];
    let asked = [&["acp", "detect", "--timeout", "3s"][..], &chosen].concat();
    let found = json_of(&setup, &asked).await;
    let of = |id: &str| {
        let mut items = found["items"].as_array().unwrap().iter();
        items.find(|item| item["id"] == id).unwrap().clone()
    };
    let states = chosen.map(|id| of(id)["state"].as_str().unwrap().to_owned());
    let expected = [
        "ready",
        "not-installed",
        "ready",
        "needs-sign-in",
        "failed",
        "failed",
        "not-installed",
    ];
    assert_eq!(states, expected);
    assert_eq!(of("claude")["version"], "2.5");
    // A session opens without a sign-in, too, and no model was asked.
    assert_eq!(of("claude")["signIn"], "not-checked");
    assert_eq!(of("opencode")["signIn"], Value::Null);
    // Two agents share a program's name.
    assert_eq!(
        of("codex")["detail"],
        "what is there calls itself codex-acp"
    );
    assert_eq!(of("opencode")["next"], "run `opencode auth login`");
    let why = of("gemini")["detail"].as_str().unwrap().to_owned();
    assert!(why.contains("this is no agent"), "{why}");
    assert_eq!(of("qwen")["detail"], "it did not answer within 3.0 s");
    assert!(of("goose")["next"].is_string());

    let text = ok(&setup, &["acp", "detect", "claude", "goose"]).await;
    assert!(
        text.contains("claude  ready, sign-in not checked  2.5"),
        "{text}"
    );
    let (code, said) = refused(&setup, &["acp", "detect", "clade"]).await;
    assert_eq!(code, 4);
    assert!(said.contains("did you mean claude?"), "{said}");
}
