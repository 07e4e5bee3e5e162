//! A public library of another language believes what Relay signs: with a secret of the usual form, with one that somebody
//! chose, and with both while one replaces the other.
//!
//! It is in `tests/webhook-verifier`; `npm ci` there installs it, which `scripts/test` does.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use relay_sdk::AgentClient;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{Setup, node, soon};

const OWN: &str = "somebody chose these words";
const MADE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The library, in a process of its own.
struct Library {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Library {
    async fn start(node: &Path, folder: &Path, secrets: &[String]) -> Self {
        let mut child = Command::new(node)
            .arg(folder.join("receive.mjs"))
            .args(secrets)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut library = Self {
            _child: child,
            lines,
            url: String::new(),
        };
        library.url = library.next().await.as_str().unwrap().to_owned();
        library
    }

    async fn next(&mut self) -> Value {
        let line = soon("a line", self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.expect("it goes on")).unwrap()
    }

    /// What it thinks of the next call, with each of its secrets.
    async fn verdicts(&mut self, agent: &AgentClient) -> Vec<bool> {
        agent
            .send_message("#general", "héllo \u{1F680}")
            .await
            .unwrap();
        let told = self.next().await;
        let verdicts = told["verdicts"].as_array().unwrap().iter();
        verdicts.map(|verdict| *verdict == told["id"]).collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/webhook-verifier")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_of_another_language_believes_what_is_signed() {
    let folder = folder();
    let Some(node) = node("webhook verifier", &folder, "standardwebhooks") else {
        return;
    };
    let mut setup = Setup::new().with("RELAY_OUTBOUND_ALLOW", "127.0.0.1");
    let server = setup.start().await;
    let relay = server.relay();
    let agent = relay.register("ada").await.unwrap();
    let secrets = [format!("signed:{MADE}"), format!("raw:{OWN}")];
    let mut library = Library::start(&node, &folder, &secrets).await;
    let events = ["message.created"];
    let subscribing = relay.webhooks().subscribe(&library.url, events);
    let webhook = subscribing.secret(MADE).await.unwrap();
    assert_eq!(library.verdicts(&agent).await, [true, false]);
    let webhooks = relay.webhooks();
    webhooks.set_secret(webhook.id, OWN).await.unwrap();
    assert_eq!(library.verdicts(&agent).await, [true, true]);
    webhooks.delete(webhook.id).await.unwrap();

    let subscribing = webhooks.subscribe(&library.url, events);
    subscribing.secret(OWN).await.unwrap();
    assert_eq!(library.verdicts(&agent).await, [false, true]);
}
