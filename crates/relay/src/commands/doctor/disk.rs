//! The disk: whether there is room on it, and how long it takes until something is really there.

use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::files::size;
use super::finding::{Finding, Layer};
use super::report::Report;
use crate::data::DataDirectory;
use crate::failure::Outcome;
use crate::platform;

/// Below this a send may soon be refused.
const LITTLE_ROOM: u64 = 1 << 30;
/// Below this a checkpoint may not fit.
const NO_ROOM: u64 = 64 << 20;

/// Below this a synced write can't have reached a disk.
const DURABLE: Duration = Duration::from_micros(20);
/// Above this every send waits so long that people notice.
const SLOW: Duration = Duration::from_millis(50);

/// Synced writes that are measured, and the longest that may take.
const WRITES: usize = 25;
const LONGEST: Duration = Duration::from_secs(1);

pub(super) fn look(data: &DataDirectory, report: &mut Report<'_>) -> Outcome {
    let Some(path) = nearest_directory(data.path()) else {
        return report.skip("disk", Layer::Disk, "there is no directory to look at");
    };
    report.check("disk space", Layer::Disk, || {
        match platform::free_bytes(path) {
            Ok(Some(free)) => room(free),
            Ok(None) => Finding::skipped("this system does not tell"),
            Err(error) => Finding::failed(
                format!("the disk can't be asked: {error}"),
                "see whether it is mounted",
            ),
        }
    })?;
    report.check("fsync", Layer::Disk, || match synced_writes(path) {
        Ok(writes) => durability(writes),
        Err(error) => Finding::failed(
            format!("{} can't be written: {error}", path.display()),
            "see that you own it, and that the disk is not full or mounted read-only",
        ),
    })
}

/// The directory itself or, before it is made, where it will be.
fn nearest_directory(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.is_dir())
}

fn room(free: u64) -> Finding {
    let detail = format!("{} free", size(free));
    if free < NO_ROOM {
        Finding::failed(detail, "make room: sends are refused when the disk is full")
    } else if free < LITTLE_ROOM {
        Finding::warning(
            detail,
            "make room soon: sends are refused when the disk is full",
        )
    } else {
        Finding::ok(detail)
    }
}

/// Measures small synced writes in a new file, which is gone afterwards.
fn synced_writes(directory: &Path) -> io::Result<Vec<Duration>> {
    let mut file = tempfile::tempfile_in(directory)?;
    let begun = Instant::now();
    let mut writes = Vec::new();
    while writes.len() < WRITES && begun.elapsed() < LONGEST {
        let begun = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        writes.push(begun.elapsed());
    }
    Ok(writes)
}

fn durability(mut writes: Vec<Duration>) -> Finding {
    writes.sort();
    let Some(middle) = writes.get(writes.len() / 2) else {
        return Finding::skipped("nothing was measured");
    };
    let took = format!("a synced write takes {}", millis(*middle));
    if *middle < DURABLE {
        Finding::warning(
            format!("{took}: not durable here, no disk is so fast"),
            "keep the data on a disk that syncs if messages have to survive a power cut",
        )
    } else if *middle > SLOW {
        Finding::warning(
            format!("{took}: every send waits that long"),
            "keep the data on a faster disk",
        )
    } else {
        Finding::ok(took)
    }
}

/// A short time as people read it.
pub(super) fn millis(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1_000.0;
    match millis {
        0.0..1.0 => format!("{:.0} µs", millis * 1_000.0),
        1.0..100.0 => format!("{millis:.1} ms"),
        _ => format!("{millis:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::Verdict;

    #[test]
    fn room_runs_out_in_two_steps() {
        let cases = [
            (10 << 30, Verdict::Ok),
            (LITTLE_ROOM - 1, Verdict::Warning),
            (NO_ROOM - 1, Verdict::Failed),
            (0, Verdict::Failed),
        ];
        for (free, verdict) in cases {
            assert_eq!(room(free).verdict, verdict, "{free}");
        }
    }

    #[test]
    fn too_fast_is_not_durable_and_the_middle_counts() {
        let of = |micros: &[u64]| {
            let writes = micros.iter().map(|micros| Duration::from_micros(*micros));
            durability(writes.collect())
        };
        assert_eq!(
            of(&[900, 5, 700]),
            Finding::ok("a synced write takes 700 µs")
        );
        let fast = of(&[5, 6, 900]);
        assert_eq!(fast.verdict, Verdict::Warning);
        assert!(
            fast.detail
                .ends_with("6 µs: not durable here, no disk is so fast")
        );
        assert_eq!(of(&[60_000]).verdict, Verdict::Warning);
        assert_eq!(of(&[]).verdict, Verdict::Skipped);
    }

    #[test]
    fn writes_are_measured_and_leave_nothing() {
        let place = tempfile::tempdir().unwrap();
        assert!(!synced_writes(place.path()).unwrap().is_empty());
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }
}
