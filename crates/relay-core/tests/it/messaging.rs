//! Who gets a message, who sees it, and what went wrong there once.

use relay_core::environment::Clock as _;
use relay_core::{Caller, Error};
use relay_protocol::api::messages::{NoticeCode, ReplyMessage, SendMessage};
use relay_protocol::api::workspace::RegisterAgent;
use relay_protocol::delivery::DeliveryReason;
use relay_protocol::event::RelayEvent;
use relay_protocol::ids::MessageId;
use relay_protocol::limits::UNREAD_COUNTED;
use relay_protocol::message::RelayMessageTarget;
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use sha2::{Digest as _, Sha256};

use crate::support::{
    SqliteWorld, all, group, inline_text, page, poll, recipients, target, texts, together,
};

#[tokio::test]
async fn recipients_by_place_and_mention() {
    use DeliveryReason::{Dm, Mention, Message, ThreadReply};
    use NoticeCode::{MentionNotAMember, MentionUnknown, NoRecipients};
    let world = SqliteWorld::new().await;
    let [alice, bob, carol, _dave] = world.agents(["alice", "bob", "carol", "dave"]).await;
    world.channel(&alice, "dev", &["bob", "carol"]).await;
    world.channel(&alice, "alone", &[]).await;
    let root = world.send(&alice, "#dev", "root").await.message_id;
    let own = world.send(&carol, "#dev", "root").await.message_id;
    let of_system = world.send(&world.key, "#dev", "root").await.message_id;
    let dm = world.send(&alice, "@bob", "root").await.message_id;
    let three = SendMessage::text(group(&["bob", "carol"]), "root");
    let three = world.engine.send(&alice, three).await.unwrap().message_id;
    let notice = world.send(&world.key, "@bob", "root").await.message_id;

    let cases: [Case<'_>; 20] = [
        (
            "a post",
            &alice,
            To("#dev"),
            "hello",
            &[("bob", Message), ("carol", Message)],
            &[],
        ),
        (
            "a mention",
            &alice,
            To("#dev"),
            "@Carol!",
            &[("bob", Message), ("carol", Mention)],
            &[],
        ),
        (
            "a mention twice",
            &alice,
            To("#dev"),
            "@bob @BOB",
            &[("bob", Mention), ("carol", Message)],
            &[],
        ),
        (
            "an address",
            &alice,
            To("#dev"),
            "x@bob",
            &[("bob", Message), ("carol", Message)],
            &[],
        ),
        (
            "oneself",
            &alice,
            To("#dev"),
            "@alice",
            &[("bob", Message), ("carol", Message)],
            &[],
        ),
        (
            "everybody's name",
            &alice,
            To("#dev"),
            "@all @here @relay",
            &[("bob", Message), ("carol", Message)],
            &[],
        ),
        (
            "a stranger",
            &alice,
            To("#dev"),
            "@dave",
            &[("bob", Message), ("carol", Message)],
            &[MentionNotAMember],
        ),
        (
            "nobody",
            &alice,
            To("#dev"),
            "@zoe",
            &[("bob", Message), ("carol", Message)],
            &[MentionUnknown],
        ),
        ("alone", &alice, To("#alone"), "hello", &[], &[NoRecipients]),
        (
            "the workspace",
            &world.key,
            To("#dev"),
            "@bob",
            &[("alice", Message), ("bob", Mention), ("carol", Message)],
            &[],
        ),
        (
            "a reply",
            &bob,
            In(root),
            "yes",
            &[("alice", ThreadReply)],
            &[],
        ),
        (
            "a later reply",
            &alice,
            In(root),
            "no",
            &[("bob", ThreadReply)],
            &[],
        ),
        (
            "a reply with a mention",
            &bob,
            In(root),
            "@carol?",
            &[("alice", ThreadReply), ("carol", Mention)],
            &[],
        ),
        (
            "a mention does not make a participant",
            &alice,
            In(root),
            "so",
            &[("bob", ThreadReply)],
            &[],
        ),
        (
            "a reply to oneself",
            &carol,
            In(own),
            "also",
            &[],
            &[NoRecipients],
        ),
        (
            "a reply to the workspace",
            &bob,
            In(of_system),
            "yes",
            &[],
            &[NoRecipients],
        ),
        (
            "a reply of the workspace",
            &world.key,
            In(root),
            "yes",
            &[("alice", ThreadReply), ("bob", ThreadReply)],
            &[],
        ),
        (
            "a direct message",
            &bob,
            To("@alice"),
            "@alice @carol",
            &[("alice", Mention)],
            &[MentionNotAMember],
        ),
        (
            "a reply to three",
            &carol,
            In(three),
            "yes",
            &[("alice", ThreadReply), ("bob", ThreadReply)],
            &[],
        ),
        (
            "a notice",
            &world.key,
            To("@bob"),
            "hello",
            &[("bob", Dm)],
            &[],
        ),
    ];
    for (name, from, place, text, expected, notices) in cases {
        let sent = match place {
            To(to) => world.send(from, to, text).await,
            In(message) => world.reply(from, message, text).await,
        };
        let mut found = Vec::new();
        for delivery in &sent.deliveries {
            let record = world
                .engine
                .delivery(&world.key, delivery.delivery_id)
                .await
                .unwrap();
            found.push((delivery.agent.as_str(), record.reason));
        }
        assert_eq!(found, expected, "{name}");
        let codes: Vec<_> = sent
            .notices
            .iter()
            .flatten()
            .map(|notice| notice.code)
            .collect();
        assert_eq!(codes, notices, "{name}");
    }
    let answer = world.reply(&bob, dm, "yes").await;
    assert_eq!(recipients(&answer), ["alice"]);
    let answer = world.reply(&bob, notice, "thanks").await;
    assert_eq!(recipients(&answer), Vec::<&str>::new());

    world.engine.leave_channel(&alice, "dev").await.unwrap();
    let sent = world.reply(&carol, root, "is she gone?").await;
    assert_eq!(
        recipients(&sent),
        ["bob"],
        "who left the channel gets no reply"
    );
    world.check_log().await;
}

