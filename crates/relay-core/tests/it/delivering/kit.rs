//! What the tests of delivery are written with: a [`Lab`] with agents in it, sessions that the test
//! plays by hand, and calls that wait for what the test does next.
//!
//! Nothing happens by itself and nothing waits: the store answers inside of each call, and the engine is
//! stepped whenever somebody looks.

mod kinds;
mod prompt;
mod session;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use relay_core::environment::Clock as _;
use relay_core::store::DeliveryFilter;
use relay_core::store::Store as _;
use relay_core::store::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine, PageQuery, Result};
use relay_protocol::api::messages::{MessageSent, SendMessage};
use relay_protocol::delivery::{DeliveryState, MessageReceipt};
use relay_protocol::delivery_record::{DeliverMessage, Delivery};
use relay_protocol::ids::{DeliveryId, MessageId, SessionId};
use relay_protocol::policy::PolicyPatch;
use relay_protocol::session::SessionSummary;
use relay_protocol::time::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) use self::kinds::{Kind, minimum};
pub(crate) use self::prompt::Prompt;
pub(super) use self::session::{Session, accepted, deferred, delivered, failed};
use crate::support::{SeededRandom, TestClock, World, poll, target};

/// Most looks at a call that needs nothing but the engine's own steps.
const LOOKS: usize = 100;

/// A workspace in which the test is everybody. When it is given up, its log and its indexes are checked.
pub(super) struct Lab {
    world: Option<World>,
    pub(super) store: Arc<Prompt>,
    directory: TempDir,
}

impl Lab {
    /// A lab with these agents, none of which has a session.
    pub(super) fn new<const N: usize>(names: [&str; N]) -> Self {
        let directory = in_memory();
        let store = open(&directory.path().join("relay.db"), 2);
        let world = now(World::over(store.clone(), TestClock::new()));
        now(world.engine.start()).unwrap();
        now(world.agents(names));
        Self {
            world: Some(world),
            store,
            directory,
        }
    }

    /// A lab with alice, who writes, and bob, who is written to.
    pub(super) fn pair() -> Self {
        Self::new(["alice", "bob"])
    }

    /// The process ends and another one begins.
    pub(super) fn restarted(self) -> Self {
        self.restarted_after(0)
    }

    /// The process is killed, without a chance to store anything, and another one begins.
    pub(super) fn killed(self) -> Self {
        self.store.die();
        self.restarted()
    }

