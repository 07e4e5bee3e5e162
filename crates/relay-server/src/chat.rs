//! `/models` and `/chat`: the place for chats behind the same guards as every route. Who answers in them is the program's choice
//! ([`ChatService`]); here it is made sure who asks, and that what is asked has a bearable size.
//!
//! A chat runs as an agent of the workspace, which is made here: one for those who have the key, and one for each person, so that people
//! don't share a mailbox. These agents are in no channel. Whoever began it decides about its calls, by name of the chat alone: that
//! is known to nobody else. On a loopback address `/models` and decisions need no credential, as in the contract's own examples;
//! everything else does, unless the program lets anybody begin chats. Errors are in the contract's form.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use relay_core::{Caller, Engine, Error};
use relay_protocol::agent::{AgentIdentity, Metadata};
use relay_protocol::api::workspace::RegisterAgent;
use relay_protocol::ids::{AgentId, PermissionId, WorkspaceId};
use relay_protocol::limits::{CHAT_BODY_BYTES, NAME_CHARS};
use relay_protocol::names;
use relay_protocol::permission::{PermissionRecord, ResolvePermission};
use relay_protocol::problem::{ErrorCode, Problem};
use schemars::SchemaGenerator;
use serde_json::{Value, json};

use crate::access::{Access, App, Kind as _, Owner, Participant, bearer};
use crate::call::read_body;
use crate::guarded::Guarded;
use crate::refusal::Refusal;
use crate::table::{Described, Route, path_parts, peer};

/// The header by which a client that comes back says what it has seen.
const LAST_EVENT_ID: &str = "last-event-id";

/// The metadata by which the agents are known that chats run as.
const MARK: (&str, &str) = ("runs", "chats");

/// The metadata that names the person whose chats such an agent hosts.
const PERSON: &str = "person";

/// Characters of a person's id that stand in the name of an agent.
const ID_TAIL: usize = 12;

/// Why an agent ends that hosted the chats of a person who is gone.
const PERSON_GONE: &str = "the person whose chats it hosted is gone";

/// Why the sessions of chats end that a server has left behind.
const SERVER_GONE: &str = "the server that ran the chat ended before it";

/// Answers in chats.
pub trait ChatService: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, call: ChatCall) -> BoxFuture<'static, Response<Body>>;
    /// Ends all chats; the server is about to end.
    fn stop(&self) -> BoxFuture<'static, ()>;
}

/// What is asked of whoever answers in chats.
#[derive(Debug)]
pub enum ChatCall {
    /// `GET /models`.
    Models,
    /// `POST /chat`.
    Begin {
        /// The body, as it came.
        body: Bytes,
        /// Who begins it, and as whom it runs.
        visitor: ChatVisitor,
    },
    /// `GET /chat/{sessionId}/events`.
    Look {
        /// The chat.
        session_id: String,
        /// The last event that was seen.
        seen: Option<String>,
    },
    /// `DELETE /chat/{sessionId}`.
    Cancel {
        /// The chat.
        session_id: String,
    },
    /// `POST /chat/relay/{relayId}`.
    Resolve {
        /// The question.
        relay_id: String,
        /// The body, as it came.
        body: Bytes,
    },
}

/// Somebody who begins a chat.
#[derive(Clone)]
pub struct ChatVisitor {
    /// The token of the agent that the chat runs as.
    pub agent_token: String,
    by: Access<Participant>,
}

impl ChatVisitor {
    /// Decides about a call of the chat, as whoever began it.
    pub async fn decide(
        &self,
        id: PermissionId,
        decision: ResolvePermission,
    ) -> Result<PermissionRecord, Box<Problem>> {
        if !self.by.is_still_valid().await {
            return Err(Box::new(Error::Unauthorized.problem()));
        }
        let (engine, caller) = (self.by.engine(), self.by.caller());
        let decided = engine.resolve_permission(caller, id, decision).await;
        decided.map_err(|error| Box::new(error.problem()))
    }
}

impl fmt::Debug for ChatVisitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatVisitor").finish_non_exhaustive()
    }
}

/// Who answers in chats, if anybody does.
#[derive(Clone, Default)]
pub struct Chat(Option<Arc<Place>>);

struct Place {
    service: Box<dyn ChatService>,
    agent: String,
    anonymous: Option<String>,
    /// The tokens of the agents that chats run as.
    tokens: Mutex<HashMap<(WorkspaceId, ChatOwner), String>>,
    /// Held by whoever makes such an agent, so that two don't take it from each other.
    registering: tokio::sync::Mutex<()>,
}

/// Whose chats an agent hosts. Each has a mailbox of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ChatOwner {
    /// Those who have the workspace key, or need no credential.
    Workspace,
    /// A person, with a token.
    Person(AgentId),
}

