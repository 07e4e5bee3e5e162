//! The chats that there are, and who looks at them. A chat that nobody looks at is cancelled, at once or when its time is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use relay_protocol::ids::SessionId;
use relay_protocol::limits::CHATS;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::gateway::Decides;
use crate::log::ChatLog;
use crate::refusal::Refusal;
use crate::request::OnDisconnect;

/// One chat.
pub struct Chat {
    /// Its name. Whoever knows it began the chat or was told by who did, and may decide; nothing else shows it.
    pub(crate) id: SessionId,
    pub(crate) log: ChatLog,
    /// Cancelled, it ends.
    pub(crate) cancelled: CancellationToken,
    pub(crate) decides: Arc<dyn Decides>,
    on_disconnect: OnDisconnect,
    lookers: Mutex<Lookers>,
    chats: Arc<Chats>,
}

#[derive(Default)]
struct Lookers {
    count: usize,
    /// What cancels it when its time is over.
    leaving: Option<AbortOnDropHandle<()>>,
}

/// Somebody looks at a chat, until this is dropped.
#[derive(Debug)]
pub(crate) struct Looking(Arc<Chat>);

/// All chats.
#[derive(Default)]
pub(crate) struct Chats {
    chats: Mutex<HashMap<SessionId, Arc<Chat>>>,
}

impl Chats {
    /// Adds a chat, which is there from now on.
    pub(crate) fn open(
        self: &Arc<Self>,
        id: SessionId,
        on_disconnect: OnDisconnect,
        decides: Arc<dyn Decides>,
        cancelled: CancellationToken,
    ) -> Result<Arc<Chat>, Refusal> {
        let chat = Arc::new(Chat {
            id,
            log: ChatLog::new(),
            cancelled,
            decides,
            on_disconnect,
            lookers: Mutex::default(),
            chats: self.clone(),
        });
        let mut chats = self.chats();
        if chats.len() >= CHATS {
            return Err(Refusal::too_many("chats", CHATS));
        }
        chats.insert(id, chat.clone());
        Ok(chat)
    }

    fn chats(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Chat>>> {
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chat by its name, as a client writes it.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Chat>> {
        let id: SessionId = id.parse().ok()?;
        self.chats().get(&id).cloned()
    }

    fn forget(&self, id: SessionId) {
        let forgotten = self.chats().remove(&id);
        // Dropped outside of the lock.
        drop(forgotten);
    }
}

impl Chat {
    /// Tells of something that happened, which is a JSON object with this `type`.
    pub fn tell(&self, kind: &str, event: &impl Serialize) {
        self.log.add(kind, event);
    }

    /// Tells of a question that waits for a decision.
    pub fn ask(&self, relay_id: &str, event: &impl Serialize) {
        self.log.ask(relay_id, event);
    }

    /// Tells of a question that waits no more.
    pub fn resolve(&self, relay_id: &str, event: &impl Serialize) {
        self.log.settle(relay_id);
        self.log.add("relay_resolved", event);
    }

    /// Waits until it is cancelled.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Cancelled with it.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Somebody looks from now on.
    pub(crate) fn look(chat: &Arc<Self>) -> Looking {
        let mut lookers = chat.lookers();
        lookers.count += 1;
        lookers.leaving = None;
        drop(lookers);
        Looking(chat.clone())
    }

    fn lookers(&self) -> MutexGuard<'_, Lookers> {
        self.lookers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run is over: nothing can be decided any more.
    pub(crate) fn is_over(&self) -> bool {
        self.log.head().borrow().is_over
    }

    /// Nothing more will happen in it. Whoever looks sees the rest.
    pub(crate) fn over(&self) {
        self.log.end();
        let lookers = self.lookers();
        let is_seen = lookers.count > 0 || lookers.leaving.is_some();
        drop(lookers);
        if !is_seen {
            self.chats.forget(self.id);
        }
    }

    /// Nobody looks any more. Whoever left it held may want to see its end, too.
    fn left_alone(chat: Arc<Self>, lookers: &mut Lookers) {
        let runtime = Handle::try_current();
        match (chat.on_disconnect, runtime) {
            (OnDisconnect::Hold(time), Ok(runtime)) => {
                let leaving = runtime.spawn(async move {
                    tokio::time::sleep(time).await;
                    chat.give_up();
                });
                lookers.leaving = Some(AbortOnDropHandle::new(leaving));
            }
            // At once; and without a runtime the whole program ends.
            _ => chat.give_up(),
        }
    }

    fn give_up(&self) {
        self.cancelled.cancel();
        self.chats.forget(self.id);
    }
}

impl std::fmt::Debug for Chat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its name lets decide, so it is not shown.
        f.debug_struct("Chat")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let chat = self.0.clone();
        let mut lookers = self.0.lookers();
        lookers.count -= 1;
        if lookers.count == 0 {
            Chat::left_alone(chat, &mut lookers);
        }
    }
}