    /// The process ends, and after a while another one begins.
    pub(super) fn restarted_after(mut self, millis: i64) -> Self {
        let past = self.world().past();
        self.world = None;
        let path = self.directory.path().join("relay.db");
        let directory = std::mem::replace(&mut self.directory, in_memory());
        // The old one has to be gone before its file can be opened again.
        drop(self);
        let store = open(&path, 3);
        let world = now(World::existing(store.clone(), &past));
        world.clock.advance(millis);
        now(world.engine.start()).unwrap();
        Self {
            world: Some(world),
            store,
            directory,
        }
    }

    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.world().engine
    }

    /// One of the agents, or the workspace's own `key`.
    pub(super) fn who(&self, name: &str) -> Caller {
        match name {
            "key" => self.world().key.clone(),
            name => self.world().caller(name),
        }
    }

    /// Brings something about that no session and no time has to help with.
    pub(super) fn drive<T>(&self, future: impl Future<Output = T>) -> T {
        self.begin(future).end()
    }

    /// Begins a call that may wait for what the test does next.
    pub(super) fn begin<'l, T>(&'l self, future: impl Future<Output = T> + 'l) -> Call<'l, T> {
        let mut call = Call {
            lab: self,
            future: Some(Box::pin(future)),
            result: None,
        };
        call.look();
        call
    }

    /// Lets the engine do what is due; says nothing.
    pub(super) fn step(&self) {
        self.engine().step();
    }

    pub(super) fn now(&self) -> Timestamp {
        self.world().clock.now()
    }

    /// A time from now.
    pub(super) fn later(&self, millis: i64) -> Timestamp {
        self.now().plus_millis(millis)
    }

    /// The clocks, for those who want to move them apart.
    pub(super) fn clock(&self) -> &TestClock {
        &self.world().clock
    }

    /// Lets time pass in the steps in which the engine wants to be woken.
    pub(super) fn pass(&self, millis: i64) {
        let mut left = millis;
        loop {
            let wait = self.engine().step();
            let wait = wait.map_or(left, |wait| i64::try_from(wait.as_millis()).unwrap());
            let stride = wait.clamp(1, left.max(1)).min(left);
            self.world().clock.advance(stride);
            left -= stride;
            if left == 0 {
                break self.step();
            }
        }
    }

    pub(super) fn policy(&self, patch: PolicyPatch) {
        let engine = self.engine();
        now(engine.update_policy(&self.who("key"), patch)).unwrap();
    }

    /// Sends something as somebody.
    pub(super) fn send(&self, from: &str, body: SendMessage) -> MessageSent {
        self.drive(self.engine().send(&self.who(from), body))
            .unwrap()
    }

    /// Alice sends something to one recipient; that delivery.
    pub(super) fn post(&self, body: SendMessage) -> DeliveryId {
        only(&self.send("alice", body).deliveries).delivery_id
    }

    /// Alice writes to bob.
    pub(super) fn say(&self, text: &str) -> DeliveryId {
        self.post(mail(text))
    }

    /// Alice writes to somebody.
    pub(super) fn say_to(&self, to: &str, text: &str) -> DeliveryId {
        self.post(SendMessage::text(target(to), text))
    }

    /// Alice writes to everybody.
    pub(super) fn post_all(&self, text: &str) -> MessageSent {
        self.send("alice", SendMessage::text(target("#general"), text))
    }

    /// The workspace writes so many messages to bob, numbered from 1; it has no pace to keep.
    pub(super) fn flood(&self, count: usize) -> Vec<DeliveryId> {
        let mut made = Vec::with_capacity(count);
        for no in 1..=count {
            let sent = self.send("key", mail(&no.to_string()));
            made.push(only(&sent.deliveries).delivery_id);
        }
        made
    }

    /// Registers another agent.
    pub(super) fn register(&self, name: &str) {
        now(self.world().agent(name));
    }

    /// Registers a person.
    pub(super) fn person(&self, name: &str) {
        now(self.world().person(name));
    }

    /// Gives an agent a token, and acts as it from then on.
    pub(super) fn let_in(&self, name: &str) {
        let key = self.who("key");
        let rotated = now(self.engine().rotate_token(&key, name)).unwrap();
        now(self.world().comes_in(name, rotated.token));
    }

    /// The workspace delivers a message of before to one session.
    pub(super) fn deliver_to(&self, message_id: MessageId, session: SessionId) -> DeliveryId {
        let body = DeliverMessage {
            message_id,
            agent: None,
            session_id: Some(session),
            context: None,
        };
        let receipt = self.drive(self.engine().deliver(&self.who("key"), body));
        let MessageReceipt::Accepted(held) = receipt.unwrap() else {
            panic!("it was to be held");
        };
        held.delivery_id
    }

    /// A session as others see it.
    pub(super) fn session(&self, id: SessionId) -> SessionSummary {
        self.step();
        now(self.engine().session(&self.who("key"), id)).unwrap()
    }

    /// A delivery with all that happened to it.
    pub(super) fn delivery(&self, id: DeliveryId) -> Delivery {
        self.step();
        now(self.engine().delivery(&self.who("key"), id)).unwrap()
    }

    pub(super) fn state(&self, id: DeliveryId) -> DeliveryState {
        self.delivery(id).state
    }

    /// Every event of the log, as others read it.
    pub(super) fn log(&self) -> Vec<Value> {
        self.step();
        let events = now(self.world().events_after(0));
        events.iter().map(|event| json!(event)).collect()
    }

    /// The events with this name, oldest first.
    pub(super) fn events(&self, name: &str) -> Vec<Value> {
        let mut events = self.log();
        events.retain(|event| event["type"] == name);
        events
    }

    /// The last event with this name.
    pub(super) fn last(&self, name: &str) -> Value {
        let last = self.events(name).pop();
        last.unwrap_or_else(|| panic!("no {name} was logged"))
    }

    /// The names of the events about a delivery, without what all of them begin with.
    pub(super) fn course(&self, id: DeliveryId) -> Vec<String> {
        let mut events = self.log();
        events.retain(|event| event["deliveryId"] == json!(id));
        let name = |event: &Value| event["type"].as_str().unwrap().to_owned();
        let short = |event| name(event).trim_start_matches("delivery.").to_owned();
        events.iter().map(short).collect()
    }

    /// A new session of an agent.
    pub(super) fn attach(&self, agent: &str, kind: &Kind) -> Session<'_> {
        self.try_attach(agent, kind).unwrap()
    }

    pub(super) fn try_attach(&self, agent: &str, kind: &Kind) -> Result<Session<'_>> {
        self.attach_as(agent, agent, kind)
    }

    /// A session of an agent, attached by somebody.
    pub(super) fn attach_as(&self, who: &str, agent: &str, kind: &Kind) -> Result<Session<'_>> {
        Session::attach(self, agent, &self.who(who), kind)
    }

    /// What must hold at the end of every test.
    fn check(&self) {
        self.step();
        now(self.world().check_log());
        let damage = self.store.check_integrity().wait().unwrap();
        assert_eq!(damage, Vec::<String>::new());
        self.check_waits();
    }

    /// Every delivery says what it waits for exactly as long as it has not ended.
    fn check_waits(&self) {
        let (engine, key) = (self.engine(), self.who("key"));
        let newest = PageQuery {
            cursor: None,
            limit: Some(200),
        };
        let listed = now(engine.deliveries_where(&key, DeliveryFilter::default(), newest));
        for delivery in listed.unwrap().items {
            let waits = delivery.waiting.is_some();
            assert_eq!(waits, !delivery.state.is_terminal(), "{delivery:?}");
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.world.is_some() && !std::thread::panicking() {
            self.check();
        }
    }
}

