//! A minimal ACP client: newline-delimited JSON-RPC over the pipes of a child process, and nothing that helps.
//!
//! Everything that the agent says is kept in order. Requests of the agent are refused, except for permissions, which are left
//! to the test. When the client is dropped, nothing that the agent started is left.

use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::agents::{Agent, Place};
use super::{processes, soon};

/// How much of an agent's complaints is shown when a test fails.
const TAIL_LINES: usize = 20;

/// A running agent.
pub(crate) struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    complaints: PathBuf,
    home: PathBuf,
    next_id: u64,
    /// All that the agent said.
    seen: Vec<Value>,
    /// Where the current turn begins in it.
    turn: usize,
    ended: bool,
}

impl Agent {
    /// Starts it against the model at this URL.
    pub(crate) fn start(&self, place: &Place, model: &str) -> Client {
        let launch = self.launch(place, model);
        let mut command = Command::new(launch.program);
        command
            .args(launch.arguments)
            .env_clear()
            .envs(launch.environment)
            .current_dir(place.work());
        Client::start(command, place.home().to_owned())
    }
}

impl Client {
    /// Starts an agent, whose home is this folder, in a process group of its own.
    fn start(mut command: Command, home: PathBuf) -> Self {
        let complaints = home.join("stderr.txt");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&complaints).unwrap())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            complaints,
            home,
            next_id: 0,
            seen: Vec::new(),
            turn: 0,
            ended: false,
        }
    }

    /// Asks, and waits for the result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// Asks; the answer is had by `answer`.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.write(json!({ "id": id, "method": method, "params": params }))
            .await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.write(json!({ "method": method, "params": params }))
            .await;
    }

    /// Answers a request of the agent.
    pub(crate) async fn respond(&mut self, request: &Value, result: Value) {
        self.write(json!({ "id": request["id"], "result": result }))
            .await;
    }

    /// Waits for the answer to what was asked.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<Value, Value> {
        let what = format!("the answer to request {id}");
        let like = |said: &Value| said["id"] == id && said.get("method").is_none();
        let answer = self.wait(0, &what, like).await;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// From now on it is another turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = self.seen.len();
    }

    /// Waits for something of this turn; it may have been said already.
    pub(crate) async fn until(&mut self, what: &str, like: impl Fn(&Value) -> bool) -> Value {
        self.wait(self.turn, what, like).await
    }

    /// The updates of this turn so far.
    pub(crate) fn updates(&self) -> impl Iterator<Item = &Value> {
        let said = self.seen[self.turn..].iter();
        let updates = said.filter(|said| said["method"] == "session/update");
        updates.map(|said| &said["params"]["update"])
    }

    /// The text of this turn so far, of updates of this kind.
    pub(crate) fn text(&self, kind: &str) -> String {
        let chunks = self
            .updates()
            .filter(|update| update["sessionUpdate"] == kind);
        let texts = chunks.filter_map(|update| update["content"]["text"].as_str());
        texts.collect()
    }

    /// Kills the agent and everything that it started.
    pub(crate) fn end(&mut self) {
        self.ended = true;
        if let Some(id) = self.child.id() {
            processes::end_group(id);
        }
        let left = processes::end_all_of(&self.home);
        if !std::thread::panicking() {
            assert_eq!(left, Vec::<i32>::new(), "processes that did not end");
        }
    }

    /// Tells what is needed to understand a failure.
    fn show(&self) {
        for said in &self.seen[self.turn..] {
            eprintln!("said: {said}");
        }
        let text = std::fs::read_to_string(&self.complaints).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        eprintln!("complained:\n{}", tail.join("\n"));
    }

    async fn wait(&mut self, from: usize, what: &str, like: impl Fn(&Value) -> bool) -> Value {
        let mut place = from;
        loop {
            while place < self.seen.len() {
                if like(&self.seen[place]) {
                    return self.seen[place].clone();
                }
                place += 1;
            }
            soon(what, self.read(what)).await;
        }
    }

    async fn read(&mut self, what: &str) {
        let line = self.lines.next_line().await.unwrap();
        let line = line.unwrap_or_else(|| panic!("the agent ended before {what}"));
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let asks = said.get("method").is_some() && said.get("id").is_some();
        if asks && said["method"] != "session/request_permission" {
            let error = json!({ "code": -32601, "message": "Method not found" });
            self.write(json!({ "id": said["id"], "error": error }))
                .await;
        }
        self.seen.push(said);
    }

    async fn write(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).await.unwrap();
        self.stdin.flush().await.unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
        if std::thread::panicking() {
            self.show();
        }
    }
}
