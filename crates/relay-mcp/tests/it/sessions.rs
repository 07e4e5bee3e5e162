//! Beside a session of the agent, and through one.

use relay_mcp::McpServer;
use relay_sdk::protocol::capability::AgentSessionCapabilities;
use relay_sdk::protocol::status::AgentStatus;
use relay_sdk::{CallbackSession, DeliveryMode, accepted, delivered};
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
async fn what_waits_for_its_moment_is_not_told_before_it() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let (tell, mut shown) = tokio::sync::mpsc::unbounded_channel();
    let session = CallbackSession::new(bob.identity().clone(), move |message, context| {
        let told = tell.send(message.text);
        async move {
            told.unwrap();
            Ok(delivered(context.id))
        }
    });
    let mut capabilities = AgentSessionCapabilities::minimum();
    capabilities.delivery.modes = DeliveryMode::ALL.to_vec();
    let session = session.with_capabilities(capabilities);
    let attaching = bob.attach(session).status(AgentStatus::Active);
    let _session = attaching.await.unwrap();
    let mcp = Mcp::open(&bob).await;
    for mode in [
        DeliveryMode::Manual,
        DeliveryMode::OnIdle,
        DeliveryMode::NextToolCall,
    ] {
        let sending = alice.send_message("@bob", format!("for {mode}"));
        sending.mode(mode).await.unwrap();
    }
    alice.send_message("@bob", "whenever").await.unwrap();
    let waits = "3 messages not to be read yet: 1 for manual (it waits for a flush), 1 for next-tool-call (the session is active), \
                 1 for on-idle (the session is active); `flush` releases what waits for a mode";
    let told = mcp.ok("check", json!({})).await;
    assert_eq!(told.matches("[relay] from").count(), 1, "{told}");
    assert!(told.contains("whenever") && told.ends_with(waits), "{told}");
    // Reading what came behind them has settled none of them.
    let told = mcp.ok("check", json!({})).await;
    assert_eq!(told, format!("nothing new\n\n{waits}"));
    // A flush releases it, into the session.
    let told = mcp.ok("check", json!({ "flush": "manual" })).await;
    assert!(
        told.starts_with("released: 1 delivered\n\nnothing new"),
        "{told}"
    );
    assert_eq!(shown.recv().await.unwrap(), "for manual");
    assert!(shown.try_recv().is_err());
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
