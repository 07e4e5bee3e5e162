//! The world that the engine's tests run in: a store in a directory of its own, a clock that stands
//! still until it is moved, seeded randomness, and short names for what every test does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use relay_core::environment::{Clock, Environment, Random};
use relay_core::store::sqlite::{SqliteOptions, SqliteStore};
use relay_core::store::{ChainHead, Store};
use relay_core::{Caller, Engine, GrantQuery, PageQuery, PermissionQuery, Result};
use relay_protocol::agent::AgentType;
use relay_protocol::api::Page;
use relay_protocol::api::messages::{
    Inbox, MessageSent, MessageView, NewAttachment, ReplyMessage, SendMessage, SendTarget,
};
use relay_protocol::api::workspace::{CreateChannel, RegisterAgent};
use relay_protocol::event::LoggedEvent;
use relay_protocol::ids::{MessageId, WorkspaceId};
use relay_protocol::message::AttachmentKind;
use relay_protocol::policy::{PolicyPatch, RunawayPolicy};
use relay_protocol::selector::Selector;
use relay_protocol::time::Timestamp;
use relay_protocol::wire;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backstage::Backstage;
use crate::vfs::SplitMix64;

/// When every test begins: 2025-11-15.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_763_200_000_000);

/// Clocks that only the test moves: the wall clock in either direction, the other one forward.
pub(crate) struct TestClock {
    wall: AtomicI64,
    mono: AtomicU64,
}

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            wall: AtomicI64::new(START.as_millis()),
            mono: AtomicU64::new(0),
        })
    }

    /// Sets the wall clock, as an administrator does; no time passes.
    pub(crate) fn set(&self, to: Timestamp) {
        self.wall.store(to.as_millis(), Ordering::SeqCst);
    }

    /// Lets time pass; back in time it is the wall clock alone that goes.
    pub(crate) fn advance(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
        let passed = u64::try_from(millis).unwrap_or(0);
        self.mono.fetch_add(passed, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.mono.load(Ordering::SeqCst))
    }
}

/// Randomness that is the same in every run.
pub(crate) struct SeededRandom(Mutex<SplitMix64>);

impl SeededRandom {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(SplitMix64::new(seed))))
    }
}

