//! What depends on the operating system, beyond what the standard library and tokio even out.

use std::fs::Metadata;
use std::io;
use std::path::Path;

/// How many characters a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// The size of the terminal that standard output is.
#[cfg(unix)]
pub(crate) fn terminal() -> Option<TerminalSize> {
    terminal_size(rustix::stdio::stdout())
}

/// The size of the terminal that standard error is.
#[cfg(unix)]
pub(crate) fn error_terminal() -> Option<TerminalSize> {
    terminal_size(rustix::stdio::stderr())
}

#[cfg(unix)]
fn terminal_size(of: std::os::fd::BorrowedFd<'_>) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(of).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some(TerminalSize { columns, rows })
}

/// Lets this process have as many files and connections as the system allows it to ask for. Many systems
/// start programs with 1,024, which is as many agents.
#[cfg(unix)]
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        let all = Rlimit {
            current: maximum,
            maximum,
        };
        // Who may not have more has what there was.
        if let Err(error) = setrlimit(Resource::Nofile, all) {
            tracing::warn!(%error, ?current, "the limit of open files stays as it is");
        }
    }
}

/// How many files and connections a process may have: now, and at most if it asks.
#[cfg(unix)]
pub(crate) fn file_limit() -> FileLimit {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile);
    FileLimit {
        now: limit.current,
        at_most: limit.maximum,
    }
}

/// How many files a process may have open; none: as many as it likes, or nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLimit {
    pub(crate) now: Option<u64>,
    pub(crate) at_most: Option<u64>,
}

/// Bytes that a program may still write to the disk of a directory, where the system tells.
#[cfg(unix)]
pub(crate) fn free_bytes(directory: &Path) -> io::Result<Option<u64>> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
}

/// Who may do what with a file, where that is told by a mode.
#[cfg(unix)]
pub(crate) fn mode(file: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(file.permissions().mode() & 0o777)
}

/// Waits until nobody reads standard output any more: the other end of a pipe was closed.
#[cfg(unix)]
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

#[cfg(not(unix))]
pub(crate) fn terminal() -> Option<TerminalSize> {
    None
}

#[cfg(not(unix))]
pub(crate) fn error_terminal() -> Option<TerminalSize> {
    None
}

#[cfg(not(unix))]
pub(crate) fn raise_file_limit() {}

#[cfg(not(unix))]
pub(crate) fn file_limit() -> FileLimit {
    FileLimit {
        now: None,
        at_most: None,
    }
}

#[cfg(not(unix))]
pub(crate) fn free_bytes(_: &Path) -> io::Result<Option<u64>> {
    Ok(None)
}

#[cfg(not(unix))]
pub(crate) fn mode(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(not(unix))]
pub(crate) async fn nobody_reads() {
    std::future::pending().await
}
