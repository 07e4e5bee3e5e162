//! Each call of the client.

use relay_sdk::protocol::api::events::EventQuery;
use relay_sdk::protocol::api::messages::{SearchQuery, SendTarget};
use relay_sdk::protocol::api::workspace::{CreateObserverToken, UpdateChannel};
use relay_sdk::protocol::delivery::DeliveryState;
use relay_sdk::protocol::policy::PolicyPatch;
use relay_sdk::{Action, AgentType, DeliveryQuery, ErrorCode, Options, Relay};
use serde_json::json;

use crate::support::World;

#[tokio::test]
async fn workspaces_are_made_and_opened() {
    let world = World::start().await;
    let made = Relay::create_workspace(&world.url(), &world.admin_key, "other").await;
    let made = made.unwrap();
    assert_eq!(made.workspace().await.unwrap().name, "other");
    let opened = Relay::open(&world.url(), made.key()).await.unwrap();
    assert_eq!(opened.rename("mine").await.unwrap().name, "mine");
    let refused = Relay::open(&world.url(), "rk_wrong").await.err().unwrap();
    assert_eq!(refused.code(), Some(ErrorCode::Unauthorized));
    assert!(!refused.is_retryable());
    let policy = opened.policy().await.unwrap();
    let patch = PolicyPatch {
        queue_limit: Some(7),
        ..PolicyPatch::default()
    };
    let changed = opened.update_policy(&patch).await.unwrap();
    assert_eq!(
        (changed.queue_limit, changed.version),
        (7, policy.version + 1)
    );
}

#[tokio::test]
async fn agents_are_registered_found_again_and_released() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let human = relay.register("@eve").agent_type(AgentType::Human);
    assert_eq!(human.await.unwrap().identity().agent_type, AgentType::Human);
    let taken = relay.register("ALICE").await.err().unwrap();
    assert_eq!(taken.code(), Some(ErrorCode::NameTaken));
    let again = relay.reconnect(alice.token()).await.unwrap();
    assert_eq!(again.identity(), alice.identity());
    assert_eq!(
        again.me().await.unwrap().agent.as_ref(),
        Some(alice.identity())
    );
    let adopted = relay.register("alice").adopt().await.unwrap();
    assert_eq!(adopted.identity().id, alice.identity().id);
    assert_ne!(adopted.token(), alice.token());
    let rotated = relay.rotate_token("alice").await.unwrap();
    relay.reconnect(&rotated.token).await.unwrap();
    assert!(relay.reconnect(relay.key()).await.is_err());
    relay.release_agent("eve", Some("done")).await.unwrap();
    let names: Vec<_> = relay.agents(None).await.unwrap().items;
    let names: Vec<_> = names.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["alice", "bob"]);
    assert_eq!(relay.agent("@bob").await.unwrap().name, "bob");
}

#[tokio::test]
async fn what_should_not_be_in_the_log_is_erased() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let sent = alice.send_message("@bob", "the key is 123").await.unwrap();
    let list = relay.read_events(&EventQuery::default()).await.unwrap();
    let created = list
        .items
        .iter()
        .find(|event| event.event_type == "message.created");
    let seq = created.unwrap().seq;
    assert_eq!(relay.erase_events(&[seq], "leaked").await.unwrap(), 1);
    assert_eq!(relay.erase_events(&[seq], "leaked").await.unwrap(), 0);
    let text = alice.message(sent.message_id).await.unwrap().message.text;
    assert_eq!(text, "[erased]");
    let unknown = relay
        .erase_events(&[1_000_000], "leaked")
        .await
        .unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::BadCursor));
    let many: Vec<u64> = (1..=201).collect();
    let many = relay.erase_events(&many, "leaked").await.unwrap_err();
    assert_eq!(many.code(), Some(ErrorCode::LimitExceeded));
}

