//! MCP over streamable HTTP, for whoever has an HTTP server and knows who asks.
//!
//! The library speaks the protocol; here is what it leaves open. Clients that begin with `initialize` get a session, which only the
//! credential that opened it can use: to others it does not exist. Sessions are limited in number and end when they are not
//! used, when the client says so, and with the server. Clients of 2026-07-28 have none: each request stands alone. What an answer
//! tells counts as read once the connection has written it ([`leaving`]).
//!
//! It trusts its caller to have checked the credential, the host and the size of the request, each time.

mod leaving;
mod sessions;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use relay_protocol::ids::SessionId;
use relay_protocol::limits::{MCP_SESSION_IDLE_MS, MCP_SESSIONS, MCP_SESSIONS_PER_AGENT};
use relay_protocol::problem::{ErrorCode, Problem};
use relay_sdk::AgentClient;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::leaving::Leaving;
pub(crate) use self::leaving::Outgoing;
pub use self::leaving::{AnswerBody, Flushed};
use self::sessions::{Door, Owner, Sessions};
use crate::server::McpServer;
use crate::settling::Settler;

/// What the library answers with.
type LibraryBody = BoxBody<Bytes, Infallible>;

/// The header that names a session.
const MCP_SESSION: &str = "mcp-session-id";
/// The method that asks for a session.
const INITIALIZE: &str = "initialize";

/// How a token becomes a client, through whatever leads to the server.
pub type Connect =
    Box<dyn Fn(String) -> BoxFuture<'static, relay_sdk::Result<AgentClient>> + Send + Sync>;

/// Who asks.
#[derive(Clone)]
pub struct Visitor {
    /// The agent's token, which is valid.
    pub token: String,
    /// The session of the agent that calls are made through.
    pub session: Option<SessionId>,
}

/// How much is kept for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most sessions at a time.
    pub sessions: usize,
    /// Most sessions of one agent; a new one takes the place of the one that rested longest.
    pub per_agent: usize,
    /// How long a session may rest before it ends.
    pub idle: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            sessions: MCP_SESSIONS,
            per_agent: MCP_SESSIONS_PER_AGENT,
            idle: Duration::from_millis(MCP_SESSION_IDLE_MS),
        }
    }
}

/// Relay for MCP clients that come over HTTP. Clones are the same.
#[derive(Clone)]
pub struct McpHttp {
    inner: Arc<Inner>,
}

struct Inner {
    connect: Connect,
    limits: HttpLimits,
    sessions: Arc<Sessions>,
    /// Clients by their token: those of one agent share a connection.
    known: Mutex<HashMap<String, Known>>,
    stopping: CancellationToken,
    settling: TaskTracker,
    _sweeping: AbortOnDropHandle<()>,
}

/// Somebody who was here.
struct Known {
    settler: Settler,
    used: Instant,
}

impl McpHttp {
    /// Serves whoever has a token that `connect` makes a client of.
    #[must_use]
    pub fn new(connect: Connect) -> Self {
        Self::with_limits(connect, HttpLimits::default())
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(connect: Connect, limits: HttpLimits) -> Self {
        let inner = Arc::new_cyclic(|inner: &std::sync::Weak<Inner>| {
            let inner = inner.clone();
            // A session rests at most a quarter longer than it may.
            let pause = (limits.idle / 4).max(Duration::from_millis(1));
            let sweeping = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(pause).await;
                    let Some(inner) = inner.upgrade() else { return };
                    inner.sweep(Instant::now()).await;
                }
            });
            Inner {
                connect,
                limits,
                sessions: Arc::new(Sessions::new(limits)),
                known: Mutex::default(),
                stopping: CancellationToken::new(),
                settling: TaskTracker::new(),
                _sweeping: AbortOnDropHandle::new(sweeping),
            }
        });
        Self { inner }
    }

    /// Answers a request. `flushed` is asked once, while the answer is being written, and says whether it was.
    pub async fn answer(
        &self,
        mut request: Request<Bytes>,
        visitor: Visitor,
        flushed: Flushed,
    ) -> Result<Response<AnswerBody>, Box<Problem>> {
        let inner = &self.inner;
        if inner.stopping.is_cancelled() {
            let detail = "the server is about to stop";
            return Err(Box::new(Problem::new(ErrorCode::Overloaded, detail)));
        }
        let settler = inner.settler(&visitor.token).await?;
        let owner = Arc::new(Owner {
            agent: settler.client.identity().id,
            token: visitor.token,
            session: visitor.session,
        });
        inner.check_session(&request, &owner)?;
        let mut reservation = None;
        if asks_for_session(&request) {
            reservation = Some(inner.sessions.reserve(&owner).await?);
        }
        let outgoing = Arc::new(Outgoing::default());
        request.extensions_mut().insert(outgoing.clone());
        let door = Door::new(
            inner.sessions.clone(),
            owner.clone(),
            outgoing.clone(),
            reservation,
        );
        let service = inner.service(door, settler, owner.session);
        // The library is large and generic; boxed, it is one small future to others.
        let response = Box::pin(service.handle(request.map(Full::new))).await;
        let response = in_our_words(response).await?;
        let leaving = Leaving {
            outgoing,
            flushed,
            tasks: inner.settling.clone(),
        };
        Ok(leaving::watched(response, leaving))
    }

    /// Ends all sessions and streams. Nobody is answered any more.
    pub async fn stop(&self) {
        self.inner.stopping.cancel();
        self.inner.sessions.close_all().await;
        self.inner.known().clear();
    }

    /// Ends what has rested for too long at that moment. This is done by itself from time to time.
    pub async fn sweep(&self, now: Instant) {
        self.inner.sweep(now).await;
    }
}

