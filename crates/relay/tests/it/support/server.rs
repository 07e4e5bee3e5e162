//! `relay serve` over a directory of its own, which can be killed and started again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};

use relay_sdk::protocol::policy::{PolicyPatch, RunawayPolicy};
use relay_sdk::{Options, Relay};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::soon;

/// What a server is started with.
pub(crate) struct Setup {
    directory: TempDir,
    listen: String,
    environment: Vec<(String, String)>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            listen: "127.0.0.1:0".to_owned(),
            environment: vec![("RELAY_LOG_FILTER".to_owned(), "warn".to_owned())],
        }
    }

    /// The same with a setting in the environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Where the server keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.file("data")
    }

    /// A file beside the data.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The program with nothing of this process's environment.
    pub(crate) fn relay(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_relay"));
        command
            .env_clear()
            .envs(self.environment.iter().cloned())
            .kill_on_drop(true);
        command
    }

    /// `relay serve` over this directory.
    pub(crate) fn serve(&self) -> Command {
        let mut command = self.relay();
        command.arg("serve").arg("--data").arg(self.data());
        command
    }

    /// Starts a server and waits until it says that it is ready. The next one listens at the same place.
    pub(crate) async fn start(&mut self) -> Server {
        let mut command = self.serve();
        command.arg("--listen").arg(&self.listen);
        let server = Server::start(command, &self.data(), self.file("log")).await;
        self.listen = server.address.to_string();
        server
    }
}

/// What a command that has to end has to say.
pub(crate) async fn output(command: &mut Command) -> Output {
    soon("the end", command.output()).await.unwrap()
}

/// A running server. It is killed when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    pub(crate) key: String,
    /// What it said when it was ready.
    pub(crate) said: String,
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Runs a command that starts a server, and waits until it is ready.
    pub(crate) async fn start(mut command: Command, data: &Path, log: PathBuf) -> Self {
        let errors = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log);
        command.stdout(Stdio::piped()).stderr(errors.unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("\ncredentials ") {
            match soon("the server", lines.next_line()).await.unwrap() {
                Some(line) => said.push_str(&format!("{line}\n")),
                None => panic!("no server: {}", std::fs::read_to_string(&log).unwrap()),
            }
        }
        let text = std::fs::read(data.join("credentials.json")).unwrap();
        let credentials: Value = serde_json::from_slice(&text).unwrap();
        let field = |name: &str| credentials[name].as_str().unwrap().to_owned();
        let url = field("url");
        let address = url.strip_prefix("http://").unwrap().parse().unwrap();
        Self {
            address,
            key: field("workspaceKey"),
            url,
            said,
            child,
            log,
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.id().try_into().unwrap()).unwrap()
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Asks it to stop, as service managers do.
    pub(crate) fn terminate(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// Asks it to stop, as people do.
    pub(crate) fn interrupt(&self) {
        kill_process(self.pid(), Signal::INT).unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> ExitStatus {
        soon("the server's end", self.child.wait()).await.unwrap()
    }

    /// `kill -9`.
    pub(crate) async fn kill(mut self) {
        soon("the kill", self.child.kill()).await.unwrap();
    }

    /// Whoever has the workspace's key.
    pub(crate) fn relay(&self) -> Relay {
        Relay::with_options(&self.url, &self.key, Options::default()).unwrap()
    }

    /// Lets agents talk as fast as tests do; by default what comes so fast is held back for a minute.
    pub(crate) async fn unhurried(&self) {
        let patch = PolicyPatch {
            sender_per_minute: Some(1_000_000),
            backlog_per_turn: Some(200),
            runaway: Some(RunawayPolicy {
                per_minute: 100_000,
                depth: 20,
            }),
            ..PolicyPatch::default()
        };
        self.relay().update_policy(&patch).await.unwrap();
    }

    /// The body of an answer that needs no credential.
    pub(crate) async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        soon(path, stream.read_to_string(&mut answer))
            .await
            .unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        body.to_owned()
    }

    /// One of its measurements.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics").await;
        let mut lines = metrics.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse().unwrap()
    }

    /// The memory that it takes, in KiB. What is mapped from files the system can take back at any time; it does
    /// not count.
    pub(crate) fn memory_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid().as_raw_nonzero());
        let status = std::fs::read_to_string(path).unwrap();
        let mut lines = status.lines();
        let line = lines
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .unwrap();
        line.trim_end_matches("kB").trim().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("the server's log:\n{log}");
        }
    }
}
