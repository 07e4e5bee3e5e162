//! Agents: who takes part.

use relay_protocol::agent::{AgentIdentity, AgentSummary, AgentType, Metadata};
use relay_protocol::api::Page;
use relay_protocol::api::workspace::{AgentRegistered, RegisterAgent, TokenRotated};
use relay_protocol::event::TokenKind;
use relay_protocol::ids::AgentId;
use relay_protocol::limits::{METADATA_BYTES, REASON_BYTES, TOKEN_GRACE_MS};
use relay_protocol::names;

use crate::caller::{Caller, make_token};
use crate::engine::{Engine, PageQuery, within};
use crate::error::{Error, Noun, Result, StorageError};
use crate::store::requests::{AgentChange, Release};
use crate::store::{NewAgent, TokenRotation};

impl Engine {
    /// Registers an agent under a free name, or adopts the one that has it. It joins `#general`.
    pub async fn register_agent(
        &self,
        caller: &Caller,
        body: RegisterAgent,
    ) -> Result<AgentRegistered> {
        self.register_participant(caller, body, true).await
    }

    /// Registers an agent that is in no channel: what is said to everybody is not meant for it. One that is adopted leaves its channels.
    pub async fn register_agent_outside_channels(
        &self,
        caller: &Caller,
        body: RegisterAgent,
    ) -> Result<AgentRegistered> {
        self.register_participant(caller, body, false).await
    }

    async fn register_participant(
        &self,
        caller: &Caller,
        body: RegisterAgent,
        in_channels: bool,
    ) -> Result<AgentRegistered> {
        let workspace_no = caller.require_workspace_key()?.no;
        names::check(&body.name).map_err(|error| Error::Name {
            what: Noun::Agent,
            error,
        })?;
        check_metadata(body.metadata.as_ref())?;
        let now = self.now();
        let (token, stored) = make_token(TokenKind::Agent, &*self.environment.random, now);
        let agent = self
            .store
            .register_agent(NewAgent {
                workspace_no,
                id: AgentId::new(now, self.bits()),
                name: body.name,
                agent_type: body.agent_type.unwrap_or(AgentType::Agent),
                metadata: body.metadata,
                adopt: body.adopt.unwrap_or(false),
                in_channels,
                token: stored,
            })
            .await?;
        Ok(AgentRegistered {
            agent: agent.identity(),
            token,
        })
    }

    /// Gives an agent a new token; the old one works for a minute more.
    pub async fn rotate_token(&self, caller: &Caller, name: &str) -> Result<TokenRotated> {
        self.require_agent_or_key(caller, name)?;
        let now = self.now();
        let grace_until = now.plus_millis(TOKEN_GRACE_MS);
        let (token, stored) = make_token(TokenKind::Agent, &*self.environment.random, now);
        self.store
            .rotate_token(TokenRotation {
                viewer: caller.viewer()?,
                name: bare(name).to_owned(),
                token: stored,
                grace_until,
            })
            .await?;
        Ok(TokenRotated { token, grace_until })
    }

    /// Replaces what others may know about an agent.
    pub async fn update_agent(
        &self,
        caller: &Caller,
        name: &str,
        metadata: Metadata,
    ) -> Result<AgentIdentity> {
        self.require_agent_or_key(caller, name)?;
        check_metadata(Some(&metadata))?;
        let change = AgentChange {
            viewer: caller.viewer()?,
            name: bare(name).to_owned(),
            metadata,
        };
        let changed = self.store.update_agent(change).await?;
        self.callers.forget();
        Ok(changed.identity())
    }

    /// Ends an agent: its token stops working, what waits for it fails, its name is free again.
    pub async fn release_agent(
        &self,
        caller: &Caller,
        name: &str,
        reason: Option<&str>,
    ) -> Result<()> {
        self.require_agent_or_key(caller, name)?;
        within("reason", REASON_BYTES, reason.map_or(0, str::len))?;
        let viewer = caller.viewer()?;
        let agent = self.store.agent(viewer.workspace_no, bare(name)).await?;
        // What is out now may have been seen; nothing more goes out meanwhile.
        let (hold, offered) = self.runner.hold(agent.no);
        self.runner.held.end_agent(agent.no);
        let release = Release {
            viewer,
            name: bare(name).to_owned(),
            at: self.now(),
            reason: reason.map(str::to_owned),
            offered,
        };
        let (tell, told) = tokio::sync::oneshot::channel();
        self.store.release_agent(release).then(move |result| {
            drop(hold);
            let _ = tell.send(result);
        });
        told.await.unwrap_or(Err(StorageError::Closed.into()))
    }

    /// One agent, by name.
    pub async fn agent(&self, caller: &Caller, name: &str) -> Result<AgentIdentity> {
        Ok(self
            .store
            .agent(caller.reader()?.workspace_no, bare(name))
            .await?
            .identity())
    }

    /// All agents with their presence, by name.
    pub async fn agents(&self, caller: &Caller, page: PageQuery) -> Result<Page<AgentSummary>> {
        self.store
            .agents(caller.reader()?.workspace_no, page.request()?)
            .await
    }

    /// An agent may change itself; the workspace key may change all.
    pub(crate) fn require_agent_or_key(&self, caller: &Caller, name: &str) -> Result<()> {
        match caller.agent() {
            Ok(agent) if names::fold(&agent.name) == names::fold(bare(name)) => Ok(()),
            _ => caller.require_workspace_key().map(drop),
        }
    }
}

/// A name without the `@` that people write in front of it.
pub(crate) fn bare(name: &str) -> &str {
    name.strip_prefix('@').unwrap_or(name)
}

/// Checks the size of metadata.
pub(crate) fn check_metadata(metadata: Option<&Metadata>) -> Result<()> {
    let Some(metadata) = metadata else {
        return Ok(());
    };
    let bytes = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    within("metadata", METADATA_BYTES, bytes)
}
