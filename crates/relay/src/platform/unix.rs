//! Linux and macOS.

mod keyboard;

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Resource, Rlimit, getpgrp, getrlimit, kill_process, setrlimit};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{FileLimit, TerminalSize, Wish, end_line};
pub(crate) use keyboard::Keyboard;

/// Where the data is when nobody says where: a variable, and the folder below it. The first that is set counts.
pub(crate) const DATA_PLACES: [(&str, &str); 2] =
    [("XDG_DATA_HOME", "relay"), ("HOME", ".local/share/relay")];

/// The variable that says where somebody's files are.
pub(crate) const HOME: &str = "HOME";

/// Where programs with windows keep their settings: variables, and the folder below. The first that is set counts.
pub(crate) const SETTINGS_PLACES: &[(&str, &str)] = if cfg!(target_os = "macos") {
    &[("HOME", "Library/Application Support")]
} else {
    &[("XDG_CONFIG_HOME", ""), ("HOME", ".config")]
};

/// Who can read what was made private.
pub(crate) const FOR_WHOM: &str = "for you only";

/// What macOS grants of files when it says that there is no limit; it refuses to be asked for more.
const FILES_WITHOUT_LIMIT: u64 = 10_240;

/// Makes directories only their owner gets into.
pub(crate) fn private_directory(builder: &mut DirBuilder) {
    builder.mode(0o700);
}

/// Makes a new file one that only its owner may read.
pub(crate) fn private_file(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Closes a file that others could read.
pub(crate) fn close_to_others(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
}

/// Who may do what with a file, where that is told by a mode.
pub(crate) fn mode(file: &Metadata) -> Option<u32> {
    Some(file.permissions().mode() & 0o777)
}

/// Waits until the disk has the names of a directory: a file that was renamed has its new one after a power cut.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Bytes that a program may still write to the disk of a directory, where the system tells.
pub(crate) fn free_bytes(directory: &Path) -> io::Result<Option<u64>> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
}

/// The size of the terminal that standard output is.
pub(crate) fn terminal() -> Option<TerminalSize> {
    terminal_size(rustix::stdio::stdout())
}

/// The size of the terminal that standard error is.
pub(crate) fn error_terminal() -> Option<TerminalSize> {
    terminal_size(rustix::stdio::stderr())
}

fn terminal_size(of: std::os::fd::BorrowedFd<'_>) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some(TerminalSize { columns, rows })
}

/// Lets this process have as many files and connections as the system allows it to ask for. Many systems
/// start programs with 1,024, which is as many agents.
pub(crate) fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let ask = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum });
    let raised = ask(maximum).or_else(|error| match (current, maximum) {
        (Some(now), None) if now < FILES_WITHOUT_LIMIT => ask(Some(FILES_WITHOUT_LIMIT)),
        _ => Err(error),
    });
    // Who may not have more has what there was.
    if let Err(error) = raised {
        tracing::warn!(%error, ?current, "the limit of open files stays as it is");
    }
}

/// How many files and connections a process may have: now, and at most if it asks.
pub(crate) fn file_limit() -> FileLimit {
    let limit = getrlimit(Resource::Nofile);
    FileLimit {
        now: limit.current,
        at_most: limit
            .maximum
            .or(limit.current.map(|now| now.max(FILES_WITHOUT_LIMIT))),
    }
}

/// Waits until nobody reads standard output any more: the other end of a pipe was closed.
pub(crate) async fn nobody_reads() {
    use rustix::event::{PollFd, PollFlags, poll};
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own that nobody waits for: it sleeps until the pipe breaks or the process ends.
    let watch = std::thread::Builder::new().spawn(move || {
        let stdout = rustix::stdio::stdout();
        loop {
            let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) if watched[0].revents().intersects(PollFlags::ERR) => break,
                Err(rustix::io::Errno::INTR) => {}
                _ => return std::thread::park(),
            }
        }
        let _ = tell.send(());
    });
    match watch {
        Ok(_) if told.await.is_ok() => {}
        // It can't be watched; the next line that can't be written tells, too.
        _ => std::future::pending().await,
    }
}

/// Listens to what tells a command that goes on to stop: Ctrl-C, or the signal that service managers send.
pub(crate) struct StopSignal {
    interrupted: Signal,
    terminated: Signal,
}

impl StopSignal {
    /// Listens from now on; until then a signal ends the process on the spot.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("can't listen to signals");
        Ok(Self {
            interrupted: listen(SignalKind::interrupt())?,
            terminated: listen(SignalKind::terminate())?,
        })
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
            _ = self.terminated.recv() => Wish::End,
        }
    }
}

/// The status that shells make of a program that a signal has ended.
pub(crate) fn status_of_signal(status: ExitStatus) -> i32 {
    status.signal().map_or(1, |signal| 128 + signal)
}

/// Signals that are meant for a program that this one runs.
pub(crate) struct Passing {
    interrupted: Signal,
    terminated: Signal,
    hung_up: Signal,
    quit: Signal,
}

impl Passing {
    /// From now on they end this process no more.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupted: signal(SignalKind::interrupt())?,
            terminated: signal(SignalKind::terminate())?,
            hung_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for one and passes it on. What a terminal sends, it sends to both.
    pub(crate) async fn pass_on(&mut self, to: Option<u32>) {
        use rustix::process::Signal as S;
        let (signal, is_typed) = tokio::select! {
            _ = self.interrupted.recv() => (S::INT, true),
            _ = self.quit.recv() => (S::QUIT, true),
            _ = self.terminated.recv() => (S::TERM, false),
            _ = self.hung_up.recv() => (S::HUP, false),
        };
        if is_typed && is_in_front() {
            return;
        }
        let to = to.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(to) = to {
            // It may have ended by now.
            let _ = kill_process(to, signal);
        }
    }
}

/// Whether what is typed at a terminal goes to this process and to those that it runs.
fn is_in_front() -> bool {
    let here = getpgrp();
    let streams = [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ];
    streams.iter().any(|stream| tcgetpgrp(stream) == Ok(here))
}