/// Who says what where, who gets it and why, and what the author is told.
type Case<'a> = (
    &'a str,
    &'a Caller,
    Where<'a>,
    &'a str,
    &'a [(&'a str, DeliveryReason)],
    &'a [NoticeCode],
);

enum Where<'a> {
    To(&'a str),
    In(MessageId),
}
use Where::{In, To};

#[tokio::test]
async fn messages_are_seen_where_one_is() {
    let world = SqliteWorld::new().await;
    let [alice, bob, carol, dave] = world.agents(["alice", "bob", "carol", "dave"]).await;
    world.channel(&alice, "dev", &["bob"]).await;
    let with_content = |to| SendMessage {
        attachments: Some(vec![inline_text("content")]),
        ..SendMessage::text(target(to), "root")
    };
    let post = world
        .engine
        .send(&alice, with_content("#dev"))
        .await
        .unwrap();
    let dm = world
        .engine
        .send(&alice, with_content("@bob"))
        .await
        .unwrap();
    let notice = world
        .engine
        .send(&world.key, with_content("@bob"))
        .await
        .unwrap();
    world.engine.join_channel(&carol, "dev").await.unwrap();
    world.engine.leave_channel(&bob, "dev").await.unwrap();

    let key = &world.key;
    let cases = [
        ("its author", &post, &alice, true),
        ("who joined later", &post, &carol, true),
        ("who left", &post, &bob, false),
        ("who was never there", &post, &dave, false),
        ("the workspace", &post, key, true),
        ("its author", &dm, &alice, true),
        ("the other", &dm, &bob, true),
        ("a third", &dm, &carol, false),
        ("the workspace", &dm, key, true),
        ("for whom it is", &notice, &bob, true),
        ("a third", &notice, &alice, false),
    ];
    for (who, sent, caller, sees) in cases {
        let id = sent.message_id;
        let expected = (!sees).then_some(Error::UnknownMessage(id));
        assert_eq!(
            world.engine.message(caller, id).await.err(),
            expected,
            "{who}"
        );
        assert_eq!(
            world.engine.thread(caller, id, all()).await.err(),
            expected,
            "{who}"
        );
        assert_eq!(
            world.engine.readers(caller, id).await.err(),
            expected,
            "{who}"
        );
        let content = sent.message.attachments[0].attachment_id.unwrap();
        let content = world.engine.attachment(caller, content).await;
        assert_eq!(content.is_ok(), sees, "{who}");
    }

    let states = |found: Vec<relay_protocol::api::messages::DeliverySummary>| -> Vec<String> {
        found.into_iter().map(|delivery| delivery.agent).collect()
    };
    let sent = world.send(&alice, "#general", "to all").await;
    let id = sent.message_id;
    let all_three = ["bob", "carol", "dave"];
    assert_eq!(
        states(world.engine.deliveries(&alice, id).await.unwrap()),
        all_three
    );
    assert_eq!(
        states(world.engine.deliveries(key, id).await.unwrap()),
        all_three
    );
    assert_eq!(
        states(world.engine.deliveries(&carol, id).await.unwrap()),
        ["carol"]
    );
    let erin = world.agent("erin").await;
    assert_eq!(world.engine.deliveries(&erin, id).await.unwrap(), []);
    let of_carol = sent.deliveries[1].delivery_id;
    for (caller, sees) in [(&alice, true), (&carol, true), (key, true), (&bob, false)] {
        assert_eq!(world.engine.delivery(caller, of_carol).await.is_ok(), sees);
    }
    // What was said before one came is there to be read, but does not count as unread.
    assert_eq!(world.inbox(&erin).await.unread, 0);
    let history = world
        .engine
        .channel_messages(&erin, "general", all())
        .await
        .unwrap();
    assert_eq!(texts(&history), ["to all"]);
}

