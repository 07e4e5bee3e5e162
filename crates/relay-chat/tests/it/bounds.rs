//! What is bounded, and what is left behind: nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use relay_harness::llm::limits::RunLimits;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::hall::{Hall, LONG, Plan, agent, all, bash, id_of};

/// A pipe that programs hold open: who reads it learns when all of them are gone.
struct Thread {
    path: PathBuf,
    reading: JoinHandle<String>,
}

impl Thread {
    fn spin(directory: &Path, name: &str) -> Self {
        let path = directory.join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let read = path.clone();
        let reading = tokio::task::spawn_blocking(move || std::fs::read_to_string(read).unwrap());
        Self { path, reading }
    }

    /// What a command does to hold it, from now until it has ended.
    fn hold(&self) -> String {
        format!("exec 9>{}; echo held >&9", self.path.display())
    }

    /// Waits until nobody holds it any more.
    async fn cut(self) {
        let read = tokio::time::timeout(LONG, self.reading).await;
        assert_eq!(read.expect("all have ended").unwrap(), "held\n");
    }
}

async fn playing(hall: &Hall, script: Value) -> crate::hall::Look {
    let content = format!("script:{script}");
    let body = json!({
        "messages": [{ "role": "user", "content": content }],
        "permissions": { "allowlist": ["bash", "agent"] },
    });
    hall.begin_with(body).await
}

#[tokio::test]
async fn one_agent_too_many_is_told_so() {
    let children = RunLimits::default().children;
    let tasks: Vec<Value> = (0..=children).map(|_| agent("t")).collect();
    let script = json!([
        { "when": { "user": "go" }, "reply": tasks },
        { "when": { "user": "t" }, "reply": [{ "wait": "gate" }, "sub"] },
        "done",
    ]);
    let hall = Hall::start(script).await;
    let mut look = hall.begin(json!({ "allowlist": ["agent"] })).await;
    // The outermost one is one, too.
    for _ in 0..=children {
        look.until("harness_start").await;
    }
    hall.model.open("gate");
    let events = look.end().await;
    let results = all(&events, "tool_result");
    assert_eq!(results.len(), children + 1);
    let (refused, done): (Vec<_>, Vec<_>) = results
        .into_iter()
        .partition(|result| result["output"].get("error").is_some());
    assert_eq!((refused.len(), done.len()), (1, children));
    assert_eq!(
        refused[0]["output"]["error"],
        "32 agents are already at work: wait for one of them"
    );
    assert_eq!(all(&events, "harness_start").len(), children + 1);
    assert_eq!(all(&events, "harness_end").len(), children + 1);
}

#[tokio::test]
async fn agents_are_nested_only_so_deep() {
    let script = json!([
        { "when": { "result": "can't be nested" }, "reply": "bottom" },
        { "when": { "result": "bottom" }, "reply": "bottom" },
        { "when": { "user": "" }, "reply": [agent("deeper")] },
    ]);
    let hall = Hall::start(script).await;
    let events = hall
        .begin(json!({ "allowlist": ["agent"] }))
        .await
        .end()
        .await;
    let depth = RunLimits::default().depth as usize;
    assert_eq!(all(&events, "harness_start").len(), depth);
    assert_eq!(all(&events, "text").last().unwrap()["content"], "bottom");
}

/// Most memory that this process has had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let digits: String = line.unwrap().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gigabyte_of_output_is_read_and_not_kept() {
    let hall = Plan::with_real_tools(json!([])).start().await;
    let before = peak_kib();
    let script = json!([[bash("yes | head -c 1000000000")], "done"]);
    let events = playing(&hall, script).await.end().await;
    let result = &all(&events, "tool_result")[0]["output"]["result"];
    assert_eq!(
        (&result["exitCode"], &result["truncated"]),
        (&json!(0), &json!(true))
    );
    let kept = result["output"].as_str().unwrap();
    assert!(kept.len() < 70 * 1024, "{}", kept.len());
    let shown: usize = all(&events, "tool_progress")
        .iter()
        .map(|event| event["content"]["data"].as_str().unwrap().len())
        .sum();
    assert!((1..1_200_000).contains(&shown), "{shown}");
    // Other tests of this process have a part in the figure, so it is not a small one.
    let grown = peak_kib() - before;
    assert!(grown < 256 * 1024, "{grown} KiB");
    assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
}

