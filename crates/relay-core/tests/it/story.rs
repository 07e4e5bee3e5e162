//! The store's conformance story: one workspace lives through every verb, and every step's events are
//! told exactly. It knows a store only as `dyn Store`, so that every backend runs the same one.

mod keeping;
mod people;
mod reading;
mod sending;
mod talk;

use std::sync::Arc;

use relay_core::Caller;
use relay_core::environment::Clock as _;
use relay_core::store::Store;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_protocol::event::LoggedEvent;
use tempfile::TempDir;

use crate::support::{SeededRandom, SqliteWorld, TestClock, World};

#[tokio::test]
async fn the_story_runs_on_sqlite() {
    let directory = TempDir::new().unwrap();
    let options = SqliteOptions::new(directory.path().join("relay.db"));
    let store = SqliteStore::open(&options, SeededRandom::new(7)).unwrap();
    story(Arc::new(store)).await;
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
        let world = World::over(store, TestClock::new()).await;
        let mut tale = Self { world, told: 0 };
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

    fn now(&self) -> i64 {
        self.clock.now().as_millis()
    }
}
