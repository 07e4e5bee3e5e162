//! Chats with coding agents that are programs of their own: what they ask is decided over HTTP, with the options that they offer
//! themselves, and nothing of them is left when the chat is over.

use std::path::PathBuf;

use relay_script::{Script, Server};
use serde_json::{Value, json};

use super::room::{Room, Watching, text};
use crate::agents_talk::agents::{COMMAND, Place, shell_call, working};
use crate::agents_talk::pair::{until_gone, with_entry, with_folder};
use crate::support::{processes_with, told};

/// What the fake agent lets people choose from.
fn options() -> Value {
    json!([
        { "optionId": "run-it", "kind": "allow_once", "name": "Run it" },
        { "optionId": "trust-me", "kind": "allow_always", "name": "Trust me" },
        { "optionId": "stop-it", "kind": "reject_once", "name": "Don't" },
    ])
}

/// A call that is asked about and ends like this.
fn call(id: &str, command: &str, status: &str) -> Vec<Value> {
    let input = json!({ "command": command });
    vec![
        json!({ "update": {
            "sessionUpdate": "tool_call", "toolCallId": id, "kind": "execute", "title": command, "rawInput": input,
        } }),
        json!({ "ask": { "options": options(), "toolCall": { "toolCallId": id } } }),
        json!({ "update": { "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status } }),
    ]
}

/// A server with an agent that asks about two calls, one after the other.
struct Fake {
    room: Room,
    log: PathBuf,
}

impl Fake {
    async fn start() -> Self {
        let mut turn = vec![json!({ "text": "I look." })];
        turn.extend(call("c1", "make test", "completed"));
        turn.extend(call("c2", "rm -rf build", "failed"));
        turn.push(json!({ "text": "That is it." }));
        turn.push(json!({ "stop": "end_turn" }));
        let setup = Room::setup(&[]);
        let log = setup.fake(json!({ "turns": [turn] }));
        let room = Room::open(setup).await;
        Self { room, log }
    }

    /// The agent's processes, which know where their log is.
    fn processes(&self) -> Vec<String> {
        processes_with(self.log.to_str().unwrap())
    }

    /// What the agent was answered.
    fn answers(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let answers = lines.filter(|line: &Value| line["result"]["outcome"].is_object());
        answers
            .map(|line| line["result"]["outcome"].clone())
            .collect()
    }

    /// A chat that waits at its first question.
    async fn asked(&self) -> (Watching, Value) {
        let mut chat = self.room.owner().begin(&chat_with("fake", "go")).await;
        let asked = chat.until("relay").await;
        assert_eq!(self.processes().len(), 1, "the agent runs");
        (chat, asked)
    }

    /// The question was called off, and nothing is left.
    async fn is_over(&self, asked: &Value) {
        let shown = self
            .room
            .desk
            .json(&["permission", "show", &text(asked, "id")])
            .await;
        assert_eq!(shown["permission"]["state"], "cancelled", "{shown}");
        assert_eq!(self.processes(), Vec::<String>::new());
        assert_eq!(told(&self.log, "session/cancel").len(), 1);
    }
}

fn chat_with(agent: &str, words: &str) -> Value {
    json!({ "agent": agent, "messages": [{ "role": "user", "content": words }] })
}

/// Decides about a question of a chat.
async fn decide(room: &Room, chat: &Watching, asked: &Value, response: Value) {
    let body = json!({ "sessionId": chat.session_id, "response": response });
    let said = room.owner().resolve(&text(asked, "id"), &body).await;
    assert_eq!(said, (200, super::SUCCESS.to_owned()));
}

fn types(events: &[Value]) -> Vec<&str> {
    let types = events.iter().map(|event| event["type"].as_str().unwrap());
    types.filter(|kind| *kind != "usage").collect()
}

#[tokio::test]
async fn an_agents_questions_have_its_own_options_and_are_decided_over_http() {
    let fake = Fake::start().await;
    let (mut chat, asked) = fake.asked().await;
    assert_eq!(asked["options"], options());
    assert_eq!(asked["params"], json!({ "command": "make test" }));
    decide(
        &fake.room,
        &chat,
        &asked,
        json!({ "approved": true, "optionId": "run-it" }),
    )
    .await;
    let called = chat.until("tool_call").await;
    assert_eq!(called["id"], asked["toolCallId"]);
    let second = chat.until("relay").await;
    assert_eq!(second["params"], json!({ "command": "rm -rf build" }));
    decide(
        &fake.room,
        &chat,
        &second,
        json!({ "approved": false, "reason": "keep it" }),
    )
    .await;
    let rest = chat.rest().await;
    assert_eq!(
        types(&rest),
        [
            "relay_resolved",
            "text",
            "tool_result",
            "text",
            "harness_end"
        ]
    );
    let denied = json!({ "status": "denied", "reason": "keep it" });
    assert_eq!(rest[2]["output"], denied);
    assert_eq!(rest[4]["reason"], "final");
    // Nothing of it is left when the stream has ended.
    assert_eq!(fake.processes(), Vec::<String>::new());
    let selected = |id: &str| json!({ "outcome": "selected", "optionId": id });
    assert_eq!(fake.answers(), [selected("run-it"), selected("stop-it")]);
    for (asked, state, execution) in [
        (&asked, "approved", json!("completed")),
        (&second, "denied", Value::Null),
    ] {
        let id = text(asked, "id");
        let shown = fake.room.desk.json(&["permission", "show", &id]).await;
        assert_eq!(shown["permission"]["state"], state, "{shown}");
        assert_eq!(shown["permission"]["execution"]["state"], execution);
    }
}

#[tokio::test]
async fn a_chat_that_is_deleted_calls_its_agents_question_off() {
    let fake = Fake::start().await;
    let (chat, asked) = fake.asked().await;
    let path = format!("/chat/{}", chat.session_id);
    let deleted = fake.room.owner().ask("DELETE", &path, "").await;
    assert_eq!(deleted, (204, String::new()));
    let rest = chat.rest().await;
    let ends = rest.iter().find(|event| event["type"] == "relay_resolved");
    assert_eq!(ends.unwrap()["decision"], "cancelled");
    assert_eq!(rest.last().unwrap()["reason"], "cancelled");
    fake.is_over(&asked).await;
}

#[tokio::test]
async fn whoever_leaves_calls_the_agents_question_off() {
    let fake = Fake::start().await;
    let (chat, asked) = fake.asked().await;
    drop(chat);
    // Its session leaves the relay when nothing of the agent is left.
    released(&fake.room, 1).await;
    fake.is_over(&asked).await;
}

/// Waits until so many sessions have left the relay.
async fn released(room: &Room, count: usize) {
    let count = count.to_string();
    let listen = [
        "listen",
        "session.released",
        "--since",
        "0",
        "--count",
        &count,
    ];
    room.desk.ok(&listen).await;
}

/// A server whose catalogue finds Claude, whose model says that it makes a file.
struct Claude {
    room: Room,
    place: Place,
    model: Server,
}

impl Claude {
    async fn start() -> Option<Self> {
        let agent = working("claude")?;
        let script = json!({ "turns": [
            { "when": { "tools": false }, "reply": "A title" },
            { "when": { "user": "make a file" }, "reply": ["I will.", shell_call()] },
            { "when": { "result": "" }, "reply": "Done." },
        ], "otherwise": "Fine." });
        let model = Server::start(Script::from_value(script).unwrap())
            .await
            .unwrap();
        let place = Place::new();
        let launch = agent.launch(&place, &model.url());
        let folder = launch.program.parent().unwrap();
        let variables = launch.environment.iter().map(|(name, value)| {
            let value = match *name {
                "PATH" => with_folder(folder, value),
                _ => value.clone(),
            };
            (*name, value.into_string().unwrap())
        });
        let variables: Vec<(&str, String)> = variables.collect();
        let variables: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let room = Room::with(&variables).await;
        Some(Self { room, place, model })
    }

    async fn asked(&self) -> (Watching, Value) {
        let body = chat_with("claude", "make a file");
        let mut chat = self.room.owner().begin(&body).await;
        chat.until("text").await;
        let asked = chat.until("relay").await;
        assert_eq!(asked["tool"], "Bash");
        assert_eq!(asked["params"]["command"], COMMAND);
        assert!(
            !self.room.has("made.txt"),
            "nothing runs before somebody has said so"
        );
        assert!(!self.processes().is_empty(), "the agent runs");
        (chat, asked)
    }

    /// The agent's processes, which are known by their home. The server was told of it, too.
    fn processes(&self) -> Vec<String> {
        let home = format!("HOME={}", self.place.home().display());
        let mut found = with_entry(&home);
        found.retain(|arguments| !arguments.contains(" serve "));
        found
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_is_chatted_with_and_asks_over_http() {
    let Some(claude) = Claude::start().await else {
        return;
    };
    let (mut chat, asked) = claude.asked().await;
    let offered = asked["options"].as_array().unwrap();
    let once = offered.iter().find(|one| one["kind"] == "allow_once");
    let once = once.unwrap_or_else(|| panic!("{offered:?}"))["optionId"].clone();
    let approve = json!({ "approved": true, "optionId": once });
    decide(&claude.room, &chat, &asked, approve).await;
    let called = chat.until("tool_call").await;
    assert_eq!(called["id"], asked["toolCallId"]);
    let result = chat.until("tool_result").await;
    assert!(
        result["output"]["context"].to_string().contains("ran"),
        "{result}"
    );
    let rest = chat.rest().await;
    assert_eq!(rest.last().unwrap()["reason"], "final", "{rest:#?}");
    let said = rest.iter().any(|event| event["content"] == "Done.");
    assert!(said, "{rest:#?}");
    assert!(claude.room.has("made.txt"));
    until_gone(|| claude.processes()).await;

    std::fs::remove_file(claude.room.desk.setup.file("work").join("made.txt")).unwrap();
    let (chat, asked) = claude.asked().await;
    let deny = json!({ "approved": false, "reason": "not now" });
    decide(&claude.room, &chat, &asked, deny).await;
    let rest = chat.rest().await;
    assert!(!types(&rest).contains(&"tool_call"), "{rest:#?}");
    let result = rest.iter().find(|event| event["type"] == "tool_result");
    let denied = json!({ "status": "denied", "reason": "not now" });
    assert_eq!(result.unwrap()["output"], denied);
    assert!(!claude.room.has("made.txt"));
    until_gone(|| claude.processes()).await;

    // One whose viewer leaves while it asks.
    let (chat, asked) = claude.asked().await;
    drop(chat);
    released(&claude.room, 3).await;
    let id = text(&asked, "id");
    let shown = claude.room.desk.json(&["permission", "show", &id]).await;
    assert_eq!(shown["permission"]["state"], "cancelled", "{shown}");
    until_gone(|| claude.processes()).await;
    assert!(!claude.room.has("made.txt"));
    drop(claude.model);
}
