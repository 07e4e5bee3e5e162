//! The program that serves a script.

use std::process::{Output, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::support::soon;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_relay-script"));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Output {
    let running = program().args(arguments).output();
    soon("the end of the program", running).await.unwrap()
}

#[tokio::test]
async fn it_says_where_it_is_plays_the_file_and_shows_what_it_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, r#"["from the file"]"#).unwrap();
    let mut child = program().arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = soon("its URL", lines.next_line()).await.unwrap().unwrap();
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let body = body.to_string();
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap())
        .await
        .unwrap();
    let head = "POST /v1/chat/completions HTTP/1.0\r\nHost: localhost";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("the answer", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    assert!(answer.contains("from the file"), "{answer}");
    let shown = soon("the request", lines.next_line())
        .await
        .unwrap()
        .unwrap();
    let shown = shown.strip_prefix("1 Chat ").unwrap();
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(shown["messages"][0]["content"], "Hi");
}

#[tokio::test]
async fn it_refuses_what_it_does_not_understand() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script.json");
    std::fs::write(&file, "[[1]]").unwrap();
    for (arguments, expected) in [
        (vec![file.to_str().unwrap()], "turns[0].reply[0]"),
        (vec!["/nowhere/script.json"], "/nowhere/script.json"),
        (vec!["--port", "many"], "--port wants a number"),
        (vec!["--loud"], "usage"),
    ] {
        let output = run(&arguments).await;
        assert_eq!(output.status.code(), Some(1));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{told}");
    }
    let help = run(&["--help"]).await;
    assert!(help.status.success());
    assert!(String::from_utf8(help.stdout).unwrap().starts_with("usage"));
}
