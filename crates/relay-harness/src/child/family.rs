//! All processes that come from one child, found in `/proc`: also those that left its group.
//!
//! A process belongs to the family when its environment has the child's mark, when it is in the child's group, or when its
//! parent belongs to it. Signals go through process handles (pidfd) opened before the last look at the process, so
//! that a number that was given to somebody else is never hit. A subreaper would be the other way, but that is a
//! property of the whole program and takes in the orphans of everybody else in it, too. Not found: a process that cleared its
//! environment, left the group and lost its parent before anybody looked.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::MARK_VARIABLE;

/// Most times that the family is looked for: each time it may have grown meanwhile.
const ROUNDS: usize = 16;

/// How long a killed process may take to be gone.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// What the processes of a child have in common.
#[derive(Clone, Debug)]
pub(super) struct Family {
    /// Zero where it is not known; then there is no group to look at.
    leader: u32,
    mark: Vec<u8>,
}

impl Family {
    pub(super) fn new(leader: u32, mark: &str) -> Self {
        Self {
            leader,
            mark: format!("{MARK_VARIABLE}={mark}").into_bytes(),
        }
    }

    /// Asks the group to end. Only while the leader was not reaped: its number is its own until then.
    pub(super) fn ask_group(&self) {
        self.signal_group(Signal::TERM);
    }

    /// Kills the group. Only while the leader was not reaped.
    pub(super) fn kill_group(&self) {
        self.signal_group(Signal::KILL);
    }

    /// Finds the family as it is now. What is found stays known when its parents end.
    pub(super) fn hunt(&self) -> Hunt {
        let mut hunt = Hunt {
            family: self.clone(),
            members: BTreeMap::new(),
        };
        hunt.look();
        hunt
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(leader) = pid(self.leader) {
            // Fails when the group is empty, which is what is wanted.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// The members among all processes that run now.
    fn members(&self) -> Vec<Process> {
        let own = std::process::id();
        let all: Vec<Process> = processes().filter(|process| process.pid != own).collect();
        let marked: HashSet<u32> = all
            .iter()
            .filter(|process| process.has_mark(&self.mark))
            .map(|process| process.pid)
            .collect();
        // A group keeps its number from being given away. So either this is still the child's group, or its number is
        // that of a process which is neither marked nor ours.
        let taken = all.iter().any(|process| {
            process.pid == self.leader && !marked.contains(&process.pid) && process.parent != own
        });
        let mut family = marked;
        if !taken && self.leader != 0 {
            family.extend(
                all.iter()
                    .filter(|process| process.group == self.leader)
                    .map(|process| process.pid),
            );
        }
        loop {
            let before = family.len();
            for process in &all {
                if family.contains(&process.parent) {
                    family.insert(process.pid);
                }
            }
            if family.len() == before {
                break;
            }
        }
        all.into_iter()
            .filter(|process| family.contains(&process.pid) && !process.ended)
            .collect()
    }
}

/// The members of a family that are known so far.
pub(super) struct Hunt {
    family: Family,
    members: BTreeMap<u32, OwnedFd>,
}

impl Hunt {
    /// Asks all members to end, and kills those that have not after the grace. Blocks.
    pub(super) fn end(mut self, grace: Duration) {
        let deadline = Instant::now() + grace;
        for _ in 0..ROUNDS {
            self.look();
            if self.members.is_empty() {
                return;
            }
            let now = Instant::now();
            if now < deadline {
                self.signal(Signal::TERM);
                self.wait(deadline);
            } else {
                self.signal(Signal::KILL);
                self.wait(now + KILL_WAIT);
            }
        }
        tracing::warn!(
            processes = ?self.members.keys(),
            "processes of a child could not be ended"
        );
    }

    /// Leaves the members a time to end by themselves. Blocks.
    pub(super) fn await_end(&mut self, grace: Duration) {
        self.wait(Instant::now() + grace);
    }

    /// Kills all members without waiting for them: for the end of a program.
    pub(super) fn kill(mut self) {
        let mut killed = HashSet::new();
        for _ in 0..ROUNDS {
            self.look();
            self.signal(Signal::KILL);
            let before = killed.len();
            killed.extend(self.members.keys().copied());
            if killed.len() == before {
                return;
            }
        }
    }

    fn look(&mut self) {
        self.members
            .retain(|_, handle| !has_ended(handle, Duration::ZERO));
        for process in self.family.members() {
            if self.members.contains_key(&process.pid) {
                continue;
            }
            if let Some(handle) = process.handle() {
                self.members.insert(process.pid, handle);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        for handle in self.members.values() {
            let _ = pidfd_send_signal(handle, signal);
        }
    }

    /// Waits until all that are known have ended, or until the deadline.
    fn wait(&mut self, deadline: Instant) {
        self.members.retain(|_, handle| {
            let left = deadline.saturating_duration_since(Instant::now());
            !has_ended(handle, left)
        });
    }
}

/// A row of the process table.
struct Process {
    pid: u32,
    parent: u32,
    group: u32,
    started: u64,
    /// Only its row is left, for its parent to read.
    ended: bool,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in the second column may have spaces and parentheses in it.
        let (_, columns) = stat.rsplit_once(") ")?;
        let columns: Vec<&str> = columns.split(' ').collect();
        Some(Self {
            pid,
            ended: matches!(*columns.first()?, "Z" | "X"),
            parent: columns.get(1)?.parse().ok()?,
            group: columns.get(2)?.parse().ok()?,
            started: columns.get(19)?.parse().ok()?,
        })
    }

    /// Whether its environment has this entry. That of other users' processes can't be read: they aren't ours.
    fn has_mark(&self, mark: &[u8]) -> bool {
        let environment = std::fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark)
    }

    /// A handle of this very process, not of a later one with the same number.
    fn handle(&self) -> Option<OwnedFd> {
        let handle = pidfd_open(pid(self.pid)?, PidfdFlags::empty()).ok()?;
        let now = Self::read(self.pid)?;
        (now.started == self.started && !now.ended).then_some(handle)
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?))
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(number.try_into().ok()?)
}

/// Whether a process has ended, waiting for it for a time.
fn has_ended(handle: &OwnedFd, wait: Duration) -> bool {
    let timeout = Timespec::try_from(wait).ok();
    let mut handles = [PollFd::new(handle, PollFlags::IN)];
    loop {
        match poll(&mut handles, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            Err(_) => return true,
            Ok(ready) => return ready > 0,
        }
    }
}
