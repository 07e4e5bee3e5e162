//! What becomes of deliveries.

use std::sync::Arc;

use relay_core::Error;
use relay_core::delivery::apply::Step;
use relay_core::delivery::history::Entry;
use relay_core::store::{
    DeliverTo, DeliveryFilter, FlushRequest, NewDelivery, NewSession, PageRequest, SessionRow,
    SessionTurn, Viewer,
};
use relay_protocol::api::messages::{ReadDoor, SendMessage};
use relay_protocol::delivery::{DeliveryMode, DeliveryReason, DeliveryState, Priority, Surfaced};
use relay_protocol::event::RelayEvent;
use relay_protocol::ids::DeliveryId;
use relay_protocol::limits::DELIVERY_HISTORY_ENTRIES;
use relay_protocol::policy::{PolicyPatch, RunawayPolicy};
use relay_protocol::problem::ErrorCode;
use serde_json::json;

use super::{Cast, DM, Tale};
use crate::backstage::{able, accepted, deferred, delivered, failed};
use crate::support::target;

impl Tale {
    /// A message to bob; its delivery.
    async fn tell_bob(&mut self, cast: &Cast) -> DeliveryId {
        let sent = self.send(&cast.alice, "@bob", "something").await;
        self.logs(DM).await;
        sent.deliveries[0].delivery_id
    }

    async fn state(&self, id: DeliveryId) -> DeliveryState {
        self.behind.row(id).await.state
    }

    pub(super) async fn a_session_for_bob(&mut self, number: u8) -> Arc<SessionRow> {
        let session = self.behind.attach("bob", number).await;
        self.logs(&[
            "session.started",
            "agent.status.changed",
            "agent.status.idle",
        ])
        .await;
        session
    }

    pub(super) async fn receipts_settle(&mut self, cast: &Cast) {
        let bob = self.a_session_for_bob(20).await;
        let id = self.tell_bob(cast).await;
        let advanced = self.behind.answer(&bob, id, 1, delivered(id)).await;
        let advanced = advanced.unwrap();
        assert!(advanced.moved);
        assert_eq!(advanced.receipt, Some(delivered(id)));
        let events = self.logs(&["delivery.delivered"]).await;
        let told = json!(events[0]);
        assert_eq!(told["terminal"], true);
        assert_eq!(told["sessionId"], json!(bob.id));
        assert_eq!(told["agentId"], told["agent"]["id"]);
        let story = self.behind.story(id).await;
        assert_eq!(story.row, advanced.row);
        assert_eq!(story.row.used_mode, Some(DeliveryMode::OnIdle));
        assert!(
            matches!(story.history[..], [Entry::Offer(_), Entry::Receipt(_)]),
            "{:?}",
            story.history
        );

        let id = self.tell_bob(cast).await;
        self.behind.answer(&bob, id, 2, accepted(id)).await.unwrap();
        assert_eq!(self.behind.story(id).await.holder, Some(bob.id));
        let again = self.behind.say(&bob, id, accepted(id)).await.unwrap();
        assert!(!again.moved);
        self.behind.say(&bob, id, delivered(id)).await.unwrap();
        self.logs(&["delivery.accepted", "delivery.delivered"])
            .await;
        assert_eq!(self.behind.story(id).await.history.len(), 4);
        let late = self.behind.say(&bob, id, failed(id, true)).await.unwrap();
        assert_eq!(
            (late.moved, late.row.state),
            (false, DeliveryState::Delivered)
        );
        let events = self.logs(&["delivery.late_receipt"]).await;
        assert_eq!(json!(events[0])["receipt"]["reason"], "no_room");
        assert_eq!(self.behind.story(id).await.history.len(), 5);

        self.turn(&bob, SessionTurn::Failed).await.unwrap();
        self.logs(&["agent.status.changed"]).await;
    }

