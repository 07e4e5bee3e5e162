//! A place on the relay for a conversation that somebody else drives, such as one with a coding agent: a session that reports what
//! happens, and through which calls are asked about. Messages to the agent wait for another session.

use std::sync::Arc;

use relay_protocol::permission::Permissions;
use relay_protocol::status::AgentStatus;
use relay_sdk::{AgentClient, AttachedSession};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::report::Reporter;
use super::served::Mail;
use super::{Place, leave};
use crate::llm::permits::{PermitError, Permits, RelayPermits};
use crate::llm::run::RunEvent;

/// A conversation on the relay.
pub struct Seat {
    agent: AgentClient,
    attached: Arc<AttachedSession>,
    permits: Arc<dyn Permits>,
    reporter: Reporter,
    over: watch::Sender<bool>,
}

/// What a conversation on the relay is like.
pub struct SeatSetup {
    /// What drives it, such as `acp/claude`.
    pub harness: String,
    /// The rules of its calls, beside those of the workspace.
    pub permissions: Option<Permissions>,
    /// What relative paths are meant from.
    pub cwd: Option<String>,
}

impl Seat {
    /// Takes a place as this agent. When the relay releases it, the token is cancelled.
    pub async fn take(
        agent: AgentClient,
        setup: SeatSetup,
        cancel: CancellationToken,
    ) -> Result<Self, PermitError> {
        let place = Place::find(&agent, &setup.harness, cancel, Mail::Unread).await;
        let place = place.map_err(|error| PermitError::Unasked(error.to_string()))?;
        let (asker, attached) = (agent.clone(), place.attached.clone());
        let permits = RelayPermits::begin_beside(asker, attached, setup.permissions, setup.cwd);
        let mut reporter = Reporter::new(place.events);
        reporter.status(AgentStatus::Active, None);
        Ok(Self {
            permits: Arc::new(permits.await?),
            attached: place.attached,
            over: place.over,
            agent,
            reporter,
        })
    }

    /// Who decides about its calls.
    #[must_use]
    pub fn permits(&self) -> Arc<dyn Permits> {
        self.permits.clone()
    }

    /// Reports what happened.
    pub fn report(&mut self, event: &RunEvent) {
        self.reporter.take(event);
    }

    /// Leaves the relay.
    pub async fn leave(self) {
        self.over.send_replace(true);
        leave(&self.agent, &self.attached).await;
    }
}
