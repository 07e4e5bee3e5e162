//! Agents that do what they should not: the host survives each, says what happened, and leaves no process.

use std::time::Duration;

use relay_harness::acp::event::Event;
use relay_harness::acp::host::{Host, HostError, HostOptions, OpenSession, Session};
use relay_harness::child::StopGrace;
use serde_json::{Value, json};

use super::support::{
    agent, all, ask, chunk, environment, folder, session, session_with, soon, start, text,
    try_start, until_text,
};
use crate::processes::{alone, is_running, until};

/// The session still works, and its process goes when it is told to.
async fn is_well(session: &Session) {
    let (text, end) = soon(ask(session)).await;
    assert_eq!((text.as_str(), end.as_str()), ("well", "end_turn"));
    ends(session).await;
}

async fn ends(session: &Session) {
    let pid = session.host().pid().unwrap();
    soon(session.host().stop()).await;
    assert!(!is_running(pid));
}

/// A session whose first turn is this, and whose second shows that it is well.
async fn after(first: Value) -> Session {
    session(json!({"turns": [first, [{"text": "well"}, {"stop": "end_turn"}]]})).await
}

#[tokio::test]
async fn garbage_is_passed_over() {
    let session = after(json!([
        {"text": "a"},
        {"line": "Debugger listening on port 44291"}, {"line": ""}, {"line": "{\"half\": "}, {"line": "[]"},
        {"line": "\u{0}\u{1b}[31m"}, {"line": "null"}, {"line": "{\"jsonrpc\": \"2.0\"}"},
        {"line": "{\"method\": \"session/update\"}"},
        {"line": "{\"method\": \"session/update\", \"params\": 3}"},
        {"line": "{\"method\": \"session/update\", \"params\": {\"sessionId\": 7, \"update\": {}}}"},
        {"stderr": "429 rate limit, 401 unauthorized"},
        {"text": "b"}, {"stop": "end_turn"},
    ]))
    .await;
    assert_eq!(soon(ask(&session)).await.0, "ab");
    assert!(session.host().noise() >= 8, "{}", session.host().noise());
    is_well(&session).await;
}

#[tokio::test]
async fn lines_in_pieces_are_put_together() {
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "session-1", "update": chunk("whole é")}});
    let line = line.to_string();
    let pieces = line.chars().map(|char| json!({"piece": char.to_string()}));
    let mut steps: Vec<Value> = pieces.collect();
    steps.extend([json!({"piece": "\r\n"}), json!({"stop": "end_turn"})]);
    let session = after(steps.into()).await;
    assert_eq!(soon(ask(&session)).await.0, "whole é");
    is_well(&session).await;
}

#[test]
fn a_hundred_megabytes_without_a_line_end() {
    alone("acp::hostile::a_hundred_megabytes");
}

#[tokio::test]
#[ignore = "measures memory: run alone, by the test above"]
async fn a_hundred_megabytes() {
    let session = after(json!([{"text": "a"}, {"bytes": 100_000_000}, {"line": ""}, {"text": "b"}, {"stop": "end_turn"}])).await;
    let before = resident();
    assert_eq!(soon(ask(&session)).await.0, "ab");
    let grown = resident().saturating_sub(before);
    assert!(grown < 60_000_000, "{grown}");
    assert_eq!(session.host().noise(), 1);
    is_well(&session).await;
}

#[tokio::test]
async fn more_updates_than_anybody_reads() {
    let session = after(json!([{"flood": 60_000}, {"stop": "end_turn"}])).await;
    let turn = session.prompt(["go"]).await.unwrap();
    // Nobody reads until it is over.
    soon(session.idle()).await.unwrap();
    let events = all(turn).await;
    let Event::Lagged { dropped } = events[0].event else {
        panic!("{:?}", events[0]);
    };
    assert_eq!(dropped + events.len() as u64 - 1, 60_001);
    assert!(text(&events).ends_with(" 59999 "));
    is_well(&session).await;
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}

