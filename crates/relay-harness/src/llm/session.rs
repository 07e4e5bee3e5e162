//! A model on the relay: messages to its agent become what its user says, and it can send.
//!
//! [`attach`] makes a session of a [`SessionSetup`]. A task owns it: it starts a run when something has come and none goes on. Before each
//! question the session stands at a boundary of the relay, and the question waits until what is due there has come (`boundary.rs`). What
//! comes during a run is said before the next question, if it may disturb, and begins the next run otherwise (`bag.rs`). A message is
//! delivered when the model has begun to answer a question that has it in it; one that could not be asked goes back.
//!
//! [`converse`] is one of several conversations of an agent. What is sent while it is the newest is for it alone; its run goes on as
//! long as something has come when the model has said all, and what comes too late fails with it.

mod bag;
mod boundary;
mod report;
mod served;

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::permission::Permissions;
use relay_protocol::session::BoundaryKind;
use relay_protocol::status::AgentStatus;
use relay_sdk::{AgentClient, AttachedSession, EventHandler};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::bag::Bag;
use self::boundary::{BoundaryInbox, BoundaryStop};
use self::report::Reporter;
use self::served::{Mail, Served};
use super::conversation::Message;
use super::limits::{EVENT_QUEUE, RunLimits};
use super::models::{Model, Models};
use super::permits::RelayPermits;
use super::retry::RetryPolicy;
use super::run::{EndReason, RunEvent, RunOutcome, RunSetup, run};
use super::tools::{ReadAttachmentTool, SendTool, Tools};

/// Why what comes for a conversation that is over fails.
const CONVERSATION_OVER: &str = "the conversation has ended";

/// A model as an agent.
#[derive(Clone)]
pub struct SessionSetup {
    /// Who is asked.
    pub model: Model,
    /// Whom nested runs may ask instead.
    pub models: Models,
    /// What it can call; `send` is added.
    pub tools: Tools,
    /// Instructions.
    pub system: String,
    /// The rules of its runs, beside those of the workspace.
    pub permissions: Option<Permissions>,
    /// What relative paths are meant from.
    pub cwd: Option<String>,
    /// How far each run may go.
    pub limits: RunLimits,
    /// When models are asked again.
    pub retry: RetryPolicy,
}

/// Puts a model on the relay, as a body of this agent.
pub async fn attach(agent: AgentClient, setup: SessionSetup) -> relay_sdk::Result<LlmSession> {
    let messages = match setup.system.is_empty() {
        true => Vec::new(),
        false => vec![Message::System(setup.system.clone())],
    };
    let release = CancellationToken::new();
    let (driver, over) = put_on(agent, setup, messages, release.clone(), Mail::Read).await?;
    let attached = driver.attached.clone();
    let driving = tokio::spawn(async move {
        driver.drive().await;
        over.send_replace(true);
    });
    Ok(LlmSession {
        attached,
        release,
        driving,
    })
}

/// One conversation in a session of its own: goes on with what was said so far, tells of all that happens, and leaves the relay
/// when the model has said all, or the token is cancelled.
pub async fn converse(
    agent: AgentClient,
    setup: SessionSetup,
    messages: Vec<Message>,
    told: mpsc::Sender<RunEvent>,
    cancel: CancellationToken,
) -> relay_sdk::Result<RunOutcome> {
    let (driver, over) = put_on(agent.clone(), setup, messages, cancel, Mail::Shared).await?;
    let mut reporter = Reporter::new(driver.events.clone(), AgentStatus::Active);
    let outcome = driver.run(&mut reporter, Some(&told)).await;
    driver.bag.give_back_all(CONVERSATION_OVER);
    over.send_replace(true);
    leave(&agent, &driver.attached).await;
    Ok(outcome)
}

/// Takes a conversation off the relay.
async fn leave(agent: &AgentClient, attached: &AttachedSession) {
    let Ok(session) = attached.session_id() else {
        return;
    };
    let released = agent.release_session(session, Some(CONVERSATION_OVER));
    if let Err(error) = released.await {
        tracing::warn!(session.id = %session, %error, "the relay does not know that a conversation has ended");
    }
}

/// Attaches a session, for whoever drives it then; and what is told when nothing more will happen.
async fn put_on(
    agent: AgentClient,
    setup: SessionSetup,
    messages: Vec<Message>,
    release: CancellationToken,
    mail: Mail,
) -> relay_sdk::Result<(Driver, watch::Sender<bool>)> {
    let status = match mail {
        Mail::Read => AgentStatus::Idle,
        // Its run begins at once.
        Mail::Shared => AgentStatus::Active,
    };
    let bag = Arc::new(Bag::new(mail));
    let events = Arc::new(OnceLock::new());
    let (over, is_over) = watch::channel(false);
    let served = Served {
        agent: agent.clone(),
        bag: bag.clone(),
        events: events.clone(),
        release: release.clone(),
        is_over,
        mail,
    };
    let mut attaching = agent
        .attach(served)
        .harness("llm")
        .safe_states([AgentStatus::Idle])
        .status(status);
    if mail == Mail::Shared {
        attaching = attaching.keeps_messages();
    }
    let attached = Arc::new(attaching.await?);
    bag.deliver_by(attached.clone());
    let driver = Driver {
        agent,
        setup,
        bag,
        attached,
        events,
        release,
        messages,
        mail,
    };
    Ok((driver, over))
}

