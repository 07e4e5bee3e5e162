//! The least that drives an agent: lines of JSON on two pipes, one session, one turn after the other. No bounds, no questions, no
//! queue, nobody else.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::agent::PROGRAM;

pub(crate) struct Plain {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    last: u64,
}

impl Plain {
    pub(crate) async fn start(script: &Value) -> Self {
        let mut child = Command::new(PROGRAM)
            .arg(script.to_string())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut plain = Self {
            stdin: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            last: 0,
        };
        plain.ask("initialize", json!({"protocolVersion": 1})).await;
        plain.line().await;
        let open = json!({"cwd": std::env::temp_dir(), "mcpServers": []});
        plain.ask("session/new", open).await;
        plain.line().await;
        plain
    }

    pub(crate) async fn prompt(&mut self) {
        let prompt = json!([{"type": "text", "text": "go"}]);
        let params = json!({"sessionId": "session-1", "prompt": prompt});
        self.ask("session/prompt", params).await;
    }

    /// The next text of the turn; nothing when it is over.
    pub(crate) async fn text(&mut self) -> Option<String> {
        let mut line = self.line().await;
        match line["params"]["update"]["content"]["text"].take() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stdin);
        self.child.wait().await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) {
        self.last += 1;
        let line = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        let line = format!("{line}\n");
        self.stdin.write_all(line.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}
