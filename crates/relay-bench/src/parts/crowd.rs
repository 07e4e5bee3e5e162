//! Many sockets that wait for the same thing, and the moment when the last one has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::plain::{LISTEN, PlainServer};
use crate::wire::WebSocket;

/// Sockets that are opened at a time.
const OPENERS: usize = 32;

/// How long the last one may take before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens so many sockets, some at a time.
pub(super) async fn open_all<F>(
    count: usize,
    open: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Result<Vec<WebSocket>>
where
    F: Future<Output = Result<WebSocket>> + Send,
{
    let mut opening = JoinSet::new();
    for first in 0..OPENERS.min(count) {
        let open = open.clone();
        opening.spawn(async move {
            let mut sockets = Vec::new();
            for number in (first..count).step_by(OPENERS) {
                sockets.push(open(number).await?);
            }
            anyhow::Ok(sockets)
        });
    }
    let mut all = Vec::with_capacity(count);
    while let Some(sockets) = opening.join_next().await {
        all.extend(sockets??);
    }
    Ok(all)
}

/// Counts arrivals, and tells when all are there.
#[derive(Clone)]
pub(super) struct Arrivals {
    left: Arc<AtomicUsize>,
    all: usize,
    bytes: Arc<AtomicUsize>,
    last: mpsc::UnboundedSender<Instant>,
}

/// Hears when all have arrived.
pub(super) struct LastArrival(mpsc::UnboundedReceiver<Instant>);

impl Arrivals {
    /// For so many at a time, again and again.
    pub(super) fn of(all: usize) -> (Self, LastArrival) {
        let (last, heard) = mpsc::unbounded_channel();
        let arrivals = Self {
            left: Arc::new(AtomicUsize::new(all)),
            all,
            bytes: Arc::default(),
            last,
        };
        (arrivals, LastArrival(heard))
    }

    /// One more has it: so many bytes.
    pub(super) fn arrived(&self, bytes: usize) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let now = Instant::now();
            self.bytes.store(bytes, Ordering::Relaxed);
            self.left.store(self.all, Ordering::Relaxed);
            let _ = self.last.send(now);
        }
    }

    /// The bytes of what came last.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl LastArrival {
    /// Waits until all have it.
    pub(super) async fn wait(&mut self) -> Result<Instant> {
        let heard = tokio::time::timeout(PATIENCE, self.0.recv()).await;
        heard.ok().flatten().context("not everybody was reached")
    }
}

/// Sockets that listen to a plain server which writes the same bytes to all.
pub(super) struct PlainCrowd {
    caller: WebSocket,
    last: LastArrival,
    _sockets: JoinSet<Result<()>>,
    _server: PlainServer,
}

impl PlainCrowd {
    pub(super) async fn open(count: usize) -> Result<Self> {
        let server = PlainServer::start()?;
        let address = server.address;
        let sockets = open_all(count, move |_| async move {
            let mut socket = WebSocket::connect(address, "/", "").await?;
            socket.say(LISTEN).await?;
            socket.expect(LISTEN).await?;
            Ok(socket)
        });
        let (arrivals, last) = Arrivals::of(count);
        let mut listening = JoinSet::new();
        for socket in sockets.await? {
            listening.spawn(listen(socket, b"", arrivals.clone()));
        }
        Ok(Self {
            caller: WebSocket::connect(address, "/", "").await?,
            last,
            _sockets: listening,
            _server: server,
        })
    }

    /// Has so many bytes written to all; how long until the last one had them.
    pub(super) async fn cast(&mut self, bytes: usize) -> Result<Duration> {
        let begun = Instant::now();
        let frame = format!("{}{bytes}", crate::plain::CAST);
        self.caller.say(&frame).await?;
        Ok(self.last.wait().await? - begun)
    }
}

/// Counts the frames that begin in this way.
pub(super) async fn listen(
    mut socket: WebSocket,
    beginning: &'static [u8],
    arrivals: Arrivals,
) -> Result<()> {
    loop {
        let frame = socket.next().await?;
        if frame.starts_with(beginning) {
            arrivals.arrived(frame.len());
        }
    }
}
