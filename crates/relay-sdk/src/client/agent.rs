//! An agent as a client.

use std::ops::Deref;

use relay_protocol::agent::AgentIdentity;

use super::Client;
use crate::listening::{AgentRef, Status};

/// Acts as one agent, with that agent's token. It can do what a [`Client`] can.
#[derive(Clone)]
pub struct AgentClient {
    client: Client,
    identity: AgentIdentity,
    token: String,
}

impl AgentClient {
    pub(super) const fn new(client: Client, identity: AgentIdentity, token: String) -> Self {
        Self {
            client,
            identity,
            token,
        }
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> &AgentIdentity {
        &self.identity
    }

    /// The credential, to keep it for [`Relay::reconnect`](crate::Relay::reconnect).
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The status of the agent's sessions, for listeners: `engineer.status().becomes(AgentStatus::Idle)`.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            agent: self.identity.name.clone(),
        }
    }
}

impl Deref for AgentClient {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl AgentRef for AgentClient {
    fn agent_ref(&self) -> &str {
        &self.identity.name
    }
}