#[tokio::test]
async fn an_edit_changes_what_waits() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let sent = world.send(&alice, "@bob", "at noon").await;
    let edit = world
        .engine
        .edit_message(&alice, sent.message_id, "at one".to_owned());
    edit.await.unwrap();
    let inbox = world.inbox(&bob).await;
    assert_eq!(inbox.items[0].message.text, "at one");
    assert_eq!(
        inbox.items[0].delivery_id,
        Some(sent.deliveries[0].delivery_id)
    );
    assert_eq!(inbox.unread, 1);
}

#[tokio::test]
async fn a_refused_send_begins_no_conversation() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let elsewhere = world.send(&alice, "#general", "root").await.message_id;
    let body = SendMessage {
        reply_to: Some(elsewhere),
        ..SendMessage::text(target("@bob"), "hello")
    };
    world.engine.send(&alice, body).await.unwrap_err();
    let found = world.engine.conversations(&bob, all()).await.unwrap();
    assert_eq!(found.items, []);
    world.send(&alice, "@bob", "hello").await;
    let found = world.engine.conversations(&bob, all()).await.unwrap();
    assert_eq!(found.items.len(), 1);
    world.check_log().await;
}

// From here on each test names a fault that was found and mended.

/// The second name was written a second time, and the invitation failed as if the disk had.
#[tokio::test]
async fn a_name_given_twice_is_invited_once() {
    let world = SqliteWorld::new().await;
    let [alice, _bob] = world.agents(["alice", "bob"]).await;
    world.channel(&alice, "dev", &[]).await;
    let names = ["bob", "@Bob", "alice"].map(str::to_owned);
    let channel = world.engine.invite(&alice, "dev", &names).await.unwrap();
    assert_eq!(channel.member_count, Some(2));
}

/// A `delivery.failed` was read with the message as it is now, not as it was then.
#[tokio::test]
async fn a_failed_delivery_keeps_the_version_it_had() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let sent = world.send(&alice, "@bob", "one").await;
    let edit = |text: &str| {
        world
            .engine
            .edit_message(&alice, sent.message_id, text.to_owned())
    };
    edit("two").await.unwrap();
    world.engine.release_agent(&bob, "bob", None).await.unwrap();
    edit("three").await.unwrap();
    let failed = |events: Vec<relay_protocol::event::LoggedEvent>| {
        events.into_iter().find_map(|event| match event.event {
            Some(RelayEvent::DeliveryFailed(failed)) => Some(failed.message),
            _ => None,
        })
    };
    let message = failed(world.events_after(0).await).unwrap();
    assert_eq!((message.text.as_str(), message.version), ("two", 2));
}

/// Items were ordered by their ids, which begin with the time: after the clock was set back, taking a
/// part of the inbox lost what was left out.
#[tokio::test]
async fn a_clock_that_goes_back_loses_nothing_from_the_inbox() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    world.send(&alice, "#general", "first").await;
    world.clock.advance(-60_000);
    world.send(&alice, "#general", "second").await;
    world.send(&alice, "@bob", "third").await;
    let mut taken = Vec::new();
    loop {
        let inbox = world.engine.take_inbox(&bob, page(1)).await.unwrap();
        let Some(item) = inbox.items.into_iter().next() else {
            break;
        };
        taken.push(item.message.text);
    }
    assert_eq!(taken, ["first", "second", "third"]);
    world.check_log().await;
}

