//! The same verbs while the disk or a single row write fails: whatever the Nth write of a change is, its
//! failure leaves everything as it was, harms no other change of the same commit, and trying again
//! works.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};

use relay_core::delivery::apply::Step;
use relay_core::error::StorageError;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::store::{
    DeliverTo, Erasure, NewDelivery, ReportKind, SessionRow, SessionTurn, Store as _,
};
use relay_core::{Caller, Error, Followed, KeepSince, Result, Subscription, Upload};
use relay_protocol::api::messages::{ReplyMessage, SendMessage};
use relay_protocol::api::workspace::{CreateChannel, RegisterAgent, UpdateChannel};
use relay_protocol::delivery::Priority;
use relay_protocol::ids::{AttachmentId, DeliveryId, GrantId, MessageId, PermissionId};
use relay_protocol::limits::UNUSED_ATTACHMENT_MS;
use relay_protocol::permission::{
    AskPermission, CancelPermission, CreateRun, ExecutionState, FinishPermission,
    ResolvePermission, StartPermission, args_hash,
};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::problem::ErrorCode;
use relay_protocol::selector::Selector;
use relay_protocol::status::AgentStatus;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;
use tempfile::TempDir;

use crate::backstage::{Backstage, accepted, deferred, delivered, failed, session_id, status};
use crate::support::{
    Dump, Past, START, SeededRandom, SqliteWorld, World, group, inline_text, named, poll, target,
};
use crate::vfs::{Failure, FaultVfs};

/// More writes than any of the changes makes.
const MOST_WRITES: u64 = 500;

#[tokio::test]
async fn a_failing_disk_leaves_everything_as_it_was() {
    let template = Template::build().await;
    let mut failures = 0;
    for failure in [Failure::Io, Failure::DiskFull] {
        for change in CHANGES {
            failures += every_call_fails(&template, change, failure).await;
        }
    }
    assert!(failures > 500, "{failures} calls failed");
}

/// Fails each write, sync and truncate of a change in turn, until it gets through.
async fn every_call_fails(template: &Template, change: &Change, failure: Failure) -> u64 {
    let vfs = FaultVfs::register();
    let scene = template
        .open(|options| options.vfs = Some(vfs.name().to_owned()))
        .await;
    let mut follower = scene.follower().await;
    for n in 1..MOST_WRITES {
        let before = scene.state(n).await;
        vfs.fail_nth(n, failure);
        let result = (change.run)(&scene).await;
        vfs.heal();
        let Err(error) = result else {
            scene.world.check_log().await;
            scene.is_on_disk().await;
            return n - 1;
        };
        let what = format!("{}, call {n}, {failure:?}: {error}", change.name);
        check_retryable(&error, &what);
        assert!(scene.state(n).await == before, "{what}: something changed");
        assert_eq!(scene.sqlite.check_indexes().await, Ok(Vec::new()), "{what}");
        assert_eq!(
            scene.reopened().await.head().await,
            scene.world.head().await,
            "{what}"
        );
        scene.was_told(&mut follower).await;
        // What the writer remembers is what the disk holds, so the next change fits onto it.
        scene.aside("goes on").await.unwrap();
        scene.was_told(&mut follower).await;
    }
    panic!("{} never got through", change.name);
}

/// Erasing is a change and a scrub of the files. Whichever of them fails, the same call again does what is left.
#[tokio::test]
async fn an_erasure_that_fails_half_way_is_finished_by_the_next_one() {
    let template = Template::build().await;
    let vfs = FaultVfs::register();
    let options = |options: &mut SqliteOptions| options.vfs = Some(vfs.name().to_owned());
    let scene = template.open(options).await;
    let is_in_file = |text: &str| {
        let bytes = std::fs::read(scene.sqlite.path()).unwrap();
        bytes
            .windows(text.len())
            .any(|found| found == text.as_bytes())
    };
    let mut not_scrubbed = 0;
    for n in 1..MOST_WRITES {
        vfs.fail_nth(n, Failure::Io);
        let seqs = vec![scene.ids.posted_at];
        let erased = scene
            .world
            .engine
            .audit_erase(&scene.world.key, seqs, "leaked");
        let erased = erased.await;
        vfs.heal();
        scene.world.check_log().await;
        let Err(error) = erased else {
            assert!(not_scrubbed > 10, "{not_scrubbed} scrubs failed");
            assert!(!is_in_file("hello @bob"));
            assert!(is_in_file("psst"));
            return;
        };
        check_retryable(&error, &format!("call {n}: {error}"));
        let is_left = matches!(error, Error::Storage(StorageError::NotScrubbed(_)));
        not_scrubbed += u64::from(is_left);
    }
    panic!("it never got through");
}

