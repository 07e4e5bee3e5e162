//! Requests over HTTP: one credential, a few connections that are kept, and repetition where it does no harm.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use relay_protocol::ids::SessionId;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::wire;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::backoff::Backoff;
use crate::dial::{Dial, Stream};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::refusal::{self, ReadRefusal};

/// Names the session that a call is made through.
const RELAY_SESSION: &str = "relay-session";
/// Says which event of a stream was seen last.
const LAST_EVENT_ID: &str = "last-event-id";
/// Makes a repeated request harmless.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Most connections that are kept while nobody needs them.
const IDLE_CONNECTIONS: usize = 4;

type Sender = SendRequest<Full<Bytes>>;

/// Asks one server with one credential.
pub(crate) struct Http {
    dial: Arc<dyn Dial>,
    host: HeaderValue,
    authorization: HeaderValue,
    pub(crate) options: Options,
    idle: Mutex<VecDeque<Sender>>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    path: String,
    body: Bytes,
    media_type: HeaderValue,
    through: Option<SessionId>,
    seen: Option<u64>,
    idempotency_key: Option<String>,
    refusal: ReadRefusal,
    may_be_repeated: bool,
}

/// An answer that comes piece by piece, for as long as this is kept.
pub(crate) struct Streaming {
    body: Incoming,
    _sender: Sender,
}

impl Streaming {
    /// The next piece; nothing after the last.
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(Error::Broken(error.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Why an attempt failed.
enum Failure {
    /// The request did not leave.
    NotSent(Error),
    /// It left; what became of it is unknown.
    Unknown(Error),
    /// The server refused it.
    Refused(Box<Problem>),
}

impl Call {
    fn new(method: Method, path: impl Into<String>, body: Bytes) -> Self {
        Self {
            may_be_repeated: method == Method::GET,
            method,
            path: path.into(),
            body,
            media_type: HeaderValue::from_static("application/json"),
            through: None,
            seen: None,
            idempotency_key: None,
            refusal: refusal::problem,
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, Bytes::new())
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::POST, path, json(body))
    }

    pub(crate) fn patch(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::PATCH, path, json(body))
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, Bytes::new())
    }

    /// A `POST` of anything.
    pub(crate) fn upload(path: String, media_type: HeaderValue, body: Bytes) -> Self {
        Self {
            media_type,
            ..Self::new(Method::POST, path, body)
        }
    }

    /// Says that doing it twice is not the same as once.
    pub(crate) const fn once(mut self) -> Self {
        self.may_be_repeated = false;
        self
    }

    /// Says that doing it twice is the same as once.
    pub(crate) const fn repeatable(self) -> Self {
        self.repeatable_if(true)
    }

    /// Says whether doing it twice is the same as once.
    pub(crate) const fn repeatable_if(mut self, same: bool) -> Self {
        self.may_be_repeated = same;
        self
    }

    /// Sends an idempotency key, with which doing it twice is the same as once; without one nothing changes.
    pub(crate) fn keyed(mut self, key: Option<String>) -> Self {
        self.may_be_repeated |= key.is_some();
        self.idempotency_key = key;
        self
    }

    /// Refusals come in the form of the routes about chats.
    pub(crate) const fn about_chats(mut self) -> Self {
        self.refusal = refusal::chat_problem;
        self
    }

    /// Asks for a stream only from after this event on.
    pub(crate) const fn after(mut self, seen: u64) -> Self {
        self.seen = Some(seen);
        self
    }

    /// Says through which session it is made, if through one.
    pub(crate) const fn through(mut self, session: Option<SessionId>) -> Self {
        self.through = session;
        self
    }
}

/// Bodies are plain data; what can't be written is refused by the server as no JSON.
fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).unwrap_or_default().into()
}

/// Adds a query to a path.
pub(crate) fn with_query(path: &str, query: &impl Serialize) -> String {
    match serde_urlencoded::to_string(query) {
        Ok(query) if !query.is_empty() => format!("{path}?{query}"),
        _ => path.to_owned(),
    }
}

impl Http {
    pub(crate) fn new(dial: Arc<dyn Dial>, host: &str, token: &str, options: Options) -> Self {
        // A host or token that is no header value is refused by the server, as it has to be.
        let value = |text: &str| {
            HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
        };
        let mut authorization = value(&format!("Bearer {token}"));
        authorization.set_sensitive(true);
        Self {
            dial,
            host: value(host),
            authorization,
            options,
            idle: Mutex::default(),
        }
    }