/// Replies in threads of others used up the room that the inbox has for a channel.
#[tokio::test]
async fn threads_of_others_hide_nothing_in_the_inbox() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let root = world.send(&alice, "#general", "root").await.message_id;
    world.engine.mark_read(&bob, root).await.unwrap();
    let reply = || {
        world
            .engine
            .reply(&alice, root, ReplyMessage::text("me again"))
    };
    together((0..UNREAD_COUNTED).map(|_| reply()).collect()).await;
    world.send(&alice, "#general", "@bob, look").await;
    let inbox = world.inbox(&bob).await;
    assert_eq!((inbox.unread, inbox.mentions, inbox.more), (1, 1, false));
}

/// A repetition was refused because the deadline had passed meanwhile, or the policy had changed.
#[tokio::test]
async fn a_repetition_gets_the_first_result_whatever_changed() {
    let world = SqliteWorld::new().await;
    let [alice, _bob] = world.agents(["alice", "bob"]).await;
    let deadline = world.clock.now().plus_millis(1_000);
    let body = || SendMessage {
        deadline: Some(deadline),
        idempotency_key: Some("key".to_owned()),
        ..SendMessage::text(target("@bob"), "quick")
    };
    let first = world.engine.send(&alice, body()).await.unwrap();
    world.clock.advance(1_000);
    let again = world.engine.send(&alice, body()).await.unwrap();
    assert_eq!(again, first);
    let other = SendMessage {
        idempotency_key: None,
        ..body()
    };
    let late = world.engine.send(&alice, other).await;
    assert_eq!(late.unwrap_err().code(), ErrorCode::InvalidRequest);
}

/// Sends and replies shared their keys.
#[tokio::test]
async fn a_key_counts_for_its_route_alone() {
    let world = SqliteWorld::new().await;
    let [alice, _bob] = world.agents(["alice", "bob"]).await;
    let key = Some("key".to_owned());
    let body = SendMessage {
        idempotency_key: key.clone(),
        ..SendMessage::text(target("@bob"), "hello")
    };
    let sent = world.engine.send(&alice, body.clone()).await.unwrap();
    let reply = ReplyMessage {
        idempotency_key: key,
        ..ReplyMessage::text("hello?")
    };
    let replied = world
        .engine
        .reply(&alice, sent.message_id, reply.clone())
        .await;
    let replied = replied.unwrap();
    assert_ne!(replied.message_id, sent.message_id);
    assert_eq!(world.engine.send(&alice, body).await.unwrap(), sent);
    let again = world
        .engine
        .reply(&alice, sent.message_id, reply)
        .await
        .unwrap();
    assert_eq!(again, replied);
}

/// A released agent whose connection was still open acted upon whoever has its name now.
#[tokio::test]
async fn a_name_that_changed_hands_is_out_of_reach() {
    let world = SqliteWorld::new().await;
    let old = world.agent("bob").await;
    world
        .engine
        .release_agent(&world.key, "bob", None)
        .await
        .unwrap();
    let engine = &world.engine;
    let upload = relay_core::Upload {
        media_type: "text/plain".to_owned(),
        name: None,
        data: b"x".to_vec(),
    };
    let gone = engine.upload(&old, upload).await;
    assert_eq!(gone.unwrap_err().code(), ErrorCode::AgentReleased);
    let new = world.agent("bob").await;
    let before = world.dump().await;
    let attempts = [
        engine.rotate_token(&old, "bob").await.err(),
        engine
            .update_agent(&old, "bob", serde_json::Map::new())
            .await
            .err(),
        engine.release_agent(&old, "bob", None).await.err(),
        engine.join_channel(&old, "general").await.err(),
        engine.leave_channel(&old, "general").await.err(),
        world.try_send(&old, "#general", "hello").await.err(),
        engine
            .upload(
                &old,
                relay_core::Upload {
                    media_type: "text/plain".to_owned(),
                    name: None,
                    data: b"x".to_vec(),
                },
            )
            .await
            .err(),
    ];
    for (no, error) in attempts.into_iter().enumerate() {
        let code = error.map(|error| error.code());
        assert_eq!(code, Some(ErrorCode::AgentReleased), "attempt {no}");
    }
    assert_eq!(world.dump().await, before);
    engine.rotate_token(&new, "bob").await.unwrap();
}

