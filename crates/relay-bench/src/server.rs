//! The server under test: a process of its own over a new data directory, its limits out of the way.
//!
//! It is `relay serve` or something that behaves like it: it takes `--data DIR --listen ADDR`, reads
//! `relay.toml` in that directory, says `url ...` on a line of its output once it listens, and keeps its
//! keys in `credentials.json`.

use std::ffi::OsString;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::machine::Process;
use crate::platform::set_apart;
use crate::wire::Http;

/// How to start a server, but for the arguments that this crate adds.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments, such as `serve`.
    pub arguments: Vec<OsString>,
}

/// Settings that let nothing but speed limit the load.
const SETTINGS: &str = "[server]\nconnections = 65536\nheader_timeout_s = 3600\ndrain_s = 1\n\n\
    [limits]\nrequests_per_second = 4000000\nrequests_at_once = 4000000\n\n[log]\nfilter = \"warn\"\n";

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    pub(crate) keys: Keys,
    /// From the start of the process until it could be used.
    pub(crate) ready_after: Duration,
    child: Child,
    /// Held, because a server that can't write there might end.
    _output: BufReader<ChildStdout>,
    data: TempDir,
}

/// The keys that a server begins with.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keys {
    pub(crate) admin_key: String,
    pub(crate) workspace_key: String,
}

impl Server {
    /// Starts a server with nothing in it.
    pub(crate) async fn start(
        command: &ServerCommand,
        directory: &Path,
        settings: &str,
    ) -> Result<Self> {
        let data = tempfile::tempdir_in(directory)?;
        let settings = format!("{SETTINGS}\n{settings}");
        std::fs::write(data.path().join("relay.toml"), settings)?;
        Self::start_over(command, data).await
    }

    /// Ends the process without a warning, and starts another one over what it has stored.
    pub(crate) async fn kill_and_start(self, command: &ServerCommand) -> Result<Self> {
        let Self {
            mut child, data, ..
        } = self;
        child.kill().await?;
        Self::start_over(command, data).await
    }

    async fn start_over(command: &ServerCommand, data: TempDir) -> Result<Self> {
        let log = data.path().join("server.log");
        let begun = Instant::now();
        let mut child = Command::new(&command.program);
        // The settings of whoever measures are not what is measured.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"RELAY_") {
                child.env_remove(name);
            }
        }
        set_apart(&mut child);
        let child = child
            .args(&command.arguments)
            .arg("--data")
            .arg(data.path())
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn();
        let program = command.program.display();
        let mut child = child.with_context(|| format!("{program} can't be started"))?;
        let output = child.stdout.take().context("a server without output")?;
        let mut output = BufReader::new(output);
        let starting = async {
            let address = announced(&mut output).await?;
            wait_until_ready(address).await?;
            anyhow::Ok(address)
        };
        let address = match tokio::time::timeout(PATIENCE, starting).await {
            Ok(Ok(address)) => address,
            _ => bail!(
                "{program} did not start; it said: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            ),
        };
        let ready_after = begun.elapsed();
        let keys = std::fs::read(data.path().join("credentials.json"))?;
        Ok(Self {
            address,
            process: child.id().map(|id| id.to_string()).unwrap_or_default(),
            keys: serde_json::from_slice(&keys)?,
            ready_after,
            child,
            _output: output,
            data,
        })
    }

    /// Bytes of the database.
    pub(crate) fn database_bytes(&self) -> u64 {
        let file = self.data.path().join("relay.db");
        std::fs::metadata(file).map_or(0, |file| file.len())
    }
}

/// Waits until the server has said where it listens.
async fn announced(output: &mut BufReader<ChildStdout>) -> Result<SocketAddr> {
    let mut line = String::new();
    while output.read_line(&mut line).await? > 0 {
        if let Some(url) = line.strip_prefix("url ") {
            let address = url.trim().trim_start_matches("http://");
            return address.parse().with_context(|| format!("the URL {url}"));
        }
        line.clear();
    }
    bail!("the server ended")
}

async fn wait_until_ready(address: SocketAddr) -> Result<()> {
    let mut http = Http::connect(address, "").await?;
    while http.ask("GET", "/ready", "").await?.status != 200 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