    /// The same server with another credential.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        let host = self.host.to_str().unwrap_or_default();
        Self::new(self.dial.clone(), host, token, self.options.clone())
    }

    /// What a WebSocket handshake has to say.
    pub(crate) const fn identity(&self) -> (&HeaderValue, &HeaderValue) {
        (&self.host, &self.authorization)
    }

    pub(crate) async fn connect(&self) -> Result<Box<dyn Stream>> {
        let dialing = timeout(self.options.connect_timeout, self.dial.dial());
        match dialing.await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(Error::unreachable(error)),
            Err(_) => Err(Error::unreachable(std::io::ErrorKind::TimedOut.into())),
        }
    }

    /// Asks for something.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let answer = self.ask(call).await?;
        Ok(wire::decode_lenient(&answer.body)?)
    }

    /// Asks for something to be done.
    pub(crate) async fn done(&self, call: Call) -> Result<()> {
        self.ask(call).await.map(drop)
    }

    /// Asks until there is an answer, nobody has patience any more, or asking again could do harm.
    pub(crate) async fn ask(&self, call: Call) -> Result<Answer> {
        self.repeated(&call, || self.attempt(&call)).await
    }

    /// Asks in the same way for an answer that comes piece by piece.
    pub(crate) async fn stream(&self, call: &Call) -> Result<Streaming> {
        self.repeated(call, || self.begin(call)).await
    }

    /// Asks once for such an answer.
    pub(crate) async fn stream_once(&self, call: &Call) -> Result<Streaming> {
        self.begin(call).await.map_err(Failure::into_error)
    }

    async fn repeated<T, A>(&self, call: &Call, attempt: impl Fn() -> A) -> Result<T>
    where
        A: Future<Output = std::result::Result<T, Failure>>,
    {
        let until = Instant::now() + self.options.patience;
        let mut backoff = Backoff::default();
        loop {
            let failure = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let least = failure.least_wait();
            let Some(error) = failure.into_final(call.may_be_repeated) else {
                let wait = backoff.next().max(least);
                if Instant::now() + wait < until {
                    tokio::time::sleep(wait).await;
                    continue;
                }
                return attempt().await.map_err(Failure::into_error);
            };
            return Err(error);
        }
    }

    async fn attempt(&self, call: &Call) -> std::result::Result<Answer, Failure> {
        let mut sender = self.sender().await.map_err(Failure::NotSent)?;
        let answering = async {
            let response = sender.send_request(self.request(call)).await;
            read(response.map_err(|error| lost(&error))?).await
        };
        let (status, answer) = self.in_time(answering).await?;
        self.keep(sender);
        if status.is_success() {
            return Ok(answer);
        }
        Err(Failure::Refused((call.refusal)(status, &answer.body)))
    }

    async fn begin(&self, call: &Call) -> std::result::Result<Streaming, Failure> {
        let mut sender = self.sender().await.map_err(Failure::NotSent)?;
        let sending = sender.send_request(self.request(call));
        let beginning = async { sending.await.map_err(|error| lost(&error)) };
        let response = self.in_time(beginning).await?;
        if response.status().is_success() {
            return Ok(Streaming {
                body: response.into_body(),
                _sender: sender,
            });
        }
        let (status, answer) = self.in_time(read(response)).await?;
        self.keep(sender);
        Err(Failure::Refused((call.refusal)(status, &answer.body)))
    }

    /// Waits as long as one attempt may take.
    async fn in_time<T>(
        &self,
        attempt: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> std::result::Result<T, Failure> {
        let patience = self.options.timeout;
        let done = timeout(patience, attempt).await;
        done.map_err(|_| Failure::Unknown(Error::TimedOut(patience)))?
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        // Paths are made of encoded parts.
        *request.uri_mut() = call.path.parse().unwrap_or_default();
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        headers.insert(AUTHORIZATION, self.authorization.clone());
        if call.method != Method::GET {
            headers.insert(CONTENT_TYPE, call.media_type.clone());
        }
        let session = call.through.map(|session| session.to_string());
        if let Some(Ok(session)) = session.as_deref().map(HeaderValue::from_str) {
            headers.insert(RELAY_SESSION, session);
        }
        if let Some(seen) = call.seen {
            headers.insert(LAST_EVENT_ID, seen.into());
        }
        if let Some(key) = &call.idempotency_key {
            // A key that is no header value is refused by the server, as it has to be.
            let key = HeaderValue::from_str(key).unwrap_or_else(|_| HeaderValue::from_static(""));
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        request
    }

    /// A connection that is ready: one that was kept, or a new one.
    async fn sender(&self) -> Result<Sender> {
        while let Some(mut sender) = self.take_idle() {
            // The server may have closed it meanwhile.
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let stream = TokioIo::new(self.connect().await?);
        let broken = |error: hyper::Error| Error::Broken(error.to_string());
        let (mut sender, connection) = handshake(stream).await.map_err(broken)?;
        // It ends with its sender; what goes wrong on it the sender learns.
        tokio::spawn(connection);
        sender.ready().await.map_err(broken)?;
        Ok(sender)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, VecDeque<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle();
        idle.retain(|sender| !sender.is_closed());
        idle.pop_back()
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle();
        if idle.len() < IDLE_CONNECTIONS && !sender.is_closed() {
            idle.push_back(sender);
        }
    }
}

async fn read(response: Response<Incoming>) -> std::result::Result<(StatusCode, Answer), Failure> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| lost(&error))?;
    let answer = Answer {
        headers: parts.headers,
        body: body.to_bytes(),
    };
    Ok((parts.status, answer))
}

fn lost(error: &hyper::Error) -> Failure {
    let lost = Error::Broken(error.to_string());
    if error.is_canceled() {
        // The connection was gone before the request could be written.
        Failure::NotSent(lost)
    } else {
        Failure::Unknown(lost)
    }
}

impl Failure {
    /// The error that ends the call; nothing when another attempt may help and does no harm.
    fn into_final(self, may_be_repeated: bool) -> Option<Error> {
        match self {
            Self::NotSent(Error::Untrusted(why)) => Some(Error::Untrusted(why)),
            Self::NotSent(_) => None,
            Self::Unknown(_) if may_be_repeated => None,
            Self::Refused(problem) if may_be_repeated && passes(problem.code) => None,
            failure => Some(failure.into_error()),
        }
    }

    fn into_error(self) -> Error {
        match self {
            Self::NotSent(error) | Self::Unknown(error) => error,
            Self::Refused(problem) => Error::Problem(problem),
        }
    }

    /// How long the server wants to be left alone.
    fn least_wait(&self) -> Duration {
        match self {
            Self::Refused(problem) => Duration::from_millis(problem.retry_after_ms.unwrap_or(0)),
            _ => Duration::ZERO,
        }
    }
}

/// Whether a refusal is about the moment, and not about what was asked.
const fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Overloaded | ErrorCode::RateLimited | ErrorCode::StorageUnavailable
    )
}
