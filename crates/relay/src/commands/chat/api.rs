//! The calls of `/chat`, and what their refusals mean at the command line.

use std::time::Duration;

use anyhow::Context as _;
use axum::http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use axum::http::{HeaderName, Method, StatusCode};
use relay_outbound::{AllowList, Limits, Outbound, Request, Streaming, Target};
use relay_protocol::problem::{ErrorCode, Problem};
use serde_json::Value;

use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long the server may take until it begins to answer.
const HEAD_WAIT: Duration = Duration::from_secs(30);

/// Most bytes of a refusal, or of a list of models, that are read.
const ANSWER_BYTES: usize = 1024 * 1024;

/// The code of a refusal that somebody was faster with a decision.
const TOO_LATE: &str = "relay_already_resolved";

/// The server, and a credential for it.
pub(super) struct Api {
    outbound: Outbound,
    url: String,
    authorization: HeaderValue,
}

/// What became of a decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// It counts.
    Taken,
    /// It was decided before, or the chat is over: the stream says how.
    TooLate,
    /// It can't be; the question waits on.
    Refused(String),
}

impl Api {
    pub(super) fn new(contact: &Contact) -> Outcome<Self> {
        let url = contact.url().trim_end_matches('/').to_owned();
        let target = Target::parse(&url).context("the server's URL")?;
        // Whoever asks for this server wants it to be called, wherever it is.
        let own = format!("{}:{}", target.host, target.port);
        let own = AllowList::new([own]).context("the server's URL")?;
        let limits = Limits {
            timeout: HEAD_WAIT,
            answer_bytes: ANSWER_BYTES,
            ..Limits::default()
        };
        let authorization = format!("Bearer {}", contact.token());
        let mut authorization = HeaderValue::try_from(authorization)
            .context("the token has characters that no token has")?;
        authorization.set_sensitive(true);
        Ok(Self {
            outbound: Outbound::new(own, limits),
            url,
            authorization,
        })
    }

    /// `GET /models`.
    pub(super) async fn models(&self) -> Outcome<Value> {
        let (status, body) = self.call(Method::GET, "/models", Value::Null).await?;
        match status.is_success() {
            true => Ok(body),
            false => Err(refused(status, &body)),
        }
    }

    /// `POST /chat`.
    pub(super) async fn begin(&self, body: &Value) -> Outcome<Streaming> {
        self.stream(self.request(Method::POST, "/chat", body)).await
    }

    /// `GET /chat/{sessionId}/events`, after this event.
    pub(super) async fn look(&self, session_id: &str, seen: u64) -> Outcome<Streaming> {
        let path = format!("/chat/{session_id}/events");
        let mut request = self.request(Method::GET, &path, &Value::Null);
        request.headers.insert(LAST_EVENT_ID, seen.into());
        self.stream(request).await
    }

    /// `DELETE /chat/{sessionId}`. One that is over needs no cancelling.
    pub(super) async fn cancel(&self, session_id: &str) -> Outcome {
        let path = format!("/chat/{session_id}");
        let (status, body) = self.call(Method::DELETE, &path, Value::Null).await?;
        match status.is_success() || status == StatusCode::NOT_FOUND {
            true => Ok(()),
            false => Err(refused(status, &body)),
        }
    }

    /// `POST /chat/relay/{relayId}`.
    pub(super) async fn resolve(&self, relay_id: &str, body: Value) -> Outcome<Decided> {
        let path = format!("/chat/relay/{relay_id}");
        let (status, body) = self.call(Method::POST, &path, body).await?;
        if status.is_success() {
            return Ok(Decided::Taken);
        }
        let is_late = status == StatusCode::NOT_FOUND || body["code"] == TOO_LATE;
        Ok(match is_late {
            true => Decided::TooLate,
            false => Decided::Refused(sentence(status, &body)),
        })
    }

    fn request(&self, method: Method, path: &str, body: &Value) -> Request {
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut request = Request::post_json(format!("{}{path}", self.url), text);
        request.method = method;
        let headers: &mut HeaderMap = &mut request.headers;
        headers.insert(AUTHORIZATION, self.authorization.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        request
    }

    async fn call(&self, method: Method, path: &str, body: Value) -> Outcome<(StatusCode, Value)> {
        let request = self.request(method, path, &body);
        let answer = self.outbound.call(request).await.map_err(away)?;
        let body = serde_json::from_slice(&answer.body).unwrap_or_default();
        Ok((answer.status, body))
    }

    async fn stream(&self, request: Request) -> Outcome<Streaming> {
        let mut streaming = self.outbound.stream(request).await.map_err(away)?;
        if streaming.status.is_success() {
            return Ok(streaming);
        }
        let mut body = Vec::new();
        while let Ok(Some(bytes)) = streaming.chunk().await
            && body.len() < ANSWER_BYTES
        {
            body.extend_from_slice(&bytes);
        }
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Err(refused(streaming.status, &body))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn away(error: relay_outbound::Error) -> Failure {
    Failure::new(Exit::ServerAway, "server_away", error.to_string())
}

/// Nobody has said with which model to talk.
pub(super) fn no_default_model() -> Failure {
    let models = hints::command("chat --models");
    Failure::usage("this server has no default model").next(format!(
        "say one with --model; `{models}` shows them, and chat.default_model sets one"
    ))
}

/// A refusal of the server, as every command tells it.
fn refused(status: StatusCode, body: &Value) -> Failure {
    let sentence = sentence(status, body);
    if sentence == "model and messages are required" {
        return no_default_model();
    }
    let code: Option<ErrorCode> = serde_json::from_value(body["code"].clone()).ok();
    match code {
        Some(code) => Problem::new(code, sentence).into(),
        None if status == StatusCode::NOT_FOUND => {
            Failure::new(Exit::NotFound, "not_found", sentence)
        }
        None if status.is_client_error() => Failure::usage(sentence),
        None => Failure::new(Exit::Failed, "failed", sentence),
    }
}

fn sentence(status: StatusCode, body: &Value) -> String {
    let said = body["error"].as_str();
    said.map_or_else(|| format!("the server answered {status}"), str::to_owned)
}
