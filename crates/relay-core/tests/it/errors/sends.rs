//! What a send can say that is not right.

use relay_protocol::api::messages::{ReplyMessage, SendMessage};
use relay_protocol::api::workspace::UpdateChannel;
use relay_protocol::ids::{AgentId, ChannelId, ConversationId};
use relay_protocol::limits::{IDEMPOTENCY_KEY_CHARS, TEXT_BYTES};
use relay_protocol::message::{AgentTarget, ChannelTarget, ConversationTarget, RelayMessageTarget};
use relay_protocol::problem::ErrorCode;
use relay_protocol::time::Timestamp;

use super::{Lab, post, to, topic, with};
use crate::support::{START, all, group, target};

#[tokio::test]
async fn places_that_take_no_message() {
    let lab = Lab::new().await;
    let (engine, alice, bob) = (&lab.engine, &lab.alice, &lab.bob);
    let carol = lab.caller("carol");
    use ErrorCode::{ChannelArchived, InvalidRequest, NotAMember};
    let stranger = || engine.send(&carol, post("hello"));
    lab.refuses("not a member", NotAMember, stranger()).await;
    let read = engine.channel_messages(&carol, "dev", all());
    lab.refuses("reads as a stranger", NotAMember, read).await;
    let invite = ["carol".to_owned(), "alice".to_owned()];
    let invite = engine.invite(&carol, "dev", &invite);
    lab.refuses("brings others as a stranger", NotAMember, invite)
        .await;
    let update = engine.update_channel(&carol, "dev", topic("mine".to_owned()));
    lab.refuses("changes as a stranger", NotAMember, update)
        .await;
    let sent = engine.send(alice, post("root")).await.unwrap();
    let reply = engine.reply(&carol, sent.message_id, ReplyMessage::text("me too"));
    lab.refuses("replies as a stranger", NotAMember, reply)
        .await;

    let oneself = [
        SendMessage::text(target("@alice"), "me"),
        SendMessage::text(group(&["alice", "ALICE"]), "me"),
        SendMessage::text(group(&[]), "nobody"),
        to(RelayMessageTarget::Agent(AgentTarget {
            agent_name: "alice".to_owned(),
            agent_id: None,
        })),
    ];
    for body in oneself {
        lab.refuses_send("to oneself", InvalidRequest, body).await;
    }

    let archived = UpdateChannel {
        topic: None,
        archived: Some(true),
    };
    engine.update_channel(alice, "dev", archived).await.unwrap();
    lab.refuses_send("archived", ChannelArchived, post("hello"))
        .await;
    let reply = engine.reply(bob, sent.message_id, ReplyMessage::text("late"));
    lab.refuses("archived", ChannelArchived, reply).await;
    let edit = engine.edit_message(alice, sent.message_id, "late".to_owned());
    lab.refuses("archived", ChannelArchived, edit).await;
    let join = engine.join_channel(&carol, "dev");
    lab.refuses("archived", ChannelArchived, join).await;
}

#[tokio::test]
async fn texts_that_are_none() {
    let lab = Lab::new().await;
    let (engine, alice) = (&lab.engine, &lab.alice);
    use ErrorCode::{EmptyText, TextTooLong};
    let sent = engine.send(alice, post("root")).await.unwrap();
    for text in ["", " ", "\n\t "] {
        lab.refuses_send("empty", EmptyText, post(text)).await;
        let reply = engine.reply(alice, sent.message_id, ReplyMessage::text(text));
        lab.refuses("empty", EmptyText, reply).await;
        let edit = engine.edit_message(alice, sent.message_id, text.to_owned());
        lab.refuses("empty", EmptyText, edit).await;
        let no_content = SendMessage {
            text: text.to_owned(),
            ..with(Vec::new())
        };
        lab.refuses_send("empty", EmptyText, no_content).await;
    }
    // Bytes count, not characters.
    let most = "ü".repeat(TEXT_BYTES / 2);
    let more = format!("{most}.");
    let problem = lab
        .refuses_send("long", TextTooLong, post(more.clone()))
        .await;
    assert_eq!(problem.found.unwrap(), format!("{} bytes", TEXT_BYTES + 1));
    let reply = engine.reply(alice, sent.message_id, ReplyMessage::text(more.clone()));
    lab.refuses("long", TextTooLong, reply).await;
    let edit = engine.edit_message(alice, sent.message_id, more);
    lab.refuses("long", TextTooLong, edit).await;
    engine.send(alice, post(most.clone())).await.unwrap();
    let reply = ReplyMessage::text(most.clone());
    engine.reply(alice, sent.message_id, reply).await.unwrap();
    engine
        .edit_message(alice, sent.message_id, most)
        .await
        .unwrap();
}

