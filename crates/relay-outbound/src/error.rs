//! Why a call was not made, or has no answer.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use http::HeaderName;

use crate::target::{Host, InvalidUrl};

/// Why a call was not made, or has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not one that is called.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The name has no address.
    #[error("{host} could not be resolved: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// Why not.
        source: io::Error,
    },
    /// The host is at an address that is not on the internet, or one of its addresses is.
    #[error("{host} is at {address} ({range}), which is not called unless `outbound.allow` has it")]
    Forbidden {
        /// The host of the URL.
        host: String,
        /// Where it leads.
        address: IpAddr,
        /// What kind of address that is.
        range: &'static str,
    },
    /// A header that would change how the call is made.
    #[error("the header {0} can't be set")]
    Header(HeaderName),
    /// No connection could be made.
    #[error("no connection to {host}: {source}")]
    Connect {
        /// The host of the URL.
        host: String,
        /// Why not.
        source: io::Error,
    },
    /// The other side does not speak HTTP, or broke off.
    #[error("no answer from {host}: {source}")]
    Http {
        /// The host of the URL.
        host: String,
        /// What went wrong.
        source: hyper::Error,
    },
    /// The answer leads somewhere else, where nobody looked.
    #[error("{host} answered with a redirect ({status}), which is not followed")]
    Redirect {
        /// The host of the URL.
        host: String,
        /// The status of the answer.
        status: u16,
    },
    /// The answer is larger than is read.
    #[error("the answer of {host} is larger than {most} bytes")]
    TooLarge {
        /// The host of the URL.
        host: String,
        /// What is read at most.
        most: usize,
    },
    /// It took too long.
    #[error("{host} took longer than {} ms", timeout.as_millis())]
    TimedOut {
        /// The host of the URL.
        host: String,
        /// How long is waited.
        timeout: Duration,
    },
    /// Encryption is not possible on this machine.
    #[error("no certificates to trust: {0}")]
    Tls(String),
}

impl Error {
    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Http { .. }
            | Self::Redirect { .. }
            | Self::TooLarge { .. }
            | Self::TimedOut { .. } => true,
            // Trying again would let a name that changes its address try until it is lucky.
            Self::Forbidden { .. } | Self::Url(_) | Self::Header(_) | Self::Tls(_) => false,
        }
    }
}

impl Error {
    /// What goes wrong with a connection.
    pub(crate) fn broken(host: &Host, source: hyper::Error) -> Self {
        Self::Http {
            host: host.to_string(),
            source,
        }
    }
}