/// Two changes that were answered in another order than they were made left the older policy in force.
#[tokio::test]
async fn the_newest_policy_is_the_one_in_force() {
    let world = SqliteWorld::new().await;
    let window = |window| PolicyPatch {
        window: Some(window),
        ..PolicyPatch::default()
    };
    let mut first = Box::pin(world.engine.update_policy(&world.key, window(5)));
    let early = poll(first.as_mut());
    let second = world.engine.update_policy(&world.key, window(6));
    let second = second.await.unwrap();
    if early.is_pending() {
        assert_eq!(first.await.unwrap().window, 5);
    }
    assert_eq!(world.engine.policy(&world.key).unwrap(), second);
}

/// What the workspace told two agents was put into the conversation that these two have.
#[tokio::test]
async fn the_workspace_stays_out_of_conversations_of_two() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let private = world.send(&alice, "@bob", "between us").await;
    let body = SendMessage::text(group(&["alice", "bob"]), "to both of you");
    let told = world.engine.send(&world.key, body).await.unwrap();
    assert_eq!(recipients(&told), ["alice", "bob"]);
    assert!(matches!(told.message.to, RelayMessageTarget::GroupDm(_)));
    assert_ne!(told.message.to, private.message.to);
    let answer = world.reply(&bob, told.message_id, "heard").await;
    assert_eq!(recipients(&answer), ["alice"]);
}

/// An agent's notices were in the list of its conversations, and could not be read there.
#[tokio::test]
async fn every_conversation_of_the_list_can_be_read() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    world.send(&world.key, "@bob", "a notice").await;
    let listed = world.engine.conversations(&bob, all()).await.unwrap();
    let id = listed.items[0].conversation_id;
    assert_eq!(world.inbox(&bob).await.conversations[0].conversation_id, id);
    let read = world
        .engine
        .conversation_messages(&bob, id, all())
        .await
        .unwrap();
    assert_eq!(texts(&read), ["a notice"]);
    let foreign = world.engine.conversation_messages(&alice, id, all()).await;
    assert_eq!(foreign.unwrap_err(), Error::UnknownConversation(id));
}

/// Whoever was let in by a token learned of its end at the next look only.
#[tokio::test]
async fn the_end_of_a_credential_is_learned_from_its_commit() {
    let world = SqliteWorld::new().await;
    let engine = &world.engine;
    let watched = async |token: &str| {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        engine.authenticate_hash(hash).await.unwrap();
        engine.watch_credential(hash)
    };
    let never = |_| std::future::pending::<()>();
    let register = |name: &str| RegisterAgent {
        name: name.to_owned(),
        agent_type: None,
        metadata: None,
        adopt: None,
    };
    let bob = engine
        .register_agent(&world.key, register("bob"))
        .await
        .unwrap();
    let first = watched(&bob.token).await;
    let mut ended = Box::pin(engine.credential_ended(&first, never));
    assert!(poll(ended.as_mut()).is_pending());

    // Replaced: it goes on for the time of grace, and ends with it, without a look in between.
    let rotated = engine.rotate_token(&world.key, "bob").await.unwrap();
    let waited = std::cell::Cell::new(0);
    let sleep = |time: std::time::Duration| {
        waited.set(waited.get() + time.as_millis());
        world
            .clock
            .advance(i64::try_from(time.as_millis()).unwrap());
        std::future::ready(())
    };
    engine.credential_ended(&first, sleep).await;
    assert_eq!(waited.get(), 60_000);
    // So does one whose end was known before anybody watched.
    engine.credential_ended(&first, never).await;

    // Revoked: at once, also for those who waited already.
    let second = watched(&rotated.token).await;
    let mut ended = Box::pin(engine.credential_ended(&second, never));
    assert!(poll(ended.as_mut()).is_pending());
    engine.release_agent(&world.key, "bob", None).await.unwrap();
    assert!(poll(ended.as_mut()).is_ready());
    let mut again = Box::pin(engine.credential_ended(&second, never));
    assert!(poll(again.as_mut()).is_ready());
}
