//! What sessions cost that do nothing: resident memory and processor time of the server, each session on a
//! socket of its own. Each round is a new server.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinSet;

use super::crowd::open_all;
use crate::bench::Bench;
use crate::goals::Goal;
use crate::machine::{resident, threads_cpu};
use crate::options::Part;
use crate::report::{Column, Section};
use crate::session;
use crate::wire::WebSocket;
use crate::world::World;

/// How long memory may take to come to rest.
const REST: Duration = Duration::from_secs(2);

/// Fewer rounds than elsewhere: memory varies little.
const ROUNDS: usize = 3;

const ATTACHED: &str = "while attached";
const LEFT: &str = "left after they closed";
const AGAIN: &str = "while as many new ones are attached";

const EACH: Column = Column::ranged("KiB each", 2);
const MAPPED: Column = Column::of("of it not in mapped files", 2);
const CPU: Column = Column::of("CPU us a second for all", 0);

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!("{} attached sessions, nothing happens", sizes.idle_sessions);
    let mut section = Section::new(Part::Idle, title);
    for _ in 0..sizes.rounds.min(ROUNDS) {
        round(bench, &mut section).await?;
    }
    let growth = section.series(ATTACHED, EACH).to_vec();
    let goal = Some(Goal::AtMost(12.0));
    section.check_steady("resident growth for each session", "KiB", &growth, goal);
    let left = section.series(LEFT, EACH).iter();
    let back: Vec<f64> = left
        .zip(&growth)
        .map(|(left, growth)| (1.0 - left / growth) * 100.0)
        .collect();
    section.check_steady("given back once they are gone", "%", &back, None);
    Ok(section)
}

async fn round(bench: &Bench<'_>, section: &mut Section) -> Result<()> {
    let sizes = &bench.options.sizes;
    let sessions = sizes.idle_sessions;
    let server = bench.server().await?;
    let world = World::create(&server, 0, sessions).await?;
    let others = bench.begin_round([&server.process]).await;
    let memory = || {
        let kib = |which| resident(&server.process, which) / 1024.0 / sessions as f64;
        (kib("VmRSS"), kib("RssAnon"))
    };
    tokio::time::sleep(REST.min(sizes.idle)).await;
    let before = memory();
    let mut open = attach_all(&world).await?;
    tokio::time::sleep(REST.min(sizes.idle)).await;
    let attached = memory();
    let cpu = || threads_cpu(&server.process, |_| true);
    let (begun, used) = (Instant::now(), cpu());
    tokio::time::sleep(sizes.idle).await;
    let used = cpu().saturating_sub(used).as_secs_f64() * 1e6;
    let figures = [
        (EACH, attached.0 - before.0),
        (MAPPED, attached.1 - before.1),
        (CPU, used / begun.elapsed().as_secs_f64()),
    ];
    section.add(ATTACHED, &figures);
    if let Some(ended) = open.try_join_next() {
        bail!("a session ended by itself: {ended:?}");
    }
    open.shutdown().await;
    // Longer than the grace time after which a session without a link counts as away.
    tokio::time::sleep(sizes.idle * 4).await;
    let growth = |now: (f64, f64)| [(EACH, now.0 - before.0), (MAPPED, now.1 - before.1)];
    section.add(LEFT, &growth(memory()));
    let _open = attach_all(&world).await?;
    tokio::time::sleep(REST.min(sizes.idle)).await;
    section.add(AGAIN, &growth(memory()));
    section.others.push(others.cores());
    Ok(())
}

/// Attaches a session for each receiver of a world; each is a task that only answers pings.
async fn attach_all(world: &World) -> Result<JoinSet<Result<()>>> {
    let (server, agents) = (world.address, world.receivers.clone());
    let open = open_all(agents.len(), move |number| {
        let agent = agents[number].clone();
        async move { session::attach(server, &agent).await }
    });
    let mut all = JoinSet::new();
    for socket in open.await? {
        all.spawn(wait(socket));
    }
    Ok(all)
}

async fn wait(mut socket: WebSocket) -> Result<()> {
    loop {
        socket.next().await?;
    }
}