#[tokio::test]
async fn messages_are_sent_answered_changed_and_found() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let sent = alice
        .send_message("#general", "Shipping now")
        .await
        .unwrap();
    let id = sent.message_id;
    assert_eq!(sent.deliveries[0].agent, "bob");
    let reply = bob.reply(id, "On it").await.unwrap();
    let reactions = bob.react(id, ":rocket:").await.unwrap();
    assert_eq!(reactions[0].agents, ["bob"]);
    let thread = alice.thread(id, None).await.unwrap().items;
    let texts: Vec<_> = thread
        .iter()
        .map(|view| view.message.text.as_str())
        .collect();
    assert_eq!(texts, ["Shipping now", "On it"]);
    assert_eq!(alice.message(id).await.unwrap().replies, Some(1));
    assert!(bob.unreact(id, ":rocket:").await.unwrap().is_empty());
    let edited = alice.edit_message(id, "Shipped").await.unwrap();
    assert_eq!((edited.text.as_str(), edited.version), ("Shipped", 2));
    let posts = bob.channel_messages("#general", None).await.unwrap().items;
    assert_eq!(posts[0].message.message_id, id);
    assert_eq!(alice.message_deliveries(id).await.unwrap().len(), 1);
    alice.mark_read(reply.message_id).await.unwrap();
    let query = SearchQuery {
        q: "shipped".to_owned(),
        channel: None,
        from: None,
        after: None,
        before: None,
        cursor: None,
        limit: None,
    };
    // The text is indexed behind the send.
    crate::support::soon("the index", async {
        while bob.search(&query).await.unwrap().items.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_makes_a_repeated_send_harmless() {
    let world = World::start().await;
    let (_, alice, _) = world.pair().await;
    let send = |text: &str| alice.send_message("@bob", text).idempotency_key("k");
    let (first, second) = (send("a").await.unwrap(), send("a").await.unwrap());
    assert_eq!(first.message_id, second.message_id);
    let conflict = send("b").await.unwrap_err();
    assert_eq!(conflict.code(), Some(ErrorCode::IdempotencyConflict));
    let bad = alice.send_message("bob", "no sign").await.unwrap_err();
    assert!(!bad.is_retryable(), "{bad}");
}

#[tokio::test]
async fn inboxes_and_conversations() {
    let world = World::start().await;
    let (relay, alice, bob) = world.pair().await;
    relay.register("carol").await.unwrap();
    alice.send_message("@bob", "hello").await.unwrap();
    let group = SendTarget::Agents(vec!["bob".to_owned(), "carol".to_owned()]);
    alice
        .send_message_to(group, "all of you")
        .urgent()
        .await
        .unwrap();
    assert_eq!(bob.inbox().await.unwrap().unread, 2);
    let query = DeliveryQuery {
        agent: Some("bob".to_owned()),
        state: Some(DeliveryState::Pending),
        ..DeliveryQuery::default()
    };
    assert_eq!(bob.list_deliveries(&query).await.unwrap().items.len(), 2);
    assert_eq!(bob.take_inbox().await.unwrap().items.len(), 2);
    assert_eq!(bob.inbox().await.unwrap().unread, 0);
    let conversations = bob.conversations(None).await.unwrap().items;
    assert_eq!(conversations.len(), 2);
    let id = conversations[1].conversation_id;
    let said = bob.conversation_messages(id, None).await.unwrap().items;
    assert_eq!(said[0].message.text, "hello");
}

#[tokio::test]
async fn channels_have_members_and_topics() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    alice.create_channel("#ops", Some("alarms")).await.unwrap();
    bob.join("ops").await.unwrap();
    bob.leave("#ops").await.unwrap();
    alice.invite("#ops", &["@bob"]).await.unwrap();
    let members = alice.channel_members("ops", None).await.unwrap().items;
    assert_eq!(members.len(), 2);
    let change = UpdateChannel {
        topic: Some("calm".to_owned()),
        archived: None,
    };
    alice.update_channel("ops", &change).await.unwrap();
    assert_eq!(
        alice.channel("ops").await.unwrap().topic.as_deref(),
        Some("calm")
    );
    assert_eq!(bob.channels(None).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn attachments_go_up_and_come_down() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let log = "line\n".repeat(1000);
    let stored = alice
        .upload("text/plain", "build log.txt", log.clone())
        .await
        .unwrap();
    let id = stored.attachment_id;
    let sent = alice
        .send_message("@bob", "look")
        .attachment(id)
        .await
        .unwrap();
    assert_eq!(
        sent.message.attachments[0].name.as_deref(),
        Some("build log.txt")
    );
    let found = bob.attachment(id).await.unwrap();
    assert_eq!(
        (found.media_type.as_str(), found.data),
        ("text/plain", log.into())
    );
}

#[tokio::test]
async fn observers_look_and_the_log_is_read() {
    let world = World::start().await;
    let (relay, alice, _) = world.pair().await;
    let made = relay
        .create_observer_token(&CreateObserverToken::default())
        .await
        .unwrap();
    let observer = relay.observer(&made.token);
    alice.send_message("#general", "hello").await.unwrap();
    let query = EventQuery {
        types: Some("message.created".to_owned()),
        ..EventQuery::default()
    };
    assert_eq!(observer.read_events(&query).await.unwrap().items.len(), 1);
    let refused = observer.send_message("#general", "no").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::Forbidden));
    assert_eq!(relay.observer_tokens(None).await.unwrap().items.len(), 1);
    relay
        .revoke_observer_token(made.observer.token_id)
        .await
        .unwrap();
    assert!(observer.me().await.is_err());
}

#[tokio::test]
async fn a_server_says_which_it_is_whoever_asks() {
    let world = World::start().await;
    let stranger = Relay::with_options(&world.url(), "rk_nobody", Options::default()).unwrap();
    let health = stranger.health().await.unwrap();
    assert_eq!(health.protocol, relay_sdk::protocol::socket::PROTOCOL);
    assert_eq!(stranger.ready().await.unwrap(), health);
    stranger.me().await.unwrap_err();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_may_pass() {
    let options = Options {
        patience: std::time::Duration::from_millis(200),
        ..Options::default()
    };
    // Nobody listens on the discard port.
    let relay = Relay::with_options("http://127.0.0.1:9", "rk_x", options.clone()).unwrap();
    let failed = relay.workspace().await.unwrap_err();
    assert!(failed.is_retryable(), "{failed}");
    assert!(Relay::with_options("127.0.0.1:9", "rk_x", options).is_err());
}

/// A call of an action could not be repeated without running twice.
#[tokio::test]
async fn a_key_makes_a_repeated_call_of_an_action_harmless() {
    let world = World::start().await;
    let (_, alice, bob) = world.pair().await;
    let action = Action::with_schema("count", json!({ "type": "object" }));
    let _handling = bob
        .register_action(action, |_| async { Ok(json!(1)) })
        .await
        .unwrap();
    let call = |number: u32| alice.invoke_with_key("count", json!({ "number": number }), "k");
    let (first, second) = (call(1).await.unwrap(), call(1).await.unwrap());
    assert_eq!(first, second);
    let conflict = call(2).await.unwrap_err();
    assert_eq!(conflict.code(), Some(ErrorCode::IdempotencyConflict));
    let other = alice.invoke("count", json!({ "number": 1 })).await.unwrap();
    assert_ne!(other, first);
}
