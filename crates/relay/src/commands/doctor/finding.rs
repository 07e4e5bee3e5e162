//! What a check found.

use serde::Serialize;

/// What a message passes on its way, from the bottom up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layer {
    /// What is kept, and who may read it.
    Files,
    /// Where it is kept.
    Disk,
    /// The program and what the system grants it.
    Process,
    /// The way to the server.
    Network,
    /// Who may get in.
    Credentials,
    /// The database.
    Store,
    /// The agents' live bodies.
    Session,
    /// Messages on their way into them.
    Delivery,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Ok,
    /// It works, and something about it should be known.
    Warning,
    Failed,
    /// There was nothing to look at.
    Skipped,
}

/// How a check ended, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) detail: String,
    pub(super) next: Option<String>,
}

impl Layer {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Disk => "disk",
            Self::Process => "process",
            Self::Network => "network",
            Self::Credentials => "credentials",
            Self::Store => "store",
            Self::Session => "session",
            Self::Delivery => "delivery",
        }
    }
}

impl Verdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl Finding {
    pub(super) fn ok(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Ok, detail, None)
    }

    pub(super) fn warning(detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(Verdict::Warning, detail, Some(next.into()))
    }

    pub(super) fn failed(detail: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new(Verdict::Failed, detail, Some(next.into()))
    }

    pub(super) fn skipped(detail: impl Into<String>) -> Self {
        Self::new(Verdict::Skipped, detail, None)
    }

    fn new(verdict: Verdict, detail: impl Into<String>, next: Option<String>) -> Self {
        Self {
            verdict,
            detail: detail.into(),
            next,
        }
    }
}
