//! Channels and threads as resources, and being told when they change: in the old way and in the new one.

use relay_mcp::McpServer;
use rmcp::ClientLifecycleMode;
use rmcp::model::{
    ProtocolVersion, ReadResourceRequestParams, ResourceContents, ServerNotification,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use serde_json::json;

use crate::client::Mcp;
use crate::support::{World, soon};

const GENERAL: &str = "relay://channel/general";

async fn read(mcp: &Mcp, uri: &str) -> Result<String, String> {
    let request = ReadResourceRequestParams::new(uri);
    let read = soon("the resource", mcp.client.read_resource(request)).await;
    match read.map_err(|error| error.to_string())?.contents.remove(0) {
        ResourceContents::TextResourceContents { text, .. } => Ok(text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn channels_and_threads_are_read_without_being_marked() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let mcp = Mcp::open(&bob).await;
    let resources = mcp.client.list_all_resources().await.unwrap();
    let found: Vec<_> = resources
        .iter()
        .map(|one| (one.uri.as_str(), one.name.as_str()))
        .collect();
    assert_eq!(found, [(GENERAL, "#general")]);
    assert_eq!(
        mcp.client
            .list_all_resource_templates()
            .await
            .unwrap()
            .len(),
        3
    );
    assert_eq!(read(&mcp, GENERAL).await.unwrap(), "");
    let root = alice
        .send_message("#general", "one")
        .await
        .unwrap()
        .message_id;
    alice.reply(root, "one, again").await.unwrap();
    alice.send_message("#general", "two").await.unwrap();
    let channel = read(&mcp, GENERAL).await.unwrap();
    assert!(
        channel.starts_with("[relay] from agent @alice in #general; answer with replyTo "),
        "{channel}"
    );
    let at = |text: &str| channel.find(&format!("\n{text}\n")).unwrap();
    assert!(at("one") < at("two"));
    let thread = read(&mcp, &format!("relay://thread/{root}")).await.unwrap();
    assert!(
        thread.contains("\none, again\n") && !thread.contains("\ntwo\n"),
        "{thread}"
    );
    assert_eq!(bob.inbox().await.unwrap().unread, 2);
    for (uri, why) in [
        ("relay://channel/nowhere", "unknown_channel"),
        ("relay://thread/x", "expected relay://channel/NAME"),
    ] {
        let said = read(&mcp, uri).await.unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    mcp.close().await;
}

#[tokio::test]
async fn subscribers_are_told_of_messages() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let root = alice.send_message("@bob", "plan").await.unwrap().message_id;
    let thread = format!("relay://thread/{root}");
    let mut mcp = Mcp::open(&bob).await;
    for uri in [GENERAL, &thread] {
        #[allow(
            deprecated,
            reason = "clients that begin with initialize have no other way"
        )]
        mcp.client
            .subscribe(SubscribeRequestParams::new(uri))
            .await
            .unwrap();
    }
    alice.send_message("#general", "hello").await.unwrap();
    assert_eq!(mcp.hear().await, GENERAL);
    // An answer to an answer is in the thread, too.
    let reply = bob.reply(root, "yes").await.unwrap().message_id;
    assert_eq!(mcp.hear().await, thread);
    alice.reply(reply, "when?").await.unwrap();
    assert_eq!(mcp.hear().await, thread);
    #[allow(
        deprecated,
        reason = "clients that begin with initialize have no other way"
    )]
    mcp.client
        .unsubscribe(UnsubscribeRequestParams::new(GENERAL))
        .await
        .unwrap();
    alice.send_message("#general", "again").await.unwrap();
    bob.create_channel("plans", None).await.unwrap();
    assert_eq!(mcp.hear().await, "resources", "and nothing of #general");
    mcp.close().await;
}

#[tokio::test]
async fn clients_of_2026_07_28_listen_to_what_they_name() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let mcp = Mcp::over(McpServer::new(bob.clone()), lifecycle).await;
    assert_eq!(mcp.tools().await.len(), 3);
    let wanted = SubscriptionFilter::builder()
        .tools_list_changed()
        .resource_subscription(GENERAL)
        .build();
    let mut listening = soon("the subscription", mcp.client.listen(wanted))
        .await
        .unwrap();
    // Nobody asked for the list of channels.
    bob.create_channel("plans", None).await.unwrap();
    alice.send_message("#general", "hello").await.unwrap();
    let told = soon("news", listening.next()).await.unwrap().unwrap();
    match told {
        ServerNotification::ResourceUpdatedNotification(told) => {
            assert_eq!(told.params.uri, GENERAL);
        }
        other => panic!("{other:?}"),
    }
    assert!(mcp.ok("check", json!({})).await.contains("hello"));
    mcp.close().await;
}
