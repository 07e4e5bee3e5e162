//! Sizes and counts at their edge.

use relay_protocol::agent::Metadata;
use relay_protocol::api::messages::{SearchQuery, SendMessage};
use relay_protocol::api::workspace::{CreateChannel, RegisterAgent};
use relay_protocol::limits::{
    CHANNEL_MEMBERS, EMOJI_BYTES, METADATA_BYTES, PAGE_ITEMS, QUERY_BYTES, REACTIONS_PER_MESSAGE,
    REASON_BYTES, RECIPIENTS_PER_SEND, TOPIC_BYTES, UNREAD_COUNTED,
};
use relay_protocol::problem::ErrorCode;
use rusqlite::Connection;

use super::{Lab, channel, post, topic};
use crate::support::{group, named, together};

#[tokio::test]
async fn sizes_end_where_they_say() {
    let lab = Lab::new().await;
    let (engine, alice, key) = (&lab.engine, &lab.alice, &lab.key);
    use ErrorCode::{InvalidRequest, LimitExceeded};
    let agent = |name: &str, bytes| RegisterAgent {
        metadata: Some(metadata(bytes)),
        ..named(name)
    };
    let more = METADATA_BYTES + 1;
    let register = engine.register_agent(key, agent("data", more));
    lab.refuses("metadata of an agent", LimitExceeded, register)
        .await;
    engine
        .register_agent(key, agent("data", METADATA_BYTES))
        .await
        .unwrap();
    let update = engine.update_agent(alice, "alice", metadata(more));
    lab.refuses("metadata of an agent", LimitExceeded, update)
        .await;
    let update = engine.update_agent(alice, "alice", metadata(METADATA_BYTES));
    update.await.unwrap();
    let body = |bytes| SendMessage {
        metadata: Some(metadata(bytes)),
        ..post("data")
    };
    lab.refuses_send("metadata of a message", LimitExceeded, body(more))
        .await;
    engine.send(alice, body(METADATA_BYTES)).await.unwrap();

    let most = "x".repeat(REASON_BYTES);
    let more = format!("{most}.");
    let release = engine.release_agent(key, "data", Some(&more));
    lab.refuses("reason of a release", LimitExceeded, release)
        .await;
    let erase = engine.audit_erase(key, vec![1], &more);
    lab.refuses("reason of an erasure", LimitExceeded, erase)
        .await;
    let release = engine.release_agent(key, "data", Some(&most));
    release.await.unwrap();

    let most = "ü".repeat(TOPIC_BYTES / 2);
    let more = format!("{most}.");
    let update = engine.update_channel(alice, "dev", topic(more.clone()));
    lab.refuses("topic", LimitExceeded, update).await;
    let create = CreateChannel {
        topic: Some(more),
        ..channel("talk")
    };
    lab.refuses("topic", LimitExceeded, engine.create_channel(alice, create))
        .await;
    engine
        .update_channel(alice, "dev", topic(most.clone()))
        .await
        .unwrap();
    let create = CreateChannel {
        topic: Some(most),
        ..channel("talk")
    };
    engine.create_channel(alice, create).await.unwrap();

    let names = |count| vec!["bob"; count];
    let body = SendMessage::text(group(&names(RECIPIENTS_PER_SEND + 1)), "hello");
    lab.refuses_send("recipients", LimitExceeded, body).await;
    let body = SendMessage::text(group(&names(RECIPIENTS_PER_SEND)), "hello");
    engine.send(alice, body).await.unwrap();
    let invited: Vec<String> = names(RECIPIENTS_PER_SEND + 1)
        .iter()
        .map(|&n| n.to_owned())
        .collect();
    let invite = engine.invite(alice, "talk", &invited);
    lab.refuses("invited", LimitExceeded, invite).await;
    engine.invite(alice, "talk", &invited[1..]).await.unwrap();

    let query = |bytes| SearchQuery {
        q: "x".repeat(bytes),
        channel: None,
        from: None,
        after: None,
        before: None,
        cursor: None,
        limit: None,
    };
    let search = engine.search(alice, query(QUERY_BYTES + 1));
    lab.refuses("query", LimitExceeded, search).await;
    engine.search(alice, query(QUERY_BYTES)).await.unwrap();
    let none = SearchQuery {
        limit: Some(0),
        ..query(1)
    };
    lab.refuses("query", InvalidRequest, engine.search(alice, none))
        .await;
}

