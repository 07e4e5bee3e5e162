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

/// Processor time of the whole process, ended threads included, in steps of 10 ms.
fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
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
