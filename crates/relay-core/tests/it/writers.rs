//! Sixteen agents that write at once, and what the store told them.
//!
//! An [`Ack`] is made only after the engine has answered, and says all that must be found later.

use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::{Arc, Mutex};

use relay_core::environment::Environment;
use relay_core::error::Error;
use relay_core::store::sqlite::{OpenError, SqliteOptions, SqliteStore, Synchronous};
use relay_core::{Caller, Engine};
use relay_protocol::api::messages::{MessageSent, NewAttachment, SendMessage, SendTarget};
use relay_protocol::api::workspace::{CreateChannel, RegisterAgent};
use relay_protocol::ids::{DeliveryId, MessageId};
use relay_protocol::message::AttachmentKind;
use relay_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::support::TestClock;
use crate::vfs::SplitMix64;

/// The database's file name.
pub(crate) const DATABASE: &str = "relay.db";
/// How many agents write.
pub(crate) const AGENTS: u64 = 16;
/// How many of them share a channel.
const TEAM: u64 = 4;
/// The content of every attachment, in base64.
const ATTACHED: &str = "YXR0YWNoZWQ=";

/// Opens a database as the server would.
pub(crate) fn open(options: &SqliteOptions) -> Result<Engine, OpenError> {
    let environment = Environment::system();
    let store = SqliteStore::open(options, environment.random.clone())?;
    Ok(Engine::new(Arc::new(store), environment))
}

/// Opens the database of a directory.
pub(crate) fn open_in(directory: &Path) -> Result<Engine, OpenError> {
    open(&SqliteOptions::new(directory.join(DATABASE)))
}

/// Opens the database of a directory where the power stays on, so that nothing need be synced.
pub(crate) fn open_unsynced_in(directory: &Path) -> Result<Engine, OpenError> {
    open(&SqliteOptions {
        synchronous: Synchronous::Off,
        ..SqliteOptions::new(directory.join(DATABASE))
    })
}

/// Opens the database of a directory at another time than now.
pub(crate) fn open_as_of(at: Timestamp, directory: &Path) -> Result<Engine, OpenError> {
    let clock = TestClock::new();
    clock.set(at);
    let environment = Environment {
        clock,
        ..Environment::system()
    };
    let options = SqliteOptions::new(directory.join(DATABASE));
    let store = SqliteStore::open(&options, environment.random.clone())?;
    Ok(Engine::new(Arc::new(store), environment))
}

/// The credentials of a workspace's key and its agents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) workspace: String,
    agents: Vec<String>,
}

impl Keys {
    /// Who holds the workspace's key.
    pub(crate) async fn owner(&self, engine: &Engine) -> Result<Caller, Error> {
        engine.authenticate(&self.workspace).await
    }

    /// One of the agents.
    pub(crate) async fn agent(&self, engine: &Engine, no: u64) -> Result<Caller, Error> {
        engine.authenticate(&self.agents[no as usize]).await
    }
}

/// Creates the workspace, its channels and its agents.
pub(crate) async fn settle(engine: &Engine) -> Result<Keys, Error> {
    let admin = Caller::process_owner();
    let workspace = engine.create_workspace(&admin, "crash").await?;
    let mut keys = Keys {
        workspace: workspace.workspace_key,
        agents: Vec::new(),
    };
    let owner = keys.owner(engine).await?;
    for team in 0..AGENTS / TEAM {
        let (name, topic) = (team_name(team), None);
        let body = CreateChannel { name, topic };
        engine.create_channel(&owner, body).await?;
    }
    for no in 0..AGENTS {
        let body = RegisterAgent {
            name: agent_name(no),
            agent_type: None,
            metadata: None,
            adopt: None,
        };
        keys.agents
            .push(engine.register_agent(&owner, body).await?.token);
        let agent = keys.agent(engine, no).await?;
        engine.join_channel(&agent, &team_name(no / TEAM)).await?;
    }
    Ok(keys)
}

fn agent_name(no: u64) -> String {
    format!("agent-{no}")
}

fn team_name(no: u64) -> String {
    format!("team-{no}")
}

/// Something the store said is done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Ack {
    Sent {
        sender: u64,
        body: Box<SendMessage>,
        id: MessageId,
        deliveries: Vec<(DeliveryId, String)>,
    },
    Edited {
        id: MessageId,
        version: u32,
        text: String,
    },
    Reacted {
        id: MessageId,
        agent: String,
        emoji: String,
    },
    Read {
        id: MessageId,
        agent: String,
    },
}

