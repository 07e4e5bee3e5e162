//! What indexing words for searches costs durable sends.
//!
//! The index is filled behind the sends, so a turn is long enough for that to happen during it.

use anyhow::Result;

use super::send::{HttpSender, warm_up};
use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::Load;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::text::TEXT_BYTES;
use crate::world::World;

/// How much longer a turn takes than elsewhere: the index is up to two seconds behind.
const LONGER: u32 = 6;

const ON: &str = "indexed a moment after each send";
const OFF: &str = "indexed by the next search";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!(
        "durable sends over HTTP, {} clients, {TEXT_BYTES} B, with and without words being indexed",
        sizes.senders
    );
    let mut section = Section::new(Part::Search, title);
    let turn = sizes.turn * LONGER;
    let on = bench.server().await?;
    let off = bench.server_with("[search]\nahead = false\n").await?;
    let mut indexed = senders(bench, &on).await?;
    let mut plain = senders(bench, &off).await?;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&on.process, &off.process]).await;
        let load = Load::of(&on.process, &mut indexed, turn).await?;
        section.add(ON, &load.figures());
        let load = Load::of(&off.process, &mut plain, turn).await?;
        section.add(OFF, &load.figures());
        section.others.push(others.cores());
    }
    let goal = Some(Goal::AtLeast(0.9));
    section.compare("indexed to not indexed", Column::RATE, (ON, OFF), goal);
    let cpu = "server CPU, indexed to not indexed";
    section.compare(cpu, Column::SERVER_CPU, (ON, OFF), None);
    Ok(section)
}

async fn senders(bench: &Bench<'_>, server: &crate::server::Server) -> Result<Vec<HttpSender>> {
    let sizes = &bench.options.sizes;
    let world = World::create(server, sizes.senders, sizes.receivers).await?;
    let mut senders = HttpSender::all(&world).await?;
    Load::of(&server.process, &mut senders, warm_up(sizes)).await?;
    Ok(senders)
}
