//! Encrypted connections: certificates that this machine trusts, and the host that was asked for.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::Error;
use crate::target::Host;

/// Encrypts a connection to a host.
pub(crate) async fn encrypt(host: &Host, stream: TcpStream) -> Result<TlsStream<TcpStream>, Error> {
    let connector = TlsConnector::from(config()?);
    let connecting = async {
        let name = server_name(host)?;
        connector.connect(name, stream).await
    };
    connecting.await.map_err(|source| Error::Connect {
        host: host.to_string(),
        source,
    })
}

fn server_name(host: &Host) -> io::Result<ServerName<'static>> {
    match host {
        Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other),
        Host::Address(address) => Ok(ServerName::IpAddress(IpAddr::into(*address))),
    }
}

/// Read once: the certificates of a machine are a file of hundreds.
fn config() -> Result<Arc<ClientConfig>, Error> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(read_config).clone().map_err(Error::Tls)
}

fn read_config() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(format!("{:?}", found.errors));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config))
}
