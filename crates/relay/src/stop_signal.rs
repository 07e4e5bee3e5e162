//! What tells a command that goes on to stop: Ctrl-C, or the signal that service managers send.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;

#[cfg(unix)]
use anyhow::Context as _;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens to those signals.
pub(crate) struct StopSignal {
    #[cfg(unix)]
    interrupted: Signal,
    #[cfg(unix)]
    terminated: Signal,
}

impl StopSignal {
    /// Listens from now on; until then a signal ends the process on the spot.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("can't listen to signals");
        Ok(Self {
            interrupted: listen(SignalKind::interrupt())?,
            terminated: listen(SignalKind::terminate())?,
        })
    }

    /// Waits for one.
    #[cfg(unix)]
    pub(crate) async fn come(mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => end_line(),
            _ = self.terminated.recv() => {}
        }
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {})
    }

    /// Waits for one.
    #[cfg(not(unix))]
    pub(crate) async fn come(self) {
        let _ = tokio::signal::ctrl_c().await;
        end_line();
    }
}

/// A terminal shows `^C` where the cursor is; what is said next, by this program or the shell, is to begin on a
/// line of its own.
fn end_line() {
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = writeln!(stderr);
    }
}