/// How long the messages are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Texts {
    /// Some hundred bytes, few of them more.
    Short,
    /// Tens of kilobytes for most, so that the write-ahead log is copied soon.
    Long,
}

/// Lets each agent take so many steps, one after the other, and returns what they were told.
pub(crate) async fn fill(
    engine: &Engine,
    keys: &Keys,
    texts: Texts,
    steps: u64,
) -> Result<Vec<Ack>, Error> {
    let told = Mutex::new(Vec::new());
    let tell = |ack| {
        told.lock().expect("nobody panics").push(ack);
        ControlFlow::Continue(())
    };
    for no in 0..AGENTS {
        let caller = keys.agent(engine, no).await?;
        let mut writer = Writer::new(engine, caller, no, texts, 0, tell);
        for step in 0..steps {
            let _ = writer.step(step).await?;
        }
    }
    Ok(told.into_inner().expect("nobody panics"))
}

/// Lets all agents write at once until the store fails them, or they are told to stop; returns the
/// failures.
///
/// `told` gets each acknowledgement right after it came, and says whether to go on.
pub(crate) async fn write(
    engine: Arc<Engine>,
    keys: &Keys,
    texts: Texts,
    seed: u64,
    told: impl Fn(Ack) -> ControlFlow<()> + Clone + Send + 'static,
) -> Vec<Error> {
    let mut writers = JoinSet::new();
    for no in 0..AGENTS {
        let Ok(caller) = keys.agent(&engine, no).await else {
            // The store can fail before the first write; the checks will tell whether it may.
            break;
        };
        let writer = Writer::new(engine.clone(), caller, no, texts, seed, told.clone());
        writers.spawn(writer.run());
    }
    let failures: Vec<Error> = writers.join_all().await.into_iter().flatten().collect();
    for failure in &failures {
        let is_storage = matches!(failure, Error::Storage(_));
        assert!(is_storage, "only the store may fail, but: {failure}");
    }
    failures
}

/// A place where the writers' acknowledgements are kept.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<Ack>>>);

impl Told {
    /// Keeps one; says how many there are.
    pub(crate) fn push(&self, ack: Ack) -> usize {
        let mut acks = self.0.lock().expect("nobody panics");
        acks.push(ack);
        acks.len()
    }

    /// Everything up to now.
    pub(crate) fn all(&self) -> Vec<Ack> {
        self.0.lock().expect("nobody panics").clone()
    }
}

/// One agent at work.
struct Writer<E, F> {
    engine: E,
    caller: Caller,
    no: u64,
    texts: Texts,
    run: u64,
    random: SplitMix64,
    told: F,
    own: Vec<Own>,
}

/// A message this agent has sent in this run.
struct Own {
    id: MessageId,
    to: SendTarget,
    version: u32,
}

impl<E: Deref<Target = Engine>, F: Fn(Ack) -> ControlFlow<()>> Writer<E, F> {
    fn new(engine: E, caller: Caller, no: u64, texts: Texts, run: u64, told: F) -> Self {
        Self {
            engine,
            caller,
            no,
            texts,
            run,
            random: SplitMix64::new(run ^ (no << 48)),
            told,
            own: Vec::new(),
        }
    }

