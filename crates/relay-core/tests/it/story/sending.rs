//! What a send may ask for: content, a key, room in a queue, a deadline.

use relay_core::{Caller, Error, Upload};
use relay_protocol::api::messages::{NewAttachment, ReplyMessage, SendMessage};
use relay_protocol::delivery::{DeliveryState, Surfaced};
use relay_protocol::event::RelayEvent;
use relay_protocol::limits::{IDEMPOTENCY_KEPT_MS, UNUSED_ATTACHMENT_MS};
use relay_protocol::message::AttachmentKind;
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;

use super::{Cast, DM, REGISTERED, Tale, post};
use crate::support::{START, inline_text, target};

impl Tale {
    pub(super) async fn content_is_attached(&mut self, cast: &Cast) {
        let Cast {
            alice, bob, carol, ..
        } = cast;
        let upload = |data: &[u8]| Upload {
            media_type: "image/png".to_owned(),
            name: Some("a.png".to_owned()),
            data: [b"\x89PNG\r\n\x1a\n", data].concat(),
        };
        let used = self.engine.upload(alice, upload(b"used")).await.unwrap();
        let unused = self.engine.upload(alice, upload(b"unused")).await.unwrap();
        assert_eq!((used.kind, used.size), (AttachmentKind::Image, 12));
        self.logs_nothing().await;
        let id = used.attachment_id;
        let hidden = self.engine.attachment(bob, id).await;
        assert_eq!(hidden.unwrap_err(), Error::UnknownAttachment(id));
        let by_id = NewAttachment {
            attachment_id: Some(id),
            kind: None,
            media_type: None,
            name: None,
            data: None,
        };
        let body = SendMessage {
            attachments: Some(vec![by_id, inline_text("inline")]),
            ..SendMessage::text(target("@bob"), "")
        };
        let sent = self.engine.send(alice, body).await.unwrap();
        self.logs(DM).await;
        let [image, note] = sent.message.attachments.as_slice() else {
            panic!("{:?}", sent.message.attachments)
        };
        assert_eq!((image.attachment_id, image.size), (Some(id), 12));
        assert_eq!(
            (note.kind, note.data.as_ref()),
            (AttachmentKind::Text, None)
        );
        let content = self
            .engine
            .attachment(bob, note.attachment_id.unwrap())
            .await
            .unwrap();
        assert_eq!(
            (content.data.as_slice(), content.name.as_deref()),
            (&b"inline"[..], Some("note.txt"))
        );
        self.engine.attachment(bob, id).await.unwrap();
        let hidden = self.engine.attachment(carol, id).await;
        assert_eq!(hidden.unwrap_err(), Error::UnknownAttachment(id));

        let admin = Caller::process_owner();
        self.engine.collect_garbage(&admin).await.unwrap();
        self.engine
            .attachment(alice, unused.attachment_id)
            .await
            .unwrap();
        self.clock.advance(UNUSED_ATTACHMENT_MS);
        assert_eq!(self.engine.collect_garbage(&admin).await.unwrap(), 1);
        let gone = self.engine.attachment(alice, unused.attachment_id).await;
        assert_eq!(
            gone.unwrap_err(),
            Error::UnknownAttachment(unused.attachment_id)
        );
        self.engine.attachment(bob, id).await.unwrap();
        assert_eq!(self.engine.collect_garbage(&admin).await.unwrap(), 0);
        self.logs_nothing().await;
    }

    pub(super) async fn a_repeated_send_is_harmless(&mut self, cast: &Cast) {
        let Cast { alice, bob, .. } = cast;
        let body = |text: &str| SendMessage {
            idempotency_key: Some("k1".to_owned()),
            ..SendMessage::text(target("#dev"), text)
        };
        let refused = SendMessage {
            to: target("#nowhere"),
            ..body("first")
        };
        self.engine.send(alice, refused).await.unwrap_err();
        let first = self
            .engine
            .send(alice, body("first @nobody"))
            .await
            .unwrap();
        let told = ["message.created", "delivery.created", "delivery.created"];
        self.logs(&told).await;
        let again = self
            .engine
            .send(alice, body("first @nobody"))
            .await
            .unwrap();
        assert_eq!(again, first);
        self.engine
            .edit_message(alice, first.message_id, "edited".to_owned())
            .await
            .unwrap();
        self.logs(&["message.updated"]).await;
        let again = self
            .engine
            .send(alice, body("first @nobody"))
            .await
            .unwrap();
        assert_eq!(again, first);
        let other = self.engine.send(alice, body("second")).await;
        assert_eq!(other.unwrap_err().code(), ErrorCode::IdempotencyConflict);
        self.logs_nothing().await;
        let of_another = self.engine.send(bob, body("second")).await.unwrap();
        assert_ne!(of_another.message_id, first.message_id);
        self.logs(&told).await;
        let reply = || ReplyMessage {
            idempotency_key: Some("k2".to_owned()),
            ..ReplyMessage::text("answer")
        };
        let one = self
            .engine
            .reply(bob, first.message_id, reply())
            .await
            .unwrap();
        let two = self
            .engine
            .reply(bob, first.message_id, reply())
            .await
            .unwrap();
        assert_eq!(one, two);
        self.logs(&["message.created", "thread.reply", "delivery.created"])
            .await;

        self.clock.set(
            first
                .message
                .created_at
                .plus_millis(IDEMPOTENCY_KEPT_MS - 1),
        );
        let kept = self
            .engine
            .send(alice, body("first @nobody"))
            .await
            .unwrap();
        assert_eq!(kept, first);
        self.clock.advance(1);
        let expired = self.engine.send(alice, body("second")).await.unwrap();
        assert_ne!(expired.message_id, first.message_id);
        self.logs(&told).await;
        let collected = self.engine.collect_garbage(&Caller::process_owner()).await;
        assert_eq!(collected.unwrap(), 0, "the others are younger than a day");
        self.clock.advance(IDEMPOTENCY_KEPT_MS);
        let collected = self.engine.collect_garbage(&Caller::process_owner()).await;
        assert_eq!(collected.unwrap(), 3);
    }

