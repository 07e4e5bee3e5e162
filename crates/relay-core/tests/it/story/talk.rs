//! What is said: posts, direct messages, notices, threads, reactions, edits.

use relay_core::Error;
use relay_protocol::api::messages::{MessageSent, NoticeCode, Reaction, SendMessage, SendTarget};
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority};
use relay_protocol::event::RelayEvent;
use relay_protocol::message::{ConversationTarget, RelayMessageTarget};
use relay_protocol::problem::ErrorCode;
use serde_json::json;

use super::{Cast, Tale};
use crate::support::{all, group, recipients, target, texts};

impl Tale {
    pub(super) async fn a_post_reaches_members(&mut self, cast: &Cast) -> MessageSent {
        let body = SendMessage {
            mode: Some(DeliveryMode::OnIdle),
            allow_downgrade: Some(true),
            priority: Some(Priority::Urgent),
            metadata: Some(
                [("ticket".to_owned(), json!({"no": 7}))]
                    .into_iter()
                    .collect(),
            ),
            ..SendMessage::text(target("#dev"), "look @bob, @carol and @nobody")
        };
        let sent = self.engine.send(&cast.alice, body).await.unwrap();
        assert_eq!(recipients(&sent), ["Bob"]);
        let notices = sent.notices.clone().unwrap();
        let codes: Vec<_> = notices.iter().map(|notice| notice.code).collect();
        assert_eq!(
            codes,
            [NoticeCode::MentionNotAMember, NoticeCode::MentionUnknown]
        );
        assert_eq!(sent.message.mentions, ["Bob"]);
        assert_eq!(sent.message.from.handle.as_deref(), Some("@alice"));
        assert_eq!(
            sent.message.channel.clone().unwrap().name.as_deref(),
            Some("Dev")
        );
        let RelayMessageTarget::Channel(to) = &sent.message.to else {
            panic!("{:?}", sent.message.to)
        };
        assert_eq!(to.channel_name, "Dev");
        let delivery = self
            .engine
            .delivery(&cast.bob, sent.deliveries[0].delivery_id)
            .await;
        let delivery = delivery.unwrap();
        assert_eq!(delivery.message_id, sent.message_id);
        assert_eq!(delivery.reason, DeliveryReason::Mention);
        assert_eq!(delivery.state, DeliveryState::Pending);
        assert_eq!(
            (delivery.requested_mode, delivery.priority),
            (Some(DeliveryMode::OnIdle), Priority::Urgent)
        );
        assert!(delivery.allow_downgrade);
        let events = self.logs(&["message.created", "delivery.created"]).await;
        let Some(RelayEvent::MessageCreated(event)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(event.message, sent.message);
        assert_eq!(event.envelope, sent.message.envelope());
        let view = self
            .engine
            .message(&cast.bob, sent.message_id)
            .await
            .unwrap();
        assert_eq!(view.message, *sent.message);
        sent
    }

    pub(super) async fn direct_messages_stay_in_their_conversation(&mut self, cast: &Cast) {
        let Cast {
            alice, bob, carol, ..
        } = cast;
        let told = ["message.created", "dm.received", "delivery.created"];
        let first = self.send(alice, "@bob", "between us").await;
        assert_eq!(recipients(&first), ["Bob"]);
        self.logs(&told).await;
        let back = self.send(bob, "@Alice", "indeed").await;
        assert_eq!(back.message.to, first.message.to);
        self.logs(&told).await;
        let again = SendMessage::text(SendTarget::Target(first.message.to.clone()), "by id");
        let again = self.engine.send(alice, again).await.unwrap();
        assert_eq!(again.message.to, first.message.to);
        let named_twice = SendMessage::text(group(&["bob", "alice", "BOB"]), "still two");
        let named_twice = self.engine.send(alice, named_twice).await.unwrap();
        assert_eq!(named_twice.message.to, first.message.to);
        self.logs(&[told, told].concat()).await;
        let RelayMessageTarget::Dm(ConversationTarget { conversation_id }) = first.message.to
        else {
            panic!("{:?}", first.message.to)
        };
        let page = self
            .engine
            .conversation_messages(bob, conversation_id, all())
            .await;
        assert_eq!(
            texts(&page.unwrap()),
            ["still two", "by id", "indeed", "between us"]
        );
        let foreign = self
            .engine
            .conversation_messages(carol, conversation_id, all())
            .await;
        assert_eq!(
            foreign.unwrap_err(),
            Error::UnknownConversation(conversation_id)
        );
        self.logs_nothing().await;

        let body = SendMessage::text(group(&["bob", "carol"]), "all three");
        let sent = self.engine.send(alice, body).await.unwrap();
        assert_eq!(recipients(&sent), ["Bob", "carol"]);
        let body = SendMessage::text(group(&["alice", "carol"]), "yes");
        let answer = self.engine.send(bob, body).await.unwrap();
        assert_eq!(answer.message.to, sent.message.to);
        assert!(matches!(sent.message.to, RelayMessageTarget::GroupDm(_)));
        let told = [
            "message.created",
            "group_dm.received",
            "delivery.created",
            "delivery.created",
        ];
        self.logs(&[told, told].concat()).await;
    }

    pub(super) async fn the_workspace_speaks(&mut self, cast: &Cast) {
        let sent = self.send(&self.key, "@bob", "the build is red").await;
        let RelayMessageTarget::Agent(to) = &sent.message.to else {
            panic!("{:?}", sent.message.to)
        };
        assert_eq!(
            (to.agent_name.as_str(), to.agent_id),
            ("Bob", Some(cast.bob.agent().unwrap().id))
        );
        let from = json!(sent.message.from);
        assert_eq!(from, json!({"name": "relay", "type": "system"}));
        let more = self.send(&self.key, "@bob", "it is green").await;
        assert_eq!(more.message.to, sent.message.to);
        self.logs(&[
            "message.created",
            "delivery.created",
            "message.created",
            "delivery.created",
        ])
        .await;
        let post = self.send(&self.key, "#dev", "hello").await;
        assert_eq!(recipients(&post), ["alice", "Bob"]);
        self.logs(&["message.created", "delivery.created", "delivery.created"])
            .await;
        let foreign = self.engine.message(&cast.alice, sent.message_id).await;
        assert_eq!(foreign.unwrap_err(), Error::UnknownMessage(sent.message_id));
        let edited = self
            .engine
            .edit_message(&self.key, more.message_id, "green".to_owned())
            .await;
        assert_eq!(edited.unwrap().from, more.message.from);
        self.logs(&["message.updated"]).await;
    }

    pub(super) async fn threads_grow(&mut self, cast: &Cast, post: &MessageSent) {
        let Cast {
            alice, bob, carol, ..
        } = cast;
        self.engine.join_channel(carol, "dev").await.unwrap();
        self.logs(&["channel.member_joined"]).await;
        let told = ["message.created", "thread.reply", "delivery.created"];
        let first = self.reply(bob, post.message_id, "on it").await;
        assert_eq!(recipients(&first), ["alice"]);
        assert_eq!(first.message.parent, Some(post.message_id));
        self.logs(&told).await;
        let second = self.reply(alice, first.message_id, "thanks").await;
        assert_eq!(recipients(&second), ["Bob"]);
        assert_eq!(second.message.parent, Some(first.message_id));
        self.logs(&told).await;
        let body = SendMessage {
            reply_to: Some(second.message_id),
            ..SendMessage::text(target("#dev"), "may I, @bob?")
        };
        let third = self.engine.send(carol, body).await.unwrap();
        assert_eq!(recipients(&third), ["alice", "Bob"]);
        self.logs(&[
            "message.created",
            "thread.reply",
            "delivery.created",
            "delivery.created",
        ])
        .await;
        let thread = self
            .engine
            .thread(carol, post.message_id, all())
            .await
            .unwrap();
        assert_eq!(
            texts(&thread),
            [
                "look @bob, @carol and @nobody",
                "on it",
                "thanks",
                "may I, @bob?"
            ]
        );
        let posts = self
            .engine
            .channel_messages(bob, "#dev", all())
            .await
            .unwrap();
        assert_eq!(texts(&posts), ["hello", "look @bob, @carol and @nobody"]);
        assert_eq!(posts.items[1].replies, Some(3));

        let dm = self.send(alice, "@carol", "a word").await;
        self.logs(&["message.created", "dm.received", "delivery.created"])
            .await;
        self.reply(carol, dm.message_id, "yes?").await;
        self.logs(&[
            "message.created",
            "thread.reply",
            "dm.received",
            "delivery.created",
        ])
        .await;
    }

    pub(super) async fn reactions_come_and_go(&mut self, cast: &Cast, post: &MessageSent) {
        let id = post.message_id;
        self.engine.react(&cast.bob, id, ":eyes:").await.unwrap();
        self.engine.react(&cast.carol, id, "🚀").await.unwrap();
        let reactions = self.engine.react(&cast.alice, id, ":eyes:").await.unwrap();
        let expected = [(":eyes:", vec!["Bob", "alice"]), ("🚀", vec!["carol"])];
        let expected = expected.map(|(emoji, agents)| Reaction {
            emoji: emoji.to_owned(),
            agents: agents.into_iter().map(str::to_owned).collect(),
        });
        assert_eq!(reactions, expected);
        self.logs(&["message.reacted"; 3]).await;
        self.engine.react(&cast.bob, id, ":eyes:").await.unwrap();
        self.logs_nothing().await;
        self.engine.unreact(&cast.carol, id, "🚀").await.unwrap();
        let events = self.logs(&["message.reacted"]).await;
        assert_eq!(json!(events[0])["action"], "removed");
        let left = self.engine.unreact(&cast.carol, id, "🚀").await.unwrap();
        assert_eq!(left, expected[..1]);
        let view = self.engine.message(&cast.carol, id).await.unwrap();
        assert_eq!(view.reactions.unwrap(), expected[..1]);
        self.logs_nothing().await;
    }

    pub(super) async fn edits_keep_what_was_said(&mut self, cast: &Cast, post: &MessageSent) {
        let (alice, id) = (&cast.alice, post.message_id);
        let created_at = post.message.created_at;
        let second = self
            .engine
            .edit_message(alice, id, "look @carol".to_owned())
            .await
            .unwrap();
        self.logs(&["message.updated"]).await;
        let third = self
            .engine
            .edit_message(alice, id, "never mind".to_owned())
            .await
            .unwrap();
        self.logs(&["message.updated"]).await;
        assert_eq!((second.version, third.version), (2, 3));
        assert_eq!(second.mentions, ["carol"]);
        assert_eq!(third.created_at, created_at);
        assert!(second.updated_at < third.updated_at);
        assert_eq!(third.metadata, post.message.metadata);
        let view = self.engine.message(&cast.bob, id).await.unwrap();
        assert_eq!(view.message, *third);
        let told: Vec<_> = self.events_after(0).await;
        let versions: Vec<_> = told
            .iter()
            .filter_map(|event| match &event.event {
                Some(RelayEvent::MessageCreated(event) | RelayEvent::MessageUpdated(event))
                    if event.message.id == id =>
                {
                    Some(&*event.message)
                }
                _ => None,
            })
            .collect();
        assert_eq!(versions, [&post.message, &*second, &*third]);
        let forbidden = self
            .engine
            .edit_message(&cast.bob, id, "mine".to_owned())
            .await;
        assert_eq!(forbidden.unwrap_err().code(), ErrorCode::Forbidden);
        self.logs_nothing().await;
    }
}