#[tokio::test]
async fn reactions_end_where_they_say() {
    let lab = Lab::new().await;
    let (engine, alice) = (&lab.engine, &lab.alice);
    use ErrorCode::{Forbidden, InvalidRequest, LimitExceeded, UnknownMessage};
    let id = engine.send(alice, post("root")).await.unwrap().message_id;
    for emoji in ["", " ", "a b", "a\n"] {
        lab.refuses("emoji", InvalidRequest, engine.react(alice, id, emoji))
            .await;
        lab.refuses("emoji", InvalidRequest, engine.unreact(alice, id, emoji))
            .await;
    }
    let long = "ü".repeat(EMOJI_BYTES / 2) + ".";
    lab.refuses("emoji", LimitExceeded, engine.react(alice, id, &long))
        .await;
    let react = engine.react(&lab.key, id, ":wave:");
    lab.refuses("the workspace", Forbidden, react).await;
    let carol = lab.caller("carol");
    let react = engine.react(&carol, id, ":wave:");
    lab.refuses("a stranger", UnknownMessage, react).await;

    engine
        .react(alice, id, &"ü".repeat(EMOJI_BYTES / 2))
        .await
        .unwrap();
    for n in 1..REACTIONS_PER_MESSAGE {
        engine.react(alice, id, &format!(":{n}:")).await.unwrap();
    }
    lab.refuses("too many", LimitExceeded, engine.react(alice, id, ":more:"))
        .await;
    engine.react(&lab.bob, id, ":1:").await.unwrap();
    engine.unreact(alice, id, ":2:").await.unwrap();
    engine.react(alice, id, ":more:").await.unwrap();
}

#[tokio::test]
async fn a_channel_holds_its_most_members_and_no_more() {
    let lab = Lab::new().await;
    lab.channel(&lab.alice, "full", &["bob"]).await;
    let Lab { world, .. } = lab;
    // Registering ten thousand agents takes long, and all of them would be in #general.
    let world = world
        .reopened(|path| fill_channel(path, "full", CHANNEL_MEMBERS - 3))
        .await;
    let lab = Lab {
        alice: world.caller("alice"),
        bob: world.caller("bob"),
        world,
    };
    let carol = lab.caller("carol");
    let both = ["carol".to_owned(), "dave".to_owned()];
    let dave = lab.agent("dave").await;
    let invite = lab.engine.invite(&lab.alice, "full", &both);
    let problem = lab.refuses("both", ErrorCode::LimitExceeded, invite).await;
    assert_eq!(problem.found, Some((CHANNEL_MEMBERS + 1).to_string()));
    let joined = lab.engine.join_channel(&carol, "full").await.unwrap();
    assert_eq!(joined.member_count, Some(CHANNEL_MEMBERS as u64));
    let join = lab.engine.join_channel(&dave, "full");
    lab.refuses("one more", ErrorCode::LimitExceeded, join)
        .await;
    lab.engine.leave_channel(&lab.bob, "full").await.unwrap();
    lab.engine.join_channel(&dave, "full").await.unwrap();
}

/// Writes agents and memberships past the engine, into a file that nobody has open.
fn fill_channel(path: &std::path::Path, channel: &str, members: usize) {
    let db = Connection::open(path).unwrap();
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ?1 - 1)
         INSERT INTO agents (workspace, id, name, folded, type, created_at)
         SELECT 1, randomblob(16), 'm' || i, 'm' || i, 0, 0 FROM n",
        [members],
    )
    .unwrap();
    let added = db.execute(
        "INSERT INTO members (agent, room, joined_at, read_to)
         SELECT a.no, r.no, 0, 0 FROM agents a JOIN rooms r ON r.folded = ?1
         WHERE a.folded GLOB 'm[0-9]*'",
        [channel],
    );
    assert_eq!(added.unwrap(), members);
}

#[tokio::test]
async fn an_inbox_counts_so_far_and_no_further() {
    let lab = Lab::new().await;
    let send = |count| {
        let sends = (0..count).map(|no: usize| lab.engine.send(&lab.alice, post(no.to_string())));
        together(sends.collect())
    };
    send(UNREAD_COUNTED - 1).await;
    assert_eq!(lab.inbox(&lab.bob).await.unread, UNREAD_COUNTED as u64 - 1);
    send(1).await;
    assert_eq!(lab.inbox(&lab.bob).await.unread, UNREAD_COUNTED as u64);
    send(1).await;
    let inbox = lab.inbox(&lab.bob).await;
    assert_eq!((inbox.unread, inbox.more), (UNREAD_COUNTED as u64, true));
    assert_eq!(inbox.items.len(), PAGE_ITEMS);
}

/// Metadata of exactly so many bytes.
fn metadata(bytes: usize) -> Metadata {
    let filler = "x".repeat(bytes - r#"{"k":""}"#.len());
    [("k".to_owned(), filler.into())].into_iter().collect()
}
