//! The processes of a child where there is no `/proc`: its process group, or on Windows the child alone.

use std::time::Duration;

/// What the processes of a child have in common.
#[derive(Clone, Debug)]
pub(super) struct Family {
    leader: u32,
}

impl Family {
    pub(super) fn new(leader: u32, _mark: &str) -> Self {
        Self { leader }
    }

    /// Asks the group to end. Only while the leader was not reaped: its number is its own until then.
    #[cfg(unix)]
    pub(super) fn ask_group(&self) {
        self.signal_group(rustix::process::Signal::TERM);
    }

    /// Kills the group. Only while the leader was not reaped.
    #[cfg(unix)]
    pub(super) fn kill_group(&self) {
        self.signal_group(rustix::process::Signal::KILL);
    }

    /// Windows has nothing to ask a program without a window.
    #[cfg(not(unix))]
    pub(super) fn ask_group(&self) {
        let _ = self.leader;
    }

    /// The child itself is killed by its owner.
    #[cfg(not(unix))]
    pub(super) fn kill_group(&self) {}

    /// The group as it is now.
    pub(super) fn hunt(&self) -> Hunt {
        Hunt {
            family: self.clone(),
        }
    }

    #[cfg(unix)]
    fn signal_group(&self, signal: rustix::process::Signal) {
        let leader = self.leader.try_into().ok();
        if let Some(leader) = leader.and_then(rustix::process::Pid::from_raw) {
            // Fails when the group is empty, which is what is wanted.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

/// A group to be ended.
pub(super) struct Hunt {
    family: Family,
}

impl Hunt {
    /// Nothing tells when a group has ended, so there is nothing to wait for.
    pub(super) fn await_end(&mut self, _grace: Duration) {}

    /// Kills what is left of the group: nothing tells when it has ended, so there is no grace.
    pub(super) fn end(self, _grace: Duration) {
        self.kill();
    }

    /// Kills the group.
    pub(super) fn kill(self) {
        self.family.kill_group();
    }
}
