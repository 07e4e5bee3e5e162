//! How a client gets to its server: over TCP, encrypted or not, or any other way that carries bytes.
//!
//! The client needs nothing but connections, so that server and client can meet in one process over a pair
//! of pipes, and tests can put something in between.

use std::io;

use futures_util::future::BoxFuture;
use http::Uri;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::error::{Error, Result};
use crate::tls::Tls;

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is being made.
pub type Dialing<'a> = BoxFuture<'a, io::Result<Box<dyn Stream>>>;

/// Makes connections to one server. Functions that do so are dialers.
///
/// ```
/// # fn serve(_: tokio::io::DuplexStream) {}
/// use relay_sdk::{Options, Relay};
///
/// // Both sides in one process: the server takes the other end of each pipe.
/// let dial = || async {
///     let (near, far) = tokio::io::duplex(64 * 1024);
///     serve(far);
///     std::io::Result::Ok(near)
/// };
/// let relay = Relay::over(dial, "rk_…", Options::default());
/// ```
pub trait Dial: Send + Sync + 'static {
    /// Makes a connection.
    fn dial(&self) -> Dialing<'_>;
}

impl<F, Fut, S> Dial for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<S>> + Send + 'static,
    S: Stream + 'static,
{
    fn dial(&self) -> Dialing<'_> {
        let dialing = self();
        Box::pin(async move { Ok(Box::new(dialing.await?) as Box<dyn Stream>) })
    }
}

/// A server's URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUrl {
    is_https: bool,
    host: String,
    port: u16,
    /// The value of the `Host` header.
    pub(crate) authority: String,
}

impl ServerUrl {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let invalid = || Error::InvalidUrl(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let is_https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(invalid()),
        };
        let authority = uri.authority().ok_or_else(invalid)?;
        let plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
        if !plain || authority.as_str().contains('@') {
            return Err(invalid());
        }
        let default = if is_https { 443 } else { 80 };
        Ok(Self {
            is_https,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(default),
            authority: authority.as_str().to_owned(),
        })
    }
}

/// Connections to a server over TCP.
pub(crate) struct Server {
    pub(crate) url: ServerUrl,
    pub(crate) tls: Tls,
}

impl Dial for Server {
    fn dial(&self) -> Dialing<'_> {
        let ServerUrl {
            is_https,
            host,
            port,
            ..
        } = &self.url;
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            // Small frames must not wait for the answer to the ones before.
            stream.set_nodelay(true)?;
            if !is_https {
                return Ok(Box::new(stream) as Box<dyn Stream>);
            }
            let stream = self.tls.encrypt(host, stream).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_servers() {
        let cases = [
            ("http://127.0.0.1:4000", "127.0.0.1", 4000, "127.0.0.1:4000"),
            (
                "http://127.0.0.1:4000/",
                "127.0.0.1",
                4000,
                "127.0.0.1:4000",
            ),
            (
                "https://relay.example",
                "relay.example",
                443,
                "relay.example",
            ),
            ("http://[::1]:4000", "::1", 4000, "[::1]:4000"),
        ];
        for (url, host, port, authority) in cases {
            let parsed = ServerUrl::parse(url).unwrap();
            let found = (parsed.host.as_str(), parsed.port, parsed.authority.as_str());
            assert_eq!(found, (host, port, authority), "{url}");
        }
        for url in [
            "",
            "127.0.0.1:4000",
            "ws://x",
            "http://a/b",
            "http://u:p@a",
            "http://a?b",
        ] {
            assert!(ServerUrl::parse(url).is_err(), "{url}");
        }
    }
}
