//! A run: a model is asked, its calls are made, and it is asked again, until it has said all.
//!
//! What comes next is decided in `machine.rs`, the order of calls in `order.rs`, both pure; `calls.rs` makes the calls of one turn, `came.rs` says what came of them. Everything
//! happens in the caller's task: nothing runs on when it is dropped. To end a run in order, cancel its token: connections are
//! closed, programs ended, questions withdrawn, and every call still gets a result.

mod calls;
mod came;
mod event;
mod machine;
mod order;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use event::{
    AskedShown, DroppedPart, EndReason, Happening, MessageShown, ResolvedShown, RunEvent,
    UsageShown,
};
use machine::{Machine, Step};

use super::ask::ask;
use super::conversation::Message;
use super::error::ProviderError;
use super::ids::new_id;
use super::limits::RunLimits;
use super::models::{Model, Models};
use super::permits::Permits;
use super::provider::{ModelRequest, ProviderEvent, StopReason, Usage};
use super::retry::RetryPolicy;
use super::tools::Tools;

/// How long a run that has ended waits for the relay to know it.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What a run works with.
#[derive(Clone)]
pub struct RunSetup {
    /// Who is asked.
    pub model: Model,
    /// Whom nested runs may ask instead, by name.
    pub models: Models,
    /// What can be called.
    pub tools: Tools,
    /// Who decides about calls.
    pub permits: Arc<dyn Permits>,
    /// How far it may go.
    pub limits: RunLimits,
    /// When models are asked again.
    pub retry: RetryPolicy,
    /// The agent, in events; absent: a new one.
    pub agent_id: Option<String>,
    /// What comes for the model while it works.
    pub inbox: Option<Arc<dyn Inbox>>,
}

/// What comes for the model of a run while it works. Nested runs have none.
pub trait Inbox: Send + Sync {
    /// Waits until what is due at this moment has come, and takes what is to be said before the next question.
    fn take(&self, moment: RunMoment) -> BoxFuture<'_, Vec<Incoming>>;
    /// The model has begun to answer: it has what was taken.
    fn answered(&self);
    /// The model did not answer: what was taken is not in the conversation.
    fn unanswered(&self, why: &str);
}

/// The moments at which a run takes what has come for its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMoment {
    /// Before the first question.
    Begin,
    /// Before the question that has the results of calls.
    AfterCalls,
    /// The model has said all: the run ends if nothing has come.
    End,
}

/// A message for a model.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// What the model gets.
    pub message: Message,
    /// What those who follow the run see.
    pub shown: MessageShown,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Why.
    pub reason: EndReason,
    /// What went wrong, where something did.
    pub error: Option<String>,
    /// The conversation, what was said in the run included. Every call in it has a result.
    pub messages: Vec<Message>,
    /// The words of the last answer.
    pub text: String,
    /// What all questions cost, those of nested runs not counted.
    pub usage: Usage,
}

impl RunOutcome {
    /// Of a run that could not begin.
    pub(crate) fn unbegun(messages: Vec<Message>, error: String) -> Self {
        Self {
            reason: EndReason::Error,
            error: Some(error),
            messages,
            text: String::new(),
            usage: Usage::default(),
        }
    }
}

/// Runs until the model has said all, something fails, or the token is cancelled. Events wait for a slow reader; without one
/// they are dropped.
pub async fn run(
    setup: RunSetup,
    messages: Vec<Message>,
    events: mpsc::Sender<RunEvent>,
    cancel: CancellationToken,
) -> RunOutcome {
    let system = messages
        .iter()
        .filter(|message| matches!(message, Message::System(_)));
    let context = Context {
        agent_id: setup.agent_id.unwrap_or_else(new_id),
        run_id: setup.permits.run_id(),
        parent_id: None,
        depth: 1,
        model: setup.model,
        permits: setup.permits,
        inbox: setup.inbox,
        cancel,
        shared: Arc::new(Shared {
            models: setup.models,
            tools: setup.tools,
            limits: setup.limits,
            retry: setup.retry,
            children: Arc::new(Semaphore::new(setup.limits.children)),
            questions: Arc::new(Semaphore::new(setup.limits.questions)),
            system: system.cloned().collect(),
            events,
        }),
    };
    drive(Arc::new(context), messages).await
}

