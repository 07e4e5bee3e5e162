//! Providers that are asked over HTTP: one call, its answer read as it comes.
//!
//! The connection is made by the address guard, as for every call of Relay, with the provider's own host on its allow-list. The
//! guard's question, whether an address may be called, is answered by whoever wrote the base URL into the configuration: that is
//! the owner of this machine, and models on this very machine are what many use. What the guard does beside that is
//! wanted all the same: strict URLs, checked certificates, no proxy, and no redirect, which would take the key elsewhere.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT};
use relay_outbound::{AllowList, Limits, Outbound, Request, Streaming, Target};
use serde_json::Value;
use tokio::time::timeout;

use super::adapters::BodyOptions;
use super::conversation::Api;
use super::decode::Decoding;
use super::error::{ErrorKind, ProviderError};
use super::key::{ApiKey, sensitive};
use super::limits::{AnswerLimits, ERROR_BODY_BYTES};
use super::provider::{Answer, ModelRequest, Provider, ProviderEvent};
use super::retry::retry_after;

/// Who asks.
const PROGRAM: &str = concat!("relay/", env!("CARGO_PKG_VERSION"));

/// Where a provider is and how it is asked.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// What it speaks.
    pub api: Api,
    /// The URL below which it is; absent: that of whoever invented the way of asking.
    pub base_url: Option<String>,
    /// Its key; empty where it needs none.
    pub key: ApiKey,
    /// How questions are asked.
    pub body: BodyOptions,
    /// What is accepted of an answer.
    pub limits: AnswerLimits,
}

impl HttpSettings {
    /// The provider who invented this way of asking.
    #[must_use]
    pub fn new(api: Api, key: ApiKey) -> Self {
        Self {
            api,
            base_url: None,
            key,
            body: BodyOptions::default(),
            limits: AnswerLimits::default(),
        }
    }
}

/// What is wrong with the settings of a provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProvider {
    /// The URL.
    #[error("base_url: {0}")]
    Url(String),
    /// The key.
    #[error("the key has characters that no key has")]
    Key,
}

/// A provider that is asked over HTTP.
#[derive(Clone)]
pub struct HttpProvider {
    settings: Arc<HttpSettings>,
    url: String,
    host: String,
    headers: HeaderMap,
    outbound: Outbound,
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider")
            .field("url", &self.url)
            .field("api", &self.settings.api)
            .finish_non_exhaustive()
    }
}

impl HttpProvider {
    /// Takes settings; nobody is called.
    pub fn new(settings: HttpSettings) -> Result<Self, InvalidProvider> {
        let api = settings.api;
        let base = settings.base_url.as_deref();
        let base = base.unwrap_or(api.default_base()).trim_end_matches('/');
        let url = format!("{base}{}", api.path(base));
        let invalid = |why: String| InvalidProvider::Url(why);
        let target = Target::parse(&url).map_err(|error| invalid(error.to_string()))?;
        let own = format!("{}:{}", target.host, target.port);
        let own = AllowList::new([own]).map_err(|error| invalid(error.to_string()))?;
        let limits = Limits {
            timeout: settings.limits.head,
            ..Limits::default()
        };
        Ok(Self {
            headers: headers(api, &settings.key)?,
            outbound: Outbound::new(own, limits),
            host: target.host.to_string(),
            url,
            settings: Arc::new(settings),
        })
    }

    fn request(&self, request: &ModelRequest) -> Request {
        let settings = &self.settings;
        let body = settings.api.body(request, &settings.body).to_string();
        let mut message = Request::post_json(&self.url, body);
        message.headers.extend(self.headers.clone());
        message
    }
}