#[tokio::test]
async fn unknown_updates_and_notifications_come_through() {
    let hologram = json!({"sessionUpdate": "hologram", "beam": [1, 2]});
    let session = after(json!([
        {"update": hologram},
        {"notify": ["qwen/notify/progress", {"sessionId": "session-1", "percent": 5}]},
        {"notify": ["vendor/news", {"text": "no session"}]},
        {"notify": ["$/progress", null]},
        {"stop": "end_turn"},
    ]))
    .await;
    let events = soon(all(session.prompt(["go"]).await.unwrap())).await;
    let raw: Vec<&Value> = events
        .iter()
        .filter_map(|event| match &event.event {
            Event::Raw { update } => Some(update),
            _ => None,
        })
        .collect();
    assert_eq!(raw[0], &hologram);
    assert_eq!(raw[1]["method"], "qwen/notify/progress");
    assert_eq!(raw.len(), 2);
    is_well(&session).await;
}

#[tokio::test]
async fn wrong_ids_late_answers_and_answers_to_nothing() {
    let session = after(json!([
        {"answerAs": 999_999}, {"answerAs": "x"}, {"answerAs": null}, {"answerAs": -1}, {"answerAs": {"a": 1}},
        // The call that opened the session was answered long ago.
        {"answerAs": 2},
        {"elsewhere": chunk("for nobody")},
        {"text": "mine"}, {"stop": "end_turn"},
        // Answered twice.
        {"stop": "refusal"},
    ]))
    .await;
    assert_eq!(
        soon(ask(&session)).await,
        ("mine".to_owned(), "end_turn".to_owned())
    );
    is_well(&session).await;
}

#[tokio::test]
async fn unknown_calls_are_refused() {
    let session = after(json!([{"call": ["elicitation/create", {}]}, {"call": ["craft/drainMidTurnQueue", {}]}, {"stop": "end_turn"}])).await;
    let (text, _) = soon(ask(&session)).await;
    assert_eq!(text.matches("-32601").count(), 2, "{text}");
    is_well(&session).await;
}

#[tokio::test]
async fn an_agent_that_dies_in_a_turn() {
    let place = tempfile::tempdir().unwrap();
    let escaped = place.path().join("escaped");
    let script = json!({"turns": [[
        {"text": "x"}, {"escape": escaped},
        {"stderr": "panicked at 'no more ideas', OPENAI_API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz012345"},
        {"die": true},
    ]]});
    let session = session(script).await;
    let turn = session.prompt(["go"]).await.unwrap();
    let error = soon(turn.finish()).await.unwrap_err();
    let HostError::Closed { exit, stderr, .. } = &error else {
        panic!("{error}");
    };
    assert!(exit.unwrap().status.unwrap().code().is_none());
    assert!(
        stderr.contains("no more ideas") && !stderr.contains("abcdefghij"),
        "{stderr}"
    );
    assert!(error.is_transient());
    let escaped: u32 = std::fs::read_to_string(escaped)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(!is_running(escaped));
    // Everything afterwards says the same at once.
    assert_eq!(
        session.prompt(["go"]).await.unwrap_err().code(),
        "connection-closed"
    );
    let open = OpenSession::new(folder());
    assert_eq!(
        session.host().new_session(open).await.unwrap_err().code(),
        "connection-closed"
    );
    assert_eq!(session.next_event().await, None);
}

#[tokio::test]
async fn an_agent_that_dies_while_a_question_is_open() {
    struct Never;
    impl relay_harness::acp::permission::Decides for Never {
        fn decide(
            &self,
            _: relay_harness::acp::permission::PermissionQuestion,
        ) -> relay_harness::acp::permission::Deciding<'_> {
            Box::pin(std::future::pending())
        }
    }
    let ask = json!({"id": "q", "jsonrpc": "2.0", "method": "session/request_permission", "params": {
        "sessionId": "session-1", "toolCall": {"toolCallId": "c"}, "options": []}});
    let script =
        json!({"turns": [[{"line": ask.to_string()}, {"text": "asked"}, {"untilPrompt": true}]]});
    let session = session_with(script, HostOptions::deciding(Never)).await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "asked").await;
    assert_eq!(session.open_questions(), 1);
    soon(session.host().stop()).await;
    assert_eq!(session.open_questions(), 0);
    assert_eq!(
        soon(turn.finish()).await.unwrap_err().code(),
        "connection-closed"
    );
}

