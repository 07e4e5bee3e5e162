//! Chats with coding agents: one that speaks the Agent Client Protocol is started for the chat, prompted, and stopped.
//!
//! Its session is on the relay as that of every agent (`relay_harness::acp::session`), for one conversation: what it asks becomes stored
//! requests with its own options, under the chat's rules, and messages to the chat's agent get into its turns. What it does is told in
//! the words of the contract (`telling.rs`), as it happens (`stage.rs`). An agent does more than it asks about: what needs a question is
//! its own choice, and the rules of the chat hold for that only.

mod prompt;
mod stage;
mod telling;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::host::{Host, HostError, HostOptions, OpenSession, Session};
use relay_harness::acp::session::{
    Broker, Conversation, RelayOptions, RelaySession, Watch, attach,
};
use relay_harness::child::ChildEnvironment;
use relay_harness::llm::new_id;
use relay_harness::llm::run::EndReason;
use relay_protocol::permission::Permissions;
use relay_sdk::AgentClient;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::prompt::{AgentPrompt, prompt};
use self::stage::Stage;
use crate::chats::Chat;
use crate::model::fail;

/// How long the end of a chat waits for the relay to know what became of it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What the relay is told of a session whose chat is over.
const OVER: &str = "the conversation has ended";

/// Starts an agent with these options.
pub type StartAgent = Box<
    dyn Fn(AgentDefinition, HostOptions) -> BoxFuture<'static, Result<Host, HostError>>
        + Send
        + Sync,
>;

/// The agents that can be chatted with.
pub struct Agents {
    /// Which there are.
    pub catalogue: Catalogue,
    /// Where they work.
    pub cwd: PathBuf,
    /// How they are driven; who decides is the chat's matter.
    pub options: HostOptions,
    /// How they are started.
    pub start: StartAgent,
}

impl Agents {
    /// Programs of this machine, each with the environment that it is to have.
    pub fn programs(
        catalogue: Catalogue,
        cwd: PathBuf,
        environment: impl Fn(&AgentDefinition) -> ChildEnvironment + Send + Sync + 'static,
    ) -> Self {
        let directory = cwd.clone();
        let start: StartAgent = Box::new(move |definition, options| {
            let (environment, cwd) = (environment(&definition), directory.clone());
            Host::start(definition, environment, cwd, options).boxed()
        });
        Self {
            catalogue,
            cwd,
            options: HostOptions::default(),
            start,
        }
    }
}

/// A chat with an agent.
pub(crate) struct AgentChat {
    pub(crate) definition: AgentDefinition,
    pub(crate) prompt: AgentPrompt,
    pub(crate) permissions: Option<Permissions>,
}

/// Runs a chat to its end.
pub(crate) async fn run(agents: &Agents, agent: AgentClient, with: AgentChat, chat: &Arc<Chat>) {
    // What is decided can end the conversation, and does not cancel the chat.
    let cancel = chat.token().child_token();
    let stage = Stage::new(chat.clone(), cancel.clone());
    let told = stage.clone();
    let broker = Broker::telling(move |news| told.hear(news));
    let opened = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        opened = open(agents, &with.definition, &broker) => Some(opened),
    };
    let session = match opened {
        Some(Ok(session)) => session,
        Some(Err(error)) => {
            stage.begin(new_id());
            stage.fail(error.to_string());
            return stage.end(EndReason::Error);
        }
        None => {
            stage.begin(new_id());
            return stage.end(EndReason::Cancelled);
        }
    };
    let host = session.host().clone();
    let conversation = Conversation {
        permissions: with.permissions,
        cancel: cancel.clone(),
    };
    match put_on(&agent, session, &broker, conversation, &stage).await {
        Ok(relay) => {
            let talk = Talk {
                relay,
                broker,
                cancel,
                stage,
            };
            talk.lead(with.prompt, chat, &agent).await;
        }
        Err(error) => {
            host.stop().await;
            fail(chat, &error.to_string());
        }
    }
}

/// Starts an agent with a session, in the mode in which it asks.
async fn open(
    agents: &Agents,
    definition: &AgentDefinition,
    broker: &Broker,
) -> Result<Session, HostError> {
    let options = HostOptions {
        decides: Arc::new(broker.clone()),
        ..agents.options.clone()
    };
    let host = (agents.start)(definition.clone(), options).await?;
    let session = host.new_session(OpenSession::new(&agents.cwd)).await?;
    if let Some(mode) = &definition.asking_mode {
        session.set_mode(mode).await?;
    }
    Ok(session)
}

async fn put_on(
    agent: &AgentClient,
    session: Session,
    broker: &Broker,
    conversation: Conversation,
    stage: &Stage,
) -> relay_sdk::Result<RelaySession> {
    let watching = stage.clone();
    let options = RelayOptions {
        broker: Some(broker.clone()),
        watch: Watch::by(move |seen| watching.see(seen)),
        conversation: Some(conversation),
        ..RelayOptions::default()
    };
    attach(agent, agent.identity().clone(), session, options).await
}

/// An agent that is chatted with.
struct Talk {
    relay: RelaySession,
    broker: Broker,
    cancel: CancellationToken,
    stage: Stage,
}

impl Talk {
    async fn lead(mut self, prompt: AgentPrompt, chat: &Chat, agent: &AgentClient) {
        let run = self.relay.run_id().map(|run| run.to_string());
        self.stage.begin(run.unwrap_or_else(new_id));
        let handshake = self.relay.session().host().handshake();
        let takes_images = handshake.capabilities.prompt.image;
        let (prompt, dropped) = prompt.for_agent(takes_images);
        if !dropped.is_empty() {
            self.stage.warn(dropped);
        }
        if let Err(error) = self.relay.prompt(prompt).await {
            self.stage.fail(error.to_string());
            self.cancel.cancel();
        }
        self.relay.ended().await;
        let reason = match chat.token().is_cancelled() {
            true => EndReason::Cancelled,
            false => self.stage.reason(),
        };
        // Nothing of the agent is left when the end is told, and what it asked is called off.
        self.relay.session().host().stop().await;
        let _ = timeout(LAST_WORDS, self.broker.settled()).await;
        self.stage.end(reason);
        self.leave(agent).await;
    }

    /// Takes the session off the relay.
    async fn leave(&self, agent: &AgentClient) {
        // That of an agent which died, or was released, has left it already.
        let Ok(session) = self.relay.attached().session_id() else {
            return;
        };
        let released = agent.release_session(session, Some(OVER));
        if let Ok(Err(error)) = timeout(LAST_WORDS, released).await {
            tracing::warn!(session.id = %session, %error, "the relay does not know that a conversation has ended");
        }
    }
}
