//! One call: read the URL, resolve, check every address, connect to one of them, ask, read the answer.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::address::forbidden_range;
use crate::allow::AllowList;
use crate::error::Error;
use crate::line::Line;
use crate::resolve::{Resolve, SystemResolver};
use crate::target::{Host, Target};
use crate::tls;

/// Most bytes of an answer's head.
const HEAD_BYTES: usize = 32 * 1024;

/// Headers that say how the call is made; they are the guard's own.
const OWN_HEADERS: [HeaderName; 8] = [
    CONNECTION,
    CONTENT_LENGTH,
    HOST,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// How long is waited and how much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the whole call, from the name to the last byte of the answer. Default: 30 s.
    pub timeout: Duration,
    /// For one connection attempt. Default: 10 s.
    pub connect_timeout: Duration,
    /// Most bytes of the answer's body. Default: 64 KiB.
    pub answer_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            answer_bytes: 64 * 1024,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// How.
    pub method: Method,
    /// Whom; not read before it is checked.
    pub url: String,
    /// What is said beside the body. Those that say how the call is made are refused.
    pub headers: HeaderMap,
    /// What is said.
    pub body: Bytes,
}

impl Request {
    /// A `POST` of JSON.
    #[must_use]
    pub fn post_json(url: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(http::header::CONTENT_TYPE, json);
        Self {
            method: Method::POST,
            url: url.into(),
            headers,
            body: body.into(),
        }
    }
}

/// What was answered, whatever its status; redirects are errors.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// What was said beside the body.
    pub headers: HeaderMap,
    /// What was said.
    pub body: Bytes,
}

/// The one way out: makes calls, and only to where calls may go.
#[derive(Clone)]
pub struct Outbound {
    resolver: Arc<dyn Resolve>,
    allow: AllowList,
    limits: Limits,
}

impl Default for Outbound {
    /// Calls the internet alone.
    fn default() -> Self {
        Self::new(AllowList::none(), Limits::default())
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Outbound");
        shown
            .field("allow", &self.allow)
            .field("limits", &self.limits);
        shown.finish_non_exhaustive()
    }
}

impl Outbound {
    /// Calls the internet, and what is allowed beside it.
    #[must_use]
    pub fn new(allow: AllowList, limits: Limits) -> Self {
        Self::with_resolver(Arc::new(SystemResolver), allow, limits)
    }

    /// The same with another way to find addresses.
    #[must_use]
    pub fn with_resolver(resolver: Arc<dyn Resolve>, allow: AllowList, limits: Limits) -> Self {
        Self {
            resolver,
            allow,
            limits,
        }
    }

    /// Says why a URL would not be called now, without calling it: for whoever stores one.
    pub async fn check(&self, url: &str) -> Result<(), Error> {
        let target = Target::parse(url)?;
        let checking = async { self.addresses(&target).await.map(drop) };
        self.in_time(&target, checking).await
    }

    /// Whether calls with these headers are made: not with those that say how a call is made.
    pub fn check_headers(headers: &HeaderMap) -> Result<(), Error> {
        match OWN_HEADERS.iter().find(|own| headers.contains_key(*own)) {
            Some(own) => Err(Error::Header(own.clone())),
            None => Ok(()),
        }
    }

    /// Makes a call, over a connection of its own.
    pub async fn call(&self, request: Request) -> Result<Answer, Error> {
        let target = checked(&request)?;
        let calling = async {
            let mut open = self.open(&target).await?;
            let mut message = message(&target, request);
            let close = HeaderValue::from_static("close");
            message.headers_mut().insert(CONNECTION, close);
            self.ask(&target, &mut open, message).await
        };
        self.in_time(&target, Box::pin(calling)).await
    }

    /// A line for one caller, who wants connections to be kept between calls.
    #[must_use]
    pub fn line(&self) -> Line {
        Line::new(self.clone())
    }

    pub(crate) async fn in_time<T>(
        &self,
        target: &Target,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = || Error::TimedOut {
            host: target.host.to_string(),
            timeout: self.limits.timeout,
        };
        timeout(self.limits.timeout, work)
            .await
            .map_err(|_| late())?
    }

