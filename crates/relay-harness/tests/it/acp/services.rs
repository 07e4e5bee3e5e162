//! Files and commands that agents use through this side.

use relay_harness::acp::host::{Host, HostOptions, OpenSession};
use relay_harness::acp::permission::{AllowEach, RejectAll};
use serde_json::{Value, json};

use super::support::{agent, ask, environment, received, session_with, soon};

/// Makes these calls, each in a turn of its own, and gives the answers.
async fn calls(options: HostOptions, open: OpenSession, calls: Vec<Value>) -> Vec<Value> {
    let turns: Vec<Value> = calls
        .iter()
        .map(|call| json!([{"call": call}, {"stop": "end_turn"}]))
        .collect();
    let script = json!({
        "turns": turns,
        "handshake": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"additionalDirectories": {}}}},
    });
    let host = Host::start(agent(&script), environment(), open.cwd.clone(), options);
    let session = host.await.unwrap().new_session(open).await.unwrap();
    let mut answers = Vec::new();
    for _ in calls {
        let (text, _) = soon(ask(&session)).await;
        answers.push(serde_json::from_str(&text).unwrap());
    }
    answers
}

#[tokio::test]
async fn files_are_read_and_written_within_the_session() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    for folder in ["work", "extra"] {
        std::fs::create_dir(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("extra/e.txt"), "extra").unwrap();
    std::fs::write(root.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(root.join("secret"), root.join("work/link")).unwrap();
    let open = OpenSession {
        additional_directories: vec![root.join("extra")],
        ..OpenSession::new(root.join("work"))
    };
    let answers = calls(
        HostOptions::default(),
        open,
        vec![
            json!(["fs/write_text_file", {"path": root.join("work/new/a.txt"), "content": "one\ntwo\n"}]),
            json!(["fs/read_text_file", {"path": root.join("work/new/a.txt"), "line": 2, "limit": 1}]),
            json!(["fs/read_text_file", {"path": root.join("extra/e.txt")}]),
            json!(["fs/write_text_file", {"path": root.join("extra/e.txt"), "content": "x"}]),
            json!(["fs/read_text_file", {"path": root.join("work/link")}]),
            json!(["fs/read_text_file", {"path": root.join("work/../secret")}]),
            json!(["fs/read_text_file", {"path": root.join("work/none")}]),
            json!(["fs/read_text_file", {}]),
        ],
    );
    let answers = answers.await;
    assert_eq!(answers[0], json!({}));
    assert_eq!(answers[1], json!({"content": "two\n"}));
    assert_eq!(answers[2], json!({"content": "extra"}));
    let codes: Vec<&Value> = answers[3..].iter().map(|answer| &answer["code"]).collect();
    assert_eq!(codes, [-32602, -32602, -32602, -32002, -32602]);
    assert_eq!(
        std::fs::read_to_string(root.join("extra/e.txt")).unwrap(),
        "extra"
    );
}

#[tokio::test]
async fn what_is_offered_is_what_is_advertised() {
    let place = tempfile::tempdir().unwrap();
    let offered = async |options: HostOptions, quirk: bool, name: &str| {
        let log = place.path().join(name);
        let read = json!(["fs/read_text_file", {"path": "/etc/hostname"}]);
        let run = json!(["terminal/create", {"command": "true"}]);
        let script = json!({"log": log, "turns": [[{"call": read}, {"stop": "end_turn"}], [{"call": run}, {"stop": "end_turn"}]]});
        let mut agent = agent(&script);
        agent.quirks.no_client_files = quirk;
        let host = Host::start(agent, environment(), place.path().into(), options)
            .await
            .unwrap();
        let session = host
            .new_session(OpenSession::new(place.path()))
            .await
            .unwrap();
        let codes = [ask(&session).await.0, ask(&session).await.0]
            .map(|text| serde_json::from_str::<Value>(&text).unwrap()["code"].clone());
        host.stop().await;
        let said = received(&log)[0]["params"]["clientCapabilities"].clone();
        (
            said["fs"]["readTextFile"] == true,
            said["terminal"] == true,
            codes,
        )
    };
    let none = HostOptions {
        files: false,
        ..HostOptions::default()
    };
    let both = HostOptions {
        terminals: true,
        terminal_environment: environment(),
        ..HostOptions::default()
    };
    let missing = || json!(-32601);
    assert_eq!(
        offered(HostOptions::default(), false, "a").await,
        (true, false, [json!(-32602), missing()])
    );
    assert_eq!(
        offered(HostOptions::default(), true, "b").await,
        (false, false, [missing(), missing()])
    );
    assert_eq!(
        offered(none, false, "c").await,
        (false, false, [missing(), missing()])
    );
    // Offered, but whoever decides says no.
    assert_eq!(
        offered(both, false, "d").await,
        (true, true, [json!(-32602), json!(-32603)])
    );
}

#[tokio::test]
async fn commands_run_when_they_are_allowed() {
    let place = tempfile::tempdir().unwrap();
    let options = HostOptions {
        terminals: true,
        terminal_environment: environment(),
        ..HostOptions::deciding(AllowEach)
    };
    let root = place.path().canonicalize().unwrap();
    let on = |id: u32| json!({"terminalId": format!("terminal-{id}")});
    let answers = calls(
        options,
        OpenSession::new(&root),
        vec![
            json!(["terminal/create", {"command": "sh", "args": ["-c", "echo out; echo err >&2; echo $X; exit 3"], "env": [{"name": "X", "value": "y"}]}]),
            json!(["terminal/wait_for_exit", on(1)]),
            json!(["terminal/output", on(1)]),
            json!(["terminal/create", {"command": "echo one && pwd", "outputByteLimit": 1000}]),
            json!(["terminal/wait_for_exit", on(2)]),
            json!(["terminal/output", on(2)]),
            json!(["terminal/create", {"command": "sleep", "args": ["1000"]}]),
            json!(["terminal/kill", on(3)]),
            json!(["terminal/wait_for_exit", on(3)]),
            json!(["terminal/release", on(3)]),
            json!(["terminal/output", on(3)]),
            json!(["terminal/create", {"command": "true", "cwd": "/"}]),
        ],
    );
    let answers = answers.await;
    assert_eq!(answers[0], on(1));
    assert_eq!(answers[1], json!({"exitCode": 3, "signal": null}));
    assert_eq!(answers[2]["output"], "out\nerr\ny\n");
    assert_eq!(answers[2]["exitStatus"]["exitCode"], 3);
    assert_eq!(answers[5]["output"], format!("one\n{}\n", root.display()));
    assert_eq!(answers[8], json!({"exitCode": null, "signal": "9"}));
    assert_eq!(answers[10]["code"], -32602);
    assert_eq!(answers[11]["code"], -32602);
}

#[tokio::test]
async fn commands_end_with_the_agent() {
    let place = tempfile::tempdir().unwrap();
    let number = place.path().join("number");
    let line = format!(
        "echo $$ > {}.new; mv {}.new {}; sleep 1000",
        number.display(),
        number.display(),
        number.display()
    );
    let options = HostOptions {
        terminals: true,
        terminal_environment: environment(),
        ..HostOptions::deciding(AllowEach)
    };
    let script = json!({"turns": [[{"call": ["terminal/create", {"command": line}]}, {"stop": "end_turn"}]]});
    let session = session_with(script, options).await;
    soon(ask(&session)).await;
    crate::processes::until("the command runs", || number.exists()).await;
    let pid = std::fs::read_to_string(&number)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(crate::processes::is_running(pid));
    session.host().stop().await;
    crate::processes::until("the command is gone", || !crate::processes::is_running(pid)).await;
}

#[tokio::test]
async fn a_rejected_command_does_not_run() {
    let place = tempfile::tempdir().unwrap();
    let made = place.path().join("made");
    let options = HostOptions {
        terminals: true,
        terminal_environment: environment(),
        ..HostOptions::deciding(RejectAll)
    };
    let call = json!(["terminal/create", {"command": "touch", "args": [made]}]);
    let answers = calls(options, OpenSession::new(place.path()), vec![call]).await;
    assert_eq!(answers[0]["code"], -32603);
    assert!(!made.exists());
}
