//! One simulated run: the engine, its store, its sessions and senders, and the time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use relay_core::environment::{Clock, Environment};
use relay_core::link::{LinkId, Parcel};
use relay_core::store::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use relay_core::store::{Store, WorkspaceRow};
use relay_core::{Caller, Engine, Result as EngineResult};
use relay_protocol::api::messages::MessageSent;
use relay_protocol::api::workspace::RegisterAgent;
use relay_protocol::ids::{AgentId, DeliveryId, MessageId, SessionId, WorkspaceId};
use relay_protocol::policy::{Policy, PolicyPatch, RetryPolicy, RunawayPolicy};
use relay_protocol::session::{Attached, BoundaryKind, DueDeliveries};
use relay_protocol::time::Timestamp;
use tempfile::TempDir;

use super::dice::Dice;
use super::executor::Executor;
use super::gate::{Answer, Fate, Gate};
use super::harness::{Harness, Up, Wire};
use super::model::{Fault, Model};
use crate::support::{START, SeededRandom, named};

/// Clocks that only the simulation moves; they move apart when the wall clock is set.
pub(super) struct SimClock {
    wall: AtomicI64,
    mono: AtomicU64,
}

impl SimClock {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            wall: AtomicI64::new(START.as_millis()),
            mono: AtomicU64::new(0),
        })
    }

    pub(super) fn pass(&self, millis: u64) {
        self.wall.fetch_add(millis as i64, Ordering::SeqCst);
        self.mono.fetch_add(millis, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock.
    pub(super) fn set_by(&self, millis: i64) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.mono.load(Ordering::SeqCst))
    }
}

/// An agent of the run.
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) id: AgentId,
    pub(super) caller: Caller,
}

/// What a task has to tell.
pub(super) enum Outcome {
    Attached(usize, u64, EngineResult<(Attached, Option<LinkId>)>),
    Reported(usize, bool, EngineResult<u64>),
    AtBoundary(usize),
    Due(usize, SessionId, BoundaryKind, EngineResult<DueDeliveries>),
    Sent(EngineResult<MessageSent>),
    Receipt(DeliveryId, Said, EngineResult<relay_core::ReceiptStored>),
    Flushed(AgentId),
    Done,
}

/// What a receipt says.
pub(super) struct Said {
    pub(super) delivered: bool,
    /// The offer that it answers, to whom that was made, and in which generation, if it is the newest one.
    pub(super) newest: Option<(u64, (SessionId, u32))>,
    /// It answers an offer that another one has followed.
    pub(super) outdated: bool,
}

/// A frame in the air.
pub(super) enum InAir {
    Down(usize, u64, Parcel),
    Up(usize, Up),
}

pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) clock: Arc<SimClock>,
    random: Arc<SeededRandom>,
    path: PathBuf,
    _directory: TempDir,
    machine: Option<Machine>,
    pub(super) executor: Executor,
    pub(super) answers: VecDeque<(&'static str, Answer)>,
    pub(super) key: Caller,
    pub(super) workspace: WorkspaceId,
    pub(super) workspace_no: u32,
    pub(super) agents: Vec<Agent>,
    pub(super) harnesses: Vec<Harness>,
    pub(super) model: Model,
    pub(super) policy: Policy,
    pub(super) wire: Wire,
    pub(super) air: Vec<InAir>,
    pub(super) outcomes: Rc<RefCell<Vec<Outcome>>>,
    /// Messages whose send was answered.
    pub(super) acknowledged: Vec<MessageId>,
    pub(super) calm: bool,
    pub(super) trace: bool,
    pub(super) step_no: u64,
    pub(super) crashes: u64,
}

fn directory() -> TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => TempDir::new_in(memory).unwrap(),
        false => TempDir::new().unwrap(),
    }
}

fn open(path: &std::path::Path, random: &Arc<SeededRandom>) -> Arc<SqliteStore> {
    let mut options = SqliteOptions::new(path);
    // A crash here is between two writes; that a write survives is for other tests.
    options.synchronous = Synchronous::Off;
    Arc::new(SqliteStore::open(&options, random.clone()).unwrap())
}

/// What dies in a crash.
struct Machine {
    real: Arc<SqliteStore>,
    gate: Arc<Gate>,
    engine: Rc<Engine>,
}

impl Machine {
    fn start(path: &std::path::Path, clock: &Arc<SimClock>, random: &Arc<SeededRandom>) -> Self {
        let real = open(path, random);
        let gate = Arc::new(Gate::new(real.clone()));
        let environment = Environment {
            clock: clock.clone(),
            random: random.clone(),
        };
        let store: Arc<dyn Store> = gate.clone();
        let engine = Rc::new(Engine::new(store, environment));
        Self { real, gate, engine }
    }
}

