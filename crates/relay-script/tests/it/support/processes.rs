//! The ends of agents: the group is killed, and then whatever left the group.
//!
//! What an agent started is known by its environment: nobody else has this home directory.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// How long a killed process may take to end.
const GRACE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// How long new processes may come from those that are killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills a process group and waits for the end of its first process.
pub(crate) fn end_group(leader: u32) {
    let pid = i32::try_from(leader).ok().and_then(Pid::from_raw).unwrap();
    let leader = pidfd_open(pid, PidfdFlags::empty());
    let _ = kill_process_group(pid, Signal::KILL);
    if let Ok(leader) = leader {
        let _ = poll(&mut [PollFd::new(&leader, PollFlags::IN)], Some(&GRACE));
    }
}

/// Kills every process with this home, also those that come from them meanwhile. Those that are there after that are
/// returned.
pub(crate) fn end_all_of(home: &Path) -> Vec<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = all_of(home);
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        for pid in found {
            end_one_of(home, pid);
        }
    }
}

fn end_one_of(home: &Path, pid: i32) {
    let Some(process) = Pid::from_raw(pid) else {
        return;
    };
    // Through a handle: the number may be another process's by now.
    if let Ok(handle) = pidfd_open(process, PidfdFlags::empty())
        && is_of(home, pid)
    {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&GRACE));
    }
}

fn all_of(home: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| is_of(home, *pid)).collect()
}

fn is_of(home: &Path, pid: i32) -> bool {
    let mark = format!("HOME={}", home.display());
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .split(|byte| *byte == 0)
        .any(|entry| entry == mark.as_bytes())
}
