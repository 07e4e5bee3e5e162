//! What sessions that never answer cost the others. Both servers carry the same load, a tenth of it to the
//! sessions in question, for which no sender waits; only in one of them do these answer.

use anyhow::Result;

use super::send::warm_up;
use super::settled::{Manner, Office};
use crate::bench::Bench;
use crate::goals::Goal;
use crate::load::Load;
use crate::options::Part;
use crate::report::{Column, Section};
use crate::world::World;

const WITH: &str = "one in ten never answers";
const WITHOUT: &str = "all answer";

pub(super) async fn run(bench: &Bench<'_>) -> Result<Section> {
    let sizes = &bench.options.sizes;
    let title = format!(
        "the others while one in ten of {} sessions never answers",
        sizes.sessions
    );
    let mut section = Section::new(Part::Silent, title);
    let one_in_ten = |manner| {
        move |number: usize| match number % 10 {
            0 => manner,
            _ => Manner::Awaited,
        }
    };
    let with = bench.server().await?;
    let world = World::create(&with, sizes.senders, sizes.sessions).await?;
    let office = Office::open(&world, one_in_ten(Manner::Silent)).await?;
    let mut beside_silent = office.senders().await?;
    let without = bench.server().await?;
    let world = World::create(&without, sizes.senders, sizes.sessions).await?;
    let lively_office = Office::open(&world, one_in_ten(Manner::Answering)).await?;
    let mut beside_lively = lively_office.senders().await?;
    Load::of(&with.process, &mut beside_silent, warm_up(sizes)).await?;
    Load::of(&without.process, &mut beside_lively, warm_up(sizes)).await?;
    for _ in 0..sizes.rounds {
        let others = bench.begin_round([&with.process, &without.process]).await;
        let load = Load::of(&with.process, &mut beside_silent, sizes.turn).await?;
        section.add(WITH, &load.figures());
        let load = Load::of(&without.process, &mut beside_lively, sizes.turn).await?;
        section.add(WITHOUT, &load.figures());
        section.others.push(others.cores());
    }
    let goal = Some(Goal::AtMost(1.5));
    section.compare(
        "p99 of the others, with to without",
        Column::P99,
        (WITH, WITHOUT),
        goal,
    );
    section.compare("p50 of the others", Column::P50, (WITH, WITHOUT), None);
    Ok(section)
}
