//! When the power goes, and which call fails.

use std::ffi::c_int;

use rusqlite::ffi;

use super::Failure;

/// Counts calls and decides about each whether it may happen.
#[derive(Debug, Default)]
pub(super) struct Faults {
    power: Power,
    failing: Failing,
    calls: u64,
    mutations: u64,
}

/// A change that SQLite asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Call {
    Create,
    Write,
    Truncate,
    Sync,
    Delete,
}

#[derive(Debug, Default)]
enum Power {
    #[default]
    On,
    CutAfter(u64),
    Off,
}

#[derive(Debug, Default)]
enum Failing {
    #[default]
    Never,
    Nth(u64, Failure),
    Always(Failure),
}

impl Faults {
    pub(super) fn cut_power_after(&mut self, mutations: u64) {
        self.power = match (&self.power, mutations) {
            (Power::Off, _) | (_, 0) => Power::Off,
            (_, more) => Power::CutAfter(more),
        };
    }

    pub(super) fn is_dead(&self) -> bool {
        matches!(self.power, Power::Off)
    }

    pub(super) fn fail_nth(&mut self, n: u64, failure: Failure) {
        assert!(n > 0, "the next call is number 1");
        self.failing = Failing::Nth(n, failure);
    }

    pub(super) fn fail_from_now_on(&mut self, failure: Failure) {
        self.failing = Failing::Always(failure);
    }

    pub(super) fn heal(&mut self) {
        self.failing = Failing::Never;
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn mutations(&self) -> u64 {
        self.mutations
    }

    /// Runs `change`, which answers an SQLite code, unless the power is off or the call has to fail.
    pub(super) fn attempt(&mut self, call: Call, change: impl FnOnce() -> c_int) -> c_int {
        if self.is_dead() {
            return call.io_error();
        }
        if let Some(code) = self.injected_failure(call) {
            return code;
        }
        let code = change();
        if code == ffi::SQLITE_OK {
            self.count_mutation();
        }
        code
    }

    fn injected_failure(&mut self, call: Call) -> Option<c_int> {
        if !call.is_write_class() {
            return None;
        }
        self.calls += 1;
        let failure = match &mut self.failing {
            Failing::Never => return None,
            Failing::Nth(remaining, failure) => {
                *remaining -= 1;
                if *remaining > 0 {
                    return None;
                }
                *failure
            }
            Failing::Always(Failure::DiskFull) if call != Call::Write => return None,
            Failing::Always(failure) => return Some(call.error(*failure)),
        };
        self.failing = Failing::Never;
        Some(call.error(failure))
    }

    fn count_mutation(&mut self) {
        self.mutations += 1;
        if let Power::CutAfter(remaining) = self.power {
            self.cut_power_after(remaining - 1);
        }
    }
}

impl Call {
    fn is_write_class(self) -> bool {
        matches!(self, Call::Write | Call::Truncate | Call::Sync)
    }

    fn error(self, failure: Failure) -> c_int {
        match failure {
            Failure::Io => self.io_error(),
            Failure::DiskFull => ffi::SQLITE_FULL,
        }
    }

    fn io_error(self) -> c_int {
        match self {
            Call::Create => ffi::SQLITE_CANTOPEN,
            Call::Write => ffi::SQLITE_IOERR_WRITE,
            Call::Truncate => ffi::SQLITE_IOERR_TRUNCATE,
            Call::Sync => ffi::SQLITE_IOERR_FSYNC,
            Call::Delete => ffi::SQLITE_IOERR_DELETE,
        }
    }
}
