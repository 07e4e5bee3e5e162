//! Encrypted connections: whom a client trusts, and what it says of those whom it doesn't.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{Error, Result};

/// Certificates of authorities that are trusted beside those of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootCertificates(Arc<[CertificateDer<'static>]>);

impl RootCertificates {
    /// Reads a file's content: one certificate or several, as PEM.
    pub fn from_pem(pem: impl AsRef<[u8]>) -> Result<Self> {
        let invalid = |why: String| Error::InvalidCertificates(why);
        let found: std::result::Result<Vec<_>, _> =
            CertificateDer::pem_slice_iter(pem.as_ref()).collect();
        let found = found.map_err(|error| invalid(error.to_string()))?;
        if found.is_empty() {
            return Err(invalid("there is none in it".to_owned()));
        }
        for certificate in &found {
            let added = RootCertStore::empty().add(certificate.clone());
            added.map_err(|error| invalid(error.to_string()))?;
        }
        Ok(Self(found.into()))
    }
}

/// Encrypts connections to one server.
pub(crate) struct Tls {
    roots: RootCertificates,
    config: OnceLock<std::result::Result<Arc<ClientConfig>, String>>,
}

impl Tls {
    pub(crate) const fn trusting(roots: RootCertificates) -> Self {
        Self {
            roots,
            config: OnceLock::new(),
        }
    }

    /// Encrypts a connection to a host, who has to prove that it is that host.
    pub(crate) async fn encrypt(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let config = self.config.get_or_init(|| configure(&self.roots)).clone();
        let connector = TlsConnector::from(config.map_err(io::Error::other)?);
        connector.connect(name, stream).await
    }
}

/// Why a server was not trusted, if that is what went wrong.
pub(crate) fn distrust(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match inner {
        rustls::Error::InvalidCertificate(why) => Some(why.to_string()),
        _ => None,
    }
}

fn configure(roots: &RootCertificates) -> std::result::Result<Arc<ClientConfig>, String> {
    let mut store = machine_roots();
    for certificate in roots.0.iter() {
        let added = store.add(certificate.clone());
        added.map_err(|error| error.to_string())?;
    }
    if store.is_empty() {
        return Err("this machine has no certificates to trust".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = builder.with_root_certificates(store).with_no_client_auth();
    Ok(Arc::new(config))
}

/// Read once: the certificates of a machine are a file of hundreds.
fn machine_roots() -> RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut store = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "certificates of this machine could not be read");
        }
        store.add_parsable_certificates(found.certs);
        store
    });
    roots.clone()
}
