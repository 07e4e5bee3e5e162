//! What is read: marks, the inbox, conversations.

use relay_protocol::api::messages::{InboxChannel, MessageSent, Reader};
use relay_protocol::delivery::{DeliveryReason, DeliveryState};
use relay_protocol::event::RelayEvent;
use serde_json::json;

use super::{Cast, DM, Tale, post};
use crate::support::{all, page};

/// What is logged when so many deliveries were seen in the inbox, up to one mark.
fn read(settled: usize) -> Vec<&'static str> {
    let settled = std::iter::repeat_n("delivery.delivered", settled);
    std::iter::once("message.read").chain(settled).collect()
}

impl Tale {
    pub(super) async fn reading_leaves_marks(&mut self, cast: &Cast, post: &MessageSent) {
        let thread = self
            .engine
            .thread(&cast.bob, post.message_id, all())
            .await
            .unwrap();
        let last = thread.items.last().unwrap().message.id;
        self.engine.mark_read(&cast.bob, last).await.unwrap();
        let at = self.now();
        let events = self.logs(&read(4)).await;
        let Some(RelayEvent::MessageRead(read)) = &events[0].event else {
            panic!("{events:?}")
        };
        let settled = json!(events[1]);
        assert_eq!(settled["metadata"]["door"], "inbox");
        assert_eq!(settled["terminal"], true);
        assert_eq!((read.message_id, read.agent_name.as_str()), (last, "Bob"));
        for again in [last, post.message_id] {
            self.engine.mark_read(&cast.bob, again).await.unwrap();
        }
        self.logs_nothing().await;
        let readers = self.engine.readers(&cast.alice, last).await.unwrap();
        assert_eq!(readers[0].read_at.unwrap().as_millis(), at);
        let readers = self
            .engine
            .readers(&cast.alice, post.message_id)
            .await
            .unwrap();
        let bob = Reader {
            agent_name: "Bob".to_owned(),
            read_at: None,
        };
        assert_eq!(readers, [bob]);
    }

    pub(super) async fn the_inbox_counts(&mut self, cast: &Cast) {
        let Cast {
            alice, bob, carol, ..
        } = cast;
        let taken = self.engine.take_inbox(bob, all()).await.unwrap();
        assert_eq!(taken.conversations.len(), 3);
        self.logs(&[read(3), read(1), read(2)].concat()).await;
        assert_eq!(self.inbox(bob).await.unread, 0);
        self.send(alice, "#general", "one").await;
        self.send(alice, "#general", "two, @bob").await;
        self.send(carol, "@bob", "three").await;
        self.send(bob, "#general", "my own").await;
        self.logs(&[post(2), post(2), DM.to_vec(), post(2)].concat())
            .await;
        let inbox = self.inbox(bob).await;
        assert_eq!(self.inbox(bob).await, inbox, "looking changes nothing");
        assert_eq!((inbox.unread, inbox.mentions, inbox.more), (3, 1, false));
        let reasons: Vec<_> = inbox.items.iter().map(|item| item.reason).collect();
        assert_eq!(
            reasons,
            [
                DeliveryReason::Message,
                DeliveryReason::Mention,
                DeliveryReason::Dm
            ]
        );
        assert!(
            inbox
                .items
                .iter()
                .all(|item| item.state == Some(DeliveryState::Pending))
        );
        let general = InboxChannel {
            channel: "general".to_owned(),
            unread: 2,
            mentions: 1,
        };
        assert_eq!(inbox.channels, [general]);
        assert_eq!(inbox.conversations.len(), 1);
        assert_eq!(inbox.conversations[0].with, ["carol"]);
        let some = self.engine.take_inbox(bob, page(1)).await.unwrap();
        assert_eq!((some.items.len(), some.more), (1, true));
        self.logs(&read(1)).await;
        let rest = self.engine.take_inbox(bob, all()).await.unwrap();
        assert_eq!(rest.items, inbox.items[1..]);
        self.logs(&[read(1), read(1)].concat()).await;
        let empty = self.engine.take_inbox(bob, all()).await.unwrap();
        assert_eq!((empty.unread, empty.items.len()), (0, 0));
        self.logs_nothing().await;
    }

    pub(super) async fn lists_have_pages(&mut self, cast: &Cast) {
        let found = self.engine.conversations(&cast.carol, all()).await.unwrap();
        let with: Vec<_> = found
            .items
            .iter()
            .map(|c| c.participants.join(" "))
            .collect();
        assert_eq!(with, ["Bob carol", "alice carol", "alice Bob carol"]);
        let unread: Vec<_> = found.items.iter().map(|c| c.unread).collect();
        assert_eq!(unread, [0, 1, 2]);
        let mut names = Vec::new();
        let mut query = page(1);
        loop {
            let page = self.engine.conversations(&cast.carol, query).await.unwrap();
            names.extend(page.items.iter().map(|c| c.participants.join(" ")));
            let Some(cursor) = page.next_cursor else {
                break;
            };
            query = relay_core::PageQuery {
                cursor: Some(cursor),
                limit: Some(1),
            };
        }
        assert_eq!(names, with);
        self.logs_nothing().await;
    }
}
