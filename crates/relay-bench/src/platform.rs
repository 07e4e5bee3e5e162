//! What depends on the operating system, but for what `machine` reads from `/proc`.

pub(crate) use here::{allow_many_files, set_apart, terminated};

#[cfg(unix)]
mod here {
    use rustix::process::{Resource, getrlimit, setrlimit};
    use tokio::process::Command;
    use tokio::signal::unix::{SignalKind, signal};

    /// Every connection is a file, and there are ten thousand of them; the server inherits the limit.
    pub(crate) fn allow_many_files() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Without it the large parts say what is missing.
        let _ = setrlimit(Resource::Nofile, limit);
    }

    /// Keeps a program out of the terminal's reach: Ctrl-C is for whoever measures. A server that ended by itself would look like
    /// a measurement that failed.
    pub(crate) fn set_apart(command: &mut Command) {
        command.process_group(0);
    }

    /// Waits for what service managers send.
    pub(crate) async fn terminated() -> std::io::Result<()> {
        signal(SignalKind::terminate())?.recv().await;
        Ok(())
    }
}

#[cfg(not(unix))]
mod here {
    use tokio::process::Command;

    /// Ctrl-C ends everything that was started, as well.
    pub(crate) fn set_apart(_: &mut Command) {}

    /// There is no limit to raise.
    pub(crate) fn allow_many_files() {}

    /// Nobody sends anything but Ctrl-C.
    pub(crate) async fn terminated() -> std::io::Result<()> {
        std::future::pending().await
    }
}
