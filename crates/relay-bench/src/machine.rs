//! What the machine and the processes on it did meanwhile: processor time, memory, a synced write.
//!
//! From `/proc`; elsewhere than on Linux these figures are zero. The foundation benchmark of `relay-core`
//! includes this file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A process: `self`, or its number.
pub(crate) type Process = String;

/// This process.
pub(crate) fn this_process() -> Process {
    "self".to_owned()
}

/// Processor time that the threads of a process have used whose names are wanted, in nanoseconds. Threads
/// that have ended are not counted.
pub(crate) fn threads_cpu(process: &str, wanted: impl Fn(&str) -> bool) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
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

/// Processor time of a whole process, ended threads and children included, in steps of 10 ms.
fn process_cpu(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

/// Bytes of a process's memory that are resident, by the name of a line of its status: `VmRSS` is all,
/// `RssAnon` leaves mapped files out.
pub(crate) fn resident(process: &str, which: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(which)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(f64::NAN) * 1024.0
}

/// Processor time that everything on this machine has used.
fn machine_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let fields = first.split_whitespace().skip(1);
    // All but the idle and the waiting time.
    let busy: u64 = fields
        .filter_map(|field| field.parse::<u64>().ok())
        .enumerate()
        .filter(|(at, _)| !matches!(at, 3 | 4))
        .map(|(_, ticks)| ticks)
        .sum();
    Duration::from_millis(busy * 10)
}

/// How many cores others used while something ran.
pub(crate) struct Others {
    begun: Instant,
    ours: Vec<Process>,
    own: Duration,
    all: Duration,
}

impl Others {
    /// Begins to watch; the processes named are not others.
    pub(crate) fn watch(ours: Vec<Process>) -> Self {
        Self {
            begun: Instant::now(),
            own: cpu_of_all(&ours),
            all: machine_cpu(),
            ours,
        }
    }

    pub(crate) fn cores(&self) -> f64 {
        let own = cpu_of_all(&self.ours).saturating_sub(self.own);
        let all = machine_cpu().saturating_sub(self.all);
        all.saturating_sub(own).as_secs_f64() / self.begun.elapsed().as_secs_f64()
    }
}

fn cpu_of_all(processes: &[Process]) -> Duration {
    processes.iter().map(|process| process_cpu(process)).sum()
}

/// Measures small synced writes, which bound everything durable, in a new file of a directory.
pub(crate) fn synced_writes(directory: &Path, writes: u64) -> io::Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(directory)?;
    let block = [7u8; 4096];
    let all = (0..writes).map(|_| {
        let begun = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        Ok(begun.elapsed())
    });
    all.collect()
}

/// Below this a synced write can't have reached a disk.
pub(crate) const DURABLE: Duration = Duration::from_micros(20);
