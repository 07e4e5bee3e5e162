//! The log in the long run: erasure and retention.

use std::time::Duration;

use relay_core::{Caller, KeepFor, KeepSince};
use relay_protocol::event::{LoggedEvent, RelayEvent};
use serde_json::json;

use super::{Cast, Tale, post};

impl Tale {
    pub(super) async fn payloads_are_erased(&mut self, cast: &Cast) {
        let sent = self
            .send(&cast.alice, "#general", "my password is hunter2")
            .await;
        self.logs(&post(5)).await;
        let seq_of = |events: &[LoggedEvent], event_type: &str| {
            let found = events
                .iter()
                .rev()
                .find(|event| event.event_type == event_type);
            found.unwrap().seq
        };
        let edit = "my password was hunter2".to_owned();
        self.engine
            .edit_message(&cast.alice, sent.message_id, edit)
            .await
            .unwrap();
        let last = "forget it".to_owned();
        self.engine
            .edit_message(&cast.alice, sent.message_id, last)
            .await
            .unwrap();
        self.logs(&["message.updated", "message.updated"]).await;
        let before = self.events_after(0).await;
        let head = self.head().await;
        let created = seq_of(&before, "message.created");
        // Any event of the send stands for the whole of it.
        let seqs = vec![created + 1, head.seq - 1];
        let erased = self
            .engine
            .audit_erase(&self.key, seqs.clone(), "leaked")
            .await
            .unwrap();
        assert_eq!(erased, 2);
        let events = self.logs(&["audit.erased"]).await;
        let Some(RelayEvent::AuditErased(event)) = &events[0].event else {
            panic!("{events:?}")
        };
        // The send is the row of five events before the two edits, so that nothing is between.
        assert_eq!(
            (event.entries, event.from_seq, event.to_seq),
            (2, created, head.seq - 1)
        );
        assert_eq!(event.ranges, []);
        assert_eq!(event.reason, "leaked");

        let after = self.events_after(0).await;
        assert_eq!(after.len(), before.len() + 1);
        for (before, after) in before.iter().zip(&after) {
            let was_erased = (created..head.seq).contains(&before.seq);
            assert_eq!(
                (after.seq, after.id, after.at),
                (before.seq, before.id, before.at)
            );
            assert_eq!(after.event_type, before.event_type);
            assert_eq!(after.event.is_none(), was_erased, "{before:?}");
        }
        let view = self
            .engine
            .message(&cast.bob, sent.message_id)
            .await
            .unwrap();
        assert_eq!(
            (view.message.text.as_str(), view.message.version),
            ("forget it", 3)
        );
        let report = self.engine.audit_verify(&self.key).await.unwrap();
        assert!(report.is_intact(), "{report:?}");
        assert_eq!(report.erased, 2);
        let again = self
            .engine
            .audit_erase(&self.key, seqs, "again")
            .await
            .unwrap();
        assert_eq!(again, 0);
        let rest = self
            .engine
            .audit_erase(&self.key, vec![head.seq], "rest")
            .await
            .unwrap();
        assert_eq!(rest, 1);
        self.logs(&["audit.erased"]).await;
        let view = self
            .engine
            .message(&cast.bob, sent.message_id)
            .await
            .unwrap();
        assert_eq!(view.message.text, "[erased]");
        let everything = format!("{:?}", self.dump().await);
        assert!(!everything.contains("hunter2"));
        self.check_log().await;
    }

    pub(super) async fn the_oldest_part_is_cut_off(&mut self, cast: &Cast) {
        let keep_all = KeepSince::default();
        assert_eq!(
            self.engine.retain(&self.key, keep_all).await.unwrap(),
            (0, 0)
        );
        let now = relay_protocol::time::Timestamp::from_millis(self.now());
        let only_bulky = KeepSince {
            bulky: Some(now),
            all: None,
        };
        assert_eq!(
            self.engine.retain(&self.key, only_bulky).await.unwrap(),
            (0, 0)
        );
        self.logs_nothing().await;
        let before = self.dump().await;
        let kept = self.events_after(self.told / 2).await;
        let cut_at = KeepSince {
            bulky: None,
            all: Some(kept[0].at),
        };
        let (_, cut) = self.engine.retain(&self.key, cut_at).await.unwrap();
        assert!(cut > 10, "{cut}");
        let after = self.dump().await;
        assert_eq!(after.state, before.state, "messages stay");
        assert_eq!(after.head, before.head);
        assert!(before.events.ends_with(&after.events));
        let first = after.events[0]["seq"].as_u64().unwrap();
        assert!(kept[0].seq >= first && first > 1);
        let selector = relay_protocol::selector::Selector::all();
        for (cursor, known) in [(0, true), (1, false), (first - 2, false), (first - 1, true)] {
            let page = self.engine.events(&self.key, &selector, cursor, None).await;
            assert_eq!(page.is_ok(), known, "{cursor}");
        }
        self.check_log().await;

        self.clock.advance(1);
        let nothing = KeepFor {
            bulky: None,
            all: Some(Duration::ZERO),
        };
        let owner = Caller::process_owner();
        let retained = self
            .engine
            .retain_everywhere(&owner, nothing)
            .await
            .unwrap();
        assert!(retained.cut > 10, "{retained:?}");
        assert_eq!(json!(self.head().await), before.head);
        assert_eq!(self.events_after(0).await, []);
        self.send(&cast.alice, "@bob", "and it goes on").await;
        self.logs(&["message.created", "dm.received", "delivery.created"])
            .await;
        self.check_log().await;
    }
}
