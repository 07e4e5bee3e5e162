//! Messages count as read once the answer of `check` was written, and not before.

use relay_mcp::McpServer;
use relay_sdk::AgentClient;
use relay_sdk::protocol::delivery::DeliveryState;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use crate::client::Mcp;
use crate::support::{World, soon};

/// Says hello and calls `check`, line by line.
async fn ask(pipe: &mut DuplexStream) {
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let check =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "check" } });
    let lines = format!("{hello}\n{ready}\n{check}\n");
    pipe.write_all(lines.as_bytes()).await.unwrap();
}

/// Reads until this was read.
async fn read_until(pipe: &mut DuplexStream, wanted: &str) -> String {
    let mut read = Vec::new();
    let wanted = wanted.as_bytes();
    soon("the answer", async {
        while !read.windows(wanted.len()).any(|part| part == wanted) {
            read.push(pipe.read_u8().await.unwrap());
        }
    })
    .await;
    String::from_utf8(read).unwrap()
}

async fn unread(agent: &AgentClient) -> u64 {
    agent.inbox().await.unwrap().unread
}

#[tokio::test]
async fn an_answer_that_is_not_written_settles_nothing() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let text = format!("begins {} ends", "x".repeat(10_000));
    let sent = alice.send_message("@bob", text).await.unwrap();
    let delivery = sent.deliveries[0].delivery_id;
    // A pipe that holds less than the answer.
    let (mut ours, theirs) = tokio::io::duplex(1_024);
    let (read, write) = tokio::io::split(theirs);
    let serving = tokio::spawn(McpServer::new(bob.clone()).serve(read, write));
    ask(&mut ours).await;
    read_until(&mut ours, "begins").await;
    assert_eq!(unread(&bob).await, 1, "the answer is still being written");
    drop(ours);
    let _ = soon("the end", serving).await.unwrap();
    assert_eq!(unread(&bob).await, 1);
    let state = alice.delivery(delivery).await.unwrap().state;
    assert_eq!(state, DeliveryState::Pending);
    // The next one gets it, whole, and then it is settled.
    let mcp = Mcp::open(&bob).await;
    assert!(mcp.ok("check", json!({})).await.contains(" ends\n"));
    mcp.close().await;
    assert_eq!(unread(&bob).await, 0);
    let delivery = alice.delivery(delivery).await.unwrap();
    assert_eq!(delivery.state, DeliveryState::Delivered);
    assert!(delivery.story.unwrap().contains("read over MCP"));
}

#[tokio::test]
async fn what_was_written_before_the_client_left_is_settled() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    alice.send_message("@bob", "the last words").await.unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(theirs);
    let serving = tokio::spawn(McpServer::new(bob.clone()).serve(read, write));
    ask(&mut ours).await;
    // The client says nothing more; the answer was asked for before.
    ours.shutdown().await.unwrap();
    read_until(&mut ours, "the last words").await;
    soon("the end", serving).await.unwrap().unwrap();
    assert_eq!(unread(&bob).await, 0);
}

#[tokio::test]
async fn only_what_was_told_is_settled() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    alice.send_message("@bob", "one").await.unwrap();
    let mcp = Mcp::open(&bob).await;
    mcp.ok("check", json!({})).await;
    alice.send_message("@bob", "two").await.unwrap();
    mcp.close().await;
    let inbox = bob.inbox().await.unwrap();
    assert_eq!(inbox.unread, 1);
    assert_eq!(inbox.items[0].message.text, "two");
}