#[tokio::test]
async fn sends_that_contradict_themselves() {
    let lab = Lab::new().await;
    let (engine, alice, bob) = (&lab.engine, &lab.alice, &lab.bob);
    use ErrorCode::{
        IdempotencyConflict, InvalidRequest, LimitExceeded, UnknownConversation, UnknownMessage,
    };
    let now = lab.now();
    for deadline in [now, now.plus_millis(-1), Timestamp::from_millis(0)] {
        let body = SendMessage {
            deadline: Some(deadline),
            ..post("too late")
        };
        lab.refuses_send("deadline", InvalidRequest, body).await;
    }
    let soon = SendMessage {
        deadline: Some(now.plus_millis(1)),
        ..post("in time")
    };
    let root = engine.send(alice, soon).await.unwrap();

    let replying = |to: &str, reply_to| SendMessage {
        reply_to: Some(reply_to),
        ..SendMessage::text(target(to), "answer")
    };
    let problem = lab
        .refuses_send(
            "another place",
            InvalidRequest,
            replying("#general", root.message_id),
        )
        .await;
    assert_eq!(problem.path.as_deref(), Some("replyTo"));
    let body = replying("@carol", root.message_id);
    lab.refuses_send("another place", InvalidRequest, body)
        .await;
    let carol = lab.caller("carol");
    let conversations = engine.conversations(&carol, all()).await.unwrap();
    assert!(
        conversations.items.is_empty(),
        "the conversation was not begun"
    );
    let secret = lab.send(bob, "@carol", "secret").await;
    for to in ["#general", "@bob"] {
        let body = replying(to, secret.message_id);
        lab.refuses_send("a foreign message", UnknownMessage, body)
            .await;
    }
    let reply = engine.reply(alice, secret.message_id, ReplyMessage::text("I see"));
    lab.refuses("a foreign message", UnknownMessage, reply)
        .await;
    let body = to(secret.message.to.clone());
    lab.refuses_send("a foreign conversation", UnknownConversation, body)
        .await;
    let body = to(RelayMessageTarget::GroupDm(ConversationTarget {
        conversation_id: ConversationId::new(START, 1),
    }));
    lab.refuses_send("no conversation", UnknownConversation, body)
        .await;

    let bobs_id = bob.agent().unwrap().id;
    let agent = |id| {
        to(RelayMessageTarget::Agent(AgentTarget {
            agent_name: "bob".to_owned(),
            agent_id: Some(id),
        }))
    };
    let problem = lab
        .refuses_send(
            "ids that disagree",
            InvalidRequest,
            agent(AgentId::new(START, 1)),
        )
        .await;
    assert_eq!(problem.path.as_deref(), Some("to.agentId"));
    engine.send(alice, agent(bobs_id)).await.unwrap();
    let dev = engine.channel(alice, "dev").await.unwrap().id;
    let room = |id| {
        to(RelayMessageTarget::Channel(ChannelTarget {
            channel_name: "dev".to_owned(),
            channel_id: Some(id),
        }))
    };
    let problem = lab
        .refuses_send(
            "ids that disagree",
            InvalidRequest,
            room(ChannelId::new(START, 1)),
        )
        .await;
    assert_eq!(problem.path.as_deref(), Some("to.channelId"));
    engine.send(alice, room(dev)).await.unwrap();

    let keyed = |key: &str, text: &str| SendMessage {
        idempotency_key: Some(key.to_owned()),
        ..post(text)
    };
    lab.refuses_send("an empty key", InvalidRequest, keyed("", "x"))
        .await;
    let long = "ü".repeat(IDEMPOTENCY_KEY_CHARS + 1);
    lab.refuses_send("a long key", LimitExceeded, keyed(&long, "x"))
        .await;
    let most = "ü".repeat(IDEMPOTENCY_KEY_CHARS);
    engine.send(alice, keyed(&most, "x")).await.unwrap();
    lab.refuses_send("another body", IdempotencyConflict, keyed(&most, "y"))
        .await;
    let reply = |key: &str| ReplyMessage {
        idempotency_key: Some(key.to_owned()),
        ..ReplyMessage::text("r")
    };
    let empty = engine.reply(alice, root.message_id, reply(""));
    lab.refuses("an empty key", InvalidRequest, empty).await;
}