/// What a run and those below it share.
pub(crate) struct Shared {
    pub(crate) models: Models,
    pub(crate) tools: Tools,
    pub(crate) limits: RunLimits,
    retry: RetryPolicy,
    /// One for each nested run that may live.
    pub(crate) children: Arc<Semaphore>,
    /// One for each call that may wait for a decision.
    pub(crate) questions: Arc<Semaphore>,
    /// The instructions of the outermost run.
    pub(crate) system: Vec<Message>,
    events: mpsc::Sender<RunEvent>,
}

/// One run.
pub(crate) struct Context {
    pub(crate) agent_id: String,
    pub(crate) run_id: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) depth: u32,
    pub(crate) model: Model,
    pub(crate) permits: Arc<dyn Permits>,
    pub(crate) inbox: Option<Arc<dyn Inbox>>,
    pub(crate) cancel: CancellationToken,
    pub(crate) shared: Arc<Shared>,
}

impl Context {
    pub(crate) async fn tell(&self, what: Happening) {
        let event = RunEvent {
            agent_id: self.agent_id.clone(),
            run_id: self.run_id.clone(),
            parent_id: self.parent_id.clone(),
            what,
        };
        // Nobody listens any more; whoever started the run decides what that means.
        let _ = self.shared.events.send(event).await;
    }
}

/// Boxed, because a run may be nested in a call of another.
pub(crate) fn drive(
    context: Arc<Context>,
    messages: Vec<Message>,
) -> BoxFuture<'static, RunOutcome> {
    Box::pin(async move {
        let limit = context.shared.limits.iterations;
        let started = Happening::Started {
            depth: context.depth,
            max_iterations: Some(limit),
        };
        context.tell(started).await;
        let mut running = Running {
            machine: Machine::new(messages, limit),
            context,
            moment: RunMoment::Begin,
            incoming: None,
            error: None,
            block: String::new(),
        };
        let reason = running.turns().await;
        running.end(reason).await
    })
}

struct Running {
    context: Arc<Context>,
    machine: Machine,
    /// When the next question is asked.
    moment: RunMoment,
    /// What was taken for the next question already.
    incoming: Option<Vec<Incoming>>,
    error: Option<String>,
    /// The text to which the next piece belongs.
    block: String,
}

impl Running {
    async fn turns(&mut self) -> EndReason {
        let mut step = self.machine.begin();
        loop {
            step = match step {
                Step::Ask { with_tools } => match self.ask(with_tools).await {
                    Ok(reason) => self.machine.stopped(&reason),
                    Err(end) => return end,
                },
                Step::Call(calls) => {
                    let turn = calls::make(&self.context, calls).await;
                    if let Some(error) = turn.error {
                        self.fail(error, false).await;
                    }
                    self.moment = RunMoment::AfterCalls;
                    self.machine.results(turn.results, turn.guidance, turn.end)
                }
                Step::End(EndReason::Final) => {
                    let incoming = self.take_incoming(RunMoment::End).await;
                    if incoming.is_empty() {
                        return EndReason::Final;
                    }
                    self.incoming = Some(incoming);
                    self.machine.go_on()
                }
                Step::End(reason) => return reason,
            };
        }
    }

