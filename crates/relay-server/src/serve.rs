//! Listening: connections come in, are limited in number and patience, and end in order.
//!
//! When the server is told to stop it takes no more connections, lets requests that have begun end, ends
//! sockets and streams with a word, and after a while cuts off what is left.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, Request, Response};
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use relay_core::{Caller, Engine, KeepFor};
use relay_protocol::api::audit::EventsRetained;
use relay_protocol::problem::ErrorCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::access::App;
use crate::chat;
use crate::config::Config;
use crate::guard::{self, Home};
use crate::local::{Doors, LocalListener};
use crate::refusal::Refusal;
use crate::routes;
use crate::table::{Matched, Peer};
use crate::{outbox, webhook, written};

/// Most bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;

/// How long to wait after the system could give no connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why a server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener is of no use, or a part of the server broke.
    #[error("the server can't go on: {0}")]
    Broken(#[from] io::Error),
    /// The engine could not begin to deliver.
    #[error("the engine could not start: {0}")]
    Engine(#[from] relay_core::Error),
}

/// Keeps a connection's place as long as anything of it is there, sockets included.
#[derive(Clone)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Serves until `shutdown` is ready and everything has ended. The doors are a listener, or one together with
/// a [`LocalListener`] for connections of this process.
///
/// Starts the engine, which nobody may have done before, and drives it meanwhile. When this returns nothing
/// of the server holds the engine any more.
pub async fn serve(
    doors: impl Into<Doors>,
    engine: Arc<Engine>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    serve_announced(doors, engine, config, || {}, shutdown).await
}

/// Serves as [`serve`] does, and calls `ready` once, right before the first connection is accepted.
pub async fn serve_announced(
    doors: impl Into<Doors>,
    engine: Arc<Engine>,
    config: Config,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let mut doors = doors.into();
    let address = doors.network.local_addr()?;
    let home = Home::new(address.ip(), &config.allowed_hosts, &config.allowed_origins);
    let drain_timeout = config.drain_timeout;
    let app = App::new(engine.clone(), config, home);
    let server = Server {
        router: routes::router(&app),
        uploads: routes::uploads().into(),
        places: Arc::new(Semaphore::new(app.config().connections)),
        app,
    };
    engine.start().await?;
    webhook::relink(&engine, server.app.calls()).await?;
    tracing::info!(%address, "listening");
    ready();
    let mut driven = tokio::spawn(drive(engine.clone()));
    let mut calling = tokio::spawn(outbox::run(engine.clone(), server.app.calls().clone()));
    let mut collecting = tokio::spawn(collect_garbage(
        engine.clone(),
        server.app.config().collect_garbage_after,
        server.app.config().collect_garbage_every,
    ));
    let mut retaining = tokio::spawn(apply_retention(
        engine.clone(),
        server.app.config().keep_events,
        server.app.config().apply_retention_every,
    ));
    let serving = async {
        server.app.config().chat.clear_away(&engine).await;
        server.accept(&mut doors).await;
    };
    let outcome = tokio::select! {
        () = serving => Ok(()),
        () = shutdown => Ok(()),
        ended = &mut driven => match ended {
            Ok(never) => match never {},
            Err(fault) => Err(io::Error::other(fault).into()),
        },
    };
    drop(doors);
    // What is under way is sent again by the next server.
    end(&mut calling).await;
    // Their reports are answered at once, and nothing is lost.
    engine.stop_holding_text();
    server.drain(drain_timeout).await;
    end(&mut driven).await;
    end(&mut collecting).await;
    end(&mut retaining).await;
    outcome
}

/// Ends a task, and waits until it has ended.
async fn end<T>(task: &mut JoinHandle<T>) {
    if !task.is_finished() {
        task.abort();
        let _ = task.await;
    }
}

async fn drive(engine: Arc<Engine>) -> Infallible {
    engine.keep_delivering(tokio::time::sleep).await
}

/// Collects garbage soon after the start, so that a server that is often started anew does it, too, and from time to time.
async fn collect_garbage(engine: Arc<Engine>, after: Duration, every: Duration) {
    let mut wait = after;
    loop {
        tokio::time::sleep(wait).await;
        wait = every;
        match engine.collect_garbage(&Caller::process_owner()).await {
            Ok(removed) => tracing::debug!(removed, "collected garbage"),
            Err(error) => tracing::warn!(%error, "garbage could not be collected"),
        }
    }
}

/// Removes what need not be kept any longer: at the start, and from time to time.
async fn apply_retention(engine: Arc<Engine>, keep: KeepFor, every: Duration) {
    if keep.is_for_ever() {
        return;
    }
    loop {
        match engine
            .retain_everywhere(&Caller::process_owner(), keep)
            .await
        {
            Ok(EventsRetained { erased, cut }) => {
                tracing::debug!(erased, cut, "applied retention");
            }
            Err(error) => tracing::warn!(%error, "retention could not be applied"),
        }
        tokio::time::sleep(every).await;
    }
}

struct Server {
    app: App,
    router: Router,
    uploads: Arc<[(Method, &'static str)]>,
    places: Arc<Semaphore>,
}

impl Server {
    async fn accept(&self, doors: &mut Doors) {
        loop {
            let accepted = tokio::select! {
                stream = LocalListener::accept(&mut doors.local) => {
                    self.admit(stream, Origin::Process, |_| {});
                    continue;
                }
                accepted = doors.network.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) => {
                    // Usually out of file descriptors: others have to end first.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn welcome(&self, stream: TcpStream, peer: SocketAddr) {
        // Small frames must not wait for the answer to the ones before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone at once");
            return;
        }
        self.admit(stream, Origin::Network(peer.ip()), refuse);
    }

    /// Serves a connection, if there is a place for it.
    fn admit<S: Stream>(&self, stream: S, origin: Origin, refuse: impl FnOnce(&S)) {
        let Ok(permit) = self.places.clone().try_acquire_owned() else {
            self.app.metrics().refused_connection();
            return refuse(&stream);
        };
        let connection = Connection {
            app: self.app.clone(),
            router: self.router.clone(),
            uploads: self.uploads.clone(),
            origin,
            place: Place {
                _permit: Arc::new(permit),
            },
        };
        let cut_off = self.app.cut_off().clone();
        self.app.tasks().spawn(async move {
            tokio::select! {
                () = connection.run(stream) => {}
                () = cut_off.cancelled() => {}
            }
        });
    }

    /// Lets everything end, and ends what does not.
    async fn drain(&self, patience: Duration) {
        let app = &self.app;
        app.stopping().cancel();
        app.tasks().close();
        let ending = async {
            tokio::join!(app.config().mcp.stop(), app.config().chat.stop());
            app.tasks().wait().await;
        };
        if tokio::time::timeout(patience, ending).await.is_err() {
            tracing::warn!(left = app.tasks().len(), "cutting off what has not ended");
            app.cut_off().cancel();
            app.tasks().wait().await;
        }
        tracing::info!("stopped");
    }
}

/// Tells a client that there is no place for it, without waiting for it.
fn refuse(stream: &TcpStream) {
    let refusal = Refusal::new(ErrorCode::Overloaded, "too many connections are open");
    let body = serde_json::to_string(&*refusal.0).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
         content-length: {}\r\nconnection: close\r\nretry-after: 1\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.try_write(answer.as_bytes());
}

struct Connection {
    app: App,
    router: Router,
    uploads: Arc<[(Method, &'static str)]>,
    origin: Origin,
    place: Place,
}

/// Bytes in both directions.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// Where a connection comes from.
#[derive(Clone, Copy)]
enum Origin {
    Network(IpAddr),
    Process,
}

impl Origin {
    const fn peer(self) -> Peer {
        match self {
            Self::Network(address) => Peer(address),
            Self::Process => Peer(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        }
    }
}

impl Connection {
    async fn run(self, stream: impl Stream) {
        let app = self.app.clone();
        let _open = app.metrics().connection();
        let this = Arc::new(self);
        let (stream, written) = written::watch(stream);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let this = this.clone();
            request.extensions_mut().insert(written.clone());
            async move { Ok::<_, Infallible>(this.answer(request.map(Body::new)).await) }
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(app.config().header_timeout)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut serving = std::pin::pin!(serving);
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = app.stopping().cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        }
    }

    /// Answers one request, and writes down that it did.
    async fn answer(&self, mut request: Request<Body>) -> Response<Body> {
        let begun = Instant::now();
        let method = method_name(request.method());
        request.extensions_mut().insert(self.origin.peer());
        request.extensions_mut().insert(self.place.clone());
        let mut response = self.route(request).await;
        add_headers(&mut response);
        let route = response.extensions().get::<Matched>();
        let route = route.map_or("none", |matched| matched.path);
        let (status, took) = (response.status().as_u16(), begun.elapsed());
        self.app.metrics().request(route, method, status, took);
        let millis = took.as_millis();
        tracing::debug!(
            http.route = route,
            http.method = method,
            http.status = status,
            millis,
            "answered"
        );
        response
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        let takes_any_body = self
            .uploads
            .iter()
            .any(|(method, path)| request.uri().path() == *path && request.method() == method);
        let home = match self.origin {
            Origin::Network(_) => self.app.home(),
            Origin::Process => self.app.process_home(),
        };
        let allowed = guard::check(
            home,
            request.method(),
            request.uri(),
            request.headers(),
            takes_any_body,
        );
        if let Err(problem) = allowed {
            // Clients of the chat contract read `error`, whoever refuses.
            return match chat::is_of_contract(request.uri().path()) {
                true => chat::in_form(&problem),
                false => Refusal::from(problem).into_response(),
            };
        }
        let answering = self.router.clone().oneshot(request);
        match AssertUnwindSafe(answering).catch_unwind().await {
            Ok(Ok(response)) => response,
            Err(_) => {
                tracing::error!("a handler panicked");
                Refusal::new(ErrorCode::Internal, "the request met a fault").into_response()
            }
        }
    }
}

/// What every answer says to browsers.
fn add_headers(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("same-origin"));
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

/// A method's name as a label, of which there are few.
const fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        _ => "other",
    }
}