impl ChatOwner {
    /// How it stands in the metadata of the agent; the workspace's has none.
    fn mark(self) -> Option<String> {
        match self {
            Self::Workspace => None,
            Self::Person(id) => Some(id.to_string()),
        }
    }
}

/// The agent that hosts the chats of one owner.
struct ChatHost {
    owner: ChatOwner,
    name: String,
}

impl ChatHost {
    /// The agent for whoever begins a chat: `chat`, or `chat-ana` for the person `ana`. A name that would be too long ends with the last
    /// characters of the person's id instead.
    fn of(base: &str, person: Option<(&str, AgentId)>) -> Self {
        let Some((person, id)) = person else {
            return Self {
                owner: ChatOwner::Workspace,
                name: base.to_owned(),
            };
        };
        let full = format!("{base}-{person}");
        let name = match full.chars().count() <= NAME_CHARS {
            true => full,
            false => {
                let id = id.to_string();
                let tail = &id[id.len() - ID_TAIL..];
                let kept = full.chars().take(NAME_CHARS - ID_TAIL - 1);
                format!("{}-{tail}", kept.collect::<String>())
            }
        };
        Self {
            owner: ChatOwner::Person(id),
            name,
        }
    }
}

/// What can be set about chats.
#[derive(Clone, Debug)]
pub struct ChatPlace {
    /// The name of the agent that chats run as.
    pub agent: String,
    /// The credential of those who bring none, on a loopback address; absent: they may not begin chats.
    pub anonymous: Option<String>,
}

impl Default for ChatPlace {
    fn default() -> Self {
        Self {
            agent: "chat".to_owned(),
            anonymous: None,
        }
    }
}

impl Chat {
    /// Answered by this.
    pub fn by(service: impl ChatService, place: ChatPlace) -> Self {
        Self(Some(Arc::new(Place {
            service: Box::new(service),
            agent: place.agent,
            anonymous: place.anonymous,
            tokens: Mutex::default(),
            registering: tokio::sync::Mutex::default(),
        })))
    }

    /// Ends what chats have left behind that a server before this one had: whoever ran them is gone.
    pub(crate) async fn clear_away(&self, engine: &Engine) {
        let Some(place) = &self.0 else {
            return;
        };
        let owner = Caller::process_owner();
        match engine
            .release_left(&owner, |agent| place.is_its_agent(agent), SERVER_GONE)
            .await
        {
            Ok(0) => {}
            Ok(left) => tracing::info!(left, "ended the chats that the last server left behind"),
            Err(error) => {
                tracing::error!(%error, "chats that the last server left behind could not be ended");
            }
        }
    }

    pub(crate) async fn stop(&self) {
        if let Some(place) = &self.0 {
            place.service.stop().await;
        }
    }
}

impl fmt::Debug for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chat").field(&self.0.is_some()).finish()
    }
}

pub(crate) fn routes() -> Vec<Route> {
    let route = |method,
                 path,
                 summary,
                 kinds,
                 describe: fn(&mut SchemaGenerator) -> Described,
                 handle: Handle| {
        Route::special(
            method,
            path,
            summary,
            kinds,
            describe,
            move |app, request| answer(app, request, handle),
        )
        .refusing(|refusal| in_form(&refusal.0))
    };
    // People, whose credential is an agent's by its kind, are let in, too.
    let known = Owner::KINDS;
    vec![
        route(
            Method::GET,
            "/models",
            "The models that can be chatted with; off loopback only with a credential.",
            &[],
            describe_models,
            Handle::Models,
        ),
        route(
            Method::POST,
            "/chat",
            "Begins a chat and streams what happens in it.",
            known,
            describe_begin,
            Handle::Begin,
        ),
        route(
            Method::GET,
            "/chat/{sessionId}/events",
            "Looks at a chat again, after the event that was seen last.",
            known,
            describe_look,
            Handle::Look,
        ),
        route(
            Method::DELETE,
            "/chat/{sessionId}",
            "Cancels a chat.",
            known,
            describe_cancel,
            Handle::Cancel,
        ),
        route(
            Method::POST,
            "/chat/relay/{relayId}",
            "Decides about a call of a chat; off loopback only with a credential.",
            &[],
            describe_resolve,
            Handle::Resolve,
        ),
    ]
}

/// Which of the routes.
#[derive(Clone, Copy)]
enum Handle {
    Models,
    Begin,
    Look,
    Cancel,
    Resolve,
}

async fn answer(app: App, request: Request<Body>, handle: Handle) -> Response<Body> {
    match visit(&app, request, handle).await {
        Ok(response) => response,
        Err(refusal) => in_form(&refusal.0),
    }
}