    /// Takes what has come for the model; nothing once the run is cancelled.
    async fn take_incoming(&self, moment: RunMoment) -> Vec<Incoming> {
        let Some(inbox) = &self.context.inbox else {
            return Vec::new();
        };
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => Vec::new(),
            incoming = inbox.take(moment) => incoming,
        }
    }

    /// One question and its answer.
    async fn ask(&mut self, with_tools: bool) -> Result<StopReason, EndReason> {
        let context = self.context.clone();
        if context.cancel.is_cancelled() {
            return Err(EndReason::Cancelled);
        }
        let incoming = match self.incoming.take() {
            Some(incoming) => incoming,
            None => self.take_incoming(self.moment).await,
        };
        let (heard, mut shown): (Vec<_>, Vec<_>) = incoming
            .into_iter()
            .map(|incoming| (incoming.message, incoming.shown))
            .unzip();
        self.machine.hear(heard);
        let tools = match with_tools {
            true => context.shared.tools.specs(),
            false => Vec::new(),
        };
        let request = ModelRequest {
            model: context.model.name.clone(),
            messages: self.machine.messages().to_vec(),
            tools,
        };
        let provider = context.model.provider.clone();
        let mut answer = ask(provider, request, context.shared.retry);
        let mut has_begun = false;
        let ended = loop {
            let next = tokio::select! {
                biased;
                () = context.cancel.cancelled() => break Err(EndReason::Cancelled),
                next = answer.next() => next,
            };
            if matches!(next, Some(Ok(_))) && !std::mem::replace(&mut has_begun, true) {
                context.inbox.iter().for_each(|inbox| inbox.answered());
                for message in shown.drain(..) {
                    context.tell(Happening::Message(Box::new(message))).await;
                }
            }
            match next {
                Some(Ok(ProviderEvent::Stop(reason))) => break Ok(reason),
                Some(Ok(event)) => self.take(event).await,
                Some(Err(error)) => {
                    self.fail_provider(&error).await;
                    break Err(EndReason::Error);
                }
                None => {
                    self.fail("the answer ended without an end".to_owned(), false)
                        .await;
                    break Err(EndReason::Error);
                }
            }
        };
        // Closes the connection.
        drop(answer);
        if !has_begun && let Some(inbox) = &context.inbox {
            self.machine.unhear();
            inbox.unanswered(self.error.as_deref().unwrap_or("the run was cancelled"));
        }
        if ended.is_err() {
            self.machine.broke_off();
        }
        self.tell_usage().await;
        ended
    }

    async fn take(&mut self, event: ProviderEvent) {
        let Some(shown) = self.machine.take(event) else {
            return;
        };
        if shown.begins {
            self.block = new_id();
        }
        let (id, content) = (self.block.clone(), shown.text);
        let what = match shown.is_thought {
            true => Happening::Reasoning { id, content },
            false => Happening::Text { id, content },
        };
        self.context.tell(what).await;
    }

    /// Once for each question, also for one that broke off: it was paid for.
    async fn tell_usage(&self) {
        let usage = self.machine.question_usage;
        if usage != Usage::default() {
            self.context.tell(Happening::Usage(usage.into())).await;
        }
    }

    async fn fail_provider(&mut self, error: &ProviderError) {
        self.fail(error.to_string(), error.is_retryable()).await;
    }

    async fn fail(&mut self, message: String, retryable: bool) {
        self.error = Some(message.clone());
        let what = Happening::Failed { message, retryable };
        self.context.tell(what).await;
    }

    async fn end(self, reason: EndReason) -> RunOutcome {
        let because = match reason {
            EndReason::Cancelled => "the run was cancelled",
            _ => "the run has ended",
        };
        // A relay that can't be reached must not keep the end of the run from whoever waits for it.
        let _ = timeout(LAST_WORDS, self.context.permits.end(because)).await;
        let ended = Happening::Ended {
            reason,
            iterations: self.machine.iterations,
            total_usage: self.machine.usage.into(),
        };
        self.context.tell(ended).await;
        RunOutcome {
            reason,
            error: self.error,
            text: self.machine.last_words(),
            usage: self.machine.usage,
            messages: self.machine.into_messages(),
        }
    }
}