    pub(super) async fn a_full_queue_fails_one_delivery(&mut self, cast: &Cast) {
        let limit = |limit| PolicyPatch {
            queue_limit: Some(limit),
            ..PolicyPatch::default()
        };
        let dave = self.agent("dave").await;
        self.send(&cast.carol, "@dave", "1").await;
        self.logs(&[REGISTERED, DM].concat()).await;
        self.engine
            .update_policy(&self.key, limit(2))
            .await
            .unwrap();
        self.logs(&["workspace.updated"]).await;
        self.channel(&cast.alice, "ops", &["dave"]).await;
        self.send(&cast.alice, "#ops", "2").await;
        self.logs(
            &[
                &[
                    "channel.created",
                    "channel.member_joined",
                    "channel.member_joined",
                ],
                &*post(1),
            ]
            .concat(),
        )
        .await;
        let erin = self.agent("erin").await;
        self.engine.join_channel(&erin, "ops").await.unwrap();
        self.logs(&[REGISTERED, ["channel.member_joined"].as_slice()].concat())
            .await;

        let sent = self.send(&cast.alice, "#ops", "3").await;
        let states: Vec<_> = sent
            .deliveries
            .iter()
            .map(|d| (d.agent.as_str(), d.state))
            .collect();
        assert_eq!(
            states,
            [
                ("dave", DeliveryState::Failed),
                ("erin", DeliveryState::Pending)
            ]
        );
        let problem = sent.deliveries[0].error.clone().unwrap();
        assert_eq!((problem.code, problem.status), (ErrorCode::QueueFull, 429));
        assert_eq!(problem.found.as_deref(), Some("2"));
        let told = [
            "message.created",
            "delivery.created",
            "delivery.created",
            "delivery.failed",
        ];
        let events = self.logs(&told).await;
        let Some(RelayEvent::DeliveryFailed(failed)) = &events[3].event else {
            panic!("{events:?}")
        };
        assert_eq!(failed.delivery_id, sent.deliveries[0].delivery_id);
        assert_eq!(failed.message, sent.message);
        assert_eq!(
            (failed.reason.as_str(), failed.terminal),
            ("queue_full", Some(true))
        );
        assert_eq!(
            (failed.surfaced, &failed.error),
            (Some(Surfaced::No), &Some(problem))
        );
        let stored = self
            .engine
            .deliveries(&cast.alice, sent.message_id)
            .await
            .unwrap();
        assert_eq!(stored, sent.deliveries);
        assert_eq!(
            self.inbox(&dave).await.unread,
            3,
            "the message itself is there to be read"
        );
        self.engine
            .update_policy(&self.key, limit(10_000))
            .await
            .unwrap();
        self.logs(&["workspace.updated"]).await;
        let sent = self.send(&cast.alice, "#ops", "4").await;
        assert!(
            sent.deliveries
                .iter()
                .all(|d| d.state == DeliveryState::Pending)
        );
        self.logs(&["message.created", "delivery.created", "delivery.created"])
            .await;
    }

    pub(super) async fn deadlines_are_kept(&mut self, cast: &Cast) {
        let at = self.now();
        let usual = self.send(&cast.alice, "@erin", "soon").await;
        let delivery = self
            .engine
            .delivery(&cast.alice, usual.deliveries[0].delivery_id)
            .await;
        assert_eq!(delivery.unwrap().deadline.as_millis(), at + 60_000);
        let deadline = START.plus_millis(90 * 24 * 60 * 60 * 1000);
        let body = SendMessage {
            deadline: Some(deadline),
            ..SendMessage::text(target("@erin"), "later")
        };
        let sent = self.engine.send(&cast.alice, body).await.unwrap();
        let delivery = self
            .engine
            .delivery(&self.key, sent.deliveries[0].delivery_id)
            .await;
        assert_eq!(delivery.unwrap().deadline, deadline);
        self.logs(&[DM, DM].concat()).await;
    }
}