async fn visit(
    app: &App,
    request: Request<Body>,
    handle: Handle,
) -> Result<Response<Body>, Refusal> {
    let (mut parts, body) = request.into_parts();
    let by = admit(app, &parts, handle).await?;
    let Some(place) = &app.config().chat.0 else {
        let detail = "this server has no chats";
        return Err(Refusal::new(ErrorCode::UnsupportedOperation, detail));
    };
    let named = path_parts(&mut parts).await?.into_iter().next();
    let named = named.map(|(_, value)| value).unwrap_or_default();
    let body = async {
        let timeout = app.config().body_timeout;
        read_body(&parts.headers, body, CHAT_BODY_BYTES, timeout).await
    };
    let call = match (handle, &by) {
        (Handle::Models, _) => ChatCall::Models,
        (Handle::Look, _) => ChatCall::Look {
            session_id: named,
            seen: seen(&parts)?,
        },
        (Handle::Cancel, _) => ChatCall::Cancel { session_id: named },
        (Handle::Resolve, _) => ChatCall::Resolve {
            relay_id: named,
            body: body.await?,
        },
        (Handle::Begin, Some(by)) => ChatCall::Begin {
            body: body.await?,
            visitor: place.visitor(by).await?,
        },
        (Handle::Begin, None) => return Err(Error::Unauthorized.into()),
    };
    let response = place.service.answer(call).await;
    Ok(match by {
        Some(by) => response.map(|body| Body::new(Guarded::new(&by, body))),
        None => response,
    })
}

/// Who asks; nobody, where nobody has to say. Whoever says it must not be an agent: agents neither begin chats nor decide.
async fn admit(
    app: &App,
    parts: &Parts,
    handle: Handle,
) -> Result<Option<Access<Participant>>, Refusal> {
    let is_loopback = app.home().is_loopback();
    let is_open = is_loopback && matches!(handle, Handle::Models | Handle::Resolve);
    let place = app.config().chat.0.as_ref();
    let anonymous = place.and_then(|place| place.anonymous.as_deref());
    let token = match bearer(&parts.headers)? {
        Some(token) => token,
        None if is_open => return Ok(None),
        None => match anonymous.filter(|_| is_loopback) {
            Some(token) => token,
            None => return Err(Error::Unauthorized.into()),
        },
    };
    let by: Access<Participant> = app.admit(token, peer(parts)).await?;
    if by.caller().agent().is_ok_and(|agent| !agent.is_human()) {
        let detail = "expected a workspace key or the token of a person, found an agent token";
        return Err(Refusal::new(ErrorCode::Forbidden, detail));
    }
    Ok(Some(by))
}

/// What a client says it has seen; a client that can't set headers says it in the query.
fn seen(parts: &Parts) -> Result<Option<String>, Refusal> {
    if let Some(seen) = parts.headers.get(LAST_EVENT_ID) {
        let seen = seen.to_str().map_err(|_| {
            Refusal::invalid("Last-Event-ID", "the number of an event", "something else")
        })?;
        return Ok(Some(seen.to_owned()));
    }
    let query = parts.uri.query().unwrap_or_default();
    let fields: Vec<(String, String)> = serde_urlencoded::from_str(query)
        .map_err(|_| Refusal::invalid("query", "fields", query))?;
    let mut fields = fields.into_iter();
    Ok(fields.find_map(|(name, value)| (name == "lastEventId").then_some(value)))
}

impl Place {
    async fn visitor(&self, by: &Access<Participant>) -> Result<ChatVisitor, Refusal> {
        let workspace = by.caller().workspace()?.clone();
        let person = by.caller().agent().ok();
        let host = ChatHost::of(
            &self.agent,
            person.map(|person| (person.name.as_str(), person.id)),
        );
        let key = (workspace.id, host.owner);
        let agent_token = match self.known(by, key).await {
            Some(token) => token,
            None => {
                let _one_at_a_time = self.registering.lock().await;
                match self.known(by, key).await {
                    Some(token) => token,
                    None => {
                        let owner = Caller::workspace_key(workspace.clone());
                        let token = self.register(by, owner, &host).await?;
                        self.tokens().insert(key, token.clone());
                        token
                    }
                }
            }
        };
        Ok(ChatVisitor {
            agent_token,
            by: by.clone(),
        })
    }