impl World {
    /// A workspace with agents and harnesses, none of them attached.
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut dice = Dice::new(seed);
        let clock = SimClock::new();
        let random = SeededRandom::new(seed ^ 0x5eed);
        let directory = directory();
        let path = directory.path().join("relay.db");
        let machine = Some(Machine::start(&path, &clock, &random));
        let agents = dice.between(2, 4) as usize;
        let mut world = Self {
            dice,
            clock,
            random,
            path,
            _directory: directory,
            machine,
            executor: Executor::default(),
            answers: VecDeque::new(),
            key: Caller::process_owner(),
            workspace: WorkspaceId::new(START, 0),
            workspace_no: 0,
            agents: Vec::new(),
            harnesses: Vec::new(),
            model: Model::default(),
            policy: Policy::default(),
            wire: Wire::default(),
            air: Vec::new(),
            outcomes: Rc::default(),
            acknowledged: Vec::new(),
            calm: false,
            trace,
            step_no: 0,
            crashes: 0,
        };
        world.found(agents);
        world
    }

    fn found(&mut self, agents: usize) {
        let engine = self.engine();
        let created = self.finish(async move {
            engine
                .create_workspace(&Caller::process_owner(), "lab")
                .await
                .unwrap()
        });
        let engine = self.engine();
        self.key =
            self.finish(async move { engine.authenticate(&created.workspace_key).await.unwrap() });
        self.workspace = created.workspace_id;
        let row: Arc<WorkspaceRow> = self
            .real()
            .workspace(self.workspace)
            .wait()
            .unwrap()
            .unwrap();
        self.workspace_no = row.no;
        self.set_policy();
        for at in 0..agents {
            let name = format!("agent-{at}");
            let (engine, key, body) = (self.engine(), self.key.clone(), named(&name));
            let body: RegisterAgent = body;
            let registered =
                self.finish(async move { engine.register_agent(&key, body).await.unwrap() });
            let engine = self.engine();
            let caller =
                self.finish(async move { engine.authenticate(&registered.token).await.unwrap() });
            self.agents.push(Agent {
                name,
                id: registered.agent.id,
                caller,
            });
            let sessions = self.dice.between(1, 2);
            for _ in 0..sessions {
                self.harnesses.push(Harness::roll(at, &mut self.dice));
            }
        }
        let engine = self.engine();
        self.finish(async move { engine.start().await.unwrap() });
    }

    fn set_policy(&mut self) {
        let patch = PolicyPatch {
            default_deadline_ms: Some(900_000),
            retry: Some(RetryPolicy {
                attempts: 3,
                min_ms: 1_000,
                max_ms: 60_000,
            }),
            accepted_lease_ms: Some(120_000),
            window: Some(self.dice.between(1, 4) as u32),
            backlog_per_turn: Some(self.dice.between(2, 6) as u32),
            runaway: Some(RunawayPolicy {
                per_minute: self.dice.between(8, 40) as u32,
                depth: 20,
            }),
            queue_limit: Some(self.dice.between(10, 60) as u32),
            ..PolicyPatch::default()
        };
        let (engine, key) = (self.engine(), self.key.clone());
        self.policy = self.finish(async move { engine.update_policy(&key, patch).await.unwrap() });
        self.model.default_deadline_ms = self.policy.default_deadline_ms as i64;
    }

    /// Runs one future to its end, letting everything through on the way.
    pub(super) fn finish<T: 'static>(&mut self, future: impl Future<Output = T> + 'static) -> T {
        let slot: Rc<RefCell<Option<T>>> = Rc::default();
        let into = slot.clone();
        let mut alone = Executor::default();
        alone.spawn("finish".to_owned(), async move {
            let value = future.await;
            *into.borrow_mut() = Some(value);
        });
        loop {
            while alone.poll_one(&mut self.dice).is_some() {}
            if let Some(value) = slot.borrow_mut().take() {
                return value;
            }
            if let Some((_, answer)) = self.gate().make_next(Fate::Made) {
                answer();
            } else {
                self.engine().step();
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>5} {} {}", self.step_no, self.now(), what());
        }
    }

    /// Begins a call of the engine as somebody else's task.
    pub(super) fn spawn<F>(&mut self, name: String, call: impl FnOnce(Rc<Engine>) -> F)
    where
        F: Future<Output = Outcome> + 'static,
    {
        let future = call(self.engine());
        let outcomes = self.outcomes.clone();
        self.executor.spawn(name, async move {
            let outcome = future.await;
            outcomes.borrow_mut().push(outcome);
        });
    }

    /// Makes the next write, and holds what it logged against the model.
    pub(super) fn write(&mut self, fate: Fate) -> Result<bool, Fault> {
        let Some((name, answer)) = self.gate().make_next(fate) else {
            return Ok(false);
        };
        let refused = if fate == Fate::Refused {
            " REFUSED"
        } else {
            ""
        };
        self.say(|| format!("store {name}{refused}"));
        self.answers.push_back((name, answer));
        self.read_log()?;
        Ok(true)
    }

    pub(super) fn read_log(&mut self) -> Result<(), Fault> {
        loop {
            let events = self
                .real()
                .events(self.workspace_no, self.model.seq, 500)
                .wait()
                .map_err(|error| format!("the log can't be read: {error}"))?;
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                if self.trace {
                    let json = event.json();
                    let json = json.get();
                    println!(
                        "            log {}",
                        json.chars().take(400).collect::<String>()
                    );
                }
                self.model.learn(&event.event)?;
            }
        }
    }

    pub(super) fn answer(&mut self) -> bool {
        let Some((name, answer)) = self.answers.pop_front() else {
            return false;
        };
        self.say(|| format!("answer {name}"));
        answer();
        true
    }

    /// Lets the engine deliver, and holds everything that it hands over against the model.
    pub(super) fn step(&mut self) -> Result<Option<Duration>, Fault> {
        let quiet = |world: &Self| world.gate().waiting() == 0 && world.answers.is_empty();
        let was_quiet = quiet(self);
        self.say(|| "step".to_owned());
        self.model.latest = self.model.latest.max(self.now());
        let wait = self.engine().step();
        self.look_at_wire()?;
        if was_quiet && quiet(self) {
            for harness in &mut self.harnesses {
                if harness.opening_calls == 0 {
                    harness.openings.clear();
                }
            }
        }
        Ok(wait)
    }

    fn look_at_wire(&mut self) -> Result<(), Fault> {
        let carried = std::mem::take(&mut *self.wire.lock().unwrap());
        for carried in carried {
            let openings: Vec<BoundaryKind> = self.harnesses[carried.harness]
                .openings
                .iter()
                .copied()
                .collect();
            if let Parcel::Deliver(deliver) = &carried.parcel {
                self.say(|| format!("handed {:?} to {}", deliver.context, carried.harness));
                let now = self.now();
                self.model.shown(&deliver.message)?;
                self.model.handed(
                    deliver.session_id,
                    &deliver.context,
                    &openings,
                    &self.policy,
                    now,
                )?;
            }
            if !carried.lost {
                self.air
                    .push(InAir::Down(carried.harness, carried.line, carried.parcel));
            }
        }
        Ok(())
    }

    /// The process dies. What it had not written is gone, and so is everything in its memory.
    pub(super) fn crash(&mut self) -> Result<(), Fault> {
        self.say(|| "CRASH".to_owned());
        self.crashes += 1;
        self.executor.clear();
        self.outcomes.borrow_mut().clear();
        self.answers.clear();
        self.model.crashed();
        for harness in &mut self.harnesses {
            harness.unplug();
            harness.attaching = false;
            harness.reporting = false;
            harness.opening_calls = 0;
        }
        self.air.retain(|frame| matches!(frame, InAir::Up(..)));
        self.wire.lock().unwrap().clear();
        self.gate().die();
        // The old one has to be gone before its file can be opened again.
        self.machine = None;
        self.machine = Some(Machine::start(&self.path, &self.clock, &self.random));
        let engine = self.engine();
        self.finish(async move { engine.start().await.unwrap() });
        self.read_log()
    }

    /// Prints what the engine knows of every delivery that a fault names.
    pub(super) fn tell_stories(&mut self, fault: &str) {
        let words = fault.split([' ', ':', ',', '(', ')']);
        for id in words.filter_map(|word| word.parse::<DeliveryId>().ok()) {
            let (engine, key) = (self.engine(), self.key.clone());
            self.finish(async move {
                if let Ok(delivery) = engine.delivery(&key, id).await {
                    println!("{}", delivery.story.unwrap_or_default());
                }
            });
        }
    }

    pub(super) fn engine(&self) -> Rc<Engine> {
        self.machine.as_ref().unwrap().engine.clone()
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.machine.as_ref().unwrap().gate
    }

    pub(super) fn real(&self) -> &SqliteStore {
        &self.machine.as_ref().unwrap().real
    }
}
