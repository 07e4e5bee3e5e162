//! Attaching a session, and what its owner can do with it afterwards.

use std::collections::HashMap;
use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::delivery::MessageReceipt;
use relay_protocol::ids::SessionId;
use relay_protocol::negotiation::Negotiated;
use relay_protocol::permission::{AskPermission, CreateRun, PermissionRun};
use relay_protocol::session::{Attach, BoundaryKind};
use relay_protocol::session_event::AgentSessionEvent;
use relay_protocol::status::AgentStatus;
use tokio::sync::{mpsc, oneshot, watch};

use super::memory::Memory;
use super::reports::Backlog;
use super::serve::Server;
use super::served::Served;
use super::traits::AgentSession;
use super::{Done, Order, Wait};
use crate::client::create_run;
use crate::error::{Error, Result};
use crate::http::Http;
use crate::permission::Question;
use crate::socket::{Command, Commands, Input, NewSession, SessionKey};

/// Takes what a session observes, in order. See [`AgentSession::on_event`].
#[derive(Clone)]
pub struct EventHandler {
    backlog: Backlog,
    inputs: mpsc::UnboundedSender<Input>,
}

impl EventHandler {
    /// Reports something. It is sent when the session is attached, and again until the server has it.
    pub fn emit(&self, event: AgentSessionEvent) -> Result<()> {
        self.push(event, None)
    }

    fn push(&self, event: AgentSessionEvent, done: Option<Done>) -> Result<()> {
        self.backlog.enter()?;
        let order = Order::Emit(event, done);
        let sent = self.inputs.send(Input::Order(order));
        sent.map_err(|_| Error::Ended)
    }
}

impl fmt::Debug for EventHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}

/// Where a session stands.
#[derive(Clone, Debug)]
pub(super) enum Life {
    /// Not attached yet.
    New,
    /// Attached, now or before its link was lost.
    Attached(Arc<Standing>),
    /// Over.
    Ended(Result<()>),
}

/// What is known of a session that is attached.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) session_id: SessionId,
    pub(super) resume_token: String,
    pub(super) negotiated: Negotiated,
}

/// The sessions that a client has attached, by id.
#[derive(Clone, Default)]
pub(crate) struct Directory(Arc<Mutex<HashMap<SessionId, EventHandler>>>);

impl Directory {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, EventHandler>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, id: SessionId, handler: EventHandler) {
        self.all().insert(id, handler);
    }

    pub(super) fn remove(&self, id: SessionId) {
        self.all().remove(&id);
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<EventHandler> {
        self.all().get(&id).cloned()
    }
}

/// A session that is about to be attached: awaited, it is.
#[must_use = "a session is attached when this is awaited"]
pub struct Attaching {
    session: Arc<dyn Served>,
    http: Arc<Http>,
    commands: Commands,
    directory: Directory,
    attach: Attach,
    memory: Option<PathBuf>,
}

impl Attaching {
    pub(crate) fn new<S: AgentSession>(
        session: S,
        http: Arc<Http>,
        commands: Commands,
        directory: Directory,
    ) -> Self {
        let attach = Attach {
            agent: session.identity().name,
            harness: "relay-sdk".to_owned(),
            capabilities: session.capabilities(),
            safe_states: None,
            status: None,
            resume: None,
            keeps_messages: None,
            attempt: None,
        };
        Self {
            session: Arc::new(session),
            http,
            commands,
            directory,
            attach,
            memory: None,
        }
    }

    /// Names what made the session, such as `claude-code`. Default: `relay-sdk`.
    pub fn harness(mut self, harness: impl Into<String>) -> Self {
        self.attach.harness = harness.into();
        self
    }

    /// Says what the session is doing. Default: it is idle.
    pub const fn status(mut self, status: AgentStatus) -> Self {
        self.attach.status = Some(status);
        self
    }

    /// Says in which states `on-idle` is open. Default: idle, waiting, blocked.
    pub fn safe_states(mut self, states: impl Into<Vec<AgentStatus>>) -> Self {
        self.attach.safe_states = Some(states.into());
        self
    }

    /// Makes the session one conversation among several of its agent: what is sent to the agent while it is the newest of them is for it
    /// alone, and so is what answers a message of it; both fail when it ends. Default: what is left goes to the agent's next session.
    pub const fn keeps_messages(mut self) -> Self {
        self.attach.keeps_messages = Some(true);
        self
    }

    /// Goes on with a session of before, for example of another process. If that has ended, a new one begins.
    pub fn resume(mut self, resume_token: impl Into<String>) -> Self {
        self.attach.resume = Some(resume_token.into());
        self
    }

    /// Remembers in this file what was surfaced, so that it is not surfaced again after a restart. Each session
    /// needs a file of its own. Default: only as long as the process lives.
    pub fn memory(mut self, file: impl Into<PathBuf>) -> Self {
        self.memory = Some(file.into());
        self
    }

