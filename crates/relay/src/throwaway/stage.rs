//! Where a tour takes place: a server of others or one of its own, and the agents that were made for it.

use std::path::Path;
use std::time::Duration;

use relay_sdk::{AgentClient, ErrorCode, Options, Relay};

use super::server::ThrowawayServer;
use crate::failure::Outcome;

/// How long a call may take, and be repeated, before something counts as broken.
const PATIENCE: Duration = Duration::from_secs(5);

/// A workspace, and what has to be cleared away in the end.
pub(crate) struct Stage {
    relay: Relay,
    url: String,
    agents: Vec<String>,
    server: Option<ThrowawayServer>,
}

impl Stage {
    /// A server of its own, in a temporary directory.
    pub(crate) async fn own(purpose: &str) -> Outcome<Self> {
        let server = ThrowawayServer::start(purpose).await?;
        let mut stage = Self::on(&server.url, &server.credentials.workspace_key)?;
        stage.server = Some(server);
        Ok(stage)
    }

    /// A server that runs anyway.
    pub(crate) fn on(url: &str, workspace_key: &str) -> Outcome<Self> {
        let options = Options {
            patience: PATIENCE,
            timeout: PATIENCE,
            connect_timeout: PATIENCE,
            ..Options::default()
        };
        Ok(Self {
            relay: Relay::with_options(url, workspace_key, options)?,
            url: url.to_owned(),
            agents: Vec::new(),
            server: None,
        })
    }

    pub(crate) const fn relay(&self) -> &Relay {
        &self.relay
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The temporary directory, if the server is its own.
    pub(crate) fn own_data(&self) -> Option<&Path> {
        self.server.as_ref().map(ThrowawayServer::data)
    }

    /// Makes an agent for this tour.
    pub(crate) async fn register(&mut self, name: &str) -> Outcome<AgentClient> {
        // Before it is asked for: whoever stops the tour now may leave it behind.
        self.agents.push(name.to_owned());
        let agent = self.relay.register(name).await;
        if matches!(&agent, Err(error) if error.code() == Some(ErrorCode::NameTaken)) {
            // It is somebody else's, and not ours to release.
            self.agents.pop();
        }
        Ok(agent?)
    }

    /// Clears everything away; the agents that could not be released.
    pub(crate) async fn clear(self) -> Vec<String> {
        if let Some(server) = self.server {
            self.relay.close();
            server.end().await;
            return Vec::new();
        }
        let mut left = Vec::new();
        for name in self.agents {
            let released = self.relay.release_agent(&name, Some("the tour is over"));
            match released.await {
                Err(error) if error.code() == Some(ErrorCode::UnknownAgent) => {}
                Err(_) => left.push(name),
                Ok(()) => {}
            }
        }
        left
    }
}
