//! A tool call over MCP, one at a time, beside the same call over HTTP; and the list of tools where there are many actions.
//!
//! Over HTTP the client has a session, as most have. Over standard input and output it is a process of its own, between the
//! client and the server.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::latency::percentiles;
use super::send::HttpSender;
use crate::bench::Bench;
use crate::goals::Goal;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::server::ServerCommand;
use crate::text::text;
use crate::wire::Http;
use crate::world::{Agent, World};

const SEND: &str = "a send over HTTP";
const SEND_HTTP: &str = "the same by MCP over HTTP";
const SEND_STDIO: &str = "the same by MCP over stdio";
const LIST: &str = "all actions over HTTP";
const LIST_HTTP: &str = "all tools by MCP over HTTP";
const LIST_STDIO: &str = "all tools by MCP over stdio";

/// Sends before anything counts.
const WARM_UP: usize = 10;
/// Lists in a round.
const LISTS: usize = 5;

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!("MCP, one call at a time, {} actions", sizes.actions);
    let mut section = Section::new(Part::Mcp, title);
    let server = bench.server().await?;
    let world = World::create(&server, 3, 1).await?;
    register_actions(&world, sizes.actions).await?;
    let mut senders = HttpSender::all(&world).await?;
    let mut plain = senders.swap_remove(0);
    let mut lister = Http::connect(world.address, &world.senders[0].token).await?;
    let mut over_http = McpClient::over_http(&world, &world.senders[1]).await?;
    let mut over_stdio =
        McpClient::over_stdio(&bench.options.mcp, &world, &world.senders[2]).await?;
    sends(&mut plain, WARM_UP).await?;
    over_http.sends(&world, WARM_UP).await?;
    over_stdio.sends(&world, WARM_UP).await?;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&server.process]).await;
        let count = sizes.single;
        section.add(SEND, &percentiles(sends(&mut plain, count).await?));
        let http = over_http.sends(&world, count).await?;
        section.add(SEND_HTTP, &percentiles(http));
        let stdio = over_stdio.sends(&world, count).await?;
        section.add(SEND_STDIO, &percentiles(stdio));
        let listed = lists(&mut lister, sizes.actions).await?;
        section.add(LIST, &percentiles(listed));
        let http = over_http.lists(sizes.actions).await?;
        section.add(LIST_HTTP, &percentiles(http));
        let stdio = over_stdio.lists(sizes.actions).await?;
        section.add(LIST_STDIO, &percentiles(stdio));
        section.others.push(others.cores());
    }
    judge(&mut section);
    Ok(section)
}

fn judge(section: &mut Section) {
    let p50 = Column::FINE_P50;
    let call = Some(Goal::AtMost(2.0));
    let name = "p50 of a call, MCP over HTTP to HTTP";
    section.compare(name, p50, (SEND_HTTP, SEND), call);
    let name = "p50 of a call, MCP over stdio to HTTP";
    section.compare(name, p50, (SEND_STDIO, SEND), call);
    let list = Some(Goal::AtMost(3.0));
    let name = "p50 of the list, MCP over HTTP to HTTP";
    section.compare(name, p50, (LIST_HTTP, LIST), list);
    let name = "p50 of the list, MCP over stdio to HTTP";
    section.compare(name, p50, (LIST_STDIO, LIST), list);
}

/// Registers so many actions of an agent that everybody may call.
async fn register_actions(world: &World, count: usize) -> Result<()> {
    let mut http = Http::connect(world.address, &world.receivers[0].token).await?;
    for number in 0..count {
        let body = json!({
            "name": format!("action-{number:04}"),
            "description": "labels a text by what it is about",
            "inputSchema": {
                "type": "object",
                "properties": { "text": { "type": "string", "description": "what to label" } },
                "required": ["text"],
            },
        });
        http.call("POST", "/v1/actions", &body).await?;
    }
    Ok(())
}

async fn sends(sender: &mut HttpSender, count: usize) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    for _ in 0..count {
        took.push(sender.send().await?.elapsed());
    }
    Ok(took)
}

/// Reads all actions, page by page.
async fn lists(http: &mut Http, actions: usize) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    for _ in 0..LISTS {
        let begun = Instant::now();
        let mut found = 0;
        let mut path = "/v1/actions".to_owned();
        loop {
            let page = http.call("GET", &path, &Value::Null).await?;
            found += page["items"].as_array().map_or(0, Vec::len);
            match page["nextCursor"].as_str() {
                Some(cursor) => path = format!("/v1/actions?cursor={cursor}"),
                None => break,
            }
        }
        took.push(begun.elapsed());
        ensure!(found == actions, "{found} of {actions} actions were listed");
    }
    Ok(took)
}

