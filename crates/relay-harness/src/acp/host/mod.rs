//! One agent process, and the sessions in it.
//!
//! A [`Host`] is a handle: clones and [`Session`]s keep the process alive, and when the last of them is dropped the process is
//! killed. Three tasks serve it: one reads and writes (`rpc`), one owns the process (`owner.rs`), and each open question
//! of the agent has one of its own (`inbound.rs`), so that whoever takes long to decide holds up nobody else.

mod calls;
mod error;
mod files;
mod inbound;
mod opening;
mod owner;
mod probe;
mod queue;
mod session;
mod settings;
mod shared;
mod state;
mod terminal;
mod turn;
mod wanted;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use relay_protocol::acp::AgentCapabilities;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

pub use error::HostError;
pub use opening::{AllSessions, OpenSession, SessionPage, StoredSession};
pub use owner::Ended;
pub use probe::{Probe, probe};
pub use session::{CANCEL_WAIT, Session, Steered};
pub use settings::{Choice, ConfigOption, Settings};
pub use turn::{Turn, TurnEnd};

use self::owner::{Guard, Running};
use self::shared::Shared;
use super::capabilities::{Handshake, PROTOCOL_VERSION};
use super::catalogue::AgentDefinition;
use super::permission::{Decides, RejectAll};
use crate::child::{Child, ChildCommand, ChildEnvironment, StopGrace};

/// Gets warnings: what was left out, and why.
pub type OnWarning = Arc<dyn Fn(&str) + Send + Sync>;

/// How an agent is driven.
#[derive(Clone)]
pub struct HostOptions {
    /// Who decides when the agent asks.
    pub decides: Arc<dyn Decides>,
    /// Whether the agent may read and write files through this side: reading in the session's directories, writing in its
    /// working directory. Off for agents that can't deal with it.
    pub files: bool,
    /// Whether the agent may run commands through this side. Each is asked for.
    pub terminals: bool,
    /// Directories that are nobody's business, wherever they are.
    pub forbidden: Vec<PathBuf>,
    /// The environment of the commands that run through this side.
    pub terminal_environment: ChildEnvironment,
    /// How long the agent may take to answer `initialize`.
    pub initialize_timeout: Duration,
    /// How long it may take to answer anything else but a prompt.
    pub request_timeout: Duration,
    /// How it is stopped.
    pub grace: StopGrace,
    /// Gets warnings, each at most once.
    pub on_warning: Option<OnWarning>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            decides: Arc::new(RejectAll),
            files: true,
            terminals: false,
            forbidden: Vec::new(),
            terminal_environment: ChildEnvironment::default(),
            initialize_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(120),
            grace: StopGrace::STANDARD,
            on_warning: None,
        }
    }
}

impl HostOptions {
    /// The standard, with somebody who decides.
    #[must_use]
    pub fn deciding(decides: impl Decides) -> Self {
        Self {
            decides: Arc::new(decides),
            ..Self::default()
        }
    }
}

/// An agent that runs.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
    /// Ends the process with the last handle.
    guard: Arc<Guard>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Host").field(&self.agent_id()).finish()
    }
}

impl Host {
    /// Starts an agent in a directory and shakes hands. Dropped meanwhile, it is stopped.
    pub async fn start(
        agent: AgentDefinition,
        environment: ChildEnvironment,
        cwd: PathBuf,
        options: HostOptions,
    ) -> Result<Self, HostError> {
        let environment = agent
            .env
            .iter()
            .fold(environment, |all, (name, value)| all.with(name, value));
        let command = ChildCommand {
            program: agent.command.clone().into(),
            args: agent.args.iter().map(Into::into).collect(),
            cwd,
            environment,
        };
        let child = Child::spawn(&command);
        let child = child.map_err(|error| HostError::from_spawn(&agent, error))?;
        let (shared, guard) = Running::child(child, Shared::parts(agent, options));
        Self::shaken(shared, guard).await
    }

    /// Shakes hands with an agent at the other end of two streams.
    pub async fn connect(
        agent: AgentDefinition,
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        options: HostOptions,
    ) -> Result<Self, HostError> {
        let (shared, guard) = Running::streams(input, output, Shared::parts(agent, options));
        Self::shaken(shared, guard).await
    }

