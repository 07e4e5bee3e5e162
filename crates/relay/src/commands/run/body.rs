//! The agent's process, its session in it, and that session on the relay.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use relay_harness::acp::catalogue::AgentDefinition;
use relay_harness::acp::content::McpServer;
use relay_harness::acp::direct::{self, Setup};
use relay_harness::acp::host::{HostError, HostOptions, Session};
use relay_harness::acp::session::{Broker, RelayOptions, RelaySession, Watch, attach};
use relay_harness::acp::tools::ToolsWatch;
use relay_harness::child::{ChildEnvironment, TOKEN_VARIABLE};
use relay_sdk::Error;

use super::claim::Claim;
use super::desk::Desk;
use super::step::Step;
use crate::failure::Outcome;

/// The name of the relay's own tools for the agent.
const TOOLS: &str = "relay";

/// How long an agent may take to start them once its session is open. Those that do it at all have done it by then.
const TOOLS_WAIT: Duration = Duration::from_secs(3);

/// How long a file may still be in use by the session before, which has ended.
const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// How often that is looked at.
const MEMORY_LOOK: Duration = Duration::from_millis(50);

/// How long an end may take before it is not waited for any more.
const END_WAIT: Duration = Duration::from_secs(10);

/// How an agent is to run.
pub(super) struct Plan {
    pub(super) agent: AgentDefinition,
    pub(super) environment: ChildEnvironment,
    pub(super) cwd: PathBuf,
    pub(super) add_dirs: Vec<PathBuf>,
    pub(super) mode: Option<String>,
    pub(super) model: Option<String>,
    pub(super) may_interrupt: bool,
    /// Where the relay is, for the agent's tools.
    pub(super) url: String,
}

/// An agent that runs and is on the relay.
pub(super) struct Body {
    pub(super) relay: RelaySession,
    broker: Broker,
}

impl Plan {
    /// Starts the agent and puts it on the relay; with a session of before, if there is one.
    pub(super) async fn embody(
        &self,
        claim: &Claim,
        load: Option<&str>,
        desk: &Desk,
    ) -> Outcome<Body> {
        let told = desk.clone();
        let broker = Broker::telling(move |news| told.news(news));
        let tools = ToolsWatch::open().await;
        let tools = tools.context("nothing can listen on this machine")?;
        let session = self.session(claim, load, desk, &broker, &tools).await?;
        let host = session.host().clone();
        let has_tools = tokio::select! {
            is_started = tools.is_started_within(TOOLS_WAIT) => is_started,
            _ = host.ended() => false,
        };
        if !has_tools {
            let text = format!(
                "{} has not started Relay's tools: it gets messages, but can't send any by itself",
                self.agent.title
            );
            desk.say(Step::Warning { text });
        }
        let attached = self.attached(claim, session, desk, &broker, has_tools);
        let attached = attached.await;
        match attached {
            Ok(relay) => Ok(Body { relay, broker }),
            Err(error) => {
                host.stop().await;
                Err(error.into())
            }
        }
    }

    async fn session(
        &self,
        claim: &Claim,
        load: Option<&str>,
        desk: &Desk,
        broker: &Broker,
        tools: &ToolsWatch,
    ) -> Outcome<Session> {
        let warn = desk.clone();
        let setup = Setup {
            additional_directories: self.add_dirs.clone(),
            mcp_servers: vec![self.tools(claim, tools)?],
            model: self.model.clone(),
            mode: self.mode.clone(),
            load: load.map(str::to_owned),
            host: HostOptions {
                forbidden: vec![claim.data.clone()],
                on_warning: Some(std::sync::Arc::new(move |text| {
                    warn.say(Step::Warning {
                        text: text.to_owned(),
                    });
                })),
                ..HostOptions::deciding(broker.clone())
            },
            ..Setup::new(
                self.agent.clone(),
                self.environment.clone(),
                self.cwd.clone(),
            )
        };
        let conversation = direct::session(setup).await?;
        // The session keeps the agent alive from here on.
        Ok(conversation.session().clone())
    }

    /// The relay's tools, as this agent. It is told the address and its own token, and not where the data is.
    fn tools(&self, claim: &Claim, watch: &ToolsWatch) -> Outcome<McpServer> {
        let program = std::env::current_exe().context("this program can't be found")?;
        Ok(McpServer::Stdio {
            name: TOOLS.to_owned(),
            command: program.display().to_string(),
            args: ["mcp", "--announce", &watch.address()]
                .map(str::to_owned)
                .to_vec(),
            env: BTreeMap::from([
                ("RELAY_URL".to_owned(), self.url.clone()),
                (TOKEN_VARIABLE.to_owned(), claim.agent.token().to_owned()),
            ]),
        })
    }

    async fn attached(
        &self,
        claim: &Claim,
        session: Session,
        desk: &Desk,
        broker: &Broker,
        has_relay_tools: bool,
    ) -> Result<RelaySession, Error> {
        let identity = claim.agent.identity().clone();
        let until = tokio::time::Instant::now() + MEMORY_WAIT;
        loop {
            let watch = desk.clone();
            let options = RelayOptions {
                may_interrupt: self.may_interrupt,
                has_relay_tools,
                broker: Some(broker.clone()),
                memory: Some(claim.memory.clone()),
                watch: Watch::by(move |seen| watch.seen(seen)),
                conversation: None,
            };
            let attached = attach(&claim.agent, identity.clone(), session.clone(), options).await;
            match attached {
                // Nobody else has it: that is what the claim is for.
                Err(Error::Memory { .. }) if tokio::time::Instant::now() < until => {
                    tokio::time::sleep(MEMORY_LOOK).await;
                }
                attached => return attached,
            }
        }
    }
}

/// Why an agent is no longer on the relay.
pub(super) enum Gone {
    /// Somebody has released its session.
    Released,
    /// The agent has ended by itself.
    Died(HostError),
    /// The relay has ended the session.
    Refused(Error),
}

impl Body {
    pub(super) fn session(&self) -> &Session {
        self.relay.session()
    }

    /// Waits until it is no longer on the relay.
    pub(super) async fn gone(&mut self) -> Gone {
        self.relay.ended().await;
        match self.session().alive() {
            Err(error @ HostError::Closed { .. }) => Gone::Died(error),
            Err(_) => Gone::Released,
            Ok(()) => match self.relay.attached().ended().await {
                Ok(()) => Gone::Released,
                Err(error) => Gone::Refused(error),
            },
        }
    }

    /// Ends it in order: what runs is cancelled, what it asked is taken back, its session is released, its process ends.
    pub(super) async fn release(self, claim: &Claim) {
        self.session().cancel();
        let host = self.session().host().clone();
        let ending = async {
            self.broker.settled().await;
            if let Ok(id) = self.relay.attached().session_id() {
                // A relay that is away finds out by itself that the session has left.
                let _ = claim
                    .agent
                    .release_session(id, Some("ended by its user"))
                    .await;
            }
        };
        let _ = tokio::time::timeout(END_WAIT, ending).await;
        host.stop().await;
    }
}
