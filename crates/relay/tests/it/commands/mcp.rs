//! `relay mcp`: the real program, spoken to line by line.

use std::process::Stdio;

use relay_sdk::{Action, ActionCall};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::{Desk, Setup, finish, soon};

/// The program and what was said to it.
struct Mcp {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    asked: u64,
}

impl Mcp {
    /// Starts it and says hello.
    async fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut mcp = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            asked: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let welcome = mcp.ask("initialize", hello).await;
        assert_eq!(welcome["serverInfo"]["name"], "relay", "{welcome}");
        mcp.say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        mcp
    }

    async fn say(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Asks and waits for the answer; what is said meanwhile is passed over.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.say(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        loop {
            let line = soon(method, self.output.next_line()).await.unwrap();
            // Whatever is printed there is the protocol.
            let mut answer: Value = serde_json::from_str(&line.expect("it goes on")).unwrap();
            if answer["id"] == id {
                return answer["result"].take();
            }
        }
    }

    /// Calls a tool; its text.
    async fn call(&mut self, tool: &str, input: Value) -> String {
        let called = json!({ "name": tool, "arguments": input });
        let result = self.ask("tools/call", called).await;
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Says nothing more; what was printed as an error.
    async fn end(self) -> String {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        let status = soon("the end", child.wait()).await.unwrap();
        let mut errors = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).await.unwrap();
        assert!(status.success(), "{errors}");
        errors
    }
}

#[tokio::test]
async fn an_agent_talks_and_calls_through_it() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let bob = desk.agent("bob").await;
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let action = Action::with_schema("classify", schema).notify_caller();
    let handling = bob.register_action(action, |call: ActionCall| async move {
        Ok(json!({ "label": call.input["text"] }))
    });
    let _handling = handling.await.unwrap();
    let mut mcp = Mcp::start(&mut desk.command(&["mcp", "--as", "ada"])).await;
    let listed = mcp.ask("tools/list", json!({})).await;
    let tools = listed["tools"].as_array().unwrap().iter();
    let names: Vec<&str> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["send", "check", "people", "classify"]);

    let sent = mcp
        .call("send", json!({ "to": "@bob", "text": "hello" }))
        .await;
    assert!(sent.ends_with(" to 1 recipient"), "{sent}");
    let inbox = desk.ok(&["inbox", "--as", "bob"]).await;
    assert!(inbox.contains("hello"), "{inbox}");

    let called = mcp.call("classify", json!({ "text": "spam" })).await;
    let called: Value = serde_json::from_str(&called).unwrap();
    let id = called["invocationId"].as_str().unwrap();
    let told = soon("the outcome", async {
        loop {
            let told = mcp.call("check", json!({})).await;
            if told != "nothing new" {
                break told;
            }
        }
    });
    let told = Box::pin(told).await;
    assert!(told.contains(r#"{"label":"spam"}"#), "{told}");
    assert!(
        told.ends_with(&format!("the outcome of invocationId {id}")),
        "{told}"
    );
    assert_eq!(mcp.end().await, "", "nothing was to be said about it");
    // What was read there is read.
    assert_eq!(desk.ok(&["inbox", "--as", "ada"]).await, "nothing unread\n");
}

#[tokio::test]
async fn a_token_in_the_environment_is_enough() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let ada = desk.agent("ada").await;
    let url = format!("http://{}", desk.server.address);
    let mut command = desk.setup.relay();
    command.args(["mcp"]);
    command
        .env("RELAY_URL", url)
        .env("RELAY_TOKEN", ada.token());
    let mut mcp = Mcp::start(&mut command).await;
    let people = mcp.call("people", json!({})).await;
    assert!(people.starts_with("you are @ada\n"), "{people}");
    mcp.end().await;
}

#[tokio::test]
async fn messages_stay_unread_when_it_is_killed_before_it_answers() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let text = "x".repeat(200_000);
    let sent = desk
        .fed(&text, &["send", "bob", "-", "--as", "ada", "--no-wait"])
        .await;
    assert_eq!(sent.code, 0, "{sent:?}");
    let mut mcp = Mcp::start(&mut desk.command(&["mcp", "--as", "bob"])).await;
    let check = json!({ "name": "check", "arguments": {} });
    mcp.say(json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": check }))
        .await;
    // The answer is longer than the pipe, and nobody reads it to its end.
    let mut some = [0; 100];
    let answer = soon("the answer", mcp.output.get_mut().read(&mut some)).await;
    assert_ne!(answer.unwrap(), 0);
    mcp.child.kill().await.unwrap();
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    assert_eq!(inbox["unread"], 1);
}

#[tokio::test]
async fn it_outlives_the_server() {
    let mut desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let mut mcp = Mcp::start(&mut desk.command(&["mcp", "--as", "bob"])).await;
    let general = json!({ "uri": "relay://channel/general" });
    mcp.ask("resources/subscribe", general).await;
    desk.server.kill().await;
    desk.server = desk.setup.start().await;
    desk.ok(&["send", "#general", "I am back", "--as", "ada", "--no-wait"])
        .await;
    // What is listened to goes on where it was, and calls find the server again.
    let told = soon("the news", async {
        loop {
            let line = mcp.output.next_line().await.unwrap().unwrap();
            if line.contains("notifications/resources/updated") {
                break line;
            }
        }
    });
    assert!(told.await.contains("relay://channel/general"));
    let read = mcp.call("check", json!({})).await;
    assert!(read.contains("\nI am back\n"), "{read}");
    mcp.end().await;
}

