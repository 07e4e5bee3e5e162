//! Beside a session of the agent, and through one.

use relay_mcp::McpServer;
use relay_sdk::{CallbackSession, accepted, delivered};
use rmcp::ClientLifecycleMode;
use serde_json::json;

use crate::client::Mcp;
use crate::support::World;

#[tokio::test]
async fn what_a_session_has_seen_is_not_told_again() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let session = CallbackSession::new(bob.identity().clone(), |message, context| async move {
        Ok(match message.text.starts_with("later") {
            true => accepted(context.id),
            false => delivered(context.id),
        })
    });
    let _session = bob.attach(session).await.unwrap();
    let ended = |id| {
        let alice = alice.clone();
        async move {
            let mut state = alice.delivery(id).await.unwrap().state;
            while state.as_str() == "pending" || state.as_str() == "offered" {
                state = alice.delivery(id).await.unwrap().state;
            }
        }
    };
    let mcp = Mcp::open(&bob).await;
    let seen = alice.send_message("@bob", "now").await.unwrap();
    ended(seen.deliveries[0].delivery_id).await;
    assert_eq!(mcp.ok("check", json!({})).await, "nothing new");
    let held = alice.send_message("@bob", "later").await.unwrap();
    ended(held.deliveries[0].delivery_id).await;
    let told = mcp.ok("check", json!({})).await;
    assert_eq!(
        told,
        "nothing new\n\n1 message with your session, which will show them"
    );
    mcp.close().await;
}

#[tokio::test]
async fn a_call_through_a_session_needs_what_the_session_declared() {
    let world = World::start().await;
    let (_, _alice, bob) = world.pair().await;
    let session = CallbackSession::new(bob.identity().clone(), |_, context| async move {
        Ok(delivered(context.id))
    });
    let attached = bob.attach(session).await.unwrap();
    let summary = bob.session(attached.session_id().unwrap()).await.unwrap();
    let may_send = summary.capabilities.messaging.send == Some(true);
    let server = McpServer::through_session(bob.clone(), attached.session_id().unwrap());
    let mcp = Mcp::over(server, ClientLifecycleMode::Initialize).await;
    let (is_refused, said) = mcp
        .call("send", json!({ "to": "@alice", "text": "x" }))
        .await;
    assert_eq!(is_refused, !may_send, "{said}");
    let said = mcp.refused("deploy", json!({})).await;
    assert!(
        said.contains("actions.invoke") && said.contains("capability_not_supported"),
        "{said}"
    );
    mcp.close().await;
}
