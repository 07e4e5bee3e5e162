//! `/mcp`: the place for MCP behind the same guards as every route. Who speaks it is the program's choice ([`McpService`]); here it is
//! made sure that an agent asks, that the request has a bearable size, and that a stream ends when its credential does.

use std::fmt;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use relay_protocol::ids::SessionId;
use relay_protocol::limits::REQUEST_BODY_BYTES;
use relay_protocol::problem::{ErrorCode, Problem};
use schemars::SchemaGenerator;
use serde_json::json;

use crate::access::{Access, Agent, App, Kind as _, bearer};
use crate::call::read_body;
use crate::guarded::Guarded;
use crate::refusal::Refusal;
use crate::routes::through::through;
use crate::table::{Described, Route, peer};
use crate::written::Written;

/// Where it is.
const PATH: &str = "/mcp";

/// Speaks MCP to those who were let in.
pub trait McpService: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, visit: McpVisit) -> BoxFuture<'static, McpAnswer>;
    /// Ends everything that is open; the server is about to end.
    fn stop(&self) -> BoxFuture<'static, ()>;
}

/// What is answered, or why nothing is.
pub type McpAnswer = Result<Response<Body>, Box<Problem>>;

/// A request of an agent.
#[derive(Debug)]
pub struct McpVisit {
    /// The request, read to its end.
    pub request: Request<Bytes>,
    /// The agent's token, which is valid.
    pub token: String,
    /// The session of the agent that the call is made through.
    pub session: Option<SessionId>,
    /// Tells when the answer was written.
    pub written: Written,
}

/// Who serves `/mcp`, if anybody does.
#[derive(Clone, Default)]
pub struct Mcp(Option<Arc<dyn McpService>>);

impl Mcp {
    /// Served by this.
    pub fn by(service: impl McpService) -> Self {
        Self(Some(Arc::new(service)))
    }

    pub(crate) async fn stop(&self) {
        if let Some(service) = &self.0 {
            service.stop().await;
        }
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mcp").field(&self.0.is_some()).finish()
    }
}

pub(crate) fn routes() -> Vec<Route> {
    let route = |method, summary, describe: fn(&mut SchemaGenerator) -> Described| {
        Route::special(method, PATH, summary, Agent::KINDS, describe, answer)
    };
    vec![
        route(
            Method::POST,
            "MCP over streamable HTTP: one message of a client, and the answer as JSON or as a stream.",
            describe_message,
        ),
        route(
            Method::GET,
            "What an MCP server says by itself in a session, as a stream.",
            describe_stream,
        ),
        route(Method::DELETE, "Ends an MCP session.", describe_end),
    ]
}

fn describe_message(_: &mut SchemaGenerator) -> Described {
    let any = json!({ "schema": { "type": "object" } });
    let text = json!({ "schema": { "type": "string" } });
    Described {
        path: Vec::new(),
        query: None,
        body: Some(json!({ "required": true, "content": { "application/json": any } })),
        answer: (
            StatusCode::OK,
            json!({ "application/json": any, "text/event-stream": text }),
        ),
        refusal: None,
    }
}

fn describe_stream(_: &mut SchemaGenerator) -> Described {
    let text = json!({ "schema": { "type": "string" } });
    Described {
        path: Vec::new(),
        query: None,
        body: None,
        answer: (StatusCode::OK, json!({ "text/event-stream": text })),
        refusal: None,
    }
}

fn describe_end(_: &mut SchemaGenerator) -> Described {
    Described {
        path: Vec::new(),
        query: None,
        body: None,
        answer: (StatusCode::ACCEPTED, serde_json::Value::Null),
        refusal: None,
    }
}

async fn answer(app: App, request: Request<Body>) -> Response<Body> {
    match visit(&app, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn visit(app: &App, request: Request<Body>) -> Result<Response<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    let by: Access<Agent> = app.admit_by_header(&parts.headers, peer(&parts)).await?;
    let Some(service) = &app.config().mcp.0 else {
        let detail = "this server does not speak MCP";
        return Err(Refusal::new(ErrorCode::UnsupportedOperation, detail));
    };
    let session = through(&by, &parts.headers).await?;
    let timeout = app.config().body_timeout;
    let body = read_body(&parts.headers, body, REQUEST_BODY_BYTES, timeout).await?;
    let visit = McpVisit {
        token: bearer(&parts.headers)?.unwrap_or_default().to_owned(),
        session: session.map(|session| session.session_id),
        written: parts.extensions.get().cloned().unwrap_or_default(),
        request: Request::from_parts(parts, body),
    };
    let response = service.answer(visit).await?;
    Ok(response.map(|body| Body::new(Guarded::new(&by, body))))
}