    async fn attach(self) -> Result<AttachedSession> {
        let memory = match &self.memory {
            Some(path) => Memory::open(path)?,
            None => Memory::fleeting(),
        };
        let key = SessionKey::next();
        let (inputs, queue) = mpsc::unbounded_channel();
        let (tell, life) = watch::channel(Life::New);
        let events = EventHandler {
            backlog: Backlog::default(),
            inputs: inputs.clone(),
        };
        self.session.clone().on_event(events.clone());
        let server = Server::new(
            key,
            self.session,
            self.commands.clone(),
            queue,
            memory,
            events.backlog.clone(),
        );
        let new = NewSession {
            key,
            attach: self.attach,
            inputs: inputs.clone(),
        };
        let sent = self.commands.send(Command::Attach(Box::new(new)));
        sent.map_err(|_| Error::Closed)?;
        tokio::spawn(server.run(tell, self.directory, events.clone()));
        let session = AttachedSession {
            http: self.http,
            inputs,
            events,
            life,
        };
        session.until_attached().await?;
        Ok(session)
    }
}

impl IntoFuture for Attaching {
    type Output = Result<AttachedSession>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.attach())
    }
}

/// A session that this process serves. When it is dropped its link ends; the session itself stays, offline,
/// until it goes on ([`Attaching::resume`]) or is released.
pub struct AttachedSession {
    http: Arc<Http>,
    inputs: mpsc::UnboundedSender<Input>,
    events: EventHandler,
    life: watch::Receiver<Life>,
}

impl AttachedSession {
    async fn until_attached(&self) -> Result<()> {
        let mut life = self.life.clone();
        let known = life.wait_for(|life| !matches!(life, Life::New)).await;
        match known.map_err(|_| Error::Closed)?.clone() {
            Life::Ended(ended) => Err(ended.err().unwrap_or(Error::Ended)),
            _ => Ok(()),
        }
    }

    fn standing(&self) -> Result<Arc<Standing>> {
        match &*self.life.borrow() {
            Life::Attached(standing) => Ok(standing.clone()),
            Life::New => Err(Error::Ended),
            Life::Ended(ended) => Err(ended.clone().err().unwrap_or(Error::Ended)),
        }
    }

    /// The session's id. It changes when the session could not go on after a loss and a new one began.
    pub fn session_id(&self) -> Result<SessionId> {
        Ok(self.standing()?.session_id)
    }

    /// What lets the session go on in another process.
    pub fn resume_token(&self) -> Result<String> {
        Ok(self.standing()?.resume_token.clone())
    }

    /// What the server made of the session's abilities.
    pub fn negotiated(&self) -> Result<Negotiated> {
        Ok(self.standing()?.negotiated.clone())
    }

    /// Reports something, and waits until the server has stored it.
    pub async fn emit_session_event(&self, event: AgentSessionEvent) -> Result<()> {
        let (done, is_done) = oneshot::channel();
        self.events.push(event, Some(done))?;
        is_done.await.map_err(|_| Error::Ended)?
    }

    /// The handler that reports without waiting.
    #[must_use]
    pub fn events(&self) -> EventHandler {
        self.events.clone()
    }

    /// Asks whether a tool may run in this session, which waits until that is decided.
    pub async fn ask_permission(&self, ask: AskPermission) -> Result<Question> {
        let session = self.session_id()?;
        Question::ask(self.http.clone(), Some(session), ask).await
    }

    /// Begins a run in this session with rules of its own; under a parent they can narrow that one's, never
    /// widen them.
    pub async fn create_run(&self, run: &CreateRun) -> Result<PermissionRun> {
        create_run(&self.http, Some(self.session_id()?), run).await
    }

    /// Says that the session stands at a boundary; what is due there is handed over.
    pub async fn boundary(&self, kind: BoundaryKind) -> Result<()> {
        self.order(|done| Order::Boundary(kind, Wait::Offered, done))
            .await
    }

    /// Says that the session stands at a boundary, and waits until it has received and answered what is due there. For owners that
    /// put it in front of something of their own. Not to be awaited while the session receives a message: it waits for that, too.
    pub async fn receive_due(&self, kind: BoundaryKind) -> Result<()> {
        self.order(|done| Order::Boundary(kind, Wait::Answered, done))
            .await
    }

    /// Says what became of a delivery that was accepted before, and waits until that is stored. For one that the session was just
    /// given it is the answer, and what the session itself answers is not said any more.
    pub async fn receipt(&self, receipt: MessageReceipt) -> Result<()> {
        self.order(|done| Order::Receipt(receipt, done)).await
    }

    async fn order(&self, order: impl FnOnce(Done) -> Order) -> Result<()> {
        let (done, is_done) = oneshot::channel();
        let sent = self.inputs.send(Input::Order(order(done)));
        sent.map_err(|_| Error::Ended)?;
        is_done.await.map_err(|_| Error::Ended)?
    }

    /// Waits until the session has ended: released, given up, or gone on over another link.
    pub async fn ended(&self) -> Result<()> {
        let mut life = self.life.clone();
        let ended = life.wait_for(|life| matches!(life, Life::Ended(_))).await;
        match ended {
            Ok(ended) => match &*ended {
                Life::Ended(ended) => ended.clone(),
                _ => Ok(()),
            },
            Err(_) => Err(Error::Closed),
        }
    }

    /// Ends the link, and waits until nothing of the session is used any more, its file included.
    pub async fn detach(self) {
        let _ = self.inputs.send(Input::Order(Order::Stop));
        let mut life = self.life.clone();
        // Told by the end of the task, which is after everything.
        while life.changed().await.is_ok() {}
    }
}

impl Drop for AttachedSession {
    fn drop(&mut self) {
        let _ = self.inputs.send(Input::Order(Order::Stop));
    }
}
