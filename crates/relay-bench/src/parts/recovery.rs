//! How soon a server can be used after it was killed, with many messages and with none. The files are in the
//! page cache, as they are after a crash of the process alone.

use anyhow::Result;

use super::grown::Grown;
use super::send::HttpSender;
use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::Load;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::server::Server;
use crate::world::World;

const READY: Column = Column::ranged("ready after ms", 1);

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let command = &bench.options.server;
    let title = format!(
        "start after kill -9, {} stored messages",
        sizes.stored_large
    );
    let mut section = Section::new(Part::Recovery, title);
    let Grown { mut server, world } = Grown::grow(bench, sizes.stored_large).await?;
    let mut empty = bench.server().await?;
    for _ in 0..sizes.rounds {
        // So that something is under way, and the write-ahead log is not empty.
        let mut senders = HttpSender::all(&world_of(&server, &world)).await?;
        Load::of(&server.process, &mut senders, sizes.turn / 4).await?;
        drop(senders);
        bench.begin_round([&server.process, &empty.process]).await;
        server = server.kill_and_start(command).await?;
        empty = empty.kill_and_start(command).await?;
        let millis = |server: &Server| server.ready_after.as_secs_f64() * 1e3;
        // Processes that have just begun and ended can't be told from others, so these are watched after it.
        let others = bench.begin_round([&server.process, &empty.process]).await;
        section.add("with the messages", &[(READY, millis(&server))]);
        section.add("with nothing stored", &[(READY, millis(&empty))]);
        tokio::time::sleep(sizes.turn / 4).await;
        section.others.push(others.cores());
    }
    let ready = section.series("with the messages", READY).to_vec();
    section.check("ready after", "ms", &ready, Some(Goal::AtMost(200.0)));
    let bytes = server.database_bytes() / 1024 / 1024;
    section.notes.push(format!("The database has {bytes} MiB."));
    Ok(section)
}

/// The same workspace where the server is now.
fn world_of(server: &Server, world: &World) -> World {
    World {
        address: server.address,
        ..world.clone()
    }
}
