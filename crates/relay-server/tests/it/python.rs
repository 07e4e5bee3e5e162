//! Any language can: a program in plain Python attaches, receives and answers.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{World, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_in_python_receives_and_answers() {
    let world = World::start().await;
    let (alice, bob) = (world.agent("alice").await, world.agent("bob").await);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/poll_agent.py");
    let mut child = Command::new("python3")
        .arg(program)
        .arg(format!("http://{}", world.address))
        .arg(bob.token.unwrap())
        .arg("2")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut line = async || soon("a line", lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line().await, "attached");
    let mut deliveries = Vec::new();
    for text in ["hello", "and goodbye"] {
        let body = json!({ "to": "@bob", "text": text });
        let sent = alice.post("/v1/messages", body).await.expect(201);
        deliveries.push(
            sent["deliveries"][0]["deliveryId"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        assert_eq!(line().await, format!("alice {text}"));
    }
    assert!(soon("the end", child.wait()).await.unwrap().success());
    for id in deliveries {
        let delivery = alice.get(&format!("/v1/deliveries/{id}")).await.expect(200);
        assert_eq!(delivery["state"], "delivered");
    }
}