fn headers(api: Api, key: &ApiKey) -> Result<HeaderMap, InvalidProvider> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    // Gates in front of some providers refuse those who don't say who they are.
    headers.insert(USER_AGENT, HeaderValue::from_static(PROGRAM));
    headers.extend(api.headers());
    if !key.is_empty() {
        let (name, value) = api.key_header(key.secret());
        let value = sensitive(&value).ok_or(InvalidProvider::Key)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

impl Provider for HttpProvider {
    fn answer(&self, request: ModelRequest) -> Answer {
        let call = Call {
            provider: self.clone(),
            state: State::Ask(Box::new(self.request(&request))),
            ready: VecDeque::new(),
        };
        unfold(call, |mut call| async move {
            let event = call.next().await?;
            Some((event, call))
        })
        .boxed()
    }

    fn limits(&self) -> AnswerLimits {
        self.settings.limits
    }
}

/// One call.
struct Call {
    provider: HttpProvider,
    state: State,
    /// Read and not handed on yet.
    ready: VecDeque<ProviderEvent>,
}

enum State {
    Ask(Box<Request>),
    Read(Box<Reading>),
    /// Told after what was read before it.
    Failed(ProviderError),
    Ended,
}

struct Reading {
    stream: Streaming,
    decoding: Decoding,
}

impl Call {
    async fn next(&mut self) -> Option<Result<ProviderEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            self.state = match std::mem::replace(&mut self.state, State::Ended) {
                State::Ask(request) => match self.begin(*request).await {
                    Ok(reading) => State::Read(Box::new(reading)),
                    Err(error) => State::Failed(error),
                },
                State::Read(reading) => self.read(reading).await,
                State::Failed(error) => {
                    let key = self.provider.settings.key.secret();
                    return Some(Err(error.without(key)));
                }
                State::Ended => return None,
            };
        }
    }

    async fn begin(&self, request: Request) -> Result<Reading, ProviderError> {
        let limits = self.provider.settings.limits;
        let called = self.provider.outbound.stream(request).await;
        let stream = called.map_err(|error| unreachable(&error))?;
        if stream.status.as_u16() != 200 || is_json(&stream.headers) {
            return Err(self.refused(stream).await);
        }
        Ok(Reading {
            stream,
            decoding: Decoding::new(self.provider.settings.api, limits),
        })
    }

    async fn read(&mut self, mut reading: Box<Reading>) -> State {
        let chunk = match self.chunk(&mut reading.stream).await {
            Ok(chunk) => chunk,
            Err(error) => return State::Failed(error),
        };
        let mut events = Vec::new();
        let decoded = match &chunk {
            Some(bytes) => reading.decoding.push(bytes, &mut events),
            None => reading.decoding.finish(&mut events),
        };
        self.ready.extend(events);
        match decoded {
            Err(error) => State::Failed(error),
            // What may still come is nothing to anybody: the connection is closed.
            Ok(()) if reading.decoding.is_whole() || chunk.is_none() => State::Ended,
            Ok(()) => State::Read(reading),
        }
    }

    async fn chunk(&self, stream: &mut Streaming) -> Result<Option<Bytes>, ProviderError> {
        let idle = self.provider.settings.limits.idle;
        let chunk = timeout(idle, stream.chunk()).await.map_err(|_| {
            let host = &self.provider.host;
            let ms = idle.as_millis();
            ProviderError::limit(format!("nothing came from {host} for {ms} ms"))
        })?;
        chunk.map_err(|error| unreachable(&error))
    }

    /// What an answer says that is no stream.
    async fn refused(&self, mut stream: Streaming) -> ProviderError {
        let status = stream.status.as_u16();
        let mut body = Vec::new();
        while let Ok(Some(bytes)) = self.chunk(&mut stream).await {
            body.extend_from_slice(&bytes);
            if body.len() > ERROR_BODY_BYTES {
                break;
            }
        }
        body.truncate(ERROR_BODY_BYTES);
        let kind = match status {
            408 | 425 | 429 | 500.. => ErrorKind::Busy,
            200 => ErrorKind::Reported,
            _ => ErrorKind::Refused,
        };
        let what = match status {
            200 => format!("{} answered with no stream", self.provider.host),
            _ => format!("{} answered {status}", self.provider.host),
        };
        let text = message_in(&String::from_utf8_lossy(&body));
        ProviderError {
            status: Some(status),
            retry_after: retry_header(&stream.headers),
            ..ProviderError::said(kind, &what, &text)
        }
    }
}