    pub(super) async fn deliveries_wait_and_are_tried_again(&mut self, cast: &Cast) {
        let bob = self.a_session_for_bob(21).await;
        let id = self.tell_bob(cast).await;
        let later = self.behind.now().plus_millis(5_000);
        let advanced = self.behind.answer(&bob, id, 1, deferred(id, later)).await;
        let row = advanced.unwrap().row;
        assert_eq!(
            (row.state, row.not_before),
            (DeliveryState::Deferred, Some(later))
        );
        let events = self.logs(&["delivery.deferred"]).await;
        assert_eq!(json!(events[0])["availableAt"], json!(later));
        let due = |at| self.behind.store.due(at, 1_000);
        for (at, has_come) in [(self.behind.now(), false), (later, true)] {
            let come = due(at).await.unwrap().rows;
            assert_eq!(come.contains(&row), has_come);
        }
        self.clock.set(later);
        self.behind.take(id, Step::Woken).await.unwrap();
        assert_eq!(self.state(id).await, DeliveryState::Pending);
        self.logs_nothing().await;

        self.behind
            .answer(&bob, id, 2, failed(id, true))
            .await
            .unwrap();
        let events = self.logs(&["delivery.failed"]).await;
        let told = json!(events[0]);
        assert_eq!(
            (&told["retryable"], &told["attempt"]),
            (&json!(true), &json!(1))
        );
        assert_eq!(told["terminal"], json!(null));
        assert_eq!(told["message"]["text"], "something");
        assert_eq!(told["event"]["type"], "delivery.failed");
        self.behind
            .answer(&bob, id, 3, failed(id, false))
            .await
            .unwrap();
        let events = self.logs(&["delivery.failed"]).await;
        let told = json!(events[0]);
        assert_eq!(
            (&told["terminal"], &told["attempt"]),
            (&json!(true), &json!(2))
        );
        assert_eq!(self.state(id).await, DeliveryState::Failed);

        let row = self.behind.take(id, Step::Retried).await.unwrap().row;
        assert_eq!((row.state, row.generation), (DeliveryState::Pending, 2));
        self.logs(&["delivery.deferred"]).await;
        self.behind.cancel(id).await.unwrap();
        let row = self.behind.row(id).await;
        assert_eq!(
            (row.state, row.surfaced),
            (DeliveryState::Cancelled, Some(Surfaced::No))
        );
        let events = self.logs(&["delivery.cancelled"]).await;
        assert_eq!(json!(events[0])["reason"], "not needed");
        for step in [Step::Retried, Step::Read(ReadDoor::Inbox.into())] {
            let refused = self.behind.take(id, step).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::IllegalTransition);
        }
        self.logs_nothing().await;
        self.turn(&bob, SessionTurn::Failed).await.unwrap();
        self.logs(&["agent.status.changed"]).await;
    }

    pub(super) async fn a_long_way_is_kept_in_part(&mut self, cast: &Cast) {
        const OFFERS: u64 = 150;
        let bob = self.a_session_for_bob(27).await;
        let id = self.tell_bob(cast).await;
        let lasting = PolicyPatch {
            default_deadline_ms: Some(24 * 60 * 60 * 1000),
            ..PolicyPatch::default()
        };
        self.engine.update_policy(&self.key, lasting).await.unwrap();
        self.behind.cancel(id).await.unwrap();
        self.told += 2;
        let id = self.tell_bob(cast).await;
        for epoch in 1..=OFFERS {
            let soon = self.behind.now().plus_millis(1);
            let answer = deferred(id, soon);
            self.behind.answer(&bob, id, epoch, answer).await.unwrap();
            self.clock.set(soon);
            self.behind.take(id, Step::Woken).await.unwrap();
        }
        self.told += OFFERS;
        let history = self.behind.story(id).await.history;
        assert!(
            history.len() <= DELIVERY_HISTORY_ENTRIES,
            "{}",
            history.len()
        );
        let epochs: Vec<u64> = history
            .iter()
            .filter_map(|entry| match entry {
                Entry::Offer(offer) => Some(offer.attempt.epoch),
                _ => None,
            })
            .collect();
        assert!(epochs.is_sorted());
        assert_eq!((epochs.first(), epochs.last()), (Some(&1), Some(&OFFERS)));
        let left_out: Vec<usize> = history
            .iter()
            .filter_map(|entry| match entry {
                Entry::Decision(decision) => {
                    decision.reason.strip_suffix(" entries are left out here")
                }
                _ => None,
            })
            .map(|count| count.parse().unwrap())
            .collect();
        let [left_out] = left_out[..] else {
            panic!("{left_out:?}")
        };
        assert!(left_out + history.len() > 2 * OFFERS as usize, "{left_out}");
        self.behind.cancel(id).await.unwrap();
        self.turn(&bob, SessionTurn::Failed).await.unwrap();
        self.logs(&["delivery.cancelled", "agent.status.changed"])
            .await;
    }

    pub(super) async fn what_a_session_held_waits_again(&mut self, cast: &Cast) {
        let bob = self.a_session_for_bob(22).await;
        let held = [self.tell_bob(cast).await, self.tell_bob(cast).await];
        for id in held {
            self.behind.answer(&bob, id, 1, accepted(id)).await.unwrap();
        }
        self.logs(&["delivery.accepted"; 2]).await;
        self.behind.resume("bob", 22).await.unwrap();
        let kept = self.behind.store.held_by(bob.no).await.unwrap();
        assert_eq!(kept, held);
        self.logs(&["session.resumed"]).await;
        let taken = self.behind.store.take_back(bob.no, self.behind.now(), 0);
        assert_eq!(taken.await, Ok(2));
        let events = self.logs(&["delivery.deferred"; 2]).await;
        assert_eq!(json!(events[0])["reason"], "lease_expired");
        self.behind
            .answer(&bob, held[0], 2, accepted(held[0]))
            .await
            .unwrap();
        self.turn(&bob, SessionTurn::Failed).await.unwrap();
        let events = self
            .logs(&[
                "delivery.accepted",
                "agent.status.changed",
                "delivery.deferred",
            ])
            .await;
        assert_eq!(json!(events[2])["reason"], "session_failed");
        let row = self.behind.row(held[0]).await;
        assert_eq!((row.state, row.holder), (DeliveryState::Pending, None));
        assert!(row.redelivered && row.after_accept);
        for id in held {
            self.behind.cancel(id).await.unwrap();
        }
        self.logs(&["delivery.cancelled"; 2]).await;
    }

    pub(super) async fn waiting_ones_are_flushed(&mut self, cast: &Cast) {
        let bob = self.a_session_for_bob(23).await;
        let mut ids = Vec::new();
        for mode in [None, Some(DeliveryMode::Manual), None] {
            let body = SendMessage {
                mode,
                ..SendMessage::text(target("@bob"), "wait for it")
            };
            let sent = self.engine.send(&cast.alice, body).await.unwrap();
            ids.push(sent.deliveries[0].delivery_id);
        }
        self.behind
            .answer(&bob, ids[2], 1, accepted(ids[2]))
            .await
            .unwrap();
        self.told += 10;
        self.logs_nothing().await;
        let all = self.behind.flushing(&cast.bob);
        let manual = FlushRequest {
            mode: Some(DeliveryMode::Manual),
            ..self.behind.flushing(&cast.bob)
        };
        let flushed = self.behind.store.flush(manual).await.unwrap();
        assert_eq!(flushed.len(), 1);
        assert!(flushed[0].flushed);
        let flushed = self.behind.store.flush(all).await.unwrap();
        let mine: Vec<_> = flushed
            .iter()
            .map(|row| (row.id(self.workspace_id), row.flushed, row.state))
            .collect();
        use DeliveryState::{Accepted, Pending};
        let expected = [
            (ids[0], true, Pending),
            (ids[1], true, Pending),
            (ids[2], false, Accepted),
        ];
        assert!(mine.ends_with(&expected), "{mine:?}");
        let one = FlushRequest {
            delivery: Some(ids[0]),
            ..self.behind.flushing(&cast.bob)
        };
        let again = self.behind.store.flush(one).await.unwrap();
        assert_eq!(again[0].id(self.workspace_id), ids[0]);
        let foreign = FlushRequest {
            delivery: Some(ids[0]),
            ..self.behind.flushing(&cast.carol)
        };
        let foreign = self.behind.store.flush(foreign).await;
        assert_eq!(foreign.unwrap_err(), Error::UnknownDelivery(ids[0]));
        self.logs_nothing().await;
        for id in ids {
            self.behind.cancel(id).await.unwrap();
        }
        self.turn(&bob, SessionTurn::Failed).await.unwrap();
        self.told += 4;
        self.logs_nothing().await;
    }

    fn delivering(&self, sent: &relay_protocol::api::messages::MessageSent) -> NewDelivery {
        NewDelivery {
            viewer: self.behind.viewer(),
            message: sent.message_id,
            to: DeliverTo::Agent("bob".to_owned()),
            id: None,
            mode: None,
            allow_downgrade: false,
            priority: Priority::Normal,
            reason: None,
            deadline: None,
            metadata: None,
            at: self.behind.now(),
            idempotency: None,
        }
    }

    pub(super) async fn a_message_is_delivered_once_more(&mut self, cast: &Cast) {
        let store = self.behind.store.clone();
        let sent = self.send(&cast.alice, "@bob", "for bob alone").await;
        self.logs(DM).await;
        let first = sent.deliveries[0].delivery_id;
        let found = store.deliver(self.delivering(&sent)).await.unwrap();
        assert_eq!(found.id(self.workspace_id), first, "it is on its way");
        self.logs_nothing().await;
        self.behind
            .take(first, Step::Read(ReadDoor::Inbox.into()))
            .await
            .unwrap();
        self.logs(&["delivery.delivered"]).await;
        let seen = store.deliver(self.delivering(&sent)).await.unwrap_err();
        assert_eq!(seen.code(), ErrorCode::AlreadyDelivered);

        let to_carol = NewDelivery {
            to: DeliverTo::Agent("carol".to_owned()),
            idempotency: Some(("key".to_owned(), [1; 32])),
            ..self.delivering(&sent)
        };
        let mut by_alice = self.delivering(&sent);
        by_alice.to = DeliverTo::Agent("carol".to_owned());
        by_alice.viewer = Viewer {
            agent: Some(cast.alice.agent().unwrap().no),
            ..self.behind.viewer()
        };
        let refused = store.deliver(by_alice).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::NotAMember);
        let row = store.deliver(to_carol).await.unwrap();
        assert_eq!(
            (row.at, row.state),
            (self.behind.now(), DeliveryState::Pending)
        );
        assert_eq!(row.reason, DeliveryReason::Dm);
        let carols = row.id(self.workspace_id);
        let events = self.logs(&["delivery.created"]).await;
        let Some(RelayEvent::DeliveryCreated(created)) = &events[0].event else {
            panic!("{events:?}")
        };
        assert_eq!(
            (created.delivery_id, &created.message),
            (carols, &sent.message)
        );
        assert_eq!(self.behind.story(carols).await.message_id, sent.message_id);
        let summaries = self.engine.deliveries(&self.key, sent.message_id).await;
        let ids: Vec<_> = summaries.unwrap().iter().map(|d| d.delivery_id).collect();
        assert_eq!(ids, [first, carols]);
        self.behind.cancel(carols).await.unwrap();
        self.logs(&["delivery.cancelled"]).await;
        let again = NewDelivery {
            to: DeliverTo::Agent("carol".to_owned()),
            idempotency: Some(("key".to_owned(), [1; 32])),
            ..self.delivering(&sent)
        };
        let again = store.deliver(again).await.unwrap();
        assert_eq!(again.id(self.workspace_id), carols);
        self.logs_nothing().await;
        self.it_is_for_one_session_only(&sent).await;
    }

    async fn it_is_for_one_session_only(
        &mut self,
        sent: &relay_protocol::api::messages::MessageSent,
    ) {
        let store = self.behind.store.clone();
        let old = self.a_session_for_bob(24).await;
        let new = self.a_session_for_bob(25).await;
        let to_old = || NewDelivery {
            to: DeliverTo::Session(old.id),
            ..self.delivering(sent)
        };
        let row = store.deliver(to_old()).await.unwrap();
        assert_eq!(row.only_session, Some(old.no));
        let same = store.deliver(to_old()).await.unwrap();
        assert_eq!(same, row);
        let to_new = NewDelivery {
            to: DeliverTo::Session(new.id),
            ..self.delivering(sent)
        };
        let seen = store.deliver(to_new).await.unwrap_err();
        assert_eq!(seen.code(), ErrorCode::AlreadyDelivered, "as its agent");
        assert_eq!(
            store.addressed_to(old.no).await.unwrap(),
            std::slice::from_ref(&row)
        );
        assert_eq!(store.addressed_to(new.no).await.unwrap(), []);
        self.logs(&["delivery.created"]).await;
        self.turn(&old, SessionTurn::Failed).await.unwrap();
        let events = self
            .logs(&["agent.status.changed", "delivery.failed"])
            .await;
        assert_eq!(json!(events[1])["reason"], "unknown_session");
        let ended = NewDelivery {
            to: DeliverTo::Session(old.id),
            ..self.delivering(sent)
        };
        let ended = store.deliver(ended).await.unwrap_err();
        assert_eq!(ended.code(), ErrorCode::IllegalTransition);
        self.turn(&new, SessionTurn::Failed).await.unwrap();
        self.logs(&["agent.status.changed"]).await;
    }

    pub(super) async fn a_send_meets_the_session(&mut self, cast: &Cast) {
        let mut modest = able();
        modest.delivery.modes = vec![DeliveryMode::OnIdle];
        let new = NewSession {
            capabilities: modest,
            ..self.behind.new_session("bob", 26)
        };
        let bob = self.behind.store.attach_session(new).await.unwrap();
        self.told += 3;
        let body = |allow_downgrade| SendMessage {
            mode: Some(DeliveryMode::Immediate),
            allow_downgrade,
            ..SendMessage::text(target("@bob"), "now!")
        };
        let sent = self.engine.send(&cast.alice, body(None)).await.unwrap();
        let problem = sent.deliveries[0].error.clone().unwrap();
        assert_eq!(sent.deliveries[0].state, DeliveryState::Failed);
        assert_eq!(problem.code, ErrorCode::CapabilityNotSupported);
        assert_eq!(problem.capability.as_deref(), Some("delivery.modes"));
        let events = self.logs(&[DM, &["delivery.failed"]].concat()).await;
        assert_eq!(json!(events[3])["error"]["requested"], "immediate");
        let body = body(Some(true));
        let sent = self.engine.send(&cast.alice, body).await.unwrap();
        assert_eq!(sent.deliveries[0].state, DeliveryState::Pending);
        self.logs(DM).await;
        self.behind
            .cancel(sent.deliveries[0].delivery_id)
            .await
            .unwrap();
        self.turn(&bob.session, SessionTurn::Failed).await.unwrap();
        self.told += 2;
        self.logs_nothing().await;
    }

    pub(super) async fn a_runaway_is_held_back(&mut self, cast: &Cast) {
        self.clock.advance(24 * 60 * 60 * 1000);
        let slow = PolicyPatch {
            runaway: Some(RunawayPolicy {
                per_minute: 1,
                depth: 20,
            }),
            ..PolicyPatch::default()
        };
        self.engine.update_policy(&self.key, slow).await.unwrap();
        self.logs(&["workspace.updated"]).await;
        let body = || SendMessage {
            idempotency_key: Some("fast".to_owned()),
            ..SendMessage::text(target("@bob"), "and again")
        };
        let first = self.send(&cast.alice, "@bob", "slowly").await;
        // The third is the second answer.
        let answer = self.send(&cast.bob, "@alice", "slowly, too").await;
        let sent = self.engine.send(&cast.alice, body()).await.unwrap();
        assert_eq!(sent.deliveries[0].state, DeliveryState::Deferred);
        let held = sent.deliveries[0].delivery_id;
        let row = self.behind.row(held).await;
        assert!(row.not_before > Some(self.behind.now()));
        let again = self.engine.send(&cast.alice, body()).await.unwrap();
        assert_eq!(again, sent);
        let events = self
            .logs(&[DM, DM, DM, &["delivery.deferred"]].concat())
            .await;
        let told = json!(events[9]);
        assert_eq!(told["reason"], "runaway_guard");
        assert_eq!(told["availableAt"], json!(row.not_before));
        let history = self.behind.story(held).await.history;
        let [Entry::Decision(decision)] = &history[..] else {
            panic!("{history:?}")
        };
        assert_eq!(decision.until, row.not_before);
        let fast = PolicyPatch {
            runaway: Some(RunawayPolicy {
                per_minute: 20,
                depth: 1,
            }),
            ..PolicyPatch::default()
        };
        self.engine.update_policy(&self.key, fast).await.unwrap();
        let answer = answer.deliveries[0].delivery_id;
        for id in [first.deliveries[0].delivery_id, answer, held] {
            self.behind.cancel(id).await.unwrap();
        }
        self.told += 4;
        self.logs_nothing().await;
        self.clock.advance(60 * 60 * 1000);
        self.a_chain_of_answers_is_held_back(cast).await;
    }

    /// Answers of agents upon each other are counted; a human's begins anew.
    async fn a_chain_of_answers_is_held_back(&mut self, cast: &Cast) {
        let Cast {
            alice, bob, carol, ..
        } = cast;
        let mut last = self.send(alice, "#dev", "who knows?").await;
        use DeliveryState::{Deferred, Pending};
        let carol_name = &carol.agent().unwrap().name;
        for (author, state) in [
            (bob, Pending),
            (alice, Deferred),
            (carol, Pending),
            (bob, Pending),
            (alice, Deferred),
        ] {
            last = self.reply(author, last.message_id, "and then?").await;
            // People are not held.
            let agents = last.deliveries.iter().filter(|d| d.agent != *carol_name);
            let states: Vec<_> = agents.map(|d| d.state).collect();
            assert!(states.iter().all(|found| *found == state), "{last:?}");
        }
        self.told = self.head().await.seq;
        self.clock.advance(60 * 60 * 1000);
    }

    pub(super) async fn deliveries_are_listed(&mut self, cast: &Cast) {
        let store = self.behind.store.clone();
        let page = |cursor: Option<String>, limit| PageRequest { cursor, limit };
        let everything = self.behind.viewer();
        let all = DeliveryFilter::default;
        let whole = store.delivery_list(everything, all(), page(None, 10_000));
        let whole = whole.await.unwrap().items;
        assert!(whole.is_sorted_by(|a, b| a.row.position > b.row.position));
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let part = store.delivery_list(everything, all(), page(cursor, 7));
            let part = part.await.unwrap();
            found.extend(part.items);
            cursor = part.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, whole);
        let bob = cast.bob.agent().unwrap();
        let filter = DeliveryFilter {
            agent: Some("bob".to_owned()),
            state: Some(DeliveryState::Cancelled),
        };
        let some = store.delivery_list(everything, filter, page(None, 10_000));
        let expected = whole.iter().filter(|story| {
            story.row.agent == bob.no && story.row.state == DeliveryState::Cancelled
        });
        assert_eq!(
            some.await.unwrap().items,
            expected.cloned().collect::<Vec<_>>()
        );
        let of_bob = Viewer {
            agent: Some(bob.no),
            ..everything
        };
        let own = store.delivery_list(of_bob, all(), page(None, 10_000));
        let own = own.await.unwrap().items;
        assert!(!own.is_empty() && own.len() < whole.len());
        for story in own {
            let content = store.delivery_content(story.row.message, story.row.position);
            let message = content.await.unwrap().message;
            assert_eq!(message.id, story.message_id);
            assert!(story.row.agent == bob.no || message.from.id == Some(bob.id));
        }
        self.logs_nothing().await;
    }
}