fn check_retryable(error: &Error, what: &str) {
    let expected = [ErrorCode::StorageUnavailable, ErrorCode::StorageFull];
    assert!(expected.contains(&error.code()), "{what}");
    assert!(error.problem().retryable, "{what}");
}

#[tokio::test]
async fn a_failing_row_harms_no_other_change_of_the_commit() {
    let template = Template::build().await;
    let mut failures = 0;
    for change in CHANGES {
        failures += every_row_fails(&template, change).await;
    }
    assert!(failures > 100, "{failures} rows failed");
}

/// Fails each row write of a change in turn, in one commit with a change before and one after it.
async fn every_row_fails(template: &Template, change: &Change) -> u64 {
    let gate = Arc::new(Gate::default());
    let hook = gate.clone();
    let scene = template
        .open(|options| options.on_writer = Some(Arc::new(move |db| guard_rows(db, &hook))))
        .await;
    let (of_gate, before_victim) = scene.writes_of_gate_and_neighbour(&gate).await;
    let mut follower = scene.follower().await;
    let quiet = scene.quiet_tables();
    let mut before = scene.world.dump().await;
    for n in 1..MOST_WRITES {
        let what = format!("{}, row {n}", change.name);
        let (victim, right) =
            in_one_commit(&scene, &gate, change, (of_gate, before_victim + n)).await;
        let Err(error) = victim else {
            // The change has no Nth row; its neighbour's first one failed instead.
            assert!(right.is_err(), "{what}");
            scene.aside("right").await.unwrap();
            scene.world.check_log().await;
            scene.is_on_disk().await;
            return n - 1;
        };
        right.unwrap();
        check_retryable(&error, &what);
        let after = scene.world.dump().await;
        check_neighbours(&before, &after, &what);
        assert_eq!(scene.quiet_tables(), quiet, "{what}");
        assert_eq!(scene.sqlite.check_indexes().await, Ok(Vec::new()), "{what}");
        scene.was_told(&mut follower).await;
        let report = scene.world.engine.audit_verify(&scene.world.key).await;
        assert!(report.unwrap().is_intact(), "{what}");
        before = after;
    }
    panic!("{} never got through", change.name);
}

/// Runs a change between two neighbours in one commit, in which this row fails.
async fn in_one_commit(
    scene: &Scene,
    gate: &Gate,
    change: &Change,
    (of_gate, fail_at): (u64, u64),
) -> (Result<()>, Result<()>) {
    let commits = scene.sqlite.commits();
    gate.close();
    let mut first = pin!(scene.gate_change());
    assert!(poll(first.as_mut()).is_pending());
    gate.wait_until_reached();
    let mut left = pin!(scene.aside("left"));
    let mut victim = (change.run)(scene);
    let mut right = pin!(scene.aside("right"));
    assert!(poll(left.as_mut()).is_pending());
    assert!(poll(victim.as_mut()).is_pending(), "{}", change.name);
    assert!(poll(right.as_mut()).is_pending());
    gate.open_and_fail_at(fail_at, of_gate);
    first.await.unwrap();
    left.await.unwrap();
    let results = (victim.await, right.await);
    // One for the gate, one for the three.
    assert_eq!(scene.sqlite.commits(), commits + 2, "{}", change.name);
    results
}

