//! The store's conformance story: one workspace lives through every verb, and every step's events are
//! told exactly. It knows a store only as `dyn Store`, so that every backend runs the same one.

mod delivering;
mod keeping;
mod people;
mod permissions;
mod reading;
mod sending;
mod sessions;
mod talk;

use std::sync::Arc;

use relay_core::environment::Clock as _;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::store::{SessionRow, SessionTurn, Store};
use relay_core::{Caller, Result};
use relay_protocol::event::LoggedEvent;
use tempfile::TempDir;

use crate::backstage::Backstage;
use crate::support::{SeededRandom, SqliteWorld, TestClock, World};

#[tokio::test]
async fn the_story_runs_on_sqlite() {
    let directory = TempDir::new().unwrap();
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = Arc::new(SqliteStore::open(&options, SeededRandom::new(7)).unwrap());
    story(store.clone()).await;
    assert_eq!(store.check_indexes().await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_backup_holds_the_same_world() {
    let world = SqliteWorld::new().await;
    let [alice, bob] = world.agents(["alice", "bob"]).await;
    let sent = world.send(&alice, "#general", "hello @bob").await;
    world.reply(&bob, sent.message_id, "yes").await;
    let owner = Caller::process_owner();
    let wrong = world.engine.check_integrity(&owner).await.unwrap();
    assert_eq!(wrong, Vec::<String>::new());
    let path = world.directory().join("backup.db");
    world.engine.backup(&owner, &path).await.unwrap();
    let before = world.dump().await;
    world.send(&alice, "@bob", "after the backup").await;
    let copy = SqliteStore::open(&SqliteOptions::new(path), SeededRandom::new(8)).unwrap();
    let copy = World::existing(Arc::new(copy), &world.past()).await;
    assert_eq!(copy.dump().await, before);
    copy.check_log().await;
}

/// The whole story.
async fn story(store: Arc<dyn Store>) {
    let mut tale = Tale::begin(store).await;
    tale.the_server_has_a_key().await;
    tale.the_workspace_is_named_and_has_a_policy().await;
    let cast = tale.agents_register().await;
    tale.a_name_is_adopted(&cast).await;
    tale.a_token_is_replaced(&cast).await;
    tale.channels_come_and_go(&cast).await;
    let post = tale.a_post_reaches_members(&cast).await;
    tale.direct_messages_stay_in_their_conversation(&cast).await;
    tale.the_workspace_speaks(&cast).await;
    tale.threads_grow(&cast, &post).await;
    tale.reactions_come_and_go(&cast, &post).await;
    tale.edits_keep_what_was_said(&cast, &post).await;
    tale.reading_leaves_marks(&cast, &post).await;
    tale.the_inbox_counts(&cast).await;
    tale.lists_have_pages(&cast).await;
    tale.content_is_attached(&cast).await;
    tale.a_repeated_send_is_harmless(&cast).await;
    tale.a_full_queue_fails_one_delivery(&cast).await;
    tale.deadlines_are_kept(&cast).await;
    tale.sessions_come_and_go(&cast).await;
    tale.sessions_are_listed(&cast).await;
    tale.sessions_report(&cast).await;
    tale.sessions_keep_to_what_they_declared().await;
    tale.sessions_are_forked(&cast).await;
    tale.receipts_settle(&cast).await;
    tale.deliveries_wait_and_are_tried_again(&cast).await;
    tale.a_long_way_is_kept_in_part(&cast).await;
    tale.what_a_session_held_waits_again(&cast).await;
    tale.waiting_ones_are_flushed(&cast).await;
    tale.a_message_is_delivered_once_more(&cast).await;
    tale.a_send_meets_the_session(&cast).await;
    tale.a_runaway_is_held_back(&cast).await;
    tale.deliveries_are_listed(&cast).await;
    tale.permissions_are_decided(&cast).await;
    tale.a_released_agent_is_gone(&cast).await;
    tale.payloads_are_erased(&cast).await;
    tale.the_oldest_part_is_cut_off(&cast).await;
}

/// What a registration logs.
const REGISTERED: &[&str] = &["agent.registered", "token.created", "channel.member_joined"];

/// What a direct message logs.
const DM: &[&str] = &["message.created", "dm.received", "delivery.created"];

/// What a post to so many recipients logs.
fn post(recipients: usize) -> Vec<&'static str> {
    let deliveries = std::iter::repeat_n("delivery.created", recipients);
    std::iter::once("message.created")
        .chain(deliveries)
        .collect()
}

/// The world and how far its log was told.
struct Tale {
    world: World,
    /// The same store, as the delivery runner sees it.
    behind: Backstage,
    told: u64,
}

struct Cast {
    alice: Caller,
    bob: Caller,
    carol: Caller,
    bobs_first_token: String,
}

impl std::ops::Deref for Tale {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl Tale {
    async fn begin(store: Arc<dyn Store>) -> Self {
        let world = World::over(store.clone(), TestClock::new()).await;
        let behind = Backstage::new(store, world.clock.clone(), &world.key);
        let mut tale = Self {
            world,
            behind,
            told: 0,
        };
        tale.logs(&["channel.created", "token.created"]).await;
        tale
    }

    /// Checks that exactly these events were logged since the last time.
    async fn logs(&mut self, expected: &[&str]) -> Vec<LoggedEvent> {
        let events = self.events_after(self.told).await;
        let types: Vec<_> = events
            .iter()
            .map(|event| event.event_type.as_str())
            .collect();
        assert_eq!(types, expected);
        self.told += expected.len() as u64;
        assert_eq!(self.head().await.seq, self.told);
        self.clock.advance(1_000);
        events
    }

    async fn logs_nothing(&mut self) {
        self.logs(&[]).await;
    }

    async fn turn(&self, session: &SessionRow, to: SessionTurn) -> Result<Arc<SessionRow>> {
        self.behind.turn(session, to).await
    }

    fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }
}
