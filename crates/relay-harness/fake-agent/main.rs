//! An ACP agent that plays a script, for what real agents can't be made to do.
//!
//! The script is JSON, given as the only argument. `handshake` is the answer to `initialize`, `opened` is merged into that to
//! `session/new`, `early` are updates before it and `after` behind it, `history` is played back by `session/load` (behind its
//! answer if `historyIsLate`), `pages` are those of `session/list`. `turns` has a list of steps for each prompt; the last is played for all further ones.
//! The MCP servers of a session are started, but not those that `startsNoServers` names: "new", "load".
//! `log` is a file that gets every line that comes in, after `deafAfter` lines no more are read. A step is an object with one member, see [`Agent::step`].

#![allow(
    clippy::unwrap_used,
    reason = "an agent that dies is one of the things to test"
)]

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::{Value, json};

fn main() {
    let script = std::env::args().nth(1).unwrap_or_else(|| "{}".to_owned());
    let script: Value = serde_json::from_str(&script).unwrap();
    let (sender, lines) = channel();
    let deaf_after = script["deafAfter"].as_u64().unwrap_or(u64::MAX);
    std::thread::spawn(move || {
        for (number, line) in (0..).zip(std::io::stdin().lock().lines()) {
            if number >= deaf_after {
                sleep_for_ever();
            }
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut agent = Agent {
        script,
        lines,
        waiting: VecDeque::new(),
        sessions: 0,
        prompts: 0,
        calls: 0,
        cancelled: false,
        servers: Vec::new(),
    };
    while let Some(message) = agent.next() {
        agent.handle(message);
    }
    if agent.script["stays"] == true {
        sleep_for_ever();
    }
}

struct Agent {
    script: Value,
    lines: Receiver<String>,
    /// What came while something else was waited for.
    waiting: VecDeque<Value>,
    sessions: u64,
    prompts: usize,
    calls: u64,
    cancelled: bool,
    /// They end with their input, which ends with this process.
    servers: Vec<Child>,
}

impl Agent {
    fn next(&mut self) -> Option<Value> {
        if let Some(message) = self.waiting.pop_front() {
            return Some(message);
        }
        self.receive()
    }

    fn receive(&mut self) -> Option<Value> {
        let line = self.lines.recv().ok()?;
        if let Some(log) = self.script["log"].as_str() {
            append(log, &line);
        }
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "session/cancel" {
            self.cancelled = true;
        }
        Some(message)
    }

    fn handle(&mut self, message: Value) {
        let id = message["id"].clone();
        let session = message["params"]["sessionId"].clone();
        let Some(method) = message["method"].as_str().filter(|_| !id.is_null()) else {
            return;
        };
        if self.script["silent"]
            .as_array()
            .is_some_and(|all| all.iter().any(|m| m == method))
        {
            return;
        }
        if let Some(error) = self.script["errors"].get(method) {
            send(&json!({"id": id, "error": error}));
            return;
        }
        match method {
            "initialize" => self.initialize(&id),
            "session/new" | "session/fork" => {
                self.start_servers("new", &message["params"]);
                self.open(&id);
            }
            "session/load" => {
                self.start_servers("load", &message["params"]);
                let late = self.script["historyIsLate"] == true;
                if late {
                    answer(&id, &self.script["opened"].clone());
                }
                for update in list(&self.script["history"]) {
                    self.update(&session, update);
                }
                if !late {
                    answer(&id, &self.script["opened"].clone());
                }
            }
            "session/resume" => {
                self.start_servers("load", &message["params"]);
                answer(&id, &json!({}));
            }
            "session/list" => self.list(&id, &message["params"]),
            "session/prompt" => self.prompt(&id, &session),
            "session/set_config_option" => {
                let value = message["params"]["value"].clone();
                let mut options = self.script["opened"]["configOptions"].clone();
                options[0]["currentValue"] = value;
                answer(&id, &json!({"configOptions": options}));
            }
            "session/close" | "session/set_mode" | "session/set_model" | "authenticate" => {
                answer(&id, &json!({}));
            }
            "_session/steering" if self.script["steering"].is_string() => {
                answer(&id, &json!({"outcome": self.script["steering"]}));
            }
            _ if self.script["answersAnything"] == true => answer(&id, &json!({})),
            method => {
                let error = json!({"code": -32601, "message": format!("no method {method}")});
                send(&json!({"id": id, "error": error}));
            }
        }
    }

    fn initialize(&self, id: &Value) {
        let default = json!({"protocolVersion": 1, "agentCapabilities": {}});
        let handshake = self.script.get("handshake").unwrap_or(&default);
        answer(id, handshake);
    }

    fn open(&mut self, id: &Value) {
        self.sessions += 1;
        let session: Value = format!("session-{}", self.sessions).into();
        for update in list(&self.script["early"]) {
            self.update(&session, update);
        }
        let mut opened = json!({"sessionId": session});
        for (name, value) in self.script["opened"].as_object().into_iter().flatten() {
            opened[name] = value.clone();
        }
        answer(id, &opened);
        for update in list(&self.script["after"]) {
            self.update(&session, update);
        }
    }

    /// Starts the MCP servers of a session, as far as there are such programs.
    fn start_servers(&mut self, way: &str, params: &Value) {
        if list(&self.script["startsNoServers"]).contains(&way.into()) {
            return;
        }
        for server in list(&params["mcpServers"]) {
            let Some(program) = server["command"].as_str() else {
                continue;
            };
            let args = list(&server["args"]);
            let variables = list(&server["env"]);
            let started = Command::new(program)
                .args(args.iter().filter_map(Value::as_str))
                .envs(variables.iter().filter_map(|variable| {
                    Some((variable["name"].as_str()?, variable["value"].as_str()?))
                }))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            self.servers.extend(started);
        }
    }

    fn list(&self, id: &Value, params: &Value) {
        let cursor = params["cursor"]
            .as_str()
            .map_or(0, |cursor| cursor.parse().unwrap());
        let pages = list(&self.script["pages"]);
        let mut page = json!({"sessions": pages.get(cursor).cloned().unwrap_or(json!([]))});
        if cursor + 1 < pages.len() || self.script["pagesNeverEnd"] == true {
            page["nextCursor"] = (cursor + 1).min(pages.len()).to_string().into();
        }
        answer(id, &page);
    }

    fn prompt(&mut self, id: &Value, session: &Value) {
        self.cancelled = false;
        let turns = list(&self.script["turns"]);
        let plain = json!([{"text": "hello"}, {"stop": "end_turn"}]);
        let turn = turns
            .get(self.prompts)
            .or(turns.last())
            .unwrap_or(&plain)
            .clone();
        self.prompts += 1;
        for step in list(&turn) {
            let (name, what) = step.as_object().unwrap().iter().next().unwrap();
            self.step(name, what, id, session);
        }
    }

    fn step(&mut self, name: &str, what: &Value, id: &Value, session: &Value) {
        match name {
            "text" => self.say(session, what.as_str().unwrap()),
            "update" => self.update(session, what.clone()),
            "elsewhere" => self.update(&"no-such-session".into(), what.clone()),
            // A line as it is, whatever it is.
            "line" => write(&format!("{}\n", what.as_str().unwrap())),
            // A piece of a line.
            "piece" => write(what.as_str().unwrap()),
            "bytes" => write_bytes(what.as_u64().unwrap()),
            "flood" => {
                for number in 0..what.as_u64().unwrap() {
                    self.say(session, &format!("{number} "));
                }
            }
            // The time, as a line of a file.
            "stampTo" => append(what.as_str().unwrap(), &now_nanos()),
            // So many times, so many a second.
            "stamps" => {
                let per_second = what[1].as_u64().unwrap();
                let begun = Instant::now();
                for number in 0..what[0].as_u64().unwrap() {
                    let due = begun + Duration::from_nanos(number * 1_000_000_000 / per_second);
                    let early = due.saturating_duration_since(Instant::now());
                    // Sleeping is no more exact than this.
                    if early > Duration::from_millis(1) {
                        std::thread::sleep(early);
                    }
                    self.say(session, &now_nanos());
                }
            }
            "repeat" => {
                let (name, step) = what[1].as_object().unwrap().iter().next().unwrap();
                for _ in 0..what[0].as_u64().unwrap() {
                    self.step(name, step, id, session);
                }
            }
            "notify" => send(&json!({"method": what[0], "params": what[1]})),
            "ask" => {
                let params = json!({
                    "sessionId": what.get("sessionId").unwrap_or(session),
                    "toolCall": what.get("toolCall").unwrap_or(&json!({"toolCallId": "call-1", "title": "ls"})),
                    "options": what["options"],
                });
                let outcome = self.call("session/request_permission", &params);
                self.say(
                    session,
                    &format!("outcome {}", outcome["result"]["outcome"]),
                );
            }
            "call" => {
                let mut params = what[1].clone();
                params["sessionId"] = session.clone();
                let answer = self.call(what[0].as_str().unwrap(), &params);
                let answer = answer.get("result").or(answer.get("error")).unwrap();
                self.say(session, &answer.to_string());
            }
            "askAndTakeBack" => {
                self.calls += 1;
                let asked = format!("agent-{}", self.calls);
                let params =
                    json!({"sessionId": session, "toolCall": {"toolCallId": "x"}, "options": what});
                send(
                    &json!({"id": asked, "method": "session/request_permission", "params": params}),
                );
                send(&json!({"method": "$/cancel_request", "params": {"requestId": asked}}));
                let answer = self.until_answer(&asked.into());
                self.say(session, &answer["error"]["code"].to_string());
            }
            "untilCancelled" => {
                while !self.cancelled {
                    let Some(message) = self.receive() else {
                        return;
                    };
                    self.waiting.push_back(message);
                }
            }
            "untilPrompt" => loop {
                let Some(message) = self.receive() else {
                    return;
                };
                let is_prompt = message["method"] == "session/prompt";
                self.waiting.push_back(message);
                if is_prompt {
                    break;
                }
            },
            "untilSteered" => loop {
                let Some(message) = self.receive() else {
                    return;
                };
                if message["method"] == "_session/steering" {
                    self.handle(message);
                    break;
                }
                self.waiting.push_back(message);
            },
            "stop" => answer(id, &json!({"stopReason": what})),
            "answer" => answer(id, what),
            "answerAs" => answer(what, &json!({"stopReason": "end_turn"})),
            "error" => send(&json!({"id": id, "error": what})),
            "stderr" => eprintln!("{}", what.as_str().unwrap()),
            "escape" => escape(what.as_str().unwrap()),
            "die" => std::process::abort(),
            "exit" => std::process::exit(what.as_i64().unwrap().try_into().unwrap()),
            "closeOutput" => close_output(),
            "hang" => sleep_for_ever(),
            name => panic!("no step {name}"),
        }
    }

    fn say(&self, session: &Value, text: &str) {
        let content = json!({"type": "text", "text": text});
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        self.update(session, update);
    }

    fn update(&self, session: &Value, update: Value) {
        let params = json!({"sessionId": session, "update": update});
        send(&json!({"method": "session/update", "params": params}));
    }

    /// Asks the client something and waits for the answer.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        let id: Value = format!("agent-{}", self.calls).into();
        send(&json!({"id": id, "method": method, "params": params}));
        self.until_answer(&id)
    }

    fn until_answer(&mut self, id: &Value) -> Value {
        loop {
            let Some(message) = self.receive() else {
                std::process::exit(0);
            };
            if message["id"] == *id && message["method"].is_null() {
                return message;
            }
            self.waiting.push_back(message);
        }
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn answer(id: &Value, result: &Value) {
    send(&json!({"id": id, "result": result}));
}

fn send(message: &Value) {
    let mut message = message.clone();
    message["jsonrpc"] = "2.0".into();
    write(&format!("{message}\n"));
}

/// Whoever does not listen any more has its reasons.
fn write(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

fn write_bytes(count: u64) {
    let block = [b'x'; 64 * 1024];
    let mut stdout = std::io::stdout().lock();
    let mut left = count;
    while left > 0 {
        let now = left.min(block.len() as u64);
        let _ = stdout.write_all(&block[..usize::try_from(now).unwrap()]);
        left -= now;
    }
    let _ = stdout.flush();
}

/// Starts a process that leaves the group and loses its parent, and notes its number in a file.
fn escape(file: &str) {
    let script = format!("setsid sh -c 'echo $$ > {file}; exec sleep 1000' >/dev/null 2>&1 &");
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.unwrap().success());
    while std::fs::read_to_string(file).unwrap_or_default().is_empty() {
        std::thread::yield_now();
    }
}

/// Ends the output and lives on.
#[cfg(unix)]
fn close_output() {
    let nothing = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .unwrap();
    rustix::stdio::dup2_stdout(nothing).unwrap();
}

#[cfg(not(unix))]
fn close_output() {}

fn append(file: &str, line: &str) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).append(true).open(file).unwrap();
    // In one piece: somebody may be reading.
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn now_nanos() -> String {
    UNIX_EPOCH.elapsed().unwrap().as_nanos().to_string()
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
