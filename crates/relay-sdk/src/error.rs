//! What can go wrong, and whether trying again may help.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use relay_protocol::permission::PermissionOutcome;
use relay_protocol::problem::{ErrorCode, Problem};
use relay_protocol::selector::SelectorError;
use relay_protocol::wire::DecodeError;

use crate::refusal::NOT_FROM_RELAY;
use crate::tls;

/// The result of most calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server refused; the problem says why, with a stable code.
    #[error("{} ({})", .0.detail, .0.code)]
    Problem(Box<Problem>),
    /// No connection could be made. Nothing was asked.
    #[error("the server can't be reached: {0}")]
    Unreachable(Arc<io::Error>),
    /// The server could not prove who it is. Nothing was asked.
    #[error(
        "the server's certificate is not trusted: {0}; if it is one of your own making, name the authority in \
         `root_certificates`"
    )]
    Untrusted(String),
    /// The connection broke off before the answer. What was asked may have been done.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// No answer came in time. What was asked may have been done.
    #[error("no answer came within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server said something that this version can't read.
    #[error("the server's answer can't be read: {0}")]
    Unreadable(DecodeError),
    /// The server speaks another version of the protocol.
    #[error(
        "this client speaks protocol {client}, the server {server}; use versions that go together"
    )]
    Incompatible {
        /// The version of this crate.
        client: u32,
        /// The version of the server.
        server: u32,
    },
    /// An address that no server can have.
    #[error("expected a server's URL such as http://127.0.0.1:4000, found {0:?}")]
    InvalidUrl(String),
    /// Certificates that can't be read.
    #[error("expected certificates as PEM: {0}")]
    InvalidCertificates(String),
    /// A target that is none of the forms.
    #[error("{0}")]
    InvalidTarget(String),
    /// A listener for events that don't exist.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The session goes on over another link, for example in another process.
    #[error("the session goes on over another link")]
    Superseded,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
    /// A session reports faster than the server takes it.
    #[error("more than {0} session events wait to be sent")]
    Backlog(usize),
    /// The file with the deliveries that were seen can't be used.
    #[error("{}: {why}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: Arc<io::Error>,
    },
}

impl Error {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.retryable,
            Self::Unreachable(_) | Self::Broken(_) | Self::TimedOut(_) | Self::Backlog(_) => true,
            _ => false,
        }
    }

    /// The server's problem, where it is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// Whether the answer came from something else than Relay, such as another server at that address, or one in
    /// between.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.problem()
            .is_some_and(|problem| problem.problem_type == NOT_FROM_RELAY)
    }

    /// The stable code of the server's problem, where it is one.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        self.problem().map(|problem| problem.code)
    }

    /// What was decided about a permission request, where it was decided already: by whom, when, and how.
    #[must_use]
    pub fn outcome(&self) -> Option<&PermissionOutcome> {
        self.problem()?.outcome.as_deref()
    }

    pub(crate) fn unreachable(error: io::Error) -> Self {
        match tls::distrust(&error) {
            Some(why) => Self::Untrusted(why),
            None => Self::Unreachable(Arc::new(error)),
        }
    }

    /// Whether the credential is of no use, so that asking again is not, either.
    pub(crate) fn is_final_for_a_connection(&self) -> bool {
        match self {
            Self::Incompatible { .. } | Self::InvalidUrl(_) | Self::Untrusted(_) => true,
            Self::Problem(problem) => !problem.retryable,
            _ => false,
        }
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Box<Problem>> for Error {
    fn from(problem: Box<Problem>) -> Self {
        Self::Problem(problem)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Unreadable(error)
    }
}
