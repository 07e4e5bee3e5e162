//! Windows. What it does not have is left out, and said in the README's table of platforms.

use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context as _, Result};
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

use super::{FileLimit, Key, TerminalSize, Wish, end_line};

/// Where the data is when nobody says where: a variable, and the folder below it. The first that is set counts.
pub(crate) const DATA_PLACES: [(&str, &str); 2] =
    [("XDG_DATA_HOME", "relay"), ("LOCALAPPDATA", "relay")];

/// The variable that says where somebody's files are.
pub(crate) const HOME: &str = "USERPROFILE";

/// Where programs with windows keep their settings: variables, and the folder below. The first that is set counts.
pub(crate) const SETTINGS_PLACES: &[(&str, &str)] = &[("APPDATA", "")];

/// Who can read what was made private: files take their rights from the folder they are in.
pub(crate) const FOR_WHOM: &str = "as private as the folder above";

/// A directory takes its rights from the one above.
pub(crate) fn private_directory(_: &mut DirBuilder) {}

/// A file takes its rights from its directory.
pub(crate) fn private_file(_: &mut OpenOptions) {}

/// A file has the rights of its directory.
pub(crate) fn close_to_others(_: &Path) -> io::Result<()> {
    Ok(())
}

/// There are no modes.
pub(crate) fn mode(_: &Metadata) -> Option<u32> {
    None
}

/// Directories can't be synced.
pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Only a call that is not safe would tell.
pub(crate) fn free_bytes(_: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

/// Only a call that is not safe would tell; so no lines change in place.
pub(crate) fn terminal() -> Option<TerminalSize> {
    None
}

/// Nor would this be told.
pub(crate) fn error_terminal() -> Option<TerminalSize> {
    None
}

/// There is no limit to raise.
pub(crate) fn raise_file_limit() {}

/// There is no limit to tell.
pub(crate) fn file_limit() -> FileLimit {
    FileLimit {
        now: None,
        at_most: None,
    }
}

/// The next line that can't be written tells.
pub(crate) async fn nobody_reads() {
    std::future::pending().await
}

/// Listens to what tells a command that goes on to stop: Ctrl-C, Ctrl-Break, a window that is closed, a shutdown.
pub(crate) struct StopSignal {
    interrupted: CtrlC,
    broken: CtrlBreak,
    closed: CtrlClose,
    shut_down: CtrlShutdown,
}

impl StopSignal {
    /// Listens from now on; until then a signal ends the process on the spot.
    pub(crate) fn listen() -> Result<Self> {
        let listen = || -> io::Result<Self> {
            Ok(Self {
                interrupted: ctrl_c()?,
                broken: ctrl_break()?,
                closed: ctrl_close()?,
                shut_down: ctrl_shutdown()?,
            })
        };
        listen().context("can't listen to signals")
    }

    /// Waits for one.
    pub(crate) async fn come(mut self) {
        if self.next().await == Wish::Interrupt {
            end_line();
        }
    }

    /// Waits for the next one, where the first need not be the end.
    pub(crate) async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupted.recv() => Wish::Interrupt,
            _ = self.broken.recv() => Wish::End,
            _ = self.closed.recv() => Wish::End,
            _ = self.shut_down.recv() => Wish::End,
        }
    }
}

/// No program ends by a signal.
pub(crate) fn status_of_signal(_: ExitStatus) -> i32 {
    1
}

/// Ctrl-C, which comes to a program that this one runs by itself.
pub(crate) struct Passing(CtrlC);

impl Passing {
    /// From now on it ends this process no more.
    pub(crate) fn listen() -> io::Result<Self> {
        ctrl_c().map(Self)
    }

    /// Waits for one.
    pub(crate) async fn pass_on(&mut self, _: Option<u32>) {
        let _ = self.0.recv().await;
    }
}

/// Only calls that are not safe would give keys one by one.
pub(crate) struct Keyboard(());

impl Keyboard {
    /// There is none.
    pub(crate) const fn open() -> Option<Self> {
        None
    }

    pub(crate) fn take(&self) {}

    pub(crate) fn give_back(&self) {}

    pub(crate) fn forget(&mut self) {}

    pub(crate) fn has_more(&self) -> bool {
        false
    }

    pub(crate) async fn key(&mut self) -> Option<Key> {
        std::future::pending().await
    }
}