impl Inner {
    fn service(
        &self,
        door: Door,
        settler: Settler,
        session: Option<SessionId>,
    ) -> StreamableHttpService<McpServer, Door> {
        let config = StreamableHttpServerConfig::default()
            // Whoever calls this has looked at them, by rules of its own.
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_cancellation_token(self.stopping.child_token());
        let make = move || Ok(McpServer::settled_by(settler.clone(), session));
        StreamableHttpService::new(make, Arc::new(door), config)
    }

    /// A session belongs to whoever opened it; of those of others nothing is told.
    fn check_session(&self, request: &Request<Bytes>, owner: &Owner) -> Result<(), Box<Problem>> {
        let Some(named) = request.headers().get(MCP_SESSION) else {
            return Ok(());
        };
        let id = named.to_str().unwrap_or_default();
        if self.sessions.is_of(id, owner) {
            return Ok(());
        }
        let detail =
            "there is no such MCP session, or not any more; begin a new one with `initialize`";
        Err(Box::new(Problem::new(ErrorCode::NotFound, detail)))
    }

    /// Who acts for the holder of a token.
    async fn settler(&self, token: &str) -> Result<Settler, Box<Problem>> {
        if let Some(known) = self.known().get_mut(token) {
            known.used = Instant::now();
            return Ok(known.settler.clone());
        }
        let client = (self.connect)(token.to_owned()).await.map_err(problem)?;
        let mut known = self.known();
        if known.len() >= self.limits.sessions {
            let oldest = known.iter().min_by_key(|(_, known)| known.used);
            let oldest = oldest.map(|(token, _)| token.clone());
            oldest.map(|token| known.remove(&token));
        }
        let known = known.entry(token.to_owned()).or_insert_with(|| Known {
            settler: Settler::new(client),
            used: Instant::now(),
        });
        Ok(known.settler.clone())
    }

    async fn sweep(&self, now: Instant) {
        self.known()
            .retain(|_, known| now.saturating_duration_since(known.used) < self.limits.idle);
        self.sessions.sweep(now).await;
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the server says to those it can't serve.
fn problem(error: relay_sdk::Error) -> Box<Problem> {
    Box::new(match error.problem() {
        Some(problem) => problem.clone(),
        None => Problem::new(ErrorCode::Overloaded, error.to_string()),
    })
}

/// What the library refuses in plain words becomes a problem, as everywhere. What it says in the protocol stays as it is.
async fn in_our_words(
    response: Response<LibraryBody>,
) -> Result<Response<LibraryBody>, Box<Problem>> {
    let status = response.status();
    if leaving::is_json(&response) || !(status.is_client_error() || status.is_server_error()) {
        return Ok(response);
    }
    let code = match status.as_u16() {
        404 => ErrorCode::NotFound,
        405 => ErrorCode::MethodNotAllowed,
        413 => ErrorCode::BodyTooLarge,
        500.. => ErrorCode::Internal,
        _ => ErrorCode::InvalidRequest,
    };
    let Ok(said) = response.into_body().collect().await;
    let detail = String::from_utf8_lossy(&said.to_bytes()).into_owned();
    // The media type was looked at before: by that the library means a body that is no message.
    let status = match status.as_u16() {
        415 => 400,
        status => status,
    };
    Err(Box::new(Problem {
        status,
        ..Problem::new(code, detail)
    }))
}

/// Whether a request is one that opens a session. What can't be read is left to the library, which says so.
fn asks_for_session(request: &Request<Bytes>) -> bool {
    #[derive(Deserialize)]
    struct Peek<'a> {
        method: Option<std::borrow::Cow<'a, str>>,
    }
    request.method() == http::Method::POST
        && !request.headers().contains_key(MCP_SESSION)
        && serde_json::from_slice::<Peek<'_>>(request.body())
            .is_ok_and(|peek| peek.method.as_deref() == Some(INITIALIZE))
}
