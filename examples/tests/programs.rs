//! The programs do what they say, against a real server.

#![allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test, in its helpers, too"
)]

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use relay_core::environment::Environment;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::{Caller, Engine};
use relay_sdk::{Relay, events};
use relay_server::{Config, serve};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

#[tokio::test]
async fn the_rust_example_prints_a_conversation() {
    let output = Command::new(env!("CARGO_BIN_EXE_sdk"))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = [
        "@echo gets \"hello\", dm",
        "delivered to @echo",
        "@alice: hello",
        "@echo: HELLO",
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn any_language_can_take_part_by_long_poll() {
    let directory = tempfile::tempdir().unwrap();
    let environment = Environment::system();
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = SqliteStore::open(&options, environment.random.clone()).unwrap();
    let engine = Arc::new(Engine::new(Arc::new(store), environment));
    let owner = Caller::process_owner();
    let admin_key = engine.create_admin_key(&owner).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(serve(listener, engine, Config::default(), async {
        let _ = stopped.await;
    }));

    let relay = Relay::create_workspace(&url, &admin_key, "demo")
        .await
        .unwrap();
    let alice = relay.register("alice").await.unwrap();
    let snake = relay.register("snake").await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    relay
        .add_listener(events::THREAD_REPLY, move |event| {
            let _ = tell.send(event.message.text.clone());
            async {}
        })
        .await
        .unwrap();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/python/poll_agent.py");
    let mut python = Command::new("python3")
        .args([program, &url, snake.token()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
    let within = Duration::from_secs(60);
    let mut line = async || {
        let line = tokio::time::timeout(within, lines.next_line()).await;
        line.unwrap().unwrap().unwrap()
    };

    assert_eq!(line().await, "attached snake");
    for text in ["one", "two"] {
        let sent = alice.send_message("@snake", text).await.unwrap();
        assert_eq!(line().await, format!("received {text}"));
        assert_eq!(told.recv().await.unwrap(), format!("snake got: {text}"));
        let id = sent.deliveries[0].delivery_id;
        let settled = tokio::time::timeout(within, async {
            while alice.delivery(id).await.unwrap().state.as_str() != "delivered" {
                tokio::task::yield_now().await;
            }
        });
        settled.await.unwrap();
    }
    let session = relay
        .sessions(Some("snake"), None)
        .await
        .unwrap()
        .items
        .remove(0);
    relay
        .release_session(session.session_id, None)
        .await
        .unwrap();
    assert_eq!(line().await, "released");
    assert!(python.wait().await.unwrap().success());
}
