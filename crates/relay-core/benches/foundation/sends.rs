//! Durable sends at several numbers of concurrent senders.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Effort;
use crate::baseline;
use crate::measure::{Latencies, Others, cpu, median, range, writer_cpu};
use crate::world::{PEERS, World, directory};

const SENDERS: [usize; 4] = [1, 8, 64, 256];

const RECEIVERS: usize = 100;

#[derive(Default)]
struct Row {
    rate: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    cpu: Vec<f64>,
    writer: Vec<f64>,
}

/// Prints the table.
pub(crate) fn run(out: &mut impl Write, effort: Effort) {
    let mut rows: Vec<Row> = SENDERS.iter().map(|_| Row::default()).collect();
    let (mut plain, mut grouped, mut ceiling) = (vec![], vec![], vec![]);
    let (mut bytes, mut ratios, mut group_ratios) = (vec![], vec![], vec![]);
    let others = Others::watch();
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
            let (round, disk) = round(*senders, sends);
            row.rate.push(sends as f64 / round.wall.as_secs_f64());
            row.p50
                .push(round.latencies.percentile(50.0).as_secs_f64() * 1e3);
            row.p99
                .push(round.latencies.percentile(99.0).as_secs_f64() * 1e3);
            row.cpu.push(round.cpu.as_secs_f64() * 1e6 / sends as f64);
            row.writer
                .push(round.writer.as_secs_f64() * 1e6 / sends as f64);
            if *senders == 64 {
                bytes.push(disk as f64 / sends as f64);
                ratios.push(sends as f64 / round.wall.as_secs_f64() / top);
                group_ratios.push(sends as f64 / round.wall.as_secs_f64() / group);
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
        let (least, most) = range(&row.rate);
        let (rate, p50, p99, cpu, writer) = (
            median(&row.rate),
            median(&row.p50),
            median(&row.p99),
            median(&row.cpu),
            median(&row.writer),
        );
        writeln!(
            out,
            "| {senders} | {rate:.0} | {least:.0}-{most:.0} | {p50:.2} | {p99:.2} | {cpu:.1} | {writer:.1} |"
        )
        .unwrap();
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

struct Round {
    wall: Duration,
    cpu: Duration,
    writer: Duration,
    latencies: Latencies,
}

fn round(senders: usize, sends: usize) -> (Round, u64) {
    let scratch = directory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let round = runtime.block_on(async {
        let world = Arc::new(World::create(scratch.path(), senders, RECEIVERS).await);
        // Conversations exist and caches are warm, as in a server that has run for a while.
        send_all(&world, senders, senders * PEERS).await;
        let (begun, cpu_before, writer_before) = (Instant::now(), cpu(), writer_cpu());
        let latencies = send_all(&world, senders, sends).await;
        Round {
            wall: begun.elapsed(),
            cpu: cpu() - cpu_before,
            writer: writer_cpu() - writer_before,
            latencies: Latencies::new(latencies),
        }
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
