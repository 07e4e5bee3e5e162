//! A public library of another language, as it is, follows a chat through a network that holds back, cuts and refuses: it sees every
//! event once.
//!
//! It is in `tests/sse-client`; `npm ci` there installs it, which `scripts/test` does.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::room::{Room, chat, text};
use crate::support::{Proxy, Weather, node, soon};

/// The library, in a process of its own.
struct Library {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Library {
    fn start(node: &Path, folder: &Path, url: &str, token: &str) -> Self {
        let mut child = Command::new(node)
            .arg(folder.join("follow.mjs"))
            .args([url, token])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            _child: child,
            lines,
        }
    }

    async fn next(&mut self) -> Value {
        let line = soon("an event", self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.expect("it goes on")).unwrap()
    }

    /// Goes on to an event of this type; all that was seen.
    async fn until(&mut self, kind: &str, seen: &mut Vec<Value>) -> Value {
        loop {
            let event = self.next().await;
            if event["type"] == kind {
                seen.push(event.clone());
                return event;
            }
            seen.push(event);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_of_another_language_misses_and_repeats_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sse-client");
    let Some(node) = node("chats by a library", &folder, "eventsource") else {
        return;
    };
    let room = Room::new().await;
    let call = |command: &str| json!([{ "tool": "bash", "arguments": { "command": command } }]);
    let script = json!([
        [{ "text": "word ", "times": 200 }, call("touch one")[0]],
        call("touch two"),
        [{ "text": "more ", "times": 200 }],
    ]);
    let mut body = chat(&format!("script:{script}"));
    body["onDisconnect"] = json!({ "hold": 60 });
    let mut begun = room.owner().begin(&body).await;
    let session = begun.session_id.clone();
    let first = text(&begun.until("relay").await, "id");
    drop(begun);

    let proxy = Proxy::to(room.desk.server.address).await;
    let url = format!("{}/chat/{session}/events", proxy.url());
    let mut library = Library::start(&node, &folder, &url, &room.desk.server.key);
    let mut seen = Vec::new();
    library.until("text", &mut seen).await;
    proxy.cut();
    let decided = json!({ "sessionId": session, "response": { "approved": true } });
    assert_eq!(room.stranger().resolve(&first, &decided).await.0, 200);
    let asked = loop {
        let asked = library.until("relay", &mut seen).await;
        if asked["data"]["id"] != first.as_str() {
            break asked;
        }
    };
    // What happens now nobody hears, until the network is back.
    proxy.set(Weather::Silent);
    let second = text(&asked["data"], "id");
    assert_eq!(room.stranger().resolve(&second, &decided).await.0, 200);
    proxy.set(Weather::Down);
    proxy.set(Weather::Fine);
    library.until("closed", &mut seen).await;
    assert!(proxy.connections() >= 3, "it was never cut");
    numbered(&seen);
    assert!(room.has("one") && room.has("two"));
}

/// Every event of the chat was seen once, in its order. Questions that waited when somebody came back have no number, and don't
/// come again where they have one.
fn numbered(seen: &[Value]) {
    let is_replay = |event: &Value| event["data"]["replay"] == true;
    assert!(!seen.iter().any(|event| event["type"] == "resync_required"));
    let numbered = seen
        .iter()
        .filter(|event| event.get("id").is_some() && !is_replay(event));
    let numbers: Vec<u64> = numbered
        .map(|event| text(event, "id").parse().unwrap())
        .collect();
    let replayed = seen.iter().filter(|event| is_replay(event)).count();
    let last = *numbers.last().unwrap();
    let missing: Vec<u64> = (1..=last).filter(|it| !numbers.contains(it)).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(missing.len() <= replayed, "{missing:?}");
    let asked = seen.iter().filter(|event| event["type"] == "relay");
    let asked: BTreeSet<String> = asked.map(|event| text(&event["data"], "id")).collect();
    assert_eq!(asked.len(), 2);
    let said = seen.iter().filter(|event| event["type"] == "text");
    let said: String = said.map(|event| text(&event["data"], "content")).collect();
    assert_eq!(said, "word ".repeat(200) + &"more ".repeat(200));
}