fn unreachable(error: &relay_outbound::Error) -> ProviderError {
    use relay_outbound::Error::Redirect;
    let kind = match error {
        // Who answers with a redirect once does so every time.
        Redirect { .. } => ErrorKind::Refused,
        error if error.is_retryable() => ErrorKind::Unreachable,
        _ => ErrorKind::Refused,
    };
    ProviderError::new(kind, error.to_string())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("application/json"))
}

fn retry_header(headers: &HeaderMap) -> Option<std::time::Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(ms) = text("retry-after-ms").and_then(|ms| ms.trim().parse::<u32>().ok()) {
        return Some(std::time::Duration::from_millis(ms.into()));
    }
    text("retry-after").and_then(|value| retry_after(value, jiff::Timestamp::now()))
}

/// The message in an error's body, wherever providers put it; otherwise all of it.
fn message_in(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    // Some put it into a list.
    let value = match value.get(0) {
        Some(first) => first,
        None => &value,
    };
    let places = [
        &value["error"]["message"],
        &value["error"],
        &value["message"],
        &value["detail"],
    ];
    let found = places.into_iter().find_map(Value::as_str);
    found.unwrap_or(body).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(api: Api, base: &str) -> HttpSettings {
        HttpSettings {
            base_url: Some(base.to_owned()),
            ..HttpSettings::new(api, ApiKey::new(" hunter2hunter2 \n"))
        }
    }

    #[test]
    fn where_providers_are_asked() {
        let table = [
            (
                Api::Chat,
                None,
                "https://api.openai.com/v1/chat/completions",
            ),
            (Api::Responses, None, "https://api.openai.com/v1/responses"),
            (
                Api::Anthropic,
                None,
                "https://api.anthropic.com/v1/messages",
            ),
            (
                Api::Chat,
                Some("http://127.0.0.1:11434/v1/"),
                "http://127.0.0.1:11434/v1/chat/completions",
            ),
            (
                Api::Anthropic,
                Some("http://[::1]:81/v1"),
                "http://[::1]:81/v1/messages",
            ),
        ];
        for (api, base, expected) in table {
            let settings = HttpSettings {
                base_url: base.map(str::to_owned),
                ..HttpSettings::new(api, ApiKey::default())
            };
            assert_eq!(HttpProvider::new(settings).unwrap().url, expected);
        }
        for base in ["", "ftp://x", "http://user:secret@x/", "http://x#y"] {
            let refused = HttpProvider::new(settings(Api::Chat, base)).unwrap_err();
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
        let mut odd = settings(Api::Chat, "http://x");
        odd.key = ApiKey::new("a\nb");
        assert_eq!(HttpProvider::new(odd).unwrap_err(), InvalidProvider::Key);
    }

    #[test]
    fn keys_are_not_shown() {
        for api in [Api::Chat, Api::Responses, Api::Anthropic] {
            let provider = HttpProvider::new(settings(api, "http://x")).unwrap();
            let request = provider.request(&ModelRequest::default());
            let header = request.headers.values().any(|value| {
                value
                    .to_str()
                    .is_ok_and(|value| value.ends_with("hunter2hunter2"))
            });
            assert!(header, "{api:?}");
            let shown = format!("{provider:?} {:?} {request:?}", provider.settings);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn messages_of_errors() {
        let table = [
            (r#"{"error":{"message":"a"}}"#, "a"),
            (r#"{"error":"b"}"#, "b"),
            (r#"{"message":"c"}"#, "c"),
            (r#"[{"error":{"message":"d"}}]"#, "d"),
            ("<html>busy</html>", "<html>busy</html>"),
            (r#"{"x":1}"#, r#"{"x":1}"#),
        ];
        for (body, expected) in table {
            assert_eq!(message_in(body), expected);
        }
    }
}
