//! Chats with a model: the loop, in a session of its own on the relay. Those with coding agents are begun here, too (`agent.rs`).
//!
//! What happens in a run is the chat's events as it is, but secrets are taken out of what tools get and give. Calls are asked about by the
//! relay's stored requests; whoever began the chat decides, or anybody else who may.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_harness::llm::conversation::Message;
use relay_harness::llm::limits::{EVENT_QUEUE, RunLimits};
use relay_harness::llm::models::{Model, Models};
use relay_harness::llm::retry::RetryPolicy;
use relay_harness::llm::run::{Happening, RunEvent};
use relay_harness::llm::session::{SessionSetup, converse};
use relay_harness::llm::tools::Tools;
use relay_protocol::chat::ModelList;
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{Permissions, ResolvePermission};
use relay_protocol::problem::Problem;
use relay_protocol::redact::Redactor;
use relay_rules::Policy;
use relay_sdk::AgentClient;
use serde_json::json;
use tokio::sync::mpsc;

use crate::agent::{self, AgentChat, Agents, prompt};
use crate::chats::Chat;
use crate::clients::Clients;
use crate::gateway::{Begun, Decides, Deciding, Drives};
use crate::refusal::Refusal;
use crate::request::{ChatRequest, With};

/// How a token becomes a client, through whatever leads to the server.
pub type Connect =
    Box<dyn Fn(String) -> BoxFuture<'static, relay_sdk::Result<AgentClient>> + Send + Sync>;

/// Whoever begins a chat.
pub trait Visitor: Send + Sync + 'static {
    /// The token of the agent that the chat runs as.
    fn agent_token(&self) -> &str;

    /// Decides about a call of the chat.
    fn decide(
        &self,
        id: PermissionId,
        decision: ResolvePermission,
    ) -> BoxFuture<'_, Result<(), Box<Problem>>>;
}

/// What models work with.
pub struct Workshop {
    /// Who can be asked.
    pub models: Models,
    /// Why some can't be asked that should be, in sentences for people.
    pub warnings: Vec<String>,
    /// Who is asked when nobody is named.
    pub default_model: Option<String>,
    /// What can be called.
    pub tools: Tools,
    /// What relative paths are meant from.
    pub cwd: Option<String>,
    /// How far each run may go.
    pub limits: RunLimits,
    /// When models are asked again.
    pub retry: RetryPolicy,
}

/// Chats with models, begun by visitors of one kind.
pub struct ModelChats<V> {
    shared: Arc<Shared>,
    visitors: std::marker::PhantomData<fn(V)>,
}

struct Shared {
    clients: Clients<AgentClient>,
    workshop: Workshop,
    agents: Option<Agents>,
}

impl<V: Visitor> ModelChats<V> {
    /// Chats in this workshop.
    #[must_use]
    pub fn new(connect: Connect, workshop: Workshop) -> Self {
        Self::with(connect, workshop, None)
    }

    /// Chats in this workshop, and with these coding agents.
    #[must_use]
    pub fn with_agents(connect: Connect, workshop: Workshop, agents: Agents) -> Self {
        Self::with(connect, workshop, Some(agents))
    }

    fn with(connect: Connect, workshop: Workshop, agents: Option<Agents>) -> Self {
        let shared = Shared {
            clients: Clients::new(connect),
            workshop,
            agents,
        };
        Self {
            shared: Arc::new(shared),
            visitors: std::marker::PhantomData,
        }
    }
}

impl<V: Visitor> Drives for ModelChats<V> {
    type Visitor = V;

    fn models(&self) -> ModelList {
        let Workshop {
            models,
            default_model,
            warnings,
            ..
        } = &self.shared.workshop;
        ModelList {
            warnings: warnings.clone(),
            ..ModelList::new(models.names(), default_model.clone())
        }
    }

    fn prepare(
        &self,
        request: ChatRequest,
        visitor: V,
    ) -> BoxFuture<'static, Result<Begun, Refusal>> {
        let shared = self.shared.clone();
        async move {
            let messages = Message::from_chat(&request.messages)
                .map_err(|error| Refusal::shape(&error.place, error.expected))?;
            check_rules(request.permissions.as_ref())?;
            let answers = shared.find(&request, messages)?;
            let connected = shared.clients.lease(visitor.agent_token()).await;
            let client = connected.map_err(|error| Refusal::of(&problem_of(&error)))?;
            let run = move |chat: Arc<Chat>| -> BoxFuture<'static, ()> {
                async move { shared.run(client.clone(), answers, request, &chat).await }.boxed()
            };
            Ok(Begun {
                decides: Arc::new(By(visitor)),
                run: Box::new(run),
            })
        }
        .boxed()
    }
}

/// Who answers, ready to be asked.
enum Answers {
    Model(Model, Vec<Message>),
    Agent(Box<AgentChat>),
    /// As the contract has it, a model that is not there is told of in the stream.
    Nobody(String),
}