/// A model that is on the relay. Dropped, it leaves the relay, and what it does ends.
pub struct LlmSession {
    attached: Arc<AttachedSession>,
    release: CancellationToken,
    driving: JoinHandle<()>,
}

impl LlmSession {
    /// The session on the relay.
    #[must_use]
    pub fn attached(&self) -> &AttachedSession {
        &self.attached
    }

    /// Ends it in order: what it does is cancelled, what it has not read goes back.
    pub async fn end(mut self) {
        self.release.cancel();
        let _ = (&mut self.driving).await;
    }
}

impl Drop for LlmSession {
    fn drop(&mut self) {
        self.driving.abort();
    }
}

/// The task of a session.
struct Driver {
    agent: AgentClient,
    setup: SessionSetup,
    bag: Arc<Bag>,
    attached: Arc<AttachedSession>,
    events: Arc<OnceLock<EventHandler>>,
    release: CancellationToken,
    messages: Vec<Message>,
    mail: Mail,
}

impl Driver {
    async fn drive(mut self) {
        let mut reporter = Reporter::new(self.events.clone(), AgentStatus::Idle);
        self.at_boundary(BoundaryKind::NextMessage);
        loop {
            tokio::select! {
                () = self.release.cancelled() => break,
                ended = self.attached.ended() => {
                    let _ = ended;
                    break;
                }
                () = self.bag.has_mail() => {}
            }
            reporter.status(AgentStatus::Active, None);
            let outcome = self.run(&mut reporter, None).await;
            self.messages = outcome.messages;
            if outcome.reason == EndReason::Cancelled {
                break;
            }
            if !self.bag.turn_over() {
                reporter.status(AgentStatus::Idle, outcome.error.as_deref());
                self.at_boundary(BoundaryKind::NextMessage);
            }
        }
        self.bag.give_back_all("the session has ended");
    }

    /// One run. `also` is told of all that happens, too.
    async fn run(
        &self,
        reporter: &mut Reporter,
        also: Option<&mpsc::Sender<RunEvent>>,
    ) -> RunOutcome {
        let (sender, mut told) = mpsc::channel(EVENT_QUEUE);
        let (stops, mut stopping) = mpsc::channel(1);
        let mut running = self.start(sender, stops);
        loop {
            tokio::select! {
                biased;
                Some(event) = told.recv() => self.pass_on(event, reporter, also).await,
                // The run waits for this, so all that it has told is reported by now.
                Some(stop) = stopping.recv() => self.stand_at(stop, reporter).await,
                outcome = &mut running => {
                    while let Ok(event) = told.try_recv() {
                        self.pass_on(event, reporter, also).await;
                    }
                    return outcome;
                }
            }
        }
    }

    async fn pass_on(
        &self,
        event: RunEvent,
        reporter: &mut Reporter,
        also: Option<&mpsc::Sender<RunEvent>>,
    ) {
        reporter.take(&event);
        if let Some(also) = also {
            // Nobody listens any more; whoever began it decides what that means.
            let _ = also.send(event).await;
        }
    }

    fn start(
        &self,
        events: mpsc::Sender<RunEvent>,
        stops: mpsc::Sender<BoundaryStop>,
    ) -> BoxFuture<'static, RunOutcome> {
        let (setup, messages) = (self.setup.clone(), self.messages.clone());
        let (agent, attached, bag) = (self.agent.clone(), self.attached.clone(), self.bag.clone());
        let cancel = self.release.child_token();
        let mail = self.mail;
        async move {
            let (asker, rules, cwd) = (agent.clone(), setup.permissions, setup.cwd);
            let session = match mail {
                Mail::Read => None,
                Mail::Shared => attached.session_id().ok(),
            };
            let permits = match mail {
                Mail::Read => RelayPermits::begin_in(asker, attached, rules, cwd).await,
                Mail::Shared => RelayPermits::begin_beside(asker, attached, rules, cwd).await,
            };
            let permits = match permits {
                Ok(permits) => permits,
                Err(error) => {
                    bag.refuse_all(&error.to_string());
                    return RunOutcome::unbegun(messages, error.to_string());
                }
            };
            let setup = RunSetup {
                model: setup.model,
                models: setup.models,
                tools: setup
                    .tools
                    .with(SendTool::new(agent.clone(), session))
                    .with(ReadAttachmentTool::new(agent)),
                permits: Arc::new(permits),
                limits: setup.limits,
                retry: setup.retry,
                agent_id: None,
                inbox: Some(Arc::new(BoundaryInbox::new(bag, stops))),
            };
            run(setup, messages, events, cancel).await
        }
        .boxed()
    }

    /// Whatever waits for this moment may come.
    fn at_boundary(&self, kind: BoundaryKind) {
        let attached = self.attached.clone();
        tokio::spawn(async move {
            // Without a link nothing waits; it is said again at the next one.
            let _ = attached.boundary(kind).await;
        });
    }
}
