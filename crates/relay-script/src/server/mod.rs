//! A script behind the streams of real providers, on a loopback port.
//!
//! It speaks Anthropic Messages, OpenAI Chat Completions, OpenAI Responses and Gemini, streamed or whole, and takes every key.
//! Each request is kept, so that a test can ask, or wait for, what a program told its model. It is for tests and
//! demonstrations: it listens on this machine only, and everybody who reaches it may ask.

mod anthropic;
mod api;
mod chat;
mod gemini;
mod play;
mod record;
mod responses;
mod routes;
mod shape;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;
use tokio::sync::watch;

pub use api::Api;
pub use record::{Ending, Recorded};

use crate::{Gates, Player, Request, Script, Turn};
use record::Records;

/// A server that plays a script until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Closing it ends everything that still runs.
    _stop: watch::Sender<()>,
}

/// What the handle and the connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    player: Mutex<Player>,
    pub(crate) records: Records,
    pub(crate) gates: Gates,
    pub(crate) stopped: watch::Receiver<()>,
}

impl Server {
    /// Starts on a free port.
    ///
    /// # Errors
    ///
    /// No port could be opened.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at(0, script).await
    }

    /// Starts on this port of the loopback interface.
    ///
    /// # Errors
    ///
    /// The port could not be opened.
    pub async fn start_at(port: u16, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(());
        let shared = Arc::new(Shared {
            player: Mutex::new(Player::new(script)),
            records: Records::default(),
            gates: Gates::default(),
            stopped: stopped.clone(),
        });
        let router = routes::router(shared.clone());
        tokio::spawn(async move {
            let serving = axum::serve(listener, router);
            // Ends when the handle is dropped; what it reports then is of no use to anybody.
            let _ = serving.with_graceful_shutdown(closed(stopped)).await;
        });
        Ok(Self {
            address,
            shared,
            _stop: stop,
        })
    }

    /// Where it is, without a slash at the end. OpenAI clients want `/v1` after it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Begins another script, from its start.
    pub fn play(&self, script: Script) {
        *self.shared.player() = Player::new(script);
    }

    /// Lets replies go on that wait at this gate.
    pub fn open(&self, gate: &str) {
        self.shared.gates.open(gate);
    }

    /// All requests for a model's answer so far, oldest first.
    pub fn requests(&self) -> Vec<Arc<Recorded>> {
        self.shared.records.all()
    }

    /// Waits for the nth request, counted from 1, in whose conversation these words are; past ones count.
    pub async fn nth_saying(&self, nth: usize, words: &str) -> Arc<Recorded> {
        let says = |recorded: &Recorded| recorded.request.says(words);
        self.shared.records.nth(nth, says).await
    }

    /// Waits for the first request that is like this; past ones count.
    pub async fn first(&self, like: impl Fn(&Recorded) -> bool) -> Arc<Recorded> {
        self.shared.records.nth(1, like).await
    }

    /// Waits for the first request after the nth of all that is like this.
    pub async fn first_after(
        &self,
        after: usize,
        like: impl Fn(&Recorded) -> bool,
    ) -> Arc<Recorded> {
        let later = |recorded: &Recorded| recorded.number > after && like(recorded);
        self.shared.records.nth(1, later).await
    }

    /// Paths that were asked for and don't exist here, with their methods.
    pub fn unknown(&self) -> Vec<String> {
        self.shared.records.unknown()
    }
}

impl Shared {
    fn player(&self) -> MutexGuard<'_, Player> {
        // A player is whole between its calls, whatever happened to its last user.
        self.player.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next(&self, request: &Request) -> Turn {
        self.player().next(request)
    }
}

/// Ends when the other side is dropped.
pub(crate) async fn closed(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}