/// Checks that the neighbours' changes are there, and no other.
fn check_neighbours(before: &Dump, after: &Dump, what: &str) {
    let (old, new) = after.events.split_at(before.events.len());
    assert_eq!(old, before.events, "{what}");
    let types: Vec<_> = new
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    let aside = ["message.created", "delivery.created"];
    let expected = [&["workspace.updated"][..], &aside, &aside].concat();
    assert_eq!(types, expected, "{what}");
    assert_eq!(without_aside(after), without_aside(before), "{what}");
}

/// The state without what the neighbours change.
fn without_aside(dump: &Dump) -> BTreeMap<&str, &serde_json::Value> {
    let state = dump
        .state
        .iter()
        .map(|(name, value)| (name.as_str(), value));
    let others = state.filter(|(name, _)| !["#aside", "@sam", "@sue"].contains(name));
    others.collect()
}

/// Stops the writer at a row, and makes a later one fail, also when the changes are made once more.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    rows: u64,
    fail_at: Option<u64>,
    /// Rows before the commit in which one fails: from there it is counted again.
    before_commit: u64,
    closed: bool,
    reached: bool,
}

impl Gate {
    fn close(&self) {
        *self.state.lock().unwrap() = GateState {
            closed: true,
            ..GateState::default()
        };
    }

    fn wait_until_reached(&self) {
        let state = self.state.lock().unwrap();
        drop(
            self.changed
                .wait_while(state, |state| !state.reached)
                .unwrap(),
        );
    }

    /// Rows are counted from the one that was stopped, which is number 1.
    fn open_and_fail_at(&self, row: u64, before_commit: u64) {
        let mut state = self.state.lock().unwrap();
        state.closed = false;
        state.fail_at = Some(row);
        state.before_commit = before_commit;
        self.changed.notify_all();
    }

    /// Called before every row that is written.
    fn row(&self) -> rusqlite::Result<bool> {
        let mut state = self.state.lock().unwrap();
        state.rows += 1;
        if state.closed {
            state.reached = true;
            self.changed.notify_all();
            state = self
                .changed
                .wait_while(state, |state| state.closed)
                .unwrap();
        }
        if state.fail_at == Some(state.rows) {
            state.rows = state.before_commit;
            return Err(rusqlite::Error::UserFunctionError("this row fails".into()));
        }
        Ok(true)
    }
}

/// Puts the gate before every row that this connection writes.
fn guard_rows(db: &Connection, gate: &Arc<Gate>) -> rusqlite::Result<()> {
    let gate = gate.clone();
    let flags = FunctionFlags::SQLITE_UTF8;
    db.create_scalar_function("pass_gate", 0, flags, move |_| gate.row())?;
    for table in tables(db)? {
        for verb in ["INSERT", "UPDATE", "DELETE"] {
            db.execute_batch(&format!(
                "CREATE TEMP TRIGGER before_{verb}_{table} BEFORE {verb} ON main.{table}
                 BEGIN SELECT pass_gate(); END"
            ))?;
        }
    }
    Ok(())
}

