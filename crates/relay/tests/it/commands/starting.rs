//! `relay up` and `relay config show`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{Desk, Server, Setup, finish, soon, text};

#[tokio::test]
async fn up_starts_a_server_and_says_what_to_try() {
    let setup = Setup::new();
    let mut command = setup.relay();
    command
        .args(["up", "--listen", "127.0.0.1:0", "--data"])
        .arg(setup.data());
    command.stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    while said
        .last()
        .is_none_or(|line: &String| !line.starts_with("Ctrl-C"))
    {
        said.push(
            soon("the summary", lines.next_line())
                .await
                .unwrap()
                .unwrap(),
        );
    }
    let credentials = std::fs::read(setup.data().join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_slice(&credentials).unwrap();
    let (data, url) = (
        setup.data().display().to_string(),
        credentials["url"].as_str().unwrap(),
    );
    let expected = format!(
        "relay {version} is ready\n\
         url          {url}\n\
         data         {data}\n\
         credentials  {data}/credentials.json\n\n\
         Try it in another terminal\n  \
           relay agent register ada --data {data}\n  \
           relay agent register bob --data {data}\n  \
           relay send bob 'Shall we ship?' --as ada --data {data}\n  \
           relay inbox --as bob --data {data}\n\n\
         Connect an agent\n  \
           relay agent register NAME --show-token --data {data}\n  \
           and give it that token as RELAY_TOKEN, with RELAY_URL={url}\n\n\
         Watch what happens\n  \
           relay listen --data {data}\n\n\
         Ctrl-C stops it; nothing is lost.",
        version = env!("CARGO_PKG_VERSION"),
    );
    assert_eq!(said.join("\n"), expected);
    // What it proposes can be done.
    for arguments in [
        ["agent", "register", "ada"].as_slice(),
        &["agent", "register", "bob"],
        &["send", "bob", "Shall we ship?", "--as", "ada"],
        &["inbox", "--as", "bob"],
    ] {
        let done = finish(
            setup
                .relay()
                .args(arguments)
                .arg("--data")
                .arg(setup.data()),
        )
        .await;
        assert_eq!(done.code, 0, "{done:?}");
    }
}

#[tokio::test]
async fn a_second_up_says_where_the_first_one_is() {
    let desk = Desk::new().await;
    let said = desk.ok(&["up"]).await;
    let expected = format!(
        "relay {} is running already\nurl          {}\n",
        env!("CARGO_PKG_VERSION"),
        desk.server.url
    );
    assert!(said.starts_with(&expected), "{said}");
    let found = desk.json(&["up", "--listen", "127.0.0.1:1"]).await;
    let workspace = desk.server.relay().workspace().await.unwrap();
    let expected = json!({
        "status": "running",
        "url": desk.server.url,
        "data": desk.setup.data(),
        "credentials": desk.setup.data().join("credentials.json"),
        "workspaceId": workspace.workspace_id,
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn up_after_a_crash_starts_again_with_what_there_was() {
    let Desk { mut setup, server } = Desk::new().await;
    server.relay().register("ada").await.unwrap();
    server.kill().await;
    let mut command = setup.relay();
    command
        .args(["up", "--listen", "127.0.0.1:0", "--data"])
        .arg(setup.data());
    let server = Server::start(command, &setup.data(), setup.file("log")).await;
    server.relay().agent("ada").await.unwrap();
    server.kill().await;
    let _ = setup.start().await;
}

#[tokio::test]
async fn config_show_says_where_each_value_came_from() {
    let setup = Setup::new();
    std::fs::create_dir(setup.data()).unwrap();
    let file = setup.data().join("relay.toml");
    std::fs::write(&file, "[server]\ndrain_s = 3\n").unwrap();
    let shown = |json: bool| {
        let mut command = setup.relay();
        command.args(["config", "show", "--listen", "127.0.0.1:5000"]);
        command.args(json.then_some("--json"));
        command
            .env("RELAY_DATA", setup.data())
            .env("RELAY_SERVER_CONNECTIONS", "7");
        async move { finish(&mut command).await }
    };
    let done = shown(false).await;
    assert_eq!(done.code, 0, "{done:?}");
    let data = text(&setup.data()).to_owned();
    let rows: Vec<Vec<&str>> = done
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for expected in [
        ["setting", "value", "from"],
        ["data", &format!("{data:?}"), "RELAY_DATA"],
        ["server.connections", "7", "RELAY_SERVER_CONNECTIONS"],
        ["server.drain_s", "3", &format!("{}:2", file.display())],
        ["server.listen", "\"127.0.0.1:5000\"", "--listen"],
        ["server.silence_s", "30", "default"],
        ["log.filter", "\"warn\"", "RELAY_LOG_FILTER"],
    ] {
        assert!(
            rows.contains(&expected.to_vec()),
            "{expected:?}: {}",
            done.out
        );
    }
    let done = shown(true).await;
    let found: Value = serde_json::from_str(&done.out).unwrap();
    let listen = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["setting"] == "server.listen");
    let expected =
        json!({ "setting": "server.listen", "value": "127.0.0.1:5000", "from": "--listen" });
    assert_eq!(listen, Some(&expected));
}
