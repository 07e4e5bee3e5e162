//! The task of one listener: hands over events one after the other, in the order of the log.
//!
//! The queue between the socket and the handler is bounded. A handler that is slower than the events are
//! falls behind: the socket stops queueing for it, and when the queue is empty it reads on from the log. So a slow
//! handler costs no memory, loses nothing, and holds up no other listener or session.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use relay_protocol::event::LoggedEvent;
use relay_protocol::selector::Selector;
use tokio::sync::{mpsc, oneshot};

use super::{Choice, Listen};
use crate::error::Result;
use crate::socket::{Command, ListenerId, WeakCommands};

/// Most events that wait for one handler.
const QUEUED_EVENTS: usize = 1_024;

/// A listener on its way to the socket.
pub(crate) struct NewListener {
    pub(crate) id: ListenerId,
    pub(crate) choice: Choice,
    pub(crate) selector: Selector,
    pub(crate) after: Option<u64>,
    pub(crate) queue: mpsc::Sender<LoggedEvent>,
    /// Set when the queue was full.
    pub(crate) behind: Arc<AtomicBool>,
    /// Told once events come, or why they don't.
    pub(crate) ready: oneshot::Sender<Result<()>>,
}

/// Ends a listener. Dropping it changes nothing: the listener goes on.
#[derive(Clone, Debug)]
pub struct Unsubscribe {
    pub(crate) id: ListenerId,
    pub(crate) commands: WeakCommands,
}

impl Unsubscribe {
    /// Ends the listener. What is already queued for its handler is dropped.
    pub fn unsubscribe(self) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(Command::Unlisten(self.id));
        }
    }
}

/// Makes a listener and starts its task, which ends with the listener.
pub(crate) fn listener<L, F, Fut>(
    listen: &L,
    selector: Selector,
    mut handler: F,
    commands: WeakCommands,
) -> (NewListener, oneshot::Receiver<Result<()>>)
where
    L: Listen,
    F: FnMut(L::Event) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (queue, mut queued) = mpsc::channel(QUEUED_EVENTS);
    let (ready, is_ready) = oneshot::channel();
    let id = ListenerId::next();
    let behind = Arc::new(AtomicBool::new(false));
    let new = NewListener {
        id,
        choice: listen.choice(),
        selector,
        after: listen.begins_after(),
        queue,
        behind: behind.clone(),
        ready,
    };
    let narrow = listen.narrow();
    tokio::spawn(async move {
        while let Some(event) = queued.recv().await {
            if let Some(event) = narrow(event) {
                hand_over(&mut handler, event).await;
            }
            if queued.is_empty() && behind.swap(false, Ordering::AcqRel) {
                catch_up(&commands, id);
            }
        }
    });
    (new, is_ready)
}

/// Calls the handler; one that panics misses this event only.
async fn hand_over<E, F, Fut>(handler: &mut F, event: E)
where
    F: FnMut(E) -> Fut,
    Fut: Future<Output = ()>,
{
    let handling = AssertUnwindSafe(async { handler(event).await }).catch_unwind();
    if handling.await.is_err() {
        tracing::error!("a listener panicked");
    }
}

fn catch_up(commands: &WeakCommands, id: ListenerId) {
    if let Some(commands) = commands.upgrade() {
        let _ = commands.send(Command::CaughtUp(id));
    }
}