    /// The token of the agent that hosts somebody's chats, if there is one that still counts.
    async fn known(
        &self,
        by: &Access<Participant>,
        key: (WorkspaceId, ChatOwner),
    ) -> Option<String> {
        let token = self.tokens().get(&key).cloned()?;
        let counts = by.engine().authenticate(&token).await.is_ok();
        counts.then_some(token)
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<(WorkspaceId, ChatOwner), String>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the agent that hosts somebody's chats. One of this name that somebody else made is left alone, and one whose person is
    /// gone ends with all that waits for it.
    async fn register(
        &self,
        by: &Access<Participant>,
        owner: Caller,
        host: &ChatHost,
    ) -> Result<String, Refusal> {
        let engine = by.engine();
        let found = engine.agent(&owner, &host.name).await.ok();
        let is_ours = found.as_ref().map(|agent| self.is_its_agent(agent));
        if is_ours == Some(false) {
            let detail = format!(
                "chats run as the agent {:?}, and somebody else has that name; set chat.agent in the configuration",
                host.name
            );
            return Err(Refusal::new(ErrorCode::NameTaken, detail));
        }
        let adopt = match found.as_ref().map(person_of) {
            Some(person) if person != host.owner.mark() => {
                engine
                    .release_agent(&owner, &host.name, Some(PERSON_GONE))
                    .await?;
                None
            }
            Some(_) => Some(true),
            None => None,
        };
        let (key, value) = MARK;
        let mut metadata = Metadata::from_iter([(key.to_owned(), value.into())]);
        if let Some(person) = host.owner.mark() {
            metadata.insert(PERSON.to_owned(), person.into());
        }
        let new = RegisterAgent {
            name: host.name.clone(),
            metadata: Some(metadata),
            agent_type: None,
            adopt,
        };
        let registered = engine.register_agent_outside_channels(&owner, new).await?;
        Ok(registered.token)
    }

    /// Whether chats run as this agent: it has one of the names, and was made for them.
    fn is_its_agent(&self, agent: &AgentIdentity) -> bool {
        let (key, value) = MARK;
        let metadata = agent.metadata.as_ref();
        let (name, base) = (names::fold(&agent.name), names::fold(&self.agent));
        let has_name = match person_of(agent) {
            None => name == base,
            Some(_) => name.starts_with(&format!("{base}-")),
        };
        has_name && metadata.is_some_and(|metadata| metadata.get(key).is_some_and(|it| it == value))
    }
}

/// The person whose chats an agent hosts, where it says so.
fn person_of(agent: &AgentIdentity) -> Option<String> {
    let person = agent.metadata.as_ref()?.get(PERSON)?.as_str()?;
    Some(person.to_owned())
}

/// Whether a path belongs to the contract of chats, which has errors of its own.
pub(crate) fn is_of_contract(path: &str) -> bool {
    matches!(path, "/chat" | "/models") || path.starts_with("/chat/")
}

/// A refusal in the form of the contract.
pub(crate) fn in_form(problem: &Problem) -> Response<Body> {
    let mut body = json!({ "error": problem.detail, "code": problem.code });
    if problem.retryable {
        body["retryable"] = Value::Bool(true);
    }
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if problem.code == ErrorCode::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(millis) = problem.retry_after_ms {
        headers.insert(RETRY_AFTER, millis.div_ceil(1_000).into());
    }
    response
}

fn text() -> Value {
    json!({ "schema": { "type": "string" } })
}

fn object() -> Value {
    json!({ "application/json": { "schema": { "type": "object" } } })
}

fn described(path: usize, has_body: bool, status: StatusCode, answer: Value) -> Described {
    Described {
        path: vec![json!({ "type": "string" }); path],
        query: None,
        body: has_body.then(|| json!({ "required": true, "content": object() })),
        answer: (status, answer),
        refusal: Some(object()),
    }
}

fn describe_models(_: &mut SchemaGenerator) -> Described {
    described(0, false, StatusCode::OK, object())
}

fn describe_begin(_: &mut SchemaGenerator) -> Described {
    described(
        0,
        true,
        StatusCode::OK,
        json!({ "text/event-stream": text() }),
    )
}

fn describe_look(_: &mut SchemaGenerator) -> Described {
    described(
        1,
        false,
        StatusCode::OK,
        json!({ "text/event-stream": text() }),
    )
}

fn describe_cancel(_: &mut SchemaGenerator) -> Described {
    described(1, false, StatusCode::NO_CONTENT, Value::Null)
}

fn describe_resolve(_: &mut SchemaGenerator) -> Described {
    described(1, true, StatusCode::OK, object())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_person_has_a_host_of_their_own() {
        let id = |text: &str| -> AgentId { text.parse().unwrap() };
        let ana = id("01963a5c-7893-7abc-8ef0-123456789abc");
        let key = ChatHost::of("chat", None);
        assert_eq!(
            (key.name.as_str(), key.owner),
            ("chat", ChatOwner::Workspace)
        );
        let host = ChatHost::of("chat", Some(("ana", ana)));
        assert_eq!(host.name, "chat-ana");
        assert_eq!(host.owner, ChatOwner::Person(ana));
        let long = "x".repeat(NAME_CHARS);
        let other = id("01963a5c-7893-7abc-8ef0-cba987654321");
        let names = [ana, other].map(|id| ChatHost::of("chat", Some((&long, id))).name);
        for name in &names {
            assert_eq!(name.chars().count(), NAME_CHARS);
            assert!(names::check(name).is_ok(), "{name}");
        }
        assert_ne!(names[0], names[1]);
    }
}
