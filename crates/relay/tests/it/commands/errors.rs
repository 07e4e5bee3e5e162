//! What goes wrong says what was expected, what was found, and what to do next.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Desk, Setup, finish, text};

#[tokio::test]
async fn without_a_server_it_says_how_to_start_one() {
    let setup = Setup::new();
    let mut command = setup.relay();
    command.args(["agent", "list", "--data"]).arg(setup.data());
    let done = finish(&mut command).await;
    let data = setup.data().display().to_string();
    let expected = format!(
        "relay: expected {data}/credentials.json, which a server writes when it starts; found none\n\
         next: start a server: relay up --data {data}; or set RELAY_URL and RELAY_TOKEN\n"
    );
    assert_eq!((done.code, done.err), (3, expected));
    // Looking for one makes nothing.
    assert!(!setup.data().exists());
    // The usual place needs no flag.
    let mut command = setup.relay();
    command.args(["listen"]).env("HOME", setup.file("home"));
    let done = finish(&mut command).await;
    assert_eq!(done.code, 3);
    assert!(
        done.err.contains("next: start a server: relay up;"),
        "{done:?}"
    );
}

#[tokio::test]
async fn an_empty_variable_says_nothing_and_an_empty_flag_is_a_mistake() {
    let setup = Setup::new();
    let home = setup.file("home");
    let mut command = setup.relay();
    command.args(["agent", "list"]).env("RELAY_DATA", "");
    let done = finish(command.env("HOME", &home)).await;
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.err.contains(".local/share/relay"), "{done:?}");
    let mut command = setup.relay();
    let done = finish(command.args(["agent", "list", "--data", ""])).await;
    assert_eq!(done.code, 2, "{done:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_told_at_once() {
    let Desk { setup, server } = Desk::new().await;
    let url = server.url.clone();
    server.kill().await;
    let data = setup.data().display().to_string();
    for arguments in [
        ["agent", "list"].as_slice(),
        &["send", "bob", "x"],
        &["listen"],
    ] {
        let mut command = setup.relay();
        let done = finish(command.args(arguments).arg("--data").arg(setup.data())).await;
        assert_eq!(done.code, 3, "{done:?}");
        let expected = format!(
            "relay: no server runs over the data in {data}\nnext: start it: relay up --data {data}\n"
        );
        assert_eq!(done.err, expected);
    }
    let mut command = setup.relay();
    command.args(["agent", "list", "--json"]);
    command.env("RELAY_URL", &url).env("RELAY_TOKEN", "rk_x");
    let done = finish(&mut command).await;
    let told: Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(
        (&told["error"]["code"], &told["error"]["exit"]),
        (&json!("server_away"), &json!(3))
    );
    assert_eq!(
        told["error"]["next"],
        "is RELAY_URL right, and does the server run there?"
    );
}

#[tokio::test]
async fn what_listens_there_may_not_be_relay() {
    let setup = Setup::new();
    let mut command = setup.relay();
    command
        .args(["agent", "list"])
        .env("RELAY_URL", "ftp://x")
        .env("RELAY_TOKEN", "rk_x");
    let done = finish(&mut command).await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.err
            .starts_with("relay: expected a server's URL such as http://127.0.0.1:4000")
    );
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", other.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        while let Ok((mut stream, _)) = other.accept().await {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let mut command = setup.relay();
    command.args(["agent", "list"]);
    let done = finish(command.env("RELAY_URL", &url).env("RELAY_TOKEN", "rk_x")).await;
    answering.abort();
    assert_eq!(done.code, 3, "{done:?}");
    let expected = format!("relay: what answers at {url} is not Relay: ");
    assert!(done.err.starts_with(&expected), "{done:?}");
    let mut command = setup.relay();
    command
        .args(["agent", "list"])
        .env("RELAY_URL", "http://127.0.0.1:4000");
    let done = finish(&mut command).await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(
        done.err.contains("RELAY_URL is set and RELAY_TOKEN is not"),
        "{done:?}"
    );
}

#[tokio::test]
async fn a_token_that_has_ended_is_named() {
    let desk = Desk::new().await;
    let created = desk.json(&["token", "create"]).await;
    let id = created["observer"]["tokenId"].as_str().unwrap();
    desk.ok(&["token", "revoke", id]).await;
    let mut command = desk.command(&["agent", "list"]);
    command.env("RELAY_TOKEN", created["token"].as_str().unwrap());
    let done = finish(&mut command).await;
    assert_eq!(done.code, 5);
    let expected = format!(
        "relay: the server at {} does not take the token in RELAY_TOKEN: it was revoked, has expired, or belongs to \
         another server\nnext: set RELAY_TOKEN to one that is valid, or unset it to use the workspace key\n",
        desk.server.url
    );
    assert_eq!(done.err, expected);
    // A token that is kept for an agent, but was replaced elsewhere.
    desk.register(&["ada"]).await;
    let workspace = desk.server.relay().workspace().await.unwrap().workspace_id;
    let kept = desk
        .setup
        .data()
        .join(format!("agents/{workspace}/ada.json"));
    std::fs::write(&kept, "{\"agent\":\"ada\",\"token\":\"at_old\"}").unwrap();
    let (code, said) = desk.refused(&["inbox", "--as", "ada"]).await;
    assert_eq!(code, 5);
    assert!(
        said.contains("no longer takes the token that is kept for @ada"),
        "{said}"
    );
    assert!(
        said.contains("`relay agent rotate ada` gets a new one"),
        "{said}"
    );
    desk.ok(&["agent", "rotate", "ada"]).await;
    desk.ok(&["inbox", "--as", "ada"]).await;
}

