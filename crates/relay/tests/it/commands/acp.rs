//! `relay acp` with an agent that plays a script: its real output, for people and for programs.

mod asking;
mod detecting;

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use crate::support::{Done, Setup, ended, finish, soon};

/// A command that needs no server.
async fn run(setup: &Setup, arguments: &[&str]) -> Done {
    finish(&mut command(setup, arguments)).await
}

fn command(setup: &Setup, arguments: &[&str]) -> tokio::process::Command {
    let mut command = setup.relay();
    command
        .env("RELAY_DATA", setup.data())
        .env("PATH", setup.file("bin"))
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// What it prints that has to succeed.
async fn ok(setup: &Setup, arguments: &[&str]) -> String {
    let done = run(setup, arguments).await;
    assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
    done.out
}

async fn json_of(setup: &Setup, arguments: &[&str]) -> Value {
    let out = ok(setup, &[arguments, &["--json"]].concat()).await;
    serde_json::from_str(&out).unwrap()
}

/// The code and what is said of one that has to fail.
async fn refused(setup: &Setup, arguments: &[&str]) -> (i32, String) {
    let done = run(setup, arguments).await;
    assert_ne!(done.code, 0, "{arguments:?}: {done:?}");
    (done.code, done.err)
}

/// A setup whose agent `fake` plays a script.
fn playing(script: Value) -> Setup {
    let setup = Setup::new();
    setup.fake(script);
    setup
}

/// What comes of a command that is told to stop, so often, once it has begun to speak.
async fn interrupted(setup: &Setup, arguments: &[&str], times: usize) -> Done {
    let mut command = command(setup, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let process = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    let mut done = Done {
        code: 0,
        out: String::new(),
        err: String::new(),
    };
    soon("a line", out.read_line(&mut done.out)).await.unwrap();
    for _ in 0..times {
        kill_process(process, Signal::INT).unwrap();
        // Two signals that nobody has looked at yet are one.
        soon("a word", err.read_line(&mut done.err)).await.unwrap();
    }
    soon("the end", out.read_to_string(&mut done.out))
        .await
        .unwrap();
    soon("the end", err.read_to_string(&mut done.err))
        .await
        .unwrap();
    done.code = ended(child).await.code;
    done
}

#[tokio::test]
async fn agents_are_listed_with_ones_own() {
    let setup = playing(json!({}));
    let listed = json_of(&setup, &["acp", "agents"]).await;
    let items = listed["items"].as_array().unwrap();
    let of = |id: &str| items.iter().find(|item| item["id"] == id).unwrap();
    assert_eq!(of("claude")["command"], "claude-agent-acp");
    assert_eq!(of("claude")["midTurn"], "queue");
    assert_eq!(of("codex")["askingMode"], "read-only");
    assert!(
        of("gemini")["install"]
            .as_str()
            .unwrap()
            .starts_with("npm install")
    );
    assert_eq!(
        (&of("fake")["builtIn"], &of("fake")["title"]),
        (&json!(false), &json!("Fake"))
    );
    let text = ok(&setup, &["acp", "agents"]).await;
    assert!(text.contains("opencode"), "{text}");
    assert!(text.contains("(your own)"), "{text}");
    assert!(
        text.contains("claude: run `claude /login`, or set ANTHROPIC_API_KEY"),
        "{text}"
    );
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_told_with_the_nearest() {
    let setup = Setup::new();
    let (code, said) = refused(&setup, &["acp", "ask", "claud", "hello"]).await;
    assert_eq!(code, 4);
    assert_eq!(
        said,
        "relay: there is no agent `claud`; did you mean claude?\nnext: `relay acp agents` shows which there are\n"
    );
    let (code, said) = refused(&setup, &["acp", "ask", "claude", "hello"]).await;
    assert_eq!(code, 4);
    assert_eq!(
        said,
        "relay: claude is not installed: there is no `claude-agent-acp` in the PATH\n\
         next: npm install -g @agentclientprotocol/claude-agent-acp\n"
    );
    let (_, said) = refused(&setup, &["acp", "ask", "claude", "hello", "--json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["error"]["code"], "not-installed");
}

#[tokio::test]
async fn what_is_wrong_in_the_configuration_is_named_by_every_command() {
    let setup = Setup::new();
    std::fs::create_dir_all(setup.data()).unwrap();
    let file = setup.data().join("relay.toml");
    std::fs::write(
        &file,
        "[agents.mine]\ncommand = \"x\"\nmidturn = \"queue\"\n",
    )
    .unwrap();
    for arguments in [
        &["acp", "agents"][..],
        &["acp", "ask", "mine", "hello"],
        &["run", "mine"],
        &["config", "show"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let (code, said) = refused(&setup, arguments).await;
        let expected = format!(
            "relay: {}:3: agents.mine.midturn: unknown field `midturn`",
            file.display()
        );
        assert!(said.starts_with(&expected), "{arguments:?}: {said}");
        assert_eq!(code, 1, "{arguments:?}");
    }
    // One that is named counts instead.
    let other = setup.file("other.toml");
    std::fs::write(&other, "[agents.other]\ncommand = \"x\"\n").unwrap();
    let listed = json_of(
        &setup,
        &["acp", "agents", "--config", other.to_str().unwrap()],
    )
    .await;
    let mut items = listed["items"].as_array().unwrap().iter();
    assert!(items.any(|item| item["id"] == "other"));
}

#[tokio::test]
async fn what_an_agent_can_do_is_what_its_handshake_says() {
    let setup = playing(json!({"handshake": {
        "protocolVersion": 1,
        "agentInfo": {"name": "fake", "title": "Fake Agent", "version": "1.2"},
        "agentCapabilities": {
            "loadSession": true,
            "sessionCapabilities": {"list": {}},
            "mcpCapabilities": {"http": true},
            "promptCapabilities": {"image": true},
        },
        "authMethods": [{"id": "key", "name": "With a key"}],
    }}));
    let shown = json_of(&setup, &["acp", "capabilities", "fake"]).await;
    let expected = json!({
        "loadSession": true, "forkSession": false, "resumeSession": false, "closeSession": false,
        "listSessions": true, "additionalDirectories": false,
        "mcp": {"stdio": true, "http": true, "sse": false},
        "prompt": {"text": true, "image": true, "audio": false, "embeddedContext": false},
    });
    assert_eq!(shown, expected);
    let text = ok(&setup, &["acp", "capabilities", "fake"]).await;
    assert!(
        text.starts_with("fake: Fake Agent 1.2\nloadSession             yes\n"),
        "{text}"
    );
    assert!(text.ends_with("signs in by: With a key\n"), "{text}");
}

#[tokio::test]
async fn stored_sessions_are_listed_from_all_pages() {
    let page = |ids: &[&str]| -> Value {
        let sessions = ids.iter().map(|id| {
            json!({"sessionId": id, "cwd": "/w", "title": format!("About {id}"), "updatedAt": "2026-11-01T10:00:00Z"})
        });
        sessions.collect()
    };
    let setup = playing(json!({
        "handshake": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"list": {}}}},
        "pages": [page(&["a", "b"]), page(&["c"])],
    }));
    let listed = json_of(&setup, &["acp", "sessions", "fake"]).await;
    let ids: Vec<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let listed = json_of(&setup, &["acp", "sessions", "fake", "--limit", "2"]).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let text = ok(&setup, &["acp", "sessions", "fake"]).await;
    assert!(
        text.contains("\nc        2026-11-01T10:00:00Z  /w         About c\n"),
        "{text}"
    );

    let without = playing(json!({}));
    let (code, said) = refused(&without, &["acp", "sessions", "fake"]).await;
    assert_eq!(code, 8);
    assert!(
        said.contains("does not advertise sessionCapabilities.list"),
        "{said}"
    );
}