/// A call under way.
pub(super) struct Call<'l, T> {
    lab: &'l Lab,
    future: Option<Pin<Box<dyn Future<Output = T> + 'l>>>,
    result: Option<T>,
}

impl<T> Call<'_, T> {
    /// Goes as far as it gets without help.
    fn look(&mut self) {
        for _ in 0..LOOKS {
            let Some(future) = &mut self.future else {
                return;
            };
            if let Poll::Ready(result) = poll(future.as_mut()) {
                self.result = Some(result);
                self.future = None;
            }
            self.lab.step();
        }
    }

    /// Whether it still waits.
    pub(super) fn waits(&mut self) -> bool {
        self.look();
        self.result.is_none()
    }

    /// What came of it.
    pub(super) fn end(mut self) -> T {
        self.look();
        self.result.expect("the call has an end by now")
    }
}

/// Something that has an end as soon as it is asked.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match poll(std::pin::pin!(future)) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("this waits for something"),
    }
}

/// The only one of several.
pub(super) fn only<T: std::fmt::Debug>(items: &[T]) -> &T {
    match items {
        [one] => one,
        others => panic!("expected exactly one, found {others:?}"),
    }
}

/// Plain text for bob.
pub(super) fn mail(text: &str) -> SendMessage {
    SendMessage::text(target("@bob"), text)
}

/// A file system that is gone with the process, where there is one.
fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => TempDir::new_in(memory).unwrap(),
        false => TempDir::new().unwrap(),
    }
}

fn open(path: &Path, seed: u64) -> Arc<Prompt> {
    let mut options = SqliteOptions::new(path);
    // That a write survives is for other tests.
    options.synchronous = Synchronous::Off;
    let real = SqliteStore::open(&options, SeededRandom::new(seed)).unwrap();
    Arc::new(Prompt::new(Arc::new(real)))
}