/// A client of an MCP server.
struct McpClient {
    way: Way,
    asked: u64,
    sent: usize,
}

enum Way {
    Http(Http),
    Stdio(Pipe),
}

/// A process that is spoken to by lines.
struct Pipe {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    _child: Child,
}

impl McpClient {
    async fn over_http(world: &World, agent: &Agent) -> Result<Self> {
        let mut http = Http::connect(world.address, &agent.token).await?;
        http.add_header("accept", "application/json, text/event-stream");
        let mut client = Self::new(Way::Http(http));
        client.begin().await?;
        Ok(client)
    }

    async fn over_stdio(command: &ServerCommand, world: &World, agent: &Agent) -> Result<Self> {
        let mut child = Command::new(&command.program);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"RELAY_") {
                child.env_remove(name);
            }
        }
        let child = child
            .args(&command.arguments)
            .env("RELAY_URL", format!("http://{}", world.address))
            .env("RELAY_TOKEN", &agent.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let program = command.program.display();
        let mut child = child.with_context(|| format!("{program} can't be started"))?;
        let pipe = Pipe {
            input: child.stdin.take().context("a program without input")?,
            output: BufReader::new(child.stdout.take().context("one without output")?),
            line: String::new(),
            _child: child,
        };
        let mut client = Self::new(Way::Stdio(pipe));
        client.begin().await?;
        Ok(client)
    }

    const fn new(way: Way) -> Self {
        Self {
            way,
            asked: 0,
            sent: 0,
        }
    }

    async fn begin(&mut self) -> Result<()> {
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "relay-bench", "version": "1" },
        });
        self.ask("initialize", &hello).await?;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        match &mut self.way {
            Way::Http(http) => {
                let session = http.header_of_last("mcp-session-id");
                let session = session.context("a client without a session")?;
                http.add_header("mcp-session-id", &session);
                http.ask("POST", "/mcp", ready).await?;
            }
            Way::Stdio(pipe) => pipe.say(ready).await?,
        }
        Ok(())
    }

    /// Asks, and waits for the answer.
    async fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.asked += 1;
        let id = self.asked;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let answer: Value = match &mut self.way {
            Way::Http(http) => {
                let answer = http.ask("POST", "/mcp", &request).await?;
                let body = String::from_utf8_lossy(answer.body);
                let data = body
                    .lines()
                    .rev()
                    .find_map(|line| line.strip_prefix("data: {"));
                let data = data.with_context(|| format!("no answer in {body}"))?;
                serde_json::from_str(&format!("{{{data}"))?
            }
            Way::Stdio(pipe) => pipe.ask(&request, id).await?,
        };
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => bail!("{method} was answered {answer}"),
        }
    }

    async fn sends(&mut self, world: &World, count: usize) -> Result<Vec<Duration>> {
        let to = format!("@{}", world.receivers[0].name);
        let mut took = Vec::new();
        for _ in 0..count {
            self.sent += 1;
            let input = json!({ "to": to, "text": text(self.sent) });
            let begun = Instant::now();
            let call = json!({ "name": "send", "arguments": input });
            let result = self.ask("tools/call", &call).await?;
            took.push(begun.elapsed());
            let is_sent = result["isError"] != true;
            ensure!(is_sent, "a send was answered {result}");
        }
        Ok(took)
    }

    /// Lists all tools, page by page.
    async fn lists(&mut self, actions: usize) -> Result<Vec<Duration>> {
        let mut took = Vec::new();
        for _ in 0..LISTS {
            let begun = Instant::now();
            let mut found = 0;
            let mut params = json!({});
            loop {
                let page = self.ask("tools/list", &params).await?;
                found += page["tools"].as_array().map_or(0, Vec::len);
                match page.get("nextCursor") {
                    Some(cursor) => params = json!({ "cursor": cursor }),
                    None => break,
                }
            }
            took.push(begun.elapsed());
            ensure!(
                found >= actions,
                "{found} tools were listed of {actions} actions"
            );
        }
        Ok(took)
    }
}

impl Pipe {
    async fn say(&mut self, message: &str) -> Result<()> {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await?;
        Ok(())
    }

    async fn ask(&mut self, request: &str, id: u64) -> Result<Value> {
        self.say(request).await?;
        loop {
            self.line.clear();
            let read = self.output.read_line(&mut self.line).await?;
            ensure!(read > 0, "the MCP server ended");
            let message: Value = serde_json::from_str(&self.line)?;
            if message["id"] == id {
                return Ok(message);
            }
        }
    }
}
