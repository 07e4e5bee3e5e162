//! One row per route. Router, API description and tests are all made from these rows, so none of them can
//! know of a route that the others don't.
//!
//! **To add a route:** a handler in `routes/<noun>.rs` and a row in its `routes()`. Who may call it, what it
//! takes and what it answers are read from the handler's types. The tests fail until it has an example.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::RequestPartsExt as _;
use axum::body::Body;
use axum::extract::RawPathParams;
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use relay_protocol::event::TokenKind;
use schemars::SchemaGenerator;
use serde_json::Value;

use crate::access::{Access, App, Kind};
use crate::call::{Answer, Call, IDEMPOTENCY_KEY, PathParts, Query, RequestBody, read_body};
use crate::refusal::Refusal;
use crate::routes;

/// Where a request comes from, as the listener noted it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// A future answer.
type Answering = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// One route.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The sentence of the API's description.
    pub(crate) summary: &'static str,
    /// Who may call it; nobody has to prove anything if this is empty.
    pub(crate) kinds: &'static [TokenKind],
    /// True for uploads.
    pub(crate) any_media_type: bool,
    /// Whether the header `Idempotency-Key` makes a repeated request harmless.
    pub(crate) takes_key: bool,
    /// How refusals are written that are given before the handler.
    refuse: fn(Refusal) -> Response<Body>,
    pub(crate) describe: fn(&mut SchemaGenerator) -> Described,
    handler: Arc<dyn Fn(App, Request<Body>) -> Answering + Send + Sync>,
}

/// What a route takes and gives.
pub(crate) struct Described {
    /// The schema of each part of the path, in order.
    pub(crate) path: Vec<Value>,
    /// The schema of an object with the query's parameters.
    pub(crate) query: Option<Value>,
    /// The description of the body.
    pub(crate) body: Option<Value>,
    /// The answer's status and content.
    pub(crate) answer: (StatusCode, Value),
    /// The content of refusals, where a contract of others wants it otherwise; those that are given before come as all others.
    pub(crate) refusal: Option<Value>,
}

/// Which route answered, for those who count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched {
    pub(crate) path: &'static str,
}

impl Route {
    /// A route for which a credential is needed.
    pub(crate) fn new<K, P, Q, B, R, F, Fut>(
        method: Method,
        path: &'static str,
        summary: &'static str,
        handler: F,
    ) -> Self
    where
        K: Kind,
        P: PathParts + 'static,
        Q: Query + 'static,
        B: RequestBody + 'static,
        R: Answer + 'static,
        F: Fn(Access<K>, Call<P, Q, B>) -> Fut + Copy + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Refusal>> + Send + 'static,
    {
        let answer = move |app: App, request: Request<Body>| -> Answering {
            Box::pin(async move {
                let answered = async {
                    let (access, call) = take_apart(&app, request).await?;
                    handler(access, call).await
                };
                match answered.await {
                    Ok(answer) => answer.into_response(),
                    Err(refusal) => refusal.into_response(),
                }
            })
        };
        Self {
            method,
            path,
            summary,
            kinds: K::KINDS,
            any_media_type: B::ANY_MEDIA_TYPE,
            takes_key: false,
            refuse: Refusal::into_response,
            describe: describe::<P, Q, B, R>,
            handler: Arc::new(answer),
        }
    }

    /// A route that decides by itself who may call it.
    pub(crate) fn special<F, Fut>(
        method: Method,
        path: &'static str,
        summary: &'static str,
        kinds: &'static [TokenKind],
        describe: fn(&mut SchemaGenerator) -> Described,
        handler: F,
    ) -> Self
    where
        F: Fn(App, Request<Body>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Response<Body>> + Send + 'static,
    {
        Self {
            method,
            path,
            summary,
            kinds,
            any_media_type: false,
            takes_key: false,
            refuse: Refusal::into_response,
            describe,
            handler: Arc::new(move |app, request| Box::pin(handler(app, request))),
        }
    }

    /// Accepts the header `Idempotency-Key`; all other routes refuse it.
    pub(crate) const fn idempotent(mut self) -> Self {
        self.takes_key = true;
        self
    }

    /// Writes refusals that are given before the handler in another form than the usual one.
    pub(crate) const fn refusing(mut self, refuse: fn(Refusal) -> Response<Body>) -> Self {
        self.refuse = refuse;
        self
    }

    /// Answers a request.
    pub(crate) fn answer(&self, app: App, request: Request<Body>) -> Answering {
        if request.headers().contains_key(IDEMPOTENCY_KEY) && !self.takes_key {
            let refused = (self.refuse)(self.misplaced_key());
            return Box::pin(std::future::ready(refused));
        }
        (self.handler)(app, request)
    }

    /// Refuses a key that would promise what the route does not keep.
    fn misplaced_key(&self) -> Refusal {
        let accepting = routes::table().into_iter().filter(|route| route.takes_key);
        let accepting: Vec<String> = accepting
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        let expected = format!(
            "the header only on {}; leave it out here",
            accepting.join(", ")
        );
        let found = format!("{} {}", self.method, self.path);
        Refusal::invalid("Idempotency-Key", expected, &found)
    }

    /// The names of the path's parts, in order.
    pub(crate) fn part_names(&self) -> impl Iterator<Item = &'static str> {
        let segments = self.path.split('/');
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}

fn describe<P: PathParts, Q: Query, B: RequestBody, R: Answer>(
    generator: &mut SchemaGenerator,
) -> Described {
    Described {
        path: P::describe(),
        query: Q::describe(generator),
        body: B::describe(generator),
        answer: R::describe(generator),
        refusal: None,
    }
}

/// Checks and reads a request: first who asks, then what.
async fn take_apart<K, P, Q, B>(
    app: &App,
    request: Request<Body>,
) -> Result<(Access<K>, Call<P, Q, B>), Refusal>
where
    K: Kind,
    P: PathParts,
    Q: Query,
    B: RequestBody,
{
    let (mut parts, body) = request.into_parts();
    let access = app.admit_by_header(&parts.headers, peer(&parts)).await?;
    let path = P::read(&path_parts(&mut parts).await?)?;
    let query = Q::read(parts.uri.query().unwrap_or_default())?;
    let timeout = app.config().body_timeout;
    let bytes = read_body(&parts.headers, body, B::MOST, timeout).await?;
    let body = B::read(bytes, &parts.headers)?;
    let call = Call {
        path,
        query,
        body,
        headers: parts.headers,
    };
    Ok((access, call))
}

/// Where a request comes from.
pub(crate) fn peer(parts: &Parts) -> IpAddr {
    let unknown = IpAddr::from([0, 0, 0, 0]);
    parts
        .extensions
        .get::<Peer>()
        .map_or(unknown, |peer| peer.0)
}

/// The varying parts of the path, in order.
pub(crate) async fn path_parts(parts: &mut Parts) -> Result<Vec<(String, String)>, Refusal> {
    let found = parts.extract::<RawPathParams>().await;
    let found = found.map_err(|_| Refusal::invalid("path", "UTF-8", parts.uri.path()))?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Ok(found.iter().map(owned).collect())
}
