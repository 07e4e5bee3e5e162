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
    running(|found| found == entry.as_bytes())
}

/// The processes, zombies aside, whose environment has an entry that begins so.
pub(crate) fn with_prefix(prefix: &str) -> BTreeSet<u32> {
    running(|found| found.starts_with(prefix.as_bytes()))
}

fn running(wanted: impl Fn(&[u8]) -> bool) -> BTreeSet<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(&wanted)
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

/// The descriptors that this process has open.
pub(crate) fn descriptors() -> BTreeSet<String> {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers = open.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // The directory that is being read is among them, and gone at once.
    numbers
        .filter(|number| std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok())
        .collect()
}

/// Runs a test in a process of its own, where nobody else has children, descriptors and memory.
pub(crate) fn alone(test: &str) {
    let this = std::env::current_exe().unwrap();
    let run = std::process::Command::new(this)
        .args([test, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout) + String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}
