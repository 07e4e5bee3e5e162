//! The task that owns an agent's process: it notices its end, or brings it about.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::HostError;
use super::inbound::Inbound;
use super::shared::Shared;
use crate::acp::rpc::Connection;
use crate::child::{Child, Exit, StopGrace};

/// How long an agent that has ended its output may take to end itself.
const EXIT_WAIT: Duration = Duration::from_secs(1);

/// How long its last words may take to be read when it has ended.
const DRAIN_WAIT: Duration = Duration::from_secs(2);

/// How an agent ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// How its process ended, where there was one.
    pub exit: Option<Exit>,
    /// What it said last on standard error, without secrets.
    pub stderr: String,
}

impl Ended {
    pub(super) fn error(&self, agent: &str) -> HostError {
        HostError::Closed {
            agent: agent.to_owned(),
            exit: self.exit,
            stderr: self.stderr.clone(),
        }
    }
}

/// Stops the process when it is dropped.
pub(super) struct Guard {
    pub(super) pid: Option<u32>,
    stop: Mutex<Option<oneshot::Sender<StopGrace>>>,
}

impl Guard {
    /// Stops the process. The first word counts.
    pub(super) fn stop(&self, grace: StopGrace) {
        let stop = self
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(stop) = stop {
            let _ = stop.send(grace);
        }
    }
}

/// Starts the tasks of an agent.
pub(super) struct Running;

impl Running {
    pub(super) fn child(
        mut child: Child,
        (shared, connection): (Shared, Connection),
    ) -> (Arc<Shared>, Guard) {
        let pid = Some(child.pid());
        shared.set_stderr(child.stderr().clone());
        let shared = Arc::new(shared);
        let (stop, stopped) = oneshot::channel();
        let (close, closed) = oneshot::channel();
        // Both are there: nobody has taken them.
        let streams = child.take_stdout().zip(child.take_stdin());
        let talking = streams.map(|(stdout, stdin)| {
            let inbound = Inbound::new(shared.clone());
            tokio::spawn(connection.run(stdout, stdin, Arc::new(inbound), closed))
        });
        tokio::spawn(own(child, talking, close, stopped, shared.clone()));
        (shared, Guard::new(pid, stop))
    }

    pub(super) fn streams(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
        (shared, connection): (Shared, Connection),
    ) -> (Arc<Shared>, Guard) {
        let shared = Arc::new(shared);
        let (stop, stopped) = oneshot::channel();
        let (close, closed) = oneshot::channel();
        let inbound = Arc::new(Inbound::new(shared.clone()));
        let talking = connection.run(input, output, inbound, closed);
        let ending = shared.clone();
        tokio::spawn(async move {
            let mut talking = std::pin::pin!(talking);
            tokio::select! {
                () = &mut talking => {}
                grace = stopped => {
                    drop(close);
                    let _ = timeout(grace.unwrap_or(StopGrace::NONE).eof, talking).await;
                }
            }
            ending.close(Ended::default());
        });
        (shared, Guard::new(None, stop))
    }
}

impl Guard {
    const fn new(pid: Option<u32>, stop: oneshot::Sender<StopGrace>) -> Self {
        Self {
            pid,
            stop: Mutex::new(Some(stop)),
        }
    }
}

async fn own(
    child: Child,
    talking: Option<JoinHandle<()>>,
    close: oneshot::Sender<()>,
    stopped: oneshot::Receiver<StopGrace>,
    shared: Arc<Shared>,
) {
    let abort = talking.as_ref().map(JoinHandle::abort_handle);
    let mut talking = std::pin::pin!(async {
        if let Some(talking) = talking {
            let _ = talking.await;
        }
    });
    let mut exited = std::pin::pin!(child.exited());
    let exit = tokio::select! {
        // An agent without output is of no use, whether its process ends or not.
        () = &mut talking => match timeout(EXIT_WAIT, child.exited()).await {
            Ok(exit) => exit,
            Err(_) => child.stop_closing(close, shared.options.grace).await,
        },
        exit = &mut exited => {
            let _ = timeout(DRAIN_WAIT, &mut talking).await;
            exit
        }
        grace = stopped => {
            // An error means that the last handle was dropped.
            let grace = grace.unwrap_or(StopGrace::NONE);
            let exit = child.stop_closing(close, grace).await;
            let _ = timeout(DRAIN_WAIT, &mut talking).await;
            exit
        }
    };
    if let Some(abort) = abort {
        abort.abort();
    }
    shared.terminals.clear();
    shared.close(Ended {
        exit: Some(exit),
        stderr: shared.stderr(),
    });
}