impl Random for SeededRandom {
    fn fill(&self, buffer: &mut [u8]) {
        let mut generator = self.0.lock().unwrap();
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&generator.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// An engine with one workspace, and the callers that were registered in it.
pub(crate) struct World {
    pub(crate) clock: Arc<TestClock>,
    pub(crate) engine: Engine,
    pub(crate) key: Caller,
    pub(crate) workspace_id: WorkspaceId,
    callers: Mutex<BTreeMap<String, Caller>>,
    tokens: Mutex<BTreeMap<String, String>>,
}

impl World {
    /// A workspace called "lab" in any store.
    pub(crate) async fn over(store: Arc<dyn Store>, clock: Arc<TestClock>) -> Self {
        let engine = engine(store, &clock, 1);
        let created = engine
            .create_workspace(&Caller::process_owner(), "lab")
            .await
            .unwrap();
        let key = engine.authenticate(&created.workspace_key).await.unwrap();
        Self {
            clock,
            engine,
            key,
            workspace_id: created.workspace_id,
            callers: Mutex::default(),
            tokens: Mutex::default(),
        }
    }

    /// A workspace that a store has already, with those of its agents whose tokens still work.
    pub(crate) async fn existing(store: Arc<dyn Store>, past: &Past) -> Self {
        let clock = TestClock::new();
        clock.set(past.now);
        let engine = engine(store, &clock, 4);
        let owner = Caller::process_owner();
        let opened = engine.open_workspace(&owner, past.workspace_id).await;
        let mut callers = BTreeMap::new();
        for (name, token) in &past.tokens {
            if let Ok(caller) = engine.authenticate(token).await {
                callers.insert(name.clone(), caller);
            }
        }
        Self {
            clock,
            engine,
            key: opened.unwrap(),
            workspace_id: past.workspace_id,
            callers: Mutex::new(callers),
            tokens: Mutex::new(past.tokens.clone()),
        }
    }

    /// Lets everybody send as fast as they like.
    pub(crate) async fn lift_pace(&self) {
        let patch = PolicyPatch {
            sender_per_minute: Some(1_000_000),
            runaway: Some(RunawayPolicy {
                per_minute: 100_000,
                depth: 10_000,
            }),
            ..PolicyPatch::default()
        };
        self.engine.update_policy(&self.key, patch).await.unwrap();
    }

    /// What a later world needs to go on from here.
    pub(crate) fn past(&self) -> Past {
        Past {
            workspace_id: self.workspace_id,
            tokens: self.tokens.lock().unwrap().clone(),
            now: self.clock.now(),
        }
    }

    /// One of the registered agents.
    pub(crate) fn caller(&self, name: &str) -> Caller {
        self.callers.lock().unwrap()[name].clone()
    }

    /// Registers an agent and acts as it.
    pub(crate) async fn agent(&self, name: &str) -> Caller {
        self.enter(named(name)).await
    }

    /// Registers a person and acts as them.
    pub(crate) async fn person(&self, name: &str) -> Caller {
        let person = RegisterAgent {
            agent_type: Some(AgentType::Human),
            ..named(name)
        };
        self.enter(person).await
    }

    async fn enter(&self, body: RegisterAgent) -> Caller {
        let name = body.name.clone();
        let registered = self.engine.register_agent(&self.key, body).await.unwrap();
        self.comes_in(&name, registered.token).await
    }

    /// Acts as whoever has this token.
    pub(crate) async fn comes_in(&self, name: &str, token: String) -> Caller {
        let caller = self.engine.authenticate(&token).await.unwrap();
        self.know(name, &caller);
        let mut tokens = self.tokens.lock().unwrap();
        tokens.insert(name.to_owned(), token);
        caller
    }

    /// Registers several agents.
    pub(crate) async fn agents<const N: usize>(&self, names: [&str; N]) -> [Caller; N] {
        let mut callers = Vec::with_capacity(N);
        for name in names {
            callers.push(self.agent(name).await);
        }
        callers.try_into().unwrap()
    }

    /// Takes a caller into the dump.
    pub(crate) fn know(&self, name: &str, caller: &Caller) {
        self.callers
            .lock()
            .unwrap()
            .insert(name.to_owned(), caller.clone());
    }

    /// Creates a channel and brings others into it.
    pub(crate) async fn channel(&self, creator: &Caller, name: &str, others: &[&str]) {
        let body = CreateChannel {
            name: name.to_owned(),
            topic: None,
        };
        self.engine.create_channel(creator, body).await.unwrap();
        let others: Vec<String> = others.iter().map(|&other| other.to_owned()).collect();
        self.engine.invite(creator, name, &others).await.unwrap();
    }

    /// Sends plain text to `#channel` or `@agent`.
    pub(crate) async fn send(&self, from: &Caller, to: &str, text: &str) -> MessageSent {
        self.try_send(from, to, text).await.unwrap()
    }

    pub(crate) async fn try_send(
        &self,
        from: &Caller,
        to: &str,
        text: &str,
    ) -> Result<MessageSent> {
        self.engine
            .send(from, SendMessage::text(target(to), text))
            .await
    }

    pub(crate) async fn reply(&self, from: &Caller, to: MessageId, text: &str) -> MessageSent {
        self.engine
            .reply(from, to, ReplyMessage::text(text))
            .await
            .unwrap()
    }

    pub(crate) async fn inbox(&self, caller: &Caller) -> Inbox {
        self.engine.inbox(caller, all()).await.unwrap()
    }

    pub(crate) async fn head(&self) -> ChainHead {
        self.engine.audit_head(&self.key).await.unwrap()
    }

    /// Every event after a sequence number, read page by page.
    pub(crate) async fn events_after(&self, mut after: u64) -> Vec<LoggedEvent> {
        let mut found = Vec::new();
        loop {
            let page = self
                .engine
                .events(&self.key, &Selector::all(), after, Some(200))
                .await
                .unwrap();
            found.extend(page.events.iter().map(|event| event.event.clone()));
            after = page.after;
            if !page.more {
                return found;
            }
        }
    }

    pub(crate) async fn types_after(&self, after: u64) -> Vec<String> {
        let events = self.events_after(after).await;
        events.into_iter().map(|event| event.event_type).collect()
    }

    /// What must hold of every log: no gap, no id twice, JSON that reads back, an intact chain.
    pub(crate) async fn check_log(&self) {
        let events = self.events_after(0).await;
        let first = events.first().map_or(1, |event| event.seq);
        let mut ids = std::collections::HashSet::new();
        for (seq, event) in (first..).zip(&events) {
            assert_eq!(event.seq, seq, "the sequence has no gap");
            assert!(ids.insert(event.id), "{} has an id of its own", event.seq);
            assert_eq!(event.workspace_id, self.workspace_id);
            let json = event.to_json();
            let read: LoggedEvent = wire::decode(json.get().as_bytes()).unwrap();
            assert_eq!(&read, event, "{json}");
        }
        let report = self.engine.audit_verify(&self.key).await.unwrap();
        assert!(report.is_intact(), "{report:?}");
        let head = self.head().await;
        assert_eq!((report.to_seq, &report.head), (head.seq, &head.hash));
        if let Some(last) = events.last() {
            assert_eq!(last.seq, head.seq);
        }
    }

    /// Everything that can be read through the engine.
    pub(crate) async fn dump(&self) -> Dump {
        let events = self.events_after(0).await;
        let events = events.iter().map(|event| json!(event)).collect();
        let head = json!(self.head().await);
        let mut state = BTreeMap::new();
        let (engine, key) = (&self.engine, &self.key);
        state.insert("policy".to_owned(), json!(engine.policy(key).unwrap()));
        let agents = engine.agents(key, all()).await.unwrap();
        state.insert("agents".to_owned(), json!(agents));
        let permissions = engine.permissions(key, PermissionQuery::default(), all());
        let grants = GrantQuery {
            ended: true,
            ..GrantQuery::default()
        };
        let grants = engine.grants(key, grants, all()).await.unwrap();
        state.insert(
            "permissions".to_owned(),
            json!([permissions.await.unwrap(), grants]),
        );
        for channel in engine.channels(key, all()).await.unwrap().items {
            let name = channel.name.clone();
            let members = engine.channel_members(key, &name, all()).await.unwrap();
            let posts = engine.channel_messages(key, &name, all()).await.unwrap();
            let messages = self.messages_in_full(posts).await;
            state.insert(format!("#{name}"), json!([channel, members, messages]));
        }
        let callers = self.callers.lock().unwrap().clone();
        for (name, caller) in callers {
            let inbox = self.inbox(&caller).await;
            let conversations = engine.conversations(&caller, all()).await.unwrap().items;
            let mut talk = Vec::new();
            for conversation in conversations {
                let id = conversation.conversation_id;
                let page = engine.conversation_messages(&caller, id, all()).await;
                let messages = self.messages_in_full(page.unwrap()).await;
                talk.push(json!([conversation, messages]));
            }
            state.insert(format!("@{name}"), json!([inbox, talk]));
        }
        Dump {
            head,
            events,
            state,
        }
    }

    /// Messages with their threads, deliveries, readers and content.
    async fn messages_in_full(&self, page: Page<MessageView>) -> Vec<Value> {
        assert_eq!(page.next_cursor, None, "a dump is of small worlds");
        let mut found = Vec::new();
        for root in page.items {
            let id = root.message.id;
            let thread = self.engine.thread(&self.key, id, all()).await.unwrap();
            for view in thread.items {
                let id = view.message.id;
                let deliveries = self.engine.deliveries(&self.key, id).await.unwrap();
                let readers = self.engine.readers(&self.key, id).await.unwrap();
                let mut contents = Vec::new();
                for attachment in &view.message.attachments {
                    let id = attachment.attachment_id.unwrap();
                    let content = self.engine.attachment(&self.key, id).await.unwrap();
                    contents.push(content.data);
                }
                found.push(json!([view, deliveries, readers, contents]));
            }
        }
        found
    }
}

fn engine(store: Arc<dyn Store>, clock: &Arc<TestClock>, seed: u64) -> Engine {
    let environment = Environment {
        clock: clock.clone(),
        random: SeededRandom::new(seed),
    };
    Engine::new(store, environment)
}

/// What is known of a world beside its store.
#[derive(Clone)]
pub(crate) struct Past {
    workspace_id: WorkspaceId,
    tokens: BTreeMap<String, String>,
    now: Timestamp,
}

/// Everything that can be read through the engine, for comparing before and after.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dump {
    pub(crate) head: Value,
    pub(crate) events: Vec<Value>,
    pub(crate) state: BTreeMap<String, Value>,
}

/// A world in a SQLite file.
pub(crate) struct SqliteWorld {
    pub(crate) world: World,
    pub(crate) sqlite: Arc<SqliteStore>,
    directory: TempDir,
}

impl SqliteWorld {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// A world whose database is opened in a way of its own.
    pub(crate) async fn with(change: impl FnOnce(&mut SqliteOptions)) -> Self {
        let directory = TempDir::new().unwrap();
        let mut options = SqliteOptions::new(directory.path().join("relay.db"));
        change(&mut options);
        let sqlite = Arc::new(SqliteStore::open(&options, SeededRandom::new(2)).unwrap());
        let world = World::over(sqlite.clone(), TestClock::new()).await;
        Self {
            world,
            sqlite,
            directory,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The store as the delivery runner sees it.
    pub(crate) fn behind(&self) -> Backstage {
        Backstage::new(self.sqlite.clone(), self.clock.clone(), &self.key)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.sqlite.path().to_owned()
    }

    /// Closes the database, lets the test at the file, and opens it again.
    pub(crate) async fn reopened(self, between: impl FnOnce(&Path)) -> Self {
        let Self {
            world,
            sqlite,
            directory,
        } = self;
        let (path, past) = (sqlite.path().to_owned(), world.past());
        drop((world, sqlite));
        between(&path);
        let sqlite = SqliteStore::open(&SqliteOptions::new(path), SeededRandom::new(3)).unwrap();
        let sqlite = Arc::new(sqlite);
        let world = World::existing(sqlite.clone(), &past).await;
        Self {
            world,
            sqlite,
            directory,
        }
    }
}

impl std::ops::Deref for SqliteWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// The largest page.
pub(crate) fn all() -> PageQuery {
    page(200)
}

pub(crate) fn page(limit: u32) -> PageQuery {
    PageQuery {
        cursor: None,
        limit: Some(limit),
    }
}

pub(crate) fn page_after(cursor: &str) -> PageQuery {
    PageQuery {
        cursor: Some(cursor.to_owned()),
        limit: None,
    }
}

/// `#channel` or `@agent` as a target.
pub(crate) fn target(to: &str) -> SendTarget {
    to.parse().unwrap()
}

/// `@a @b` as a target.
pub(crate) fn group(names: &[&str]) -> SendTarget {
    SendTarget::Agents(names.iter().map(|&name| name.to_owned()).collect())
}

pub(crate) fn named(name: &str) -> RegisterAgent {
    RegisterAgent {
        name: name.to_owned(),
        agent_type: None,
        metadata: None,
        adopt: None,
    }
}

/// Text as content inside a send.
pub(crate) fn inline_text(text: &str) -> NewAttachment {
    use base64::Engine as _;
    NewAttachment {
        attachment_id: None,
        kind: Some(AttachmentKind::Text),
        media_type: Some("text/plain".to_owned()),
        name: Some("note.txt".to_owned()),
        data: Some(base64::engine::general_purpose::STANDARD.encode(text)),
    }
}

/// The texts of messages, in order.
pub(crate) fn texts(page: &Page<MessageView>) -> Vec<&str> {
    page.items
        .iter()
        .map(|view| view.message.text.as_str())
        .collect()
}

/// Names and states of a send's deliveries.
pub(crate) fn recipients(sent: &MessageSent) -> Vec<&str> {
    sent.deliveries
        .iter()
        .map(|delivery| delivery.agent.as_str())
        .collect()
}

/// Starts all of these before it waits for any, so that they share a few commits.
pub(crate) async fn together<T>(work: Vec<impl Future<Output = Result<T>>>) -> Vec<T> {
    let started = work.into_iter().map(|future| {
        let mut future = Box::pin(future);
        let early = poll(future.as_mut());
        (future, early)
    });
    let mut done = Vec::new();
    for (future, early) in started.collect::<Vec<_>>() {
        let result = match early {
            Poll::Ready(result) => result,
            Poll::Pending => future.await,
        };
        done.push(result.unwrap());
    }
    done
}

/// Asks a future once how it stands.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
