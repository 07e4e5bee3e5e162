//! What can be set about a client.

use std::time::Duration;

use crate::tls::RootCertificates;

/// How patient a client is, and whom it trusts. [`Options::default`] suits most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a call is repeated while the server can't be reached or is too busy. Only calls that may be
    /// repeated are: reading, and sends, which carry a key that makes a repetition harmless. Default: 60 s.
    pub patience: Duration,
    /// How long one attempt may take. Default: 90 s, since some answers wait for a session.
    pub timeout: Duration,
    /// How long a new connection may take to be of use. Default: 10 s.
    pub connect_timeout: Duration,
    /// How long the socket may be silent before it counts as dead. Default: 30 s.
    pub silence: Duration,
    /// Certificates of authorities that are trusted beside the machine's own, for servers with a certificate of
    /// one's own making. Default: none.
    pub root_certificates: RootCertificates,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(60),
            timeout: Duration::from_secs(90),
            connect_timeout: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            root_certificates: RootCertificates::default(),
        }
    }
}
