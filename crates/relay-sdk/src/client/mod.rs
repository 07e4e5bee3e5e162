//! What can be asked of a server: one method for each route, by what they are about.

mod actions;
mod agent;
mod attachments;
mod channels;
mod deliveries;
mod messages;
mod permissions;
mod reading;
mod relay;
mod sending;
mod sessions;
mod webhooks;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use relay_protocol::agent::{AgentIdentity, AgentSummary};
use relay_protocol::api::Page;
use relay_protocol::api::events::{EventList, EventQuery};
use relay_protocol::api::service::Health;
use relay_protocol::api::workspace::Me;
use relay_protocol::selector::Selector;
use serde::Serialize;

use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::http::{Call, Http, with_query};
use crate::listening::{Listen, Unsubscribe, listener};
use crate::options::Options;
use crate::session::Directory;
use crate::socket::{self, Command, Commands};

pub use agent::AgentClient;
pub use attachments::Download;
pub use deliveries::{DeliverInput, DeliveryQuery, DeliveryRunner, DeliveryTarget, FlushInput};
pub(crate) use permissions::create_run;
pub use permissions::{GrantQuery, PermissionQuery, Permissions};
pub use relay::{Registering, Relay};
pub use sending::Sending;
pub use webhooks::{Subscribing, Webhooks};

/// Whoever has a credential. Clones share one socket, which is opened when something needs it and closed when
/// the last of them is gone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    http: Arc<Http>,
    commands: OnceLock<Commands>,
    sessions: Directory,
}

/// A page of a list.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PageQuery<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

/// A part of a path.
pub(crate) fn part(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

/// The path of a list's page.
fn page(path: &str, cursor: Option<&str>) -> String {
    with_query(path, &PageQuery { cursor })
}

/// A name without the sign in front.
fn bare(name: &str) -> &str {
    name.trim_start_matches(['@', '#'])
}

impl Client {
    fn new(dial: Arc<dyn Dial>, host: &str, token: &str, options: Options) -> Self {
        Self::over(Http::new(dial, host, token, options))
    }

    fn over(http: Http) -> Self {
        Self {
            inner: Arc::new(Inner {
                http: Arc::new(http),
                commands: OnceLock::new(),
                sessions: Directory::default(),
            }),
        }
    }

    /// The same server with another credential, and a socket of its own.
    fn with_token(&self, token: &str) -> Self {
        Self::over(self.http().with_token(token))
    }

    fn http(&self) -> &Http {
        &self.inner.http
    }

    /// The same, for what may outlive the client.
    pub(crate) fn shared_http(&self) -> Arc<Http> {
        self.inner.http.clone()
    }

    fn sessions_here(&self) -> &Directory {
        &self.inner.sessions
    }

    /// The socket, started when it is needed first.
    fn commands(&self) -> &Commands {
        let commands = &self.inner.commands;
        commands.get_or_init(|| socket::start(self.inner.http.clone()))
    }

    /// What the credential stands for.
    pub async fn me(&self) -> Result<Me> {
        self.http().json(Call::get("/v1/me")).await
    }

    /// Which server it is; it answers whatever the credential.
    pub async fn health(&self) -> Result<Health> {
        self.http().json(Call::get("/health")).await
    }

    /// Whether the server can serve requests. An error while its store does not answer.
    pub async fn ready(&self) -> Result<Health> {
        self.http().json(Call::get("/ready").once()).await
    }

    /// An agent of the workspace, by name.
    pub async fn agent(&self, name: &str) -> Result<AgentIdentity> {
        let path = format!("/v1/agents/{}", part(bare(name)));
        self.http().json(Call::get(path)).await
    }

    /// All agents, by name. `cursor` is the `nextCursor` of the page before.
    pub async fn agents(&self, cursor: Option<&str>) -> Result<Page<AgentSummary>> {
        let path = page("/v1/agents", cursor);
        self.http().json(Call::get(path)).await
    }

    /// A part of the log.
    pub async fn read_events(&self, query: &EventQuery) -> Result<EventList> {
        let path = with_query("/v1/events", query);
        self.http().json(Call::get(path)).await
    }

    /// Calls a handler for each event that is listened to, in the order of the log, one after the other.
    ///
    /// What is listened to is an event's name from [`events`](crate::events), a pattern such as `"message.*"` or `"*"`, or a
    /// predicate. When this returns, nothing that happens from now on is missed, whatever becomes of the connection;
    /// [`after`](crate::after) also brings what happened before. Only what the credential may see is seen.
    pub async fn add_listener<L, F, Fut>(&self, listen: L, handler: F) -> Result<Unsubscribe>
    where
        L: Listen,
        F: FnMut(L::Event) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let selector = self.knowing(listen.choice().selector()?).await;
        let commands = self.commands();
        let weak = commands.downgrade();
        let (new, is_ready) = listener(&listen, selector, handler, weak.clone());
        let unsubscribe = Unsubscribe {
            id: new.id,
            commands: weak,
        };
        let sent = commands.send(Command::Listen(Box::new(new)));
        sent.map_err(|_| Error::Closed)?;
        let patience = self.http().options.patience;
        match tokio::time::timeout(patience, is_ready).await {
            Ok(ready) => ready.map_err(|_| Error::Closed)?.map(|()| unsubscribe),
            Err(_) => {
                unsubscribe.unsubscribe();
                Err(Error::TimedOut(patience))
            }
        }
    }

    /// Teaches a selector the ids of the agents that it names: some events carry only the id. An agent that
    /// is not known, or not to this credential, is left as it is.
    async fn knowing(&self, selector: Selector) -> Selector {
        let named = RefCell::new(Vec::new());
        let selector = selector.with_agents(|name| {
            named.borrow_mut().push(name.to_owned());
            None
        });
        let mut agents = HashMap::new();
        for name in named.into_inner() {
            if let Ok(agent) = self.agent(&name).await {
                agents.insert(name, (agent.id, agent.name));
            }
        }
        selector.with_agents(|name| agents.get(name).cloned())
    }

    /// Ends listeners and sessions, and closes the socket. Calls are possible as before.
    pub fn close(&self) {
        if let Some(commands) = self.inner.commands.get() {
            let _ = commands.send(Command::Close);
        }
    }
}
