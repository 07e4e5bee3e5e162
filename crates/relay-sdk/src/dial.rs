//! How a client gets to its server: over TCP, encrypted or not, or any other way that carries bytes.
//!
//! The client needs nothing but connections, so that server and client can meet in one process over a pair
//! of pipes, and tests can put something in between.

use std::io;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use http::Uri;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};

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

impl Dial for ServerUrl {
    fn dial(&self) -> Dialing<'_> {
        Box::pin(async move {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            // Small frames must not wait for the answer to the ones before.
            stream.set_nodelay(true)?;
            if !self.is_https {
                return Ok(Box::new(stream) as Box<dyn Stream>);
            }
            let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(tls_config()?);
            Ok(Box::new(connector.connect(name, stream).await?) as Box<dyn Stream>)
        })
    }
}

/// Read once: the certificates of a machine are a file of hundreds.
fn tls_config() -> io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<std::result::Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let config = CONFIG.get_or_init(read_tls_config).clone();
    config.map_err(io::Error::other)
}

fn read_tls_config() -> std::result::Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(format!("no certificates to trust: {:?}", found.errors));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
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