#[tokio::test]
async fn an_agent_that_hangs_is_stopped() {
    let place = tempfile::tempdir().unwrap();
    let escaped = place.path().join("escaped");
    let quick = HostOptions {
        grace: StopGrace {
            eof: Duration::from_millis(50),
            term: Duration::from_millis(500),
        },
        ..HostOptions::default()
    };
    let script =
        json!({"stays": true, "turns": [[{"escape": escaped}, {"text": "x"}, {"hang": true}]]});
    let session = session_with(script, quick).await;
    let mut turn = session.prompt(["go"]).await.unwrap();
    until_text(&mut turn, "x").await;
    let escaped: u32 = std::fs::read_to_string(escaped)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(is_running(escaped));
    ends(&session).await;
    assert!(!is_running(escaped));
    assert_eq!(
        soon(turn.finish()).await.unwrap_err().code(),
        "connection-closed"
    );
}

#[tokio::test]
async fn an_agent_that_ends_its_output_is_of_no_use() {
    let session =
        session(json!({"turns": [[{"text": "x"}, {"closeOutput": true}, {"hang": true}]]})).await;
    let pid = session.host().pid().unwrap();
    let turn = session.prompt(["go"]).await.unwrap();
    let error = soon(turn.finish()).await.unwrap_err();
    assert_eq!(error.code(), "connection-closed");
    assert!(!is_running(pid));
}

#[tokio::test]
async fn handshakes_that_fail() {
    let quick = || HostOptions {
        initialize_timeout: Duration::from_millis(300),
        request_timeout: Duration::from_millis(300),
        ..HostOptions::default()
    };
    let fails = async |script: Value| soon(try_start(&script, quick())).await.unwrap_err();
    let silent = fails(json!({"silent": ["initialize"]})).await;
    assert_eq!(silent.code(), "timeout");
    let newer =
        fails(json!({"handshake": {"protocolVersion": 2, "info": {}, "capabilities": {}}})).await;
    assert_eq!(newer.code(), "protocol-mismatch");
    let odd = fails(json!({"handshake": "hello"})).await;
    assert_eq!(odd.code(), "init-failed");
    let refuses = fails(json!({"errors": {"initialize": {"code": -32603, "message": "no"}}})).await;
    assert_eq!(refuses.code(), "refused");

    let mut missing = agent(&json!({}));
    missing.command = "relay-no-such-agent".to_owned();
    missing.install = "npm install it".to_owned();
    let error = Host::start(missing, environment(), folder(), quick())
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.is_transient()),
        ("not-installed", false)
    );
    assert!(error.to_string().contains("npm install it"));

    let mut crashes = agent(&json!({}));
    crashes.command = "sh".to_owned();
    crashes.args = vec![
        "-c".to_owned(),
        "echo 'cannot find module' >&2; exit 1".to_owned(),
    ];
    let error = Host::start(crashes, environment(), folder(), quick())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("cannot find module"), "{error}");
    assert_eq!(error.code(), "connection-closed");

    let host = try_start(&json!({"silent": ["session/new"]}), quick())
        .await
        .unwrap();
    let error = host
        .new_session(OpenSession::new(folder()))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "timeout");
    let odd = start(json!({"opened": {"sessionId": 3}})).await;
    let error = odd
        .new_session(OpenSession::new(folder()))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "malformed-answer");
}

#[tokio::test]
async fn giving_up_while_an_agent_starts_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    let script = json!({"silent": ["initialize"], "log": log, "mark": place.path()});
    let starting = try_start(&script, HostOptions::default());
    let given_up = tokio::time::timeout(Duration::from_millis(500), starting).await;
    assert!(given_up.is_err());
    let argument = script.to_string();
    let runs = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines =
            processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(&argument))
    };
    until("it is gone", || !runs()).await;
}

#[tokio::test]
async fn an_agent_that_does_not_read_holds_up_nobody() {
    // It asks thousands of things, more than fit in the pipe, and reads none of the answers.
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "no/such", "params": {}}).to_string();
    let steps = json!([{"text": "a"}, {"repeat": [10_000, {"line": call}]}, {"text": "b"}, {"stop": "end_turn"}]);
    let session = session(json!({"deafAfter": 4, "turns": [steps]})).await;
    assert_eq!(
        soon(ask(&session)).await,
        ("ab".to_owned(), "end_turn".to_owned())
    );
    ends(&session).await;
}
