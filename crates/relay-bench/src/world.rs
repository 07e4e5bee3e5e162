//! A workspace with agents, made over the wire.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::server::Server;
use crate::text::text;
use crate::wire::Http;

/// How many receivers each sender talks to, unless there is a reason for more.
const PEERS: usize = 16;

/// Connections over which agents are registered.
const REGISTRARS: usize = 16;

/// An agent and the token that speaks for it.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) token: String,
}

/// A workspace of a server.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) senders: Arc<[Agent]>,
    pub(crate) receivers: Arc<[Agent]>,
    /// How many of the receivers each sender talks to.
    pub(crate) peers: usize,
}

impl World {
    /// The server's own workspace with so many agents of each kind.
    pub(crate) async fn create(server: &Server, senders: usize, receivers: usize) -> Result<Self> {
        Self::over(server, &server.keys.workspace_key, senders, receivers).await
    }

    /// Another workspace of a server, where nobody hears what happens in the first.
    pub(crate) async fn beside(server: &Server, senders: usize, receivers: usize) -> Result<Self> {
        let mut admin = Http::connect(server.address, &server.keys.admin_key).await?;
        let body = json!({ "name": "beside" });
        let made = admin.call("POST", "/v1/workspaces", &body).await?;
        Self::over(server, &word(&made, "workspaceKey")?, senders, receivers).await
    }

    async fn over(server: &Server, key: &str, senders: usize, receivers: usize) -> Result<Self> {
        lift_pace(server.address, key).await?;
        let world = |kind, count| register(server.address, key, kind, count);
        Ok(Self {
            address: server.address,
            key: key.to_owned(),
            senders: world("sender", senders).await?.into(),
            receivers: world("receiver", receivers).await?.into(),
            peers: PEERS,
        })
    }

    /// The receiver of a sender's message with this number.
    pub(crate) fn receiver(&self, sender: usize, number: usize) -> usize {
        (sender * PEERS + number % self.peers) % self.receivers.len()
    }

    /// The body of that message.
    pub(crate) fn message(&self, sender: usize, number: usize) -> String {
        let name = &self.receivers[self.receiver(sender, number)].name;
        // Nothing in either has to be escaped.
        format!(r#"{{"to":"@{name}","text":"{}"}}"#, text(number))
    }
}

/// The same where there is no world.
pub(crate) const fn receiver_of(sender: usize, number: usize, receivers: usize) -> usize {
    (sender * PEERS + number % PEERS) % receivers
}

/// Lets everybody send as fast as they can: what would be held back costs more.
async fn lift_pace(address: SocketAddr, key: &str) -> Result<()> {
    let patch = json!({
        "senderPerMinute": 1_000_000,
        "runaway": { "perMinute": 100_000, "depth": 10_000 },
    });
    let mut http = Http::connect(address, key).await?;
    http.call("PATCH", "/v1/workspace/policy", &patch).await?;
    Ok(())
}

/// Registers agents with names like `sender-3`, in the order of their numbers.
async fn register(
    address: SocketAddr,
    key: &str,
    kind: &'static str,
    count: usize,
) -> Result<Vec<Agent>> {
    let mut tasks = JoinSet::new();
    for first in 0..REGISTRARS.min(count) {
        let key = key.to_owned();
        tasks.spawn(async move {
            let mut http = Http::connect(address, &key).await?;
            let mut made = Vec::new();
            for number in (first..count).step_by(REGISTRARS) {
                let name = format!("{kind}-{number}");
                let body = json!({ "name": name });
                let answer = http.call("POST", "/v1/agents", &body).await?;
                let token = word(&answer, "token")?;
                made.push((number, Agent { name, token }));
            }
            anyhow::Ok(made)
        });
    }
    let mut all = Vec::with_capacity(count);
    while let Some(made) = tasks.join_next().await {
        all.extend(made??);
    }
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, agent)| agent).collect())
}

/// A text in an answer.
pub(crate) fn word(answer: &Value, field: &str) -> Result<String> {
    let found = answer.get(field).and_then(Value::as_str);
    let found = found.with_context(|| format!("{field} is missing in {answer}"))?;
    Ok(found.to_owned())
}
