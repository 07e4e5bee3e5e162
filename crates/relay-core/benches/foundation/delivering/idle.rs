//! What attached sessions cost to which nothing happens.

use std::io::Write;
use std::time::{Duration, Instant};

use relay_core::link::MemoryLink;

use super::sessions::{Kind, attach, delivering_world};
use super::{in_child, runtime};
use crate::Effort;
use crate::measure::{cpu, median, range, resident, watch_others};
use crate::world::directory;

/// How long nothing happens.
const REST: Duration = Duration::from_secs(3);

/// Prints the figures.
pub(super) fn run(out: &mut impl Write, effort: Effort) {
    let sessions = effort.large / 100;
    let others = watch_others();
    let (mut bytes, mut busy) = (vec![], vec![]);
    for _ in 0..effort.rounds {
        let measured = in_child(&["idle", &sessions.to_string()]);
        bytes.push(measured[0]);
        busy.push(measured[1]);
    }
    let ((least, most), (least_busy, most_busy)) = (range(&bytes), range(&busy));
    writeln!(
        out,
        "\n{sessions} idle sessions, {} rounds: {:.0} bytes resident each ({least:.0}-{most:.0}), \
         {:.0} us of CPU a second for all ({least_busy:.0}-{most_busy:.0}); others used {:.2} cores",
        effort.rounds,
        median(&bytes),
        median(&busy),
        others.cores()
    )
    .unwrap();
}

/// How much this process grows for each session that attaches, and how busy it is afterwards.
pub(super) fn measure(sessions: usize) -> Vec<f64> {
    let scratch = directory();
    runtime().block_on(async {
        // Everybody is in the first channel, and with one more it would be too full.
        let world = delivering_world(scratch.path(), 0, sessions).await;
        let before = resident();
        for agent in &world.receivers {
            attach(&world, agent, Kind::Immediate, Some(MemoryLink::new())).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let each = (resident() - before) / sessions as f64;
        let (begun, cpu_before) = (Instant::now(), cpu());
        tokio::time::sleep(REST).await;
        let busy = (cpu() - cpu_before).as_secs_f64() * 1e6 / begun.elapsed().as_secs_f64();
        vec![each, busy]
    })
}
