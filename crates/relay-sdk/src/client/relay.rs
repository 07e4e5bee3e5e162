//! A workspace as a client.

use std::future::IntoFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use relay_protocol::agent::{AgentType, Metadata};
use relay_protocol::api::Page;
use relay_protocol::api::audit::{EraseEvents, EventsErased, EventsRetained, RetainEvents};
use relay_protocol::api::workspace::{
    AgentRegistered, CreateObserverToken, CreateWorkspace, ObserverToken, ObserverTokenCreated,
    RegisterAgent, TokenRotated, UpdateWorkspace, Workspace, WorkspaceCreated,
};
use relay_protocol::event::ActionEvent;
use relay_protocol::ids::TokenId;
use relay_protocol::link::NoOptions;
use relay_protocol::policy::{Policy, PolicyPatch};
use relay_protocol::problem::{ErrorCode, Problem};
use serde::Serialize;

use super::agent::AgentClient;
use super::webhooks::Webhooks;
use super::{Client, bare, page, part};
use crate::dial::{Dial, Server, ServerUrl};
use crate::error::Result;
use crate::http::{Call, with_query};
use crate::listening::{Events, Predicate, action};
use crate::options::Options;
use crate::tls::Tls;

/// The host that a connection without an address is made to.
const IN_PROCESS_HOST: &str = "localhost";

/// A workspace. It can do what a [`Client`] can; messages that it sends are from Relay itself.
#[derive(Clone)]
pub struct Relay {
    client: Client,
    key: String,
}

#[derive(Serialize)]
struct ReleaseQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Relay {
    /// Opens a workspace with its key, which is checked.
    pub async fn open(url: &str, workspace_key: &str) -> Result<Self> {
        let relay = Self::with_options(url, workspace_key, Options::default())?;
        relay.workspace().await?;
        Ok(relay)
    }

    /// Makes a workspace with the server's admin key. [`Relay::key`] is its key; the server shows it this once.
    pub async fn create_workspace(url: &str, admin_key: &str, name: &str) -> Result<Self> {
        let admin = Self::with_options(url, admin_key, Options::default())?;
        let body = CreateWorkspace {
            name: name.to_owned(),
        };
        let call = Call::post("/v1/workspaces", &body);
        let created: WorkspaceCreated = admin.http().json(call).await?;
        Ok(Self {
            client: admin.client.with_token(&created.workspace_key),
            key: created.workspace_key,
        })
    }

    /// A workspace, without asking the server for anything.
    pub fn with_options(url: &str, workspace_key: &str, options: Options) -> Result<Self> {
        let url = ServerUrl::parse(url)?;
        let host = url.authority.clone();
        let tls = Tls::trusting(options.root_certificates.clone());
        let server = Server { url, tls };
        let client = Client::new(Arc::new(server), &host, workspace_key, options);
        let key = workspace_key.to_owned();
        Ok(Self { client, key })
    }

    /// A workspace over connections of another kind, for example to a server in the same process.
    #[must_use]
    pub fn over(dial: impl Dial, workspace_key: &str, options: Options) -> Self {
        let client = Client::new(Arc::new(dial), IN_PROCESS_HOST, workspace_key, options);
        let key = workspace_key.to_owned();
        Self { client, key }
    }

    /// The workspace's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Takes a name that nobody has, as a client that acts as that agent.
    pub fn register(&self, name: &str) -> Registering {
        Registering {
            client: self.client.clone(),
            body: RegisterAgent {
                name: bare(name).to_owned(),
                agent_type: None,
                metadata: None,
                adopt: None,
            },
        }
    }

    /// Acts again as an agent whose token was kept.
    pub async fn reconnect(&self, token: &str) -> Result<AgentClient> {
        let client = self.client.with_token(token);
        match client.me().await?.agent {
            Some(identity) => Ok(AgentClient::new(client, identity, token.to_owned())),
            None => {
                let detail = "expected an agent's token, found another credential";
                Err(Problem::new(ErrorCode::Forbidden, detail).into())
            }
        }
    }

    /// Releases an agent: its sessions end and what waits for it fails.
    pub async fn release_agent(&self, name: &str, reason: Option<&str>) -> Result<()> {
        let path = format!("/v1/agents/{}", part(bare(name)));
        let path = with_query(&path, &ReleaseQuery { reason });
        self.http().done(Call::delete(path)).await
    }