#[tokio::test]
async fn it_needs_an_agent() {
    let desk = Desk::new().await;
    let (code, said) = desk.refused(&["mcp"]).await;
    assert_eq!(code, 5);
    assert_eq!(
        said,
        "relay: expected the credential of an agent, found one of the workspace\n\
         next: say with --as NAME which agent it is; `relay agent register NAME` makes one\n"
    );
    let (code, said) = desk.refused(&["mcp", "--as", "nobody"]).await;
    assert_eq!(code, 4, "{said}");
}

/// A command in a home of its own.
fn at_home(setup: &Setup, arguments: &[&str]) -> Command {
    let mut command = setup.relay();
    for variable in [
        "XDG_CONFIG_HOME",
        "CODEX_HOME",
        "CLAUDE_CONFIG_DIR",
        "RELAY_DATA",
        "RELAY_AS",
    ] {
        command.env_remove(variable);
    }
    let home = setup.file("home");
    std::fs::create_dir_all(&home).unwrap();
    command
        .env("HOME", &home)
        .current_dir(&home)
        .args(arguments);
    command
}

#[tokio::test]
async fn clients_are_told_to_start_it() {
    let desk = Desk::new().await;
    desk.register(&["bob"]).await;
    let setup = &desk.setup;
    let at_home = |arguments: &[&str]| {
        let mut command = at_home(setup, arguments);
        command.env("RELAY_DATA", setup.data());
        command
    };
    for (client, file) in [
        ("claude-code", ".claude.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", ".config/opencode/opencode.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".config/Code/User/mcp.json"),
    ] {
        let file = setup.file("home").join(file);
        let install = ["mcp", "install", client, "--as", "@bob"];
        let printed = finish(at_home(&install).arg("--print")).await;
        assert_eq!(printed.code, 0, "{printed:?}");
        assert!(!file.exists(), "--print writes nothing");
        let done = finish(&mut at_home(&install)).await;
        let expected = format!("written to {}; restart the client\n", file.display());
        assert_eq!((done.code, done.out), (0, expected), "{}", done.err);
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!(written, printed.out);
        assert!(written.contains(env!("CARGO_BIN_EXE_relay")), "{written}");
        let done = finish(&mut at_home(&install)).await;
        assert!(done.out.ends_with(" has it already\n"), "{done:?}");
        let uninstall = ["mcp", "install", client, "--uninstall"];
        let done = finish(&mut at_home(&uninstall)).await;
        assert!(done.out.starts_with("taken out of "), "{done:?}");
        assert!(!std::fs::read_to_string(&file).unwrap().contains("bob"));
    }
}

#[tokio::test]
async fn an_agent_that_is_not_known_is_not_installed() {
    let desk = Desk::new().await;
    let install = ["mcp", "install", "gemini", "--as", "bob"];
    let file = desk.setup.file("home").join(".gemini/settings.json");
    for arguments in [&install[..], &[&install[..], &["--print"]].concat()] {
        let mut command = at_home(&desk.setup, arguments);
        let done = finish(command.env("RELAY_DATA", desk.setup.data())).await;
        assert_eq!((done.code, done.out.as_str()), (4, ""), "{done:?}");
        assert!(done.err.contains("agent register bob"), "{done:?}");
    }
    assert!(!file.exists());
}

#[tokio::test]
async fn what_is_in_the_file_stays_and_no_token_gets_there() {
    let desk = Desk::new().await;
    desk.register(&["bob"]).await;
    let file = desk.setup.file("home").join(".mcp.json");
    let install = ["mcp", "install", "claude-code", "--project", "--as", "bob"];
    let mut command = at_home(&desk.setup, &install);
    command.env("RELAY_DATA", desk.setup.data());
    std::fs::write(
        &file,
        "{\n    \"mcpServers\": { \"x\": { \"command\": \"y\" } }\n}\n",
    )
    .unwrap();
    let done = finish(&mut command).await;
    assert_eq!(done.code, 0, "{done:?}");
    let written = std::fs::read_to_string(&file).unwrap();
    let config: Value = serde_json::from_str(&written).unwrap();
    let expected = json!({
        "x": { "command": "y" },
        "relay": { "type": "stdio", "command": "relay", "args": ["mcp", "--as", "bob"] },
    });
    assert_eq!(config["mcpServers"], expected);
    assert!(written.starts_with("{\n    \"mcpServers\""), "{written}");
    // What was written is what works.
    let arguments = config["mcpServers"]["relay"]["args"].as_array().unwrap();
    let arguments: Vec<&str> = arguments.iter().map(|one| one.as_str().unwrap()).collect();
    let mut mcp = Mcp::start(&mut desk.command(&arguments)).await;
    assert!(
        mcp.call("people", json!({}))
            .await
            .starts_with("you are @bob\n")
    );
    mcp.end().await;
}

#[tokio::test]
async fn a_file_that_can_not_be_kept_is_left() {
    let desk = Desk::new().await;
    desk.register(&["bob"]).await;
    let setup = &desk.setup;
    let install = ["mcp", "install", "gemini", "--as", "bob"];
    let mut command = at_home(setup, &install);
    command.env("RELAY_DATA", setup.data());
    let file = setup.file("home").join(".gemini/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mine = "{} // mine";
    std::fs::write(&file, mine).unwrap();
    let done = finish(&mut command).await;
    assert_eq!(done.code, 8, "{done:?}");
    assert!(
        done.err
            .ends_with("next: --print shows what to put there by hand\n"),
        "{done:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), mine);
    let done = finish(&mut at_home(setup, &install[..3])).await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("--as NAME"), "{done:?}");
}