    async fn shaken(shared: Arc<Shared>, guard: Guard) -> Result<Self, HostError> {
        let host = Self {
            shared,
            guard: Arc::new(guard),
        };
        match host.initialize().await {
            Ok(()) => Ok(host),
            Err(error) => {
                host.guard.stop(StopGrace::NONE);
                host.shared.until_ended().await;
                Err(error)
            }
        }
    }

    async fn initialize(&self) -> Result<(), HostError> {
        let shared = &self.shared;
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientInfo": {
                "name": "relay",
                "title": "Relay",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "clientCapabilities": {
                "fs": {"readTextFile": shared.has_files(), "writeTextFile": shared.has_files()},
                "terminal": shared.options.terminals,
            },
        });
        let timeout = shared.options.initialize_timeout;
        let answer = shared.call("initialize", &params, timeout).await?;
        let mut handshake = Handshake::read(answer).map_err(|source| HostError::Handshake {
            agent: shared.agent.id.clone(),
            source,
        })?;
        if let (Some(expected), Some(found)) = (&shared.agent.says, &handshake.agent.name)
            && expected != found
        {
            shared.warn(&format!(
                "Agent {} is expected to call itself {expected}, but calls itself {found}.",
                shared.agent.id
            ));
        }
        if !self.refuses_unknown_methods().await? {
            handshake.distrust();
        }
        // Set once, here.
        let _ = shared.handshake.set(handshake);
        Ok(())
    }

    /// The agent, as the catalogue calls it.
    #[must_use]
    pub fn agent_id(&self) -> &str {
        &self.shared.agent.id
    }

    /// What the catalogue says about the agent.
    #[must_use]
    pub fn agent(&self) -> &AgentDefinition {
        &self.shared.agent
    }

    /// What the agent said in the handshake.
    #[must_use]
    pub fn handshake(&self) -> &Handshake {
        self.shared.handshake()
    }

    /// What the agent can do.
    #[must_use]
    pub fn capabilities(&self) -> &AgentCapabilities {
        &self.handshake().capabilities
    }

    /// The number of the agent's process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.guard.pid
    }

    /// How many lines the agent wrote that could not be used.
    #[must_use]
    pub fn noise(&self) -> u64 {
        self.shared.noise()
    }

    /// Signs in by one of the agent's ways. It may take as long as a person takes.
    pub async fn authenticate(&self, method: &str) -> Result<(), HostError> {
        let params = json!({"methodId": method});
        let answer = self.shared.call_patiently("authenticate", &params).await;
        answer.map(drop)
    }

    /// Asks for a method that does not exist; says whether the agent knows better than to claim success. Silence is no claim.
    async fn refuses_unknown_methods(&self) -> Result<bool, HostError> {
        let params = json!({});
        let asking = self
            .shared
            .call("_relay/no_such_method", &params, UNKNOWN_METHOD_WAIT);
        match asking.await {
            Ok(_) => Ok(false),
            Err(error @ HostError::Closed { .. }) => Err(error),
            Err(_) => Ok(true),
        }
    }

    /// Stops the agent with grace, and waits until nothing of it is left.
    pub async fn stop(&self) -> Ended {
        let mut grace = self.shared.options.grace;
        if self.shared.agent.quirks.stays_after_eof {
            grace.eof = grace.eof.min(STAYS_ANYWAY);
        }
        self.guard.stop(grace);
        self.shared.until_ended().await
    }

    /// Waits until the agent is gone.
    pub async fn ended(&self) -> Ended {
        self.shared.until_ended().await
    }

    const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn warn(&self, warning: &str) {
        self.shared.warn(warning);
    }

    async fn call(&self, method: &str, params: &Value) -> Result<Value, HostError> {
        let timeout = self.shared.options.request_timeout;
        self.shared.call(method, params, timeout).await
    }

    fn malformed(&self, method: &str, expected: &'static str) -> HostError {
        HostError::Malformed {
            agent: self.agent_id().to_owned(),
            method: method.to_owned(),
            expected,
        }
    }
}

/// How long an agent that stays after the end of its input is waited for.
const STAYS_ANYWAY: Duration = Duration::from_millis(100);

/// How long an agent may take to say that it does not know a method.
const UNKNOWN_METHOD_WAIT: Duration = Duration::from_secs(2);