    /// Writes until told to stop, or returns the failure that ended it.
    async fn run(mut self) -> Option<Error> {
        for step in 0.. {
            match self.step(step).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error) => return Some(error),
            }
        }
        None
    }

    async fn step(&mut self, step: u64) -> Result<ControlFlow<()>, Error> {
        let choice = self.random.below(20);
        let last = self.own.len().checked_sub(1);
        match (choice, last) {
            (0..2, Some(at)) => self.edit(at, step).await,
            (2..4, Some(at)) => self.react(at, step).await,
            (4, Some(at)) => self.read(at).await,
            (5..8, Some(at)) => self.send(step, Some(at)).await,
            _ => self.send(step, None).await,
        }
    }

    async fn send(&mut self, step: u64, answered: Option<usize>) -> Result<ControlFlow<()>, Error> {
        let body = self.body(step, answered);
        let sent = self.engine.send(&self.caller, body.clone()).await?;
        let go_on = self.acknowledge(&body, &sent);
        if body.idempotency_key.is_some() && self.random.below(4) == 0 {
            let again = self.engine.send(&self.caller, body).await?;
            assert_eq!(
                without_waits(again),
                without_waits(sent),
                "a repeated send answers as the first did"
            );
        }
        Ok(go_on)
    }

    fn acknowledge(&mut self, body: &SendMessage, sent: &MessageSent) -> ControlFlow<()> {
        self.own.push(Own {
            id: sent.message_id,
            to: body.to.clone(),
            version: 1,
        });
        let deliveries = sent.deliveries.iter();
        (self.told)(Ack::Sent {
            sender: self.no,
            body: Box::new(body.clone()),
            id: sent.message_id,
            deliveries: deliveries
                .map(|delivery| (delivery.delivery_id, delivery.agent.clone()))
                .collect(),
        })
    }

    fn body(&mut self, step: u64, answered: Option<usize>) -> SendMessage {
        let answered = answered.map(|at| &self.own[at]);
        let (to, reply_to) = match answered {
            Some(own) => (own.to.clone(), Some(own.id)),
            None => (self.target(), None),
        };
        let keyed = self.random.coin();
        SendMessage {
            idempotency_key: keyed.then(|| format!("{}-{}-{step}", self.run, self.no)),
            attachments: (self.random.below(8) == 0).then(|| vec![attachment()]),
            reply_to,
            ..SendMessage::text(to, self.text(step))
        }
    }

    fn target(&mut self) -> SendTarget {
        match self.random.below(10) {
            0 => SendTarget::Channel("general".to_owned()),
            1..5 => SendTarget::Channel(team_name(self.no / TEAM)),
            5..8 => SendTarget::Agent(self.other(1)),
            _ => SendTarget::Agents(vec![self.other(1), self.other(2)]),
        }
    }

    fn other(&mut self, group: u64) -> String {
        let distance = (group - 1) * (AGENTS / 2) + 1 + self.random.below(AGENTS / 2 - 1);
        agent_name((self.no + distance) % AGENTS)
    }

    fn text(&mut self, step: u64) -> String {
        let bytes = match (self.texts, self.random.below(10)) {
            (Texts::Short, 0..9) => self.random.below(1_500),
            (Texts::Short, _) | (Texts::Long, 0..3) => self.random.below(6_000),
            (Texts::Long, _) => 20_000 + self.random.below(40_000),
        };
        let mentioned = agent_name(self.random.below(AGENTS));
        let begin = format!("{} {} {step} for @{mentioned} ", self.run, self.no);
        // Long words are soon indexed.
        begin + &format!("{:w<1000} ", "").repeat(bytes as usize / 1_000)
    }

    async fn edit(&mut self, at: usize, step: u64) -> Result<ControlFlow<()>, Error> {
        let text = self.text(step);
        let own = &mut self.own[at];
        let edited = self
            .engine
            .edit_message(&self.caller, own.id, text.clone())
            .await?;
        own.version += 1;
        assert_eq!((edited.version, &edited.text), (own.version, &text));
        let (id, version) = (own.id, own.version);
        Ok((self.told)(Ack::Edited { id, version, text }))
    }

    async fn react(&mut self, at: usize, step: u64) -> Result<ControlFlow<()>, Error> {
        let id = self.own[at].id;
        let emoji = format!(":{step}:");
        self.engine.react(&self.caller, id, &emoji).await?;
        let agent = agent_name(self.no);
        Ok((self.told)(Ack::Reacted { id, agent, emoji }))
    }

    async fn read(&mut self, at: usize) -> Result<ControlFlow<()>, Error> {
        let id = self.own[at].id;
        self.engine.mark_read(&self.caller, id).await?;
        let agent = agent_name(self.no);
        Ok((self.told)(Ack::Read { id, agent }))
    }
}

fn attachment() -> NewAttachment {
    NewAttachment {
        attachment_id: None,
        kind: Some(AttachmentKind::Text),
        media_type: Some("text/plain".to_owned()),
        name: None,
        data: Some(ATTACHED.to_owned()),
    }
}

/// An answer without what its deliveries wait for: that is said as it is now, and recipients read meanwhile.
fn without_waits(mut sent: MessageSent) -> MessageSent {
    for delivery in &mut sent.deliveries {
        delivery.waiting = None;
    }
    sent
}