impl Shared {
    fn find(&self, request: &ChatRequest, messages: Vec<Message>) -> Result<Answers, Refusal> {
        match (&request.with, &self.agents) {
            (With::Model(name), _) => Ok(match self.workshop.models.find(name) {
                Ok(model) => Answers::Model(model, messages),
                Err(unknown) => Answers::Nobody(unknown.to_string()),
            }),
            (With::Agent(_), None) => Err(Refusal::shape(
                "agent",
                "nothing: this server has models only",
            )),
            (With::Agent(id), Some(agents)) => {
                let found = agents.catalogue.get(id);
                let definition = found.map_err(|error| Refusal::unknown_agent(&error))?;
                Ok(Answers::Agent(Box::new(AgentChat {
                    definition: definition.clone(),
                    prompt: prompt(messages)?,
                    permissions: request.permissions.clone(),
                })))
            }
        }
    }

    async fn run(
        &self,
        agent: AgentClient,
        answers: Answers,
        request: ChatRequest,
        chat: &Arc<Chat>,
    ) {
        match (answers, &self.agents) {
            (Answers::Model(model, messages), _) => {
                run(&self.workshop, agent, model, request, messages, chat).await;
            }
            (Answers::Agent(with), Some(agents)) => {
                agent::run(agents, agent, *with, chat).await;
            }
            (Answers::Nobody(unknown), _) => fail(chat, &unknown),
            // Found among them, so they are there.
            (Answers::Agent(_), None) => {}
        }
    }
}

/// Rules that can't be read are refused before anything begins.
fn check_rules(permissions: Option<&Permissions>) -> Result<(), Refusal> {
    let Some(permissions) = permissions else {
        return Ok(());
    };
    let compiled = Policy::compile(permissions);
    compiled.map(drop).map_err(|fault| {
        let expected = format!("{}, found {}", fault.expected, fault.found);
        Refusal::shape(&fault.path, &expected)
    })
}

async fn run(
    workshop: &Workshop,
    agent: AgentClient,
    model: Model,
    request: ChatRequest,
    messages: Vec<Message>,
    chat: &Chat,
) {
    let setup = SessionSetup {
        model,
        models: workshop.models.clone(),
        tools: workshop.tools.clone(),
        system: String::new(),
        permissions: request.permissions,
        cwd: workshop.cwd.clone(),
        limits: workshop.limits,
        retry: workshop.retry,
    };
    let (tell, mut told) = mpsc::channel::<RunEvent>(EVENT_QUEUE);
    let conversation = converse(agent, setup, messages, tell, chat.token());
    let passing_on = async {
        let mut has_begun = false;
        let redactor = Redactor::new();
        while let Some(mut event) = told.recv().await {
            has_begun = true;
            pass_on(chat, &redactor, &mut event);
        }
        has_begun
    };
    let (outcome, has_begun) = tokio::join!(conversation, passing_on);
    match outcome {
        Err(error) => fail(chat, &error.to_string()),
        // No event has told why.
        Ok(outcome) if !has_begun => fail(chat, &outcome.error.unwrap_or_default()),
        Ok(_) => {}
    }
}

/// Tells of what happened, without secrets.
pub(crate) fn pass_on(chat: &Chat, redactor: &Redactor, event: &mut RunEvent) {
    mask(redactor, &mut event.what);
    let event = &*event;
    match &event.what {
        Happening::Asked(asked) => chat.ask(&asked.id, event),
        Happening::Resolved(resolved) => chat.resolve(&resolved.relay_id, event),
        what => chat.tell(what.name(), event),
    }
}

/// Takes secrets out of what tools get and give; those of a question were taken out by the relay.
fn mask(redactor: &Redactor, what: &mut Happening) {
    let shown = match what {
        Happening::Called { input, .. } => input,
        Happening::Progress { content, .. } => content,
        Happening::Result { output, .. } => output,
        _ => return,
    };
    redactor.redact_json(shown);
}

/// An error of the server's own.
pub(crate) fn fail(chat: &Chat, message: &str) {
    chat.tell("error", &json!({ "type": "error", "message": message }));
}

fn problem_of(error: &relay_sdk::Error) -> Problem {
    use relay_protocol::problem::ErrorCode;
    match error {
        relay_sdk::Error::Problem(problem) => (**problem).clone(),
        other => Problem::new(ErrorCode::Overloaded, other.to_string()),
    }
}

/// Decides as the one who began the chat.
struct By<V>(V);

impl<V: Visitor> Decides for By<V> {
    fn decide(&self, id: PermissionId, decision: ResolvePermission) -> Deciding<'_> {
        async move {
            let decided = self.0.decide(id, decision).await;
            decided.map_err(|problem| Refusal::of(&problem))
        }
        .boxed()
    }
}
