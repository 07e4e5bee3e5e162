//! An agent that speaks the protocol at the other end of a stream and does what a script says.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use relay_chat::Agents;
use relay_harness::acp::catalogue::Catalogue;
use relay_harness::acp::host::{Host, HostOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::sync::mpsc;

use crate::hall::{Hall, LONG, Plan};

/// What an agent is told, as it hears it.
pub(crate) type Told = mpsc::UnboundedReceiver<Value>;

/// An agent that plays steps at the other end of a stream, and hands on what it is told.
struct Player {
    lines: Lines<BufReader<tokio::io::ReadHalf<DuplexStream>>>,
    output: tokio::io::WriteHalf<DuplexStream>,
    told: mpsc::UnboundedSender<Value>,
}

impl Player {
    /// Plays a list of steps for each prompt; the last of them for all further ones.
    async fn play(mut self, turns: Vec<Value>) {
        let mut prompts = 0;
        while let Some(call) = self.hear().await {
            let result = match call["method"].as_str() {
                Some("initialize") => json!({ "protocolVersion": 1, "agentCapabilities": {} }),
                Some("session/new") => json!({ "sessionId": "s1" }),
                Some("session/prompt") => {
                    let turn = turns.get(prompts).or(turns.last());
                    prompts += 1;
                    match self.turn(turn.unwrap().as_array().unwrap()).await {
                        Some(reason) => json!({ "stopReason": reason }),
                        None => return,
                    }
                }
                Some(method) if !call["id"].is_null() => {
                    let error = json!({ "code": -32601, "message": format!("no method {method}") });
                    self.say(json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }))
                        .await;
                    continue;
                }
                _ => continue,
            };
            let answer = json!({ "jsonrpc": "2.0", "id": call["id"], "result": result });
            self.say(answer).await;
        }
    }

    async fn turn(&mut self, steps: &[Value]) -> Option<&'static str> {
        for step in steps {
            if let Some(question) = step.get("ask") {
                self.say(json!({
                    "jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": question,
                }))
                .await;
                // The answer, or what goes before it.
                let mut heard = self.hear().await?;
                let mut is_cancelled = false;
                while heard.get("result").is_none() {
                    is_cancelled |= heard["method"] == "session/cancel";
                    heard = self.hear().await?;
                }
                if is_cancelled {
                    return Some("cancelled");
                }
                continue;
            }
            if step == "die" {
                return None;
            }
            if step == "hang" {
                while self.hear().await?["method"] != "session/cancel" {}
                return Some("cancelled");
            }
            let params = json!({ "sessionId": "s1", "update": step });
            self.say(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
                .await;
        }
        Some("end_turn")
    }

    async fn hear(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        let call: Value = serde_json::from_str(&line).unwrap();
        let _ = self.told.send(call.clone());
        Some(call)
    }

    async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        // Whoever listened may be gone.
        let _ = self.output.write_all(line.as_bytes()).await;
    }
}

/// A hall with an agent that plays these steps in each of its turns, and what the agent is told.
pub(crate) async fn hall(steps: Value) -> (Hall, Told) {
    hall_with(json!([steps]), None).await
}

/// A hall with an agent that has these turns, where questions wait so long.
pub(crate) async fn hall_with(turns: Value, expires: Option<Duration>) -> (Hall, Told) {
    let (tell, told) = mpsc::unbounded_channel();
    let config = serde_json::from_value(json!({ "command": "fake" })).unwrap();
    let catalogue = Catalogue::with_configured([("fake".to_owned(), config)]).unwrap();
    let turns = Arc::new(turns.as_array().unwrap().clone());
    let agents = Agents {
        catalogue,
        cwd: std::env::temp_dir(),
        options: HostOptions::default(),
        start: Box::new(move |definition, options| {
            let (ours, theirs) = duplex(64 * 1024);
            let (input, output) = tokio::io::split(theirs);
            let player = Player {
                lines: BufReader::new(input).lines(),
                output,
                told: tell.clone(),
            };
            tokio::spawn(player.play(turns.to_vec()));
            let (input, output) = tokio::io::split(ours);
            Host::connect(definition, input, output, options).boxed()
        }),
    };
    let plan = Plan {
        agents: Some(agents),
        expires,
        ..Plan::new(json!([]))
    };
    (plan.start().await, told)
}

pub(crate) fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

/// A call that is thought of, asked about, and then ends like this.
pub(crate) fn call(status: &str) -> Vec<Value> {
    let input = json!({ "command": "make test" });
    let options = json!([
        { "optionId": "yes", "kind": "allow_once", "name": "Yes" },
        { "optionId": "ever", "kind": "allow_always", "name": "Always" },
        { "optionId": "no", "kind": "reject_once", "name": "No" },
    ]);
    let call =
        json!({ "toolCallId": "c1", "kind": "execute", "title": "run it", "rawInput": input });
    let mut thought = call.clone();
    thought["sessionUpdate"] = json!("tool_call");
    thought["status"] = json!("pending");
    let ended = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status,
        "content": [{ "type": "content", "content": { "type": "text", "text": "output" } }],
    });
    vec![
        thought,
        json!({ "ask": { "sessionId": "s1", "toolCall": call, "options": options } }),
        ended,
    ]
}

pub(crate) fn steps(status: &str) -> Value {
    let mut steps = vec![
        chunk("agent_thought_chunk", "hm"),
        chunk("agent_message_chunk", "let "),
        chunk("agent_message_chunk", "me"),
    ];
    steps.extend(call(status));
    steps.push(chunk("agent_message_chunk", "done"));
    Value::Array(steps)
}

/// What the agent was answered.
pub(crate) async fn answered(told: &mut Told) -> Value {
    loop {
        let heard = tokio::time::timeout(LONG, told.recv()).await.unwrap();
        let mut heard = heard.unwrap();
        if heard["id"] == "q" {
            return heard["result"]["outcome"].take();
        }
    }
}

/// The words of all prompts so far.
pub(crate) fn prompts(told: &mut Told) -> Vec<String> {
    let heard = std::iter::from_fn(|| told.try_recv().ok());
    let prompts = heard.filter(|heard| heard["method"] == "session/prompt");
    prompts
        .map(|heard| heard["params"]["prompt"].to_string())
        .collect()
}