fn tables(db: &Connection) -> rusqlite::Result<Vec<String>> {
    db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// A database in which every change has something to change, made once and copied for each scene.
struct Template {
    directory: TempDir,
    past: Past,
    ids: Ids,
}

#[derive(Clone, Copy)]
struct Ids {
    post: MessageId,
    dm: MessageId,
    upload: AttachmentId,
    posted_at: u64,
    /// A delivery to bob that waits.
    waiting: DeliveryId,
    /// One that his session has accepted.
    held: DeliveryId,
    /// One that has failed.
    failed: DeliveryId,
    /// A request of alice's that waits for ana.
    asked: PermissionId,
    /// One that was allowed.
    allowed: PermissionId,
    /// The grant that came of it.
    grant: GrantId,
}

impl Template {
    async fn build() -> Self {
        let world = SqliteWorld::new().await;
        world.lift_pace().await;
        let [alice, bob, carol, _dave] = world.agents(["alice", "bob", "carol", "dave"]).await;
        let [sam, _sue] = world.agents(["sam", "sue"]).await;
        world.channel(&alice, "dev", &["bob", "carol"]).await;
        world.channel(&sam, "aside", &["sue"]).await;
        world.clock.advance(1_000);
        let garbage = upload("nobody needs this");
        world.engine.upload(&alice, garbage).await.unwrap();
        world.clock.advance(UNUSED_ATTACHMENT_MS + 1);
        let stored = world.engine.upload(&alice, upload("later")).await.unwrap();
        let post = world.send(&alice, "#dev", "hello @bob").await;
        let posted_at = world.head().await.seq - 2;
        world.reply(&bob, post.message_id, "yes").await;
        world
            .engine
            .react(&carol, post.message_id, ":wave:")
            .await
            .unwrap();
        let dm = world.send(&alice, "@bob", "psst").await;
        world.send(&world.key, "@bob", "notice").await;
        let [held, failed] = with_a_session(&world, &alice).await;
        let (asked, allowed, grant) = with_questions(&world, &alice).await;
        let ids = Ids {
            asked,
            allowed,
            grant,
            post: post.message_id,
            dm: dm.message_id,
            upload: stored.attachment_id,
            posted_at,
            waiting: dm.deliveries[0].delivery_id,
            held,
            failed,
        };
        let past = world.past();
        let directory = TempDir::new().unwrap();
        let copy = directory.path().join("relay.db");
        world
            .reopened(|closed| assert!(std::fs::copy(closed, copy).unwrap() > 0))
            .await;
        Self {
            directory,
            past,
            ids,
        }
    }

    /// A copy to play with.
    async fn open(&self, change: impl FnOnce(&mut SqliteOptions)) -> Scene {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("relay.db");
        std::fs::copy(self.directory.path().join("relay.db"), &path).unwrap();
        let mut options = SqliteOptions::new(path);
        change(&mut options);
        let sqlite = Arc::new(SqliteStore::open(&options, SeededRandom::new(5)).unwrap());
        let world = World::existing(sqlite.clone(), &self.past).await;
        let behind = Backstage::new(sqlite.clone(), world.clock.clone(), &world.key);
        let session = sqlite.session(behind.viewer(), session_id(BOBS));
        Scene {
            session: session.await.unwrap(),
            behind,
            alice: world.caller("alice"),
            bob: world.caller("bob"),
            dave: world.caller("dave"),
            sam: world.caller("sam"),
            ids: self.ids,
            past: self.past.clone(),
            world,
            sqlite,
            directory,
        }
    }
}

/// Gives bob a session, a delivery that it holds and one that has failed.
async fn with_a_session(world: &SqliteWorld, alice: &Caller) -> [DeliveryId; 2] {
    let behind = world.behind();
    let session = behind.attach("bob", BOBS).await;
    let mut ids = Vec::new();
    for receipt in [|id| accepted(id), |id| failed(id, false)] {
        let sent = world.send(alice, "@bob", "take this").await;
        let id = sent.deliveries[0].delivery_id;
        behind.answer(&session, id, 1, receipt(id)).await.unwrap();
        ids.push(id);
    }
    ids.try_into().unwrap()
}

/// The number of bob's session.
const BOBS: u8 = 1;

/// A request that waits, and one that was allowed for good.
async fn with_questions(
    world: &SqliteWorld,
    alice: &Caller,
) -> (PermissionId, PermissionId, GrantId) {
    world.person("ana").await;
    let ask = |command| world.engine.ask_permission(alice, None, bash(command));
    let allowed = ask("git status").await.unwrap();
    let asked = ask("rm x").await.unwrap();
    let body = ResolvePermission::approve_always();
    let decided = world
        .engine
        .resolve_permission(&world.key, allowed.permission_id, body);
    let grant = decided.await.unwrap().outcome.unwrap().grant_id.unwrap();
    (asked.permission_id, allowed.permission_id, grant)
}

fn bash(command: &str) -> AskPermission {
    let params = serde_json::json!({ "command": command });
    AskPermission {
        tool: "bash".to_owned(),
        params: params.as_object().unwrap().clone(),
        ..AskPermission::default()
    }
}

fn upload(text: &str) -> Upload {
    Upload {
        media_type: "text/plain".to_owned(),
        name: None,
        data: text.as_bytes().to_vec(),
    }
}

/// One copy, opened.
struct Scene {
    world: World,
    behind: Backstage,
    /// Bob's session.
    session: Arc<SessionRow>,
    sqlite: Arc<SqliteStore>,
    alice: Caller,
    bob: Caller,
    dave: Caller,
    sam: Caller,
    ids: Ids,
    past: Past,
    directory: TempDir,
}

type Rows = BTreeMap<String, Vec<Vec<Value>>>;

impl Scene {
    /// A change that touches nothing the others do.
    async fn aside(&self, text: &str) -> Result<()> {
        let body = SendMessage::text(target("#aside"), text);
        self.world.engine.send(&self.sam, body).await.map(drop)
    }

    /// The change at which the writer is stopped.
    async fn gate_change(&self) -> Result<()> {
        let engine = &self.world.engine;
        engine.rename_workspace(&self.world.key, "gate").await
    }

    async fn follower(&self) -> Subscription {
        let World { engine, key, .. } = &self.world;
        engine.subscribe(key, Selector::all(), None).await.unwrap()
    }

    /// Checks that a follower hears what is stored and nothing else.
    async fn was_told(&self, follower: &mut Subscription) {
        for expected in self.world.events_after(follower.after()).await {
            let Ok(Followed::Event(found)) = follower.next().await else {
                panic!("expected {expected:?}")
            };
            assert_eq!(found.event, expected);
        }
        assert!(poll(pin!(follower.next())).is_pending());
    }

    /// How many rows the gate's change writes, and how many it and a neighbour's do.
    async fn writes_of_gate_and_neighbour(&self, gate: &Gate) -> (u64, u64) {
        *gate.state.lock().unwrap() = GateState::default();
        self.gate_change().await.unwrap();
        let of_gate = gate.state.lock().unwrap().rows;
        self.aside("counted").await.unwrap();
        (of_gate, gate.state.lock().unwrap().rows)
    }

    /// Everything: all tables, and for the first failures also what the engine makes of them.
    async fn state(&self, failure: u64) -> (Rows, Option<Dump>) {
        let dump = match failure {
            1 | 2 => Some(self.world.dump().await),
            _ => None,
        };
        (self.rows(|_| true), dump)
    }

    /// The tables that neither neighbour nor gate writes.
    fn quiet_tables(&self) -> (Rows, i64) {
        let busy = ["workspaces", "messages", "deliveries", "log", "room_new"];
        let rows = self.rows(|table| !busy.contains(&table));
        let workspaces = self
            .raw()
            .query_row("SELECT count(*) FROM workspaces", [], |row| row.get(0));
        (rows, workspaces.unwrap())
    }

    fn raw(&self) -> Connection {
        Connection::open(self.sqlite.path()).unwrap()
    }

    fn rows(&self, wanted: impl Fn(&str) -> bool) -> Rows {
        let db = self.raw();
        let names = tables(&db).unwrap();
        let wanted = names.into_iter().filter(|name| wanted(name));
        wanted
            .map(|table| {
                let mut statement = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
                let columns = statement.column_count();
                let rows = statement
                    .query_map([], |row| (0..columns).map(|at| row.get(at)).collect())
                    .unwrap();
                let rows = rows.collect::<rusqlite::Result<_>>().unwrap();
                (table, rows)
            })
            .collect()
    }

    /// What a restart would find now: a copy of the files, opened anew.
    async fn reopened(&self) -> World {
        let directory = TempDir::new().unwrap();
        copy_files(self.directory.path(), directory.path());
        let options = SqliteOptions::new(directory.path().join("relay.db"));
        let sqlite = Arc::new(SqliteStore::open(&options, SeededRandom::new(6)).unwrap());
        World::existing(sqlite, &self.past).await
    }

    async fn is_on_disk(&self) {
        let found = self.reopened().await.dump().await;
        let expected = self.world.dump().await;
        assert_eq!((found.head, found.events), (expected.head, expected.events));
    }
}

fn copy_files(from: &Path, to: &Path) {
    for name in ["relay.db", "relay.db-wal"] {
        if from.join(name).exists() {
            std::fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

/// One kind of write.
struct Change {
    name: &'static str,
    run: for<'s> fn(&'s Scene) -> Running<'s>,
}

type Running<'s> = Pin<Box<dyn Future<Output = Result<()>> + 's>>;

macro_rules! changes {
    ($($name:literal: |$scene:ident| $call:expr;)*) => {
        &[$(Change {
            name: $name,
            run: |$scene| Box::pin(async move { $call.await.map(drop) }),
        }),*]
    };
}

/// Every kind of write there is.
const CHANGES: &[Change] = changes! {
    "create workspace": |s| s.world.engine.create_workspace(&Caller::process_owner(), "other");
    "rename workspace": |s| s.world.engine.rename_workspace(&s.world.key, "renamed");
    "update policy": |s| s.world.engine.update_policy(&s.world.key, PolicyPatch {
        window: Some(5),
        ..PolicyPatch::default()
    });
    "set admin key": |s| s.world.engine.create_admin_key(&Caller::process_owner());
    "register": |s| s.world.engine.register_agent(&s.world.key, named("zoe"));
    "adopt": |s| s.world.engine.register_agent(&s.world.key, RegisterAgent {
        adopt: Some(true),
        metadata: Some(serde_json::Map::new()),
        ..named("bob")
    });
    "update agent": |s| s.world.engine.update_agent(&s.bob, "bob", serde_json::Map::new());
    "rotate token": |s| s.world.engine.rotate_token(&s.bob, "bob");
    "release": |s| s.world.engine.release_agent(&s.world.key, "bob", Some("done"));
    "create channel": |s| s.world.engine.create_channel(&s.dave, CreateChannel {
        name: "new".to_owned(),
        topic: Some("news".to_owned()),
    });
    "update channel": |s| s.world.engine.update_channel(&s.alice, "dev", UpdateChannel {
        topic: Some("topic".to_owned()),
        archived: Some(true),
    });
    "join": |s| s.world.engine.join_channel(&s.dave, "dev");
    "leave": |s| s.world.engine.leave_channel(&s.bob, "dev");
    "invite": |s| async {
        let agents = ["dave".to_owned(), "sam".to_owned()];
        s.world.engine.invite(&s.alice, "dev", &agents).await
    };
    "post": |s| s.world.engine.send(&s.alice, SendMessage {
        attachments: Some(vec![inline_text("content")]),
        idempotency_key: Some("key".to_owned()),
        ..SendMessage::text(target("#dev"), "with all there is, @carol")
    });
    "post of an upload": |s| s.world.engine.send(&s.alice, SendMessage {
        attachments: Some(vec![relay_protocol::api::messages::NewAttachment {
            attachment_id: Some(s.ids.upload),
            kind: None,
            media_type: None,
            name: None,
            data: None,
        }]),
        ..SendMessage::text(target("#dev"), "look")
    });
    "first direct message": |s| s.world.try_send(&s.bob, "@dave", "hello");
    "next direct message": |s| s.world.try_send(&s.bob, "@alice", "again");
    "first group message": |s| s.world.engine.send(
        &s.bob,
        SendMessage::text(group(&["alice", "dave"]), "hello"),
    );
    "first notice": |s| s.world.try_send(&s.world.key, "@dave", "hello");
    "reply": |s| s.world.engine.reply(&s.bob, s.ids.post, ReplyMessage::text("no"));
    "edit": |s| s.world.engine.edit_message(&s.alice, s.ids.post, "hello @carol".to_owned());
    "react": |s| s.world.engine.react(&s.bob, s.ids.post, ":eyes:");
    "unreact": |s| async {
        s.world.engine.unreact(&s.world.caller("carol"), s.ids.post, ":wave:").await
    };
    "mark read": |s| s.world.engine.mark_read(&s.bob, s.ids.dm);
    // Of what reading an inbox does, the part that changes something.
    "read in several places": |s| s.behind.read(s.session.agent, vec![s.ids.post, s.ids.dm]);
    "begin run": |s| s.sqlite.begin_run();
    "attach": |s| s.sqlite.attach_session(s.behind.new_session("bob", 2));
    "attach again": |s| s.behind.resume("bob", BOBS);
    "fork": |s| s.behind.fork(&s.session, 3, Some("twin"));
    "pause": |s| s.behind.turn(&s.session, SessionTurn::Paused);
    "end a session": |s| s.behind.turn(&s.session, SessionTurn::Failed);
    "take back": |s| s.sqlite.take_back(s.session.no, s.behind.now(), 0);
    "report": |s| s.behind.report(&s.session, 1, vec![
        status(AgentStatus::Active),
        ReportKind::Receipt {
            delivery: s.ids.held,
            offer: None,
            receipt: delivered(s.ids.held),
        },
        status(AgentStatus::Failed),
    ]);
    "accept": |s| s.behind.answer(&s.session, s.ids.waiting, 2, accepted(s.ids.waiting));
    "deliver": |s| s.behind.answer(&s.session, s.ids.waiting, 2, delivered(s.ids.waiting));
    "defer": |s| s.behind.answer(
        &s.session,
        s.ids.waiting,
        2,
        deferred(s.ids.waiting, s.behind.now().plus_millis(5_000)),
    );
    "fail": |s| s.behind.answer(&s.session, s.ids.waiting, 2, failed(s.ids.waiting, true));
    "retry": |s| s.behind.take(s.ids.failed, Step::Retried);
    "cancel": |s| s.behind.cancel(s.ids.waiting);
    "late receipt": |s| s.behind.say(&s.session, s.ids.failed, delivered(s.ids.failed));
    "flush": |s| s.sqlite.flush(s.behind.flushing(&s.bob));
    "deliver once more": |s| s.sqlite.deliver(NewDelivery {
        viewer: s.behind.viewer(),
        message: s.ids.dm,
        to: DeliverTo::Agent("dave".to_owned()),
        id: None,
        mode: None,
        allow_downgrade: false,
        priority: Priority::Normal,
        reason: None,
        deadline: None,
        metadata: None,
        at: s.behind.now(),
        idempotency: Some(("key".to_owned(), [1; 32])),
    });
    "ask": |s| s.world.engine.ask_permission(&s.alice, None, bash("make"));
    "ask what is granted": |s| s.world.engine.ask_permission(&s.alice, None, bash("git status"));
    "allow always": |s| s.world.engine.resolve_permission(
        &s.world.key,
        s.ids.asked,
        ResolvePermission::approve_always(),
    );
    "deny with guidance": |s| s.world.engine.resolve_permission(&s.world.key, s.ids.asked, ResolvePermission {
        guidance: Some("use trash".to_owned()),
        ..ResolvePermission::deny("no")
    });
    "withdraw": |s| s.world.engine.cancel_permission(&s.alice, s.ids.asked, CancelPermission::default());
    "start": |s| s.world.engine.start_permission(&s.alice, s.ids.allowed, StartPermission {
        args_hash: args_hash("bash", &bash("git status").params),
        start_id: None,
    });
    "never start": |s| s.world.engine.finish_permission(&s.alice, s.ids.allowed, FinishPermission {
        state: ExecutionState::Cancelled,
        error: None,
    });
    "revoke grant": |s| s.world.engine.revoke_grant(&s.world.key, s.ids.grant);
    "begin run of rules": |s| s.world.engine.create_run(&s.alice, None, CreateRun::default());
    "upload": |s| s.world.engine.upload(&s.bob, upload("more"));
    "collect garbage": |s| s.world.engine.collect_garbage(&Caller::process_owner());
    "erase": |s| s.sqlite.erase(Erasure {
        workspace_no: s.behind.viewer().workspace_no,
        seqs: vec![s.ids.posted_at],
        reason: "leaked".to_owned(),
        at: s.behind.now(),
    });
    "retain": |s| s.world.engine.retain(&s.world.key, KeepSince {
        bulky: None,
        all: Some(START.plus_millis(1)),
    });
};