    /// The addresses of a target, all of which may be called.
    async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Error> {
        let found = match &target.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name).await?,
        };
        let found = found.into_iter();
        let addresses: Vec<_> = found.map(|ip| SocketAddr::new(ip, target.port)).collect();
        for address in &addresses {
            self.check_address(&target.host, *address)?;
        }
        Ok(addresses)
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let found = self.resolver.resolve(name).await;
        let nothing = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
        found
            .and_then(|found| (!found.is_empty()).then_some(found).ok_or_else(nothing))
            .map_err(|source| Error::Resolve {
                host: name.to_owned(),
                source,
            })
    }

    fn check_address(&self, host: &Host, address: SocketAddr) -> Result<(), Error> {
        match forbidden_range(address.ip()) {
            Some(range) if !self.allow.allows(host, address) => {
                tracing::warn!(%host, address = %address.ip(), range, "a call to the inside was refused");
                Err(Error::Forbidden {
                    host: host.to_string(),
                    address: address.ip(),
                    range,
                })
            }
            _ => Ok(()),
        }
    }

    /// Connects to one of the addresses, in their order.
    async fn connect(&self, target: &Target, addresses: &[SocketAddr]) -> Result<TcpStream, Error> {
        let mut last = io::Error::other("it has no address");
        for address in addresses {
            let connecting = TcpStream::connect(*address);
            match timeout(self.limits.connect_timeout, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(Error::Connect {
            host: target.host.to_string(),
            source: last,
        })
    }

    /// Opens a connection to a checked address.
    pub(crate) async fn open(&self, target: &Target) -> Result<Open, Error> {
        let addresses = self.addresses(target).await?;
        let stream = self.connect(target, &addresses).await?;
        let opened = if target.is_https {
            let stream = tls::encrypt(&target.host, stream).await?;
            Open::over(TokioIo::new(stream)).await
        } else {
            Open::over(TokioIo::new(stream)).await
        };
        opened.map_err(|source| Error::broken(&target.host, source))
    }

    /// Sends the request over a connection and reads the answer.
    pub(crate) async fn ask(
        &self,
        target: &Target,
        open: &mut Open,
        message: http::Request<Full<Bytes>>,
    ) -> Result<Answer, Error> {
        let response = open.sender.send_request(message).await;
        self.read(
            target,
            response.map_err(|source| Error::broken(&target.host, source))?,
        )
        .await
    }

    async fn read(
        &self,
        target: &Target,
        response: http::Response<Incoming>,
    ) -> Result<Answer, Error> {
        let (parts, body) = response.into_parts();
        if parts.status.is_redirection() {
            return Err(Error::Redirect {
                host: target.host.to_string(),
                status: parts.status.as_u16(),
            });
        }
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body: self.read_body(target, body).await?,
        })
    }

    async fn read_body(&self, target: &Target, mut body: Incoming) -> Result<Bytes, Error> {
        let most = self.limits.answer_bytes;
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|source| Error::broken(&target.host, source))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if read.len() + data.len() > most {
                return Err(Error::TooLarge {
                    host: target.host.to_string(),
                    most,
                });
            }
            read.extend_from_slice(data);
        }
        Ok(read.freeze())
    }
}

/// A connection. It ends when this is dropped.
pub(crate) struct Open {
    pub(crate) sender: http1::SendRequest<Full<Bytes>>,
    moving: AbortHandle,
}

impl Open {
    async fn over<T>(stream: T) -> Result<Self, hyper::Error>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let handshake = http1::Builder::new()
            .max_buf_size(HEAD_BYTES)
            .handshake(stream);
        let (sender, connection) = handshake.await?;
        // It moves the bytes; what goes wrong there is told to whoever waits for an answer.
        let moving = tokio::spawn(async { drop(connection.await) });
        Ok(Self {
            sender,
            moving: moving.abort_handle(),
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.moving.abort();
    }
}

/// The target of a request that leaves to the guard what is its own.
pub(crate) fn checked(request: &Request) -> Result<Target, Error> {
    let target = Target::parse(&request.url)?;
    Outbound::check_headers(&request.headers)?;
    Ok(target)
}

/// The request as it goes over the connection.
pub(crate) fn message(target: &Target, request: Request) -> http::Request<Full<Bytes>> {
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = Uri::from(target.path.clone());
    *message.headers_mut() = request.headers;
    let headers = message.headers_mut();
    // Nothing in a checked host is not a header value.
    if let Ok(host) = HeaderValue::try_from(target.authority()) {
        headers.insert(HOST, host);
    }
    message
}