#[tokio::test]
async fn an_observer_may_look_and_nothing_else() {
    let desk = Desk::new().await;
    let created = desk.json(&["token", "create"]).await;
    let token = created["token"].as_str().unwrap();
    let as_observer = |arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("RELAY_TOKEN", token);
        async move { finish(&mut command).await }
    };
    assert_eq!(as_observer(&["agent", "list"]).await.code, 0);
    let done = as_observer(&["agent", "register", "eve", "--json"]).await;
    assert_eq!(done.code, 5);
    let told: Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(told["error"]["code"], "forbidden");
    assert_eq!(told["error"]["problem"]["status"], 403);
    let next = "only the workspace may do that: use its key, for example by unsetting RELAY_TOKEN";
    assert_eq!(told["error"]["next"], next);
}

#[tokio::test]
async fn a_command_that_is_wrong_is_told_as_every_error_is() {
    let setup = Setup::new();
    let done = finish(setup.relay().args(["sned", "bob", "x"])).await;
    assert_eq!(done.code, 2);
    assert!(done.err.contains("'send'"), "{done:?}");
    let done = finish(setup.relay().args(["sned", "bob", "--json"])).await;
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    let told: Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(
        (&told["error"]["code"], &told["error"]["exit"]),
        (&json!("usage"), &json!(2))
    );
}

#[tokio::test]
async fn a_server_that_can_not_start_says_why() {
    let setup = Setup::new();
    let up = |arguments: &[&str]| {
        let mut command = setup.relay();
        command.arg("up").args(arguments);
        async move { finish(&mut command).await }
    };
    let data = setup.data();
    let data = text(&data);
    // The port is taken by somebody else.
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = up(&["--data", data, "--listen", &address]).await;
    assert_eq!(done.code, 1);
    let expected =
        format!("relay: can't listen on {address}; choose another address with --listen: ");
    assert!(done.err.starts_with(&expected), "{done:?}");
    // No port at all.
    let done = up(&["--data", data, "--listen", "127.0.0.1:70000"]).await;
    assert_eq!(done.code, 1);
    assert!(
        done.err
            .starts_with("relay: can't listen on 127.0.0.1:70000"),
        "{done:?}"
    );
    // The data directory can't be made.
    let file = setup.file("file");
    std::fs::write(&file, "").unwrap();
    let below = file.join("data");
    let done = up(&["--data", text(&below), "--listen", "127.0.0.1:0", "--json"]).await;
    assert_eq!(done.code, 1);
    let told: Value = serde_json::from_str(&done.err).unwrap();
    let message = told["error"]["message"].as_str().unwrap();
    let expected = format!("the data directory {} can't be made: ", below.display());
    assert!(message.starts_with(&expected), "{message}");
    // Somebody else has the database, and it does not answer.
    let mut locked = Setup::new();
    let server = locked.start().await;
    let credentials = locked.data().join("credentials.json");
    let text = std::fs::read_to_string(&credentials).unwrap();
    let elsewhere = text.replace(&server.url, "http://127.0.0.1:1");
    std::fs::write(&credentials, elsewhere).unwrap();
    let locked_data = locked.data();
    let done = up(&[
        "--data",
        locked_data.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ])
    .await;
    assert_eq!(done.code, 1);
    let expected = format!(
        "relay.db is in use by process {}; stop that one",
        server.id()
    );
    assert!(done.err.contains(&expected), "{done:?}");
    let expected = "\nnext: it does not answer at http://127.0.0.1:1: ";
    assert!(done.err.contains(expected), "{done:?}");
}

#[tokio::test]
async fn a_newer_format_is_left_alone() {
    let Desk { setup, server } = Desk::new().await;
    server.terminate();
    server.end().await;
    // The format's number is at byte 60 of the file.
    let database = setup.data().join("relay.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
    std::fs::write(&database, bytes).unwrap();
    for arguments in [
        ["up", "--listen", "127.0.0.1:0"].as_slice(),
        &["audit", "verify"],
    ] {
        let mut command = setup.relay();
        let done = finish(command.args(arguments).arg("--data").arg(setup.data())).await;
        assert_eq!(done.code, 1, "{done:?}");
        let expected = format!(
            "relay: {} has format 99, this Relay knows formats up to 5; use a newer Relay\n",
            database.display()
        );
        assert_eq!(done.err, expected);
    }
}
