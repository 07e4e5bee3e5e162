//! Chats with coding agents: one that speaks the Agent Client Protocol is started for the chat, prompted once, and stopped.
//!
//! What it does is told in the words of the contract (`telling.rs`); what it asks is asked by the relay's stored requests, in a session of
//! the chat's own and under the chat's rules (`asking.rs`). An agent does more than it asks about: what needs a question is its own choice,
//! and the rules of the chat hold for that only.

mod asking;
mod prompt;
mod telling;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_harness::acp::catalogue::{AgentDefinition, Catalogue};
use relay_harness::acp::content::PromptContent;
use relay_harness::acp::host::{Host, HostError, HostOptions, OpenSession, Session, Turn};
use relay_harness::child::ChildEnvironment;
use relay_harness::llm::limits::EVENT_QUEUE;
use relay_harness::llm::new_id;
use relay_harness::llm::run::{EndReason, Happening, RunEvent};
use relay_harness::llm::session::{Seat, SeatSetup};
use relay_protocol::permission::Permissions;
use relay_protocol::redact::Redactor;
use relay_sdk::AgentClient;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::asking::{Asker, News};
pub(crate) use self::prompt::prompt;
use self::telling::Telling;
use crate::chats::Chat;
use crate::model::{fail, pass_on};

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
    pub(crate) prompt: Vec<PromptContent>,
    pub(crate) permissions: Option<Permissions>,
}

/// Runs a chat to its end.
pub(crate) async fn run(agents: &Agents, agent: AgentClient, with: AgentChat, chat: &Arc<Chat>) {
    let cancel = chat.token();
    let setup = SeatSetup {
        harness: format!("acp/{}", with.definition.id),
        permissions: with.permissions.clone(),
        cwd: agents.cwd.to_str().map(str::to_owned),
    };
    let seat = match Seat::take(agent, setup, cancel.clone()).await {
        Ok(seat) => seat,
        Err(error) => return fail(chat, &error.to_string()),
    };
    let permits = seat.permits();
    let (news, told) = mpsc::channel(EVENT_QUEUE);
    let asker = Asker::new(permits.clone(), news, cancel.clone());
    let mut running = Running {
        telling: Telling::new(permits.run_id()),
        agent_id: new_id(),
        run_id: permits.run_id(),
        redactor: Redactor::new(),
        chat,
        seat,
        told,
        cancel,
    };
    running.tell(vec![Happening::Started {
        depth: 1,
        max_iterations: None,
    }]);
    let reason = running.drive(agents, with, &asker).await;
    running.end(reason, asker).await;
    permits.end("the run has ended").await;
    running.seat.leave().await;
}

struct Running<'a> {
    telling: Telling,
    agent_id: String,
    run_id: String,
    redactor: Redactor,
    chat: &'a Chat,
    seat: Seat,
    told: mpsc::Receiver<News>,
    cancel: CancellationToken,
}

impl Running<'_> {
    async fn drive(&mut self, agents: &Agents, with: AgentChat, asker: &Asker) -> EndReason {
        let cancel = self.cancel.clone();
        let opened = tokio::select! {
            biased;
            () = cancel.cancelled() => return EndReason::Cancelled,
            opened = open(agents, &with, asker) => opened,
        };
        let (host, session) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.fail(error.to_string()),
        };
        let reason = match session.prompt(with.prompt).await {
            Ok(turn) => self.follow(&session, turn).await,
            Err(error) => self.fail(error.to_string()),
        };
        host.stop().await;
        reason
    }

    /// Tells of a turn until it is over.
    async fn follow(&mut self, session: &Session, mut turn: Turn) -> EndReason {
        let cancel = self.cancel.clone();
        let mut is_cancelled = false;
        loop {
            // What was decided is told before what the agent does then.
            tokio::select! {
                biased;
                Some(news) = self.told.recv() => {
                    if self.hear(news) {
                        session.cancel();
                    }
                }
                () = cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    session.cancel();
                }
                next = turn.next() => match next {
                    Some(next) => {
                        let told = self.telling.take(next.event);
                        self.tell(told);
                    }
                    None => break,
                },
            }
        }
        match is_cancelled {
            true => EndReason::Cancelled,
            false => self.telling.reason(),
        }
    }

    /// Tells of a question; true where the turn ends with it.
    fn hear(&mut self, news: News) -> bool {
        let (told, stops) = self.telling.hear(news);
        self.tell(told);
        stops
    }

    fn fail(&mut self, message: String) -> EndReason {
        let retryable = false;
        self.tell(vec![Happening::Failed { message, retryable }]);
        EndReason::Error
    }

    fn tell(&mut self, told: Vec<Happening>) {
        for what in told {
            let mut event = RunEvent {
                agent_id: self.agent_id.clone(),
                run_id: self.run_id.clone(),
                parent_id: None,
                what,
            };
            self.seat.report(&event);
            pass_on(self.chat, &self.redactor, &mut event);
        }
    }

    /// Waits for what was asked and is called off now, and tells the end.
    async fn end(&mut self, reason: EndReason, asker: Asker) {
        let mut called_off = Box::pin(asker.finish());
        loop {
            tokio::select! {
                biased;
                Some(news) = self.told.recv() => {
                    self.hear(news);
                }
                () = &mut called_off => break,
            }
        }
        while let Ok(news) = self.told.try_recv() {
            self.hear(news);
        }
        let told = self.telling.end(reason);
        self.tell(told);
        self.telling.finished().await;
    }
}

/// Starts an agent with a session, in the mode in which it asks.
async fn open(
    agents: &Agents,
    with: &AgentChat,
    asker: &Asker,
) -> Result<(Host, Session), HostError> {
    let options = HostOptions {
        decides: Arc::new(asker.clone()),
        ..agents.options.clone()
    };
    let host = (agents.start)(with.definition.clone(), options).await?;
    let session = host.new_session(OpenSession::new(&agents.cwd)).await?;
    if let Some(mode) = &with.definition.asking_mode {
        session.set_mode(mode).await?;
    }
    Ok((host, session))
}
