//! What was decided about a tool call, and what came of running it.

use relay_protocol::ids::GrantId;
use relay_protocol::permission::{
    PermissionDecider, PermissionOutcome, PermissionRecord, PermissionState, ToolParams,
};

use crate::error::Result;

/// What was decided about a tool call.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It may run.
    Approved {
        /// What to run it with: as it was asked or, when `edited`, as whoever decided wants it.
        params: ToolParams,
        /// Whether the parameters are others than those that were asked about.
        edited: bool,
        /// The option that was chosen.
        option_id: Option<String>,
        /// The grant that came of it or that decided it.
        grant_id: Option<GrantId>,
        /// Who decided.
        by: Option<PermissionDecider>,
    },
    /// It may not run.
    Denied {
        /// Why, for the agent to read.
        reason: Option<String>,
        /// Whether the turn ends here.
        stop: bool,
        /// The option that was chosen.
        option_id: Option<String>,
        /// Who decided.
        by: Option<PermissionDecider>,
    },
    /// Nobody answered in time.
    Expired,
    /// The question is no longer needed.
    Cancelled {
        /// Why.
        reason: Option<String>,
    },
}

impl Decision {
    /// Whether the tool may run.
    #[must_use]
    pub const fn is_approved(&self) -> bool {
        matches!(self, Self::Approved { .. })
    }

    /// What a record says; nothing while it is pending. `asked` are the parameters of the question, since the
    /// record's are without secrets.
    pub(super) fn of(record: &PermissionRecord, asked: &ToolParams) -> Option<Self> {
        let outcome = record.outcome.clone();
        let PermissionOutcome {
            by,
            reason,
            grant_id,
            option_id,
            updated_params,
            stop,
            ..
        } = outcome.unwrap_or_else(|| bare(record));
        match record.state {
            PermissionState::Pending => None,
            PermissionState::Approved => Some(Self::Approved {
                edited: updated_params.is_some(),
                params: updated_params.unwrap_or_else(|| asked.clone()),
                option_id,
                grant_id,
                by,
            }),
            PermissionState::Denied => Some(Self::Denied {
                reason,
                stop: stop.unwrap_or(false),
                option_id,
                by,
            }),
            PermissionState::Expired => Some(Self::Expired),
            PermissionState::Cancelled => Some(Self::Cancelled { reason }),
        }
    }
}

/// An outcome of which nothing but the state is known.
const fn bare(record: &PermissionRecord) -> PermissionOutcome {
    PermissionOutcome::new(record.state, record.created_at)
}

/// What came of [`Question::run`](crate::Question::run).
#[derive(Debug)]
pub enum Ran<T, E> {
    /// The tool ran.
    Ran {
        /// What it gave.
        output: std::result::Result<T, E>,
        /// Whether the server knows how it ended. It ran all the same, and is not to be run again.
        reported: Result<()>,
    },
    /// The tool did not run.
    NotAllowed(Decision),
}
