//! What depends on the operating system, beyond what the standard library and tokio even out.
//!
//! Both files have the same functions, so the rest of the program does not know where it runs. What a system does
//! not have is in the README's table of platforms; `scripts/check-platforms` compiles all of it.

use std::io::{IsTerminal as _, Write as _};

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    DATA_PLACES, FOR_WHOM, HOME, Keyboard, Passing, SETTINGS_PLACES, StopSignal, close_to_others,
    error_terminal, file_limit, free_bytes, mode, nobody_reads, private_directory, private_file,
    raise_file_limit, status_of_signal, sync_directory, terminal,
};
#[cfg(windows)]
pub(crate) use windows::{
    DATA_PLACES, FOR_WHOM, HOME, Keyboard, Passing, SETTINGS_PLACES, StopSignal, close_to_others,
    error_terminal, file_limit, free_bytes, mode, nobody_reads, private_directory, private_file,
    raise_file_limit, status_of_signal, sync_directory, terminal,
};

/// Why a command that goes on is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Ctrl-C: somebody sits there, and may mean what the command does just now.
    Interrupt,
    /// It is to end, whoever says so.
    End,
}

/// What was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    windows,
    allow(dead_code, reason = "there is no keyboard that could say it")
)]
pub(crate) enum Key {
    Letter(char),
    Enter,
    Escape,
    Backspace,
    /// Ctrl-D: there is nothing more to come.
    End,
    Other,
}

/// How many characters a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// A terminal shows `^C` where the cursor is; what is said next, by this program or the shell, is to begin on a
/// line of its own.
fn end_line() {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = writeln!(stderr);
    }
}

/// How many files a process may have open; none: as many as it likes, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLimit {
    pub(crate) now: Option<u64>,
    pub(crate) at_most: Option<u64>,
}
