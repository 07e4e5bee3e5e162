//! Memory while deliveries wait, for agents with a session and for agents without one.

use std::io::Write;
use std::time::Duration;

use relay_core::link::MemoryLink;

use super::sessions::{Kind, attach, delivering_world};
use super::{in_child, runtime};
use crate::Effort;
use crate::measure::{median, range, resident, watch_others};
use crate::sends::send_all;
use crate::world::{PEERS, directory};

const SENDERS: usize = 64;

const AGENTS: usize = 64;

/// Deliveries that wait for each agent: as many as the runner keeps in memory, and eight times as many.
const DEPTHS: [usize; 2] = [256, 2_048];

const WITH: &str = "with";

const WITHOUT: &str = "without";

/// Prints the table.
pub(super) fn run(out: &mut impl Write, effort: Effort) {
    let others = watch_others();
    let mut growths = DEPTHS.map(|_| [vec![], vec![], vec![]]);
    for _ in 0..effort.rounds {
        for (depth, [with, without, more]) in DEPTHS.iter().zip(&mut growths) {
            let grown = |whose| in_child(&["waiting", whose, &depth.to_string()])[0];
            with.push(grown(WITH));
            without.push(grown(WITHOUT));
            more.push(with[with.len() - 1] - without[without.len() - 1]);
        }
    }
    writeln!(
        out,
        "\nresident growth while deliveries wait for {AGENTS} agents, MiB, {} rounds, others used {:.2} cores",
        effort.rounds,
        others.cores()
    )
    .unwrap();
    writeln!(
        out,
        "| waiting for each | with sessions | without | difference | min-max | for each waiting delivery, bytes |"
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|---|---|").unwrap();
    for (depth, growths) in DEPTHS.iter().zip(&growths) {
        let [with, without, more] = growths.each_ref().map(|all| median(all) / MIB);
        let least = growths[2].iter().copied().fold(f64::INFINITY, f64::min) / MIB;
        let most = range(&growths[2]).1 / MIB;
        let each = more * MIB / (depth * AGENTS) as f64;
        writeln!(
            out,
            "| {depth} | {with:.1} | {without:.1} | {more:.1} | {least:.1}-{most:.1} | {each:.0} |"
        )
        .unwrap();
    }
}

const MIB: f64 = 1024.0 * 1024.0;

/// How much this process grows while so many deliveries come to wait for each agent.
pub(super) fn measure(whose: &str, depth: usize) -> Vec<f64> {
    let scratch = directory();
    runtime().block_on(async {
        let world = delivering_world(scratch.path(), SENDERS, AGENTS).await;
        if whose == WITH {
            for agent in &world.receivers {
                attach(&world, agent, Kind::Working, Some(MemoryLink::new())).await;
            }
        }
        send_all(&world, SENDERS, SENDERS * PEERS).await;
        let before = resident();
        world.start_at(SENDERS * PEERS);
        send_all(&world, SENDERS, (depth - PEERS) * AGENTS).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        vec![resident() - before]
    })
}
