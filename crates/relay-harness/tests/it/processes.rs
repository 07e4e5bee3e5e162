//! The process table, as tests ask it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use relay_harness::child::{Child, MARK_VARIABLE};

/// The mark of a child, which all processes that come from it have.
pub(crate) fn mark_of(child: &Child) -> String {
    let environment = std::fs::read(format!("/proc/{}/environ", child.pid())).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let entry = environment
        .split('\0')
        .find(|entry| entry.starts_with(MARK_VARIABLE));
    entry.unwrap().to_owned()
}

/// The processes, zombies aside, whose environment has this entry.
pub(crate) fn with_entry(entry: &str) -> BTreeSet<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|found| found == entry.as_bytes())
        })
        .filter(|pid| is_running(*pid))
        .collect()
}

/// Whether a process runs, zombies aside.
pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    state.is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

/// Waits until something holds that no signal tells of, or fails.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "not within 20 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
