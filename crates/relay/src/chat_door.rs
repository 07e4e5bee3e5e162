//! `/chat` of a server: chats are kept by `relay-chat`, and run as an agent that reaches the server through its own door.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderName, Response, StatusCode};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use relay_chat::{Agents, Gateway, ModelChats, Refusal, Viewer, Visitor, Workshop};
use relay_harness::child::ChildEnvironment;
use relay_harness::llm::limits::RunLimits;
use relay_harness::llm::retry::RetryPolicy;
use relay_harness::llm::tools::{Shell, Tools, Workspace};
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::ResolvePermission;
use relay_protocol::problem::Problem;
use relay_server::{Body, Chat, ChatCall, ChatPlace, ChatService, ChatVisitor, LocalDoor};
use serde::Serialize;

use crate::coding_agents::environment;
use crate::config::{ChatSettings, Settings};
use crate::mcp_door::clients;
use crate::models::models;
use crate::moment;

/// Tells a proxy not to hold a stream back.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Tools that change things or run programs.
const POWERFUL: &[&str] = &["bash", "write", "patch"];

/// Where a server is that has chats.
pub(crate) struct Surroundings<'a> {
    /// The data directory, which no tool touches.
    pub(crate) data: &'a Path,
    /// The workspace key, for those who need none.
    pub(crate) key: &'a str,
    /// Whether only this machine reaches the server.
    pub(crate) is_loopback: bool,
}

/// Chats for the server that this door leads to.
pub(crate) fn chat(
    door: LocalDoor,
    settings: &Settings,
    around: &Surroundings<'_>,
) -> Result<Chat> {
    let ChatSettings {
        agent,
        default_model,
        anonymous,
        max_iterations,
        ..
    } = &settings.chat;
    let directory = directory(&settings.chat)?;
    let offered = models(&settings.providers, |name| std::env::var(name).ok())?;
    for warning in &offered.warnings {
        tracing::warn!("{warning}");
    }
    let workshop = Workshop {
        models: offered.models,
        warnings: offered.warnings,
        default_model: (!default_model.is_empty()).then(|| default_model.clone()),
        tools: tools(&directory, settings, around)?,
        cwd: directory.to_str().map(str::to_owned),
        limits: RunLimits {
            iterations: *max_iterations,
            ..RunLimits::default()
        },
        retry: RetryPolicy::default(),
    };
    if *anonymous && around.is_loopback {
        tracing::warn!(
            "chat.anonymous is set: every program on this machine may begin chats, which run tools with your rights"
        );
    }
    let place = ChatPlace {
        agent: agent.clone(),
        anonymous: anonymous.then(|| around.key.to_owned()),
    };
    let chats = match may_change_things(settings, around) {
        true => {
            let catalogue = settings.agents.clone();
            let agents = Agents::programs(catalogue, directory, |agent| environment(agent, &[]));
            ModelChats::with_agents(clients(door), workshop, agents)
        }
        false => ModelChats::new(clients(door), workshop),
    };
    let gateway = Gateway::new(chats);
    Ok(Chat::by(Service(gateway), place))
}

fn directory(settings: &ChatSettings) -> Result<PathBuf> {
    let directory = match settings.directory.as_os_str().is_empty() {
        true => std::env::current_dir().context("the working directory can't be found")?,
        false => settings.directory.clone(),
    };
    directory
        .canonicalize()
        .with_context(|| format!("chat.directory: {} can't be opened", directory.display()))
}

fn tools(directory: &Path, settings: &Settings, around: &Surroundings<'_>) -> Result<Tools> {
    let workspace = Workspace::open(directory, vec![around.data.to_owned()])
        .with_context(|| format!("chat.directory: {} can't be opened", directory.display()))?;
    let shell = Shell {
        cwd: directory.to_owned(),
        environment: ChildEnvironment::for_agent(std::env::vars_os(), &[""; 0], [("", ""); 0]),
    };
    let mut tools = Tools::standard(&Arc::new(workspace), shell);
    if !may_change_things(settings, around) {
        for tool in POWERFUL {
            tools = tools.without(tool);
        }
    }
    Ok(tools)
}

/// Whether chats may run commands and change files: what only this machine reaches may, everything else if that is set.
const fn may_change_things(settings: &Settings, around: &Surroundings<'_>) -> bool {
    around.is_loopback || settings.chat.tools_for_others
}

struct Service(Gateway<ModelChats<Guest>>);

impl ChatService for Service {
    fn answer(&self, call: ChatCall) -> BoxFuture<'static, Response<Body>> {
        let gateway = self.0.clone();
        async move {
            match call {
                ChatCall::Models => json(StatusCode::OK, &gateway.models()),
                ChatCall::Begin { body, visitor } => {
                    stream(gateway.begin(&body, Guest(visitor), moment::now()).await)
                }
                ChatCall::Look { session_id, seen } => {
                    stream(gateway.look(&session_id, seen.as_deref()))
                }
                ChatCall::Cancel { session_id } => match gateway.cancel(&session_id) {
                    Ok(()) => {
                        let mut response = Response::new(Body::empty());
                        *response.status_mut() = StatusCode::NO_CONTENT;
                        response
                    }
                    Err(refusal) => refused(&refusal),
                },
                ChatCall::Resolve { relay_id, body } => {
                    match gateway.resolve(&relay_id, &body).await {
                        Ok(done) => json(StatusCode::OK, &done),
                        Err(refusal) => refused(&refusal),
                    }
                }
            }
        }
        .boxed()
    }

    fn stop(&self) -> BoxFuture<'static, ()> {
        let gateway = self.0.clone();
        async move { gateway.stop().await }.boxed()
    }
}

/// What whoever looks sees.
fn stream(viewer: Result<Viewer, Refusal>) -> Response<Body> {
    let viewer = match viewer {
        Ok(viewer) => viewer,
        Err(refusal) => return refused(&refusal),
    };
    let frames = viewer.stream().map(Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json(status, &refusal.body)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// Whoever begins a chat, as the server let them in.
struct Guest(ChatVisitor);

impl Visitor for Guest {
    fn agent_token(&self) -> &str {
        &self.0.agent_token
    }

    fn decide(
        &self,
        id: PermissionId,
        decision: ResolvePermission,
    ) -> BoxFuture<'_, Result<(), Box<Problem>>> {
        async move { self.0.decide(id, decision).await.map(drop) }.boxed()
    }
}