#[tokio::test]
async fn a_program_that_does_not_want_to_end_is_ended() {
    let hall = Plan::with_real_tools(json!([])).start().await;
    let thread = Thread::spin(hall.files.path(), "thread");
    let stubborn = format!(
        "{}; trap '' TERM; (trap '' TERM HUP; sleep 1000) & sleep 1000",
        thread.hold()
    );
    let call = json!({ "tool": "bash", "arguments": { "command": stubborn, "timeoutMs": 200 } });
    let events = playing(&hall, json!([[call], "done"])).await.end().await;
    let result = &all(&events, "tool_result")[0]["output"]["result"];
    assert_eq!(result["timedOut"], true);
    assert_eq!(all(&events, "text")[0]["content"], "done");
    thread.cut().await;
}

#[tokio::test]
async fn whoever_leaves_ends_the_run_its_agents_and_their_programs() {
    let script = json!([
        { "when": { "user": "child" }, "reply": [bash("exec 9>thread; echo held >&9; sleep 1000 & echo up; sleep 1000")] },
        { "when": { "user": "asker" }, "reply": [{ "tool": "write", "arguments": { "path": "x", "content": "y" } }] },
    ]);
    let hall = Plan::with_real_tools(script).start().await;
    let thread = Thread::spin(hall.files.path(), "thread");
    let script = json!([[agent("child"), agent("asker")], "never"]);
    let mut look = playing(&hall, script).await;
    // The question of one nested agent, and the program of the other.
    let mut relay = None;
    let mut runs = false;
    while relay.is_none() || !runs {
        let event = look.next().await.unwrap();
        runs |= event["type"] == "tool_progress";
        relay = relay.or((event["type"] == "relay").then_some(event));
    }
    let (relay, session) = (relay.unwrap(), look.session.clone());
    drop(look);
    let body = json!({ "sessionId": session, "response": { "approved": true } });
    let late = hall.post(&relay, &body).await.unwrap_err();
    assert_eq!(
        (late.status, late.body),
        (404, json!({ "error": "Session not found" }))
    );
    thread.cut().await;
    let record = hall.relay.permissions().wait(id_of(&relay), LONG).await;
    assert_eq!(record.unwrap().state.as_str(), "cancelled");
    assert!(!hall.files.path().join("x").exists());
    let ended = tokio::time::timeout(Duration::from_secs(30), hall.gateway.stop());
    ended.await.unwrap();
}

#[tokio::test]
async fn what_a_model_says_at_great_length_is_passed_on_and_harms_nothing() {
    let large = "word ".repeat(500_000);
    let ghost = json!({ "tool": "ghost", "arguments": large });
    let hall = Hall::start(json!([[large, ghost], [bash("ls")], "done"])).await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let listening = hall.relay.add_listener("transcript.chunk", move |event| {
        let event = serde_json::to_value(&event).unwrap();
        let content = event["event"]["chunk"]["content"].as_str();
        let _ = tell.send(content.unwrap().to_owned());
        async {}
    });
    let _listening = listening.await.unwrap();
    let mut look = hall.begin(json!({})).await;
    // The session on the relay works on.
    let relay = look.until("relay").await;
    hall.approve(&look, &relay).await;
    let events = look.end().await;
    let said = all(&events, "text")[0]["content"].as_str();
    assert!(said == Some(large.as_str()));
    let mut told_of = String::new();
    while told_of.len() < large.len() {
        let piece = tokio::time::timeout(LONG, told.recv()).await.unwrap();
        told_of += &piece.unwrap();
    }
    assert!(told_of == large);
    assert_eq!(hall.ran.commands(), ["ls"]);
    assert_eq!(all(&events, "harness_end")[0]["reason"], "final");
}
