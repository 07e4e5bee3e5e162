//! Timing, percentiles, and how busy the machine was.

use std::io::Write;
use std::time::{Duration, Instant};

/// Latencies of one round.
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn new(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        let index = (self.0.len() as f64 * percent / 100.0) as usize;
        self.0
            .get(index.min(self.0.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

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
    let ratios: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    let (least, most) = range(&ratios);
    format!("{:.2}x (rounds {least:.2}-{most:.2})", median(&ratios))
}

/// The middle of several values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The least and the greatest of several values.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    (least, most)
}

/// Processor time that this process's threads have used.
pub(crate) fn cpu() -> Duration {
    thread_times(|_| true)
}

/// Processor time that the writer's thread has used.
pub(crate) fn writer_cpu() -> Duration {
    thread_times(|name| name == "relay-writer")
}

/// Processor time of the whole process, ended threads and children included, in steps of 10 ms.
fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Sums the time on a processor, in nanoseconds, of the threads with such a name.
fn thread_times(wanted: impl Fn(&str) -> bool) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    threads
        .filter(|thread| wanted(read(thread.path().join("comm")).trim()))
        .filter_map(|thread| {
            read(thread.path().join("schedstat"))
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .map(Duration::from_nanos)
        .sum()
}

/// Bytes of this process's own memory that are resident: without mapped files.
pub(crate) fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

/// Processor time that everything on this machine has used.
pub(crate) fn machine_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    let busy: u64 = fields
        .iter()
        .enumerate()
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .map(|(_, ticks)| ticks)
        .sum();
    Duration::from_millis(busy * 10)
}

/// How many cores others used while something ran.
pub(crate) struct Others(Instant, Duration, Duration);

impl Others {
    pub(crate) fn watch() -> Self {
        Self(Instant::now(), process_cpu(), machine_cpu())
    }

    pub(crate) fn cores(&self) -> f64 {
        let own = process_cpu().saturating_sub(self.1);
        let all = machine_cpu().saturating_sub(self.2);
        all.saturating_sub(own).as_secs_f64() / self.0.elapsed().as_secs_f64()
    }
}

/// Measures a small synced write, which bounds everything durable.
pub(crate) fn disk(out: &mut impl Write) {
    use std::os::unix::fs::FileExt as _;
    let directory = crate::world::directory();
    let file = std::fs::File::create(directory.path().join("sync")).unwrap();
    let block = [7u8; 4096];
    let all = (0..300u64)
        .map(|at| {
            let begun = Instant::now();
            file.write_all_at(&block, at * 4096).unwrap();
            file.sync_data().unwrap();
            begun.elapsed()
        })
        .collect();
    let latencies = Latencies::new(all);
    let p50 = latencies.percentile(50.0);
    writeln!(
        out,
        "one 4 KiB write + sync: p50 {p50:.1?}, p99 {:.1?}",
        latencies.percentile(99.0)
    )
    .unwrap();
    if p50 < Duration::from_micros(20) {
        writeln!(
            out,
            "NOT DURABLE HERE: a sync this fast does not reach a disk"
        )
        .unwrap();
    }
}
