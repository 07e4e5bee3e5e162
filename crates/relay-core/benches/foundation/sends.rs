//! Durable sends at several numbers of concurrent senders.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Effort;
use crate::baseline;
use crate::measure::{Round, Rounds, median, range, watch_others};
use crate::world::{PEERS, World, directory};

const SENDERS: [usize; 4] = [1, 8, 64, 256];

const RECEIVERS: usize = 100;

/// Prints the table.
pub(crate) fn run(out: &mut impl Write, effort: Effort) {
    let mut rows: Vec<Rounds> = SENDERS.iter().map(|_| Rounds::default()).collect();
    let (mut plain, mut grouped, mut ceiling) = (vec![], vec![], vec![]);
    let (mut bytes, mut ratios, mut group_ratios) = (vec![], vec![], vec![]);
    let others = watch_others();
    for _ in 0..effort.rounds {
        let scratch = directory();
        let small = effort.sends_per_round / 10;
        plain.push(
            small as f64 / baseline::write(scratch.path(), small, 1, RECEIVERS).as_secs_f64(),
        );
        let all = effort.sends_per_round;
        let group = all as f64 / baseline::write(scratch.path(), all, 64, RECEIVERS).as_secs_f64();
        grouped.push(group);
        let top = all as f64 / baseline::write(scratch.path(), all, all, RECEIVERS).as_secs_f64();
        ceiling.push(top);
        for (senders, row) in SENDERS.iter().zip(&mut rows) {
            let sends = if *senders == 1 {
                small
            } else {
                effort.sends_per_round
            };
            let (round, disk) = round(*senders, RECEIVERS, sends);
            row.push(&round);
            if *senders == 64 {
                bytes.push(disk as f64 / sends as f64);
                ratios.push(round.rate() / top);
                group_ratios.push(round.rate() / group);
            }
        }
    }
    writeln!(
        out,
        "\ndurable sends, {} rounds, others used {:.2} cores",
        effort.rounds,
        others.cores()
    )
    .unwrap();
    writeln!(
        out,
        "| senders | sends/s | min-max | p50 ms | p99 ms | CPU us/send | of it the writer |"
    )
    .unwrap();
    writeln!(out, "|---|---|---|---|---|---|---|").unwrap();
    for (senders, row) in SENDERS.iter().zip(&rows) {
        row.print(out, senders);
    }
    for (name, rates) in [
        ("plain loop, one transaction each", &plain),
        ("plain loop, a transaction for 64", &grouped),
        ("one big transaction (ceiling)", &ceiling),
    ] {
        let (least, most) = range(rates);
        writeln!(
            out,
            "| {name} | {:.0} | {least:.0}-{most:.0} | | | | |",
            median(rates)
        )
        .unwrap();
    }
    writeln!(
        out,
        "64 senders to the ceiling: {:.2}x (rounds {:.2}-{:.2}); to 64 in a transaction: {:.2}x; \
         on disk {:.0} bytes a message",
        median(&ratios),
        range(&ratios).0,
        range(&ratios).1,
        median(&group_ratios),
        median(&bytes)
    )
    .unwrap();
}

/// Sends so many messages in a database of their own; says what that took, and its size.
pub(crate) fn round(senders: usize, receivers: usize, sends: usize) -> (Round, u64) {
    let scratch = directory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let round = runtime.block_on(async {
        let world = Arc::new(World::create(scratch.path(), senders, receivers).await);
        // Conversations exist and caches are warm, as in a server that has run for a while.
        send_all(&world, senders, senders * PEERS).await;
        Round::of(sends, send_all(&world, senders, sends)).await
    });
    drop(runtime);
    let disk = std::fs::metadata(scratch.path().join("relay.db"))
        .unwrap()
        .len();
    (round, disk)
}

/// Sends so many messages, each sender one at a time; says how long each took.
pub(crate) async fn send_all(world: &Arc<World>, senders: usize, sends: usize) -> Vec<Duration> {
    let tasks: Vec<_> = (0..senders)
        .map(|sender| {
            let world = world.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(sends / senders + 1);
                for number in (sender..sends).step_by(senders) {
                    let body = world.message(number);
                    let begun = Instant::now();
                    world
                        .engine
                        .send(&world.senders[sender], body)
                        .await
                        .unwrap();
                    latencies.push(begun.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut all = Vec::with_capacity(sends);
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}
