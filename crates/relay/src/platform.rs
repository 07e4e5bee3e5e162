//! What depends on the operating system, beyond what the standard library and tokio even out.

/// The width of the terminal that standard output is, in characters.
#[cfg(unix)]
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
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
pub(crate) fn terminal_width() -> Option<usize> {
    None
}

#[cfg(not(unix))]
pub(crate) fn raise_file_limit() {}

#[cfg(not(unix))]
pub(crate) async fn nobody_reads() {
    std::future::pending().await
}