    /// Gives an agent a new token; the old one works for a moment more.
    pub async fn rotate_token(&self, name: &str) -> Result<TokenRotated> {
        let path = format!("/v1/agents/{}/token", part(bare(name)));
        self.http().json(Call::post(path, &NoOptions {})).await
    }

    /// The workspace.
    pub async fn workspace(&self) -> Result<Workspace> {
        self.http().json(Call::get("/v1/workspace")).await
    }

    /// Gives the workspace another name.
    pub async fn rename(&self, name: &str) -> Result<Workspace> {
        let body = UpdateWorkspace {
            name: Some(name.to_owned()),
        };
        let call = Call::patch("/v1/workspace", &body).repeatable();
        self.http().json(call).await
    }

    /// How deliveries are made here.
    pub async fn policy(&self) -> Result<Policy> {
        self.http().json(Call::get("/v1/workspace/policy")).await
    }

    /// Changes how deliveries are made here.
    pub async fn update_policy(&self, patch: &PolicyPatch) -> Result<Policy> {
        let call = Call::patch("/v1/workspace/policy", patch).repeatable();
        self.http().json(call).await
    }

    /// Makes a credential that only looks.
    pub async fn create_observer_token(
        &self,
        body: &CreateObserverToken,
    ) -> Result<ObserverTokenCreated> {
        let call = Call::post("/v1/observer-tokens", body);
        self.http().json(call).await
    }

    /// The credentials that only look. `cursor` is the `nextCursor` of the page before.
    pub async fn observer_tokens(&self, cursor: Option<&str>) -> Result<Page<ObserverToken>> {
        let path = page("/v1/observer-tokens", cursor);
        self.http().json(Call::get(path)).await
    }

    /// Takes such a credential back.
    pub async fn revoke_observer_token(&self, id: TokenId) -> Result<()> {
        let path = format!("/v1/observer-tokens/{id}");
        self.http().done(Call::delete(path)).await
    }

    /// Removes the content of events from the log, such as a leaked secret; how many entries lost theirs.
    pub async fn erase_events(&self, seqs: &[u64], reason: &str) -> Result<u64> {
        let body = EraseEvents {
            seqs: seqs.to_vec(),
            reason: reason.to_owned(),
        };
        let call = Call::post("/v1/audit/erase", &body);
        let EventsErased { erased } = self.http().json(call).await?;
        Ok(erased)
    }

    /// Removes what the log need not keep any longer.
    pub async fn retain_events(&self, body: &RetainEvents) -> Result<EventsRetained> {
        self.http().json(Call::post("/v1/audit/retain", body)).await
    }

    /// Whoever has an observer's token.
    #[must_use]
    pub fn observer(&self, token: &str) -> Client {
        self.client.with_token(token)
    }

    /// The URLs that events go out to, and those that messages come in by.
    #[must_use]
    pub fn webhooks(&self) -> Webhooks {
        Webhooks::of(self.client.clone())
    }

    /// Calls of an action, for listeners: `relay.action("deploy").called_by(&engineer)`.
    #[must_use]
    pub fn action(&self, name: &str) -> Predicate<ActionEvent> {
        action(name)
    }

    /// Predicates for listeners: `relay.events().delivery().failed().for_agent(&engineer)`.
    #[must_use]
    pub const fn events(&self) -> Events {
        Events
    }
}

impl Deref for Relay {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// An agent that is about to be registered: awaited, it is.
#[must_use = "an agent is registered when this is awaited"]
pub struct Registering {
    client: Client,
    body: RegisterAgent,
}

impl Registering {
    /// Says what kind of participant it is. Default: an agent.
    pub const fn agent_type(mut self, agent_type: AgentType) -> Self {
        self.body.agent_type = Some(agent_type);
        self
    }

    /// Says what others may know about it.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.body.metadata = Some(metadata);
        self
    }

    /// Takes over the agent that has this name, with a new token.
    pub const fn adopt(mut self) -> Self {
        self.body.adopt = Some(true);
        self
    }

    async fn register(self) -> Result<AgentClient> {
        let call = Call::post("/v1/agents", &self.body);
        let registered: AgentRegistered = self.client.http().json(call).await?;
        let client = self.client.with_token(&registered.token);
        let AgentRegistered { agent, token } = registered;
        Ok(AgentClient::new(client, agent, token))
    }
}

impl IntoFuture for Registering {
    type Output = Result<AgentClient>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.register())
    }
}
