//! Timing of rounds, and how they are printed.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::figures::ratios;
pub(crate) use crate::figures::{Latencies, median, range};

use crate::machine;
use crate::machine::Others;

/// What so many operations took.
pub(crate) struct Round {
    pub(crate) operations: usize,
    pub(crate) wall: Duration,
    cpu: Duration,
    writer: Duration,
    latencies: Latencies,
}

impl Round {
    /// Measures something that says how long each operation took.
    pub(crate) async fn of(operations: usize, work: impl Future<Output = Vec<Duration>>) -> Self {
        let (begun, cpu_before, writer_before) = (Instant::now(), cpu(), writer_cpu());
        let latencies = work.await;
        Self {
            operations,
            wall: begun.elapsed(),
            cpu: cpu() - cpu_before,
            writer: writer_cpu() - writer_before,
            latencies: Latencies::new(latencies),
        }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }
}

/// The figures of several rounds.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) rate: Vec<f64>,
    pub(crate) p50: Vec<f64>,
    pub(crate) p99: Vec<f64>,
    pub(crate) cpu: Vec<f64>,
    pub(crate) writer: Vec<f64>,
}

impl Rounds {
    pub(crate) fn push(&mut self, round: &Round) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / round.operations as f64;
        let percentile = |percent| round.latencies.percentile(percent).as_secs_f64() * 1e3;
        self.rate.push(round.rate());
        self.p50.push(percentile(50.0));
        self.p99.push(percentile(99.0));
        self.cpu.push(each(round.cpu));
        self.writer.push(each(round.writer));
    }

    /// Prints a row of a table: rate, its range, p50, p99, CPU, the writer's CPU.
    pub(crate) fn print(&self, out: &mut impl Write, name: impl std::fmt::Display) {
        let (least, most) = range(&self.rate);
        let [rate, cpu, writer] = [&self.rate, &self.cpu, &self.writer].map(|all| median(all));
        let [p50, p99] = [&self.p50, &self.p99].map(|all| match median(all) {
            // Nobody waited.
            0.0 => "-".to_owned(),
            millis => format!("{millis:.2}"),
        });
        writeln!(
            out,
            "| {name} | {rate:.0} | {least:.0}-{most:.0} | {p50} | {p99} | {cpu:.1} | {writer:.1} |"
        )
        .unwrap();
    }
}

/// How one series of rounds compares with another, round by round: `1.20x (rounds 1.10-1.30)`.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> String {
    let ratios = ratios(of, to);
    let (least, most) = range(&ratios);
    format!("{:.2}x (rounds {least:.2}-{most:.2})", median(&ratios))
}

/// Processor time that this process's threads have used.
pub(crate) fn cpu() -> Duration {
    machine::threads_cpu(&machine::this_process(), |_| true)
}

/// Processor time that the writer's thread has used.
pub(crate) fn writer_cpu() -> Duration {
    machine::threads_cpu(&machine::this_process(), |name| name == "relay-writer")
}

/// Bytes of this process's own memory that are resident: without mapped files.
pub(crate) fn resident() -> f64 {
    machine::resident(&machine::this_process(), "RssAnon")
}

/// Watches how many cores others use.
pub(crate) fn watch_others() -> Others {
    Others::watch(vec![machine::this_process()])
}

/// Measures a small synced write, which bounds everything durable.
pub(crate) fn disk(out: &mut impl Write) {
    let directory = crate::world::directory();
    let latencies = Latencies::new(machine::synced_writes(directory.path(), 300).unwrap());
    let p50 = latencies.percentile(50.0);
    writeln!(
        out,
        "one 4 KiB write + sync: p50 {p50:.1?}, p99 {:.1?}",
        latencies.percentile(99.0)
    )
    .unwrap();
    if p50 < machine::DURABLE {
        writeln!(
            out,
            "NOT DURABLE HERE: a sync this fast does not reach a disk"
        )
        .unwrap();
    }
}
