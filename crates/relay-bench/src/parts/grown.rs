//! Servers that have worked for a while: so many messages are stored, and each agent has read all but its
//! newest ones.

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::task::JoinSet;

use super::pipelined::SocketSender;
use crate::bench::Bench;
use crate::server::Server;
use crate::wire::Http;
use crate::world::World;

/// Messages under way on each socket while the database grows.
const WINDOW: usize = 16;

/// Connections over which agents read.
const READERS: usize = 16;

/// One message in so many is not read.
const UNREAD: usize = 10;

/// A server with many messages.
pub(super) struct Grown {
    pub(super) server: Server,
    pub(super) world: World,
}

impl Grown {
    pub(super) async fn grow(bench: &Bench<'_>, messages: usize) -> Result<Self> {
        let sizes = &bench.options.sizes;
        let server = bench.server().await?;
        let receivers = (messages / sizes.stored_per_agent).max(1);
        let mut world = World::create(&server, sizes.senders, receivers).await?;
        // Everybody talks to everybody, so that an agent has as many conversations in any database.
        world.peers = receivers;
        let late = messages / UNREAD;
        send(&world, messages - late).await?;
        read_all(&world).await?;
        send(&world, late).await?;
        Ok(Self { server, world })
    }
}

async fn send(world: &World, messages: usize) -> Result<()> {
    let senders = world.senders.len();
    let mut tasks = JoinSet::new();
    for sender in 0..senders {
        let mut client = SocketSender::connect(world, sender, WINDOW).await?;
        let mine = messages / senders + usize::from(sender < messages % senders);
        tasks.spawn(async move { client.send(mine).await });
    }
    while let Some(sent) = tasks.join_next().await {
        sent??;
    }
    Ok(())
}

/// Has every receiver read what it was sent.
async fn read_all(world: &World) -> Result<()> {
    let mut tasks = JoinSet::new();
    for first in 0..READERS {
        let world = world.clone();
        tasks.spawn(async move {
            for agent in world.receivers.iter().skip(first).step_by(READERS) {
                let mut http = Http::connect(world.address, &agent.token).await?;
                while take_inbox(&mut http).await? > 0 {}
            }
            anyhow::Ok(())
        });
    }
    while let Some(read) = tasks.join_next().await {
        read??;
    }
    Ok(())
}

/// Reads a page and marks it as read; how many were unread.
async fn take_inbox(http: &mut Http) -> Result<u64> {
    let path = "/v1/inbox?ack=true&limit=200";
    let inbox = http.call("GET", path, &Value::Null).await?;
    let unread = inbox.get("unread").and_then(Value::as_u64);
    unread.context("an inbox that does not count")
}
