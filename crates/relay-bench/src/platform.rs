//! What depends on the operating system, but for what `machine` reads from `/proc`.

pub(crate) use here::{allow_many_files, terminated};

#[cfg(unix)]
mod here {
    use rustix::process::{Resource, getrlimit, setrlimit};
    use tokio::signal::unix::{SignalKind, signal};

    /// Every connection is a file, and there are ten thousand of them; the server inherits the limit.
    pub(crate) fn allow_many_files() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // Without it the large parts say what is missing.
        let _ = setrlimit(Resource::Nofile, limit);
    }

    /// Waits for what service managers send.
    pub(crate) async fn terminated() -> std::io::Result<()> {
        signal(SignalKind::terminate())?.recv().await;
        Ok(())
    }
}

#[cfg(not(unix))]
mod here {
    /// There is no limit to raise.
    pub(crate) fn allow_many_files() {}

    /// Nobody sends anything but Ctrl-C.
    pub(crate) async fn terminated() -> std::io::Result<()> {
        std::future::pending().await
    }
}
