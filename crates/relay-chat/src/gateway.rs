//! The operations of the gateway.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use relay_protocol::chat::ModelList;
use relay_protocol::ids::{PermissionId, SessionId};
use relay_protocol::permission::ResolvePermission;
use relay_protocol::time::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::RelayAnswer;
use crate::chats::{Chat, Chats};
use crate::refusal::Refusal;
use crate::request::ChatRequest;
use crate::viewer::Viewer;

/// What answers in chats.
pub trait Drives: Send + Sync + 'static {
    /// Whoever asks: what the server found out about them.
    type Visitor: Send + 'static;

    /// The models that can be asked for.
    fn models(&self) -> ModelList;

    /// Makes a chat ready. What can be wrong with it is said here; nothing runs yet.
    fn prepare(
        &self,
        request: ChatRequest,
        visitor: Self::Visitor,
    ) -> BoxFuture<'static, Result<Begun, Refusal>>;
}

/// A chat that is ready.
pub struct Begun {
    /// Carries out what was decided.
    pub decides: Arc<dyn Decides>,
    /// Runs it to its end. What happens is told to the [`Chat`]; it ends soon once that is cancelled.
    pub run: Starting,
}

/// Begins to run.
pub type Starting = Box<dyn FnOnce(Arc<Chat>) -> BoxFuture<'static, ()> + Send>;

/// A decision on its way.
pub type Deciding<'a> = BoxFuture<'a, Result<(), Refusal>>;

/// Carries decisions out.
pub trait Decides: Send + Sync + 'static {
    /// Decides about a request of the chat.
    fn decide(&self, id: PermissionId, decision: ResolvePermission) -> Deciding<'_>;
}

/// The gateway. Clones are the same.
pub struct Gateway<D> {
    inner: Arc<Inner<D>>,
}

struct Inner<D> {
    drives: D,
    chats: Arc<Chats>,
    stopping: CancellationToken,
    running: TaskTracker,
}

impl<D> Clone for Gateway<D> {
    fn clone(&self) -> Self {
        let inner = self.inner.clone();
        Self { inner }
    }
}

impl<D: Drives> Gateway<D> {
    /// A gateway to this.
    pub fn new(drives: D) -> Self {
        let inner = Arc::new(Inner {
            drives,
            chats: Arc::default(),
            stopping: CancellationToken::new(),
            running: TaskTracker::new(),
        });
        Self { inner }
    }

    /// `GET /models`.
    #[must_use]
    pub fn models(&self) -> ModelList {
        self.inner.drives.models()
    }

    /// `POST /chat`: begins, and looks.
    pub async fn begin(
        &self,
        body: &[u8],
        visitor: D::Visitor,
        now: Timestamp,
    ) -> Result<Viewer, Refusal> {
        let inner = &self.inner;
        if inner.stopping.is_cancelled() {
            return Err(Refusal::stopping());
        }
        let default = inner.drives.models().default_model;
        let request = ChatRequest::read(body, default.as_deref())?;
        let on_disconnect = request.on_disconnect;
        let begun = inner.drives.prepare(request, visitor).await?;
        let id = SessionId::new(now, random()?);
        let cancelled = inner.stopping.child_token();
        let chat = inner
            .chats
            .open(id, on_disconnect, begun.decides, cancelled)?;
        chat.log.add(
            "connected",
            &json!({ "type": "connected", "sessionId": id }),
        );
        let viewer = Viewer::from_the_beginning(chat.clone());
        inner.running.spawn(run(chat, begun.run));
        Ok(viewer)
    }

    /// `GET /chat/{sessionId}/events`: looks again, after the event that was seen last.
    pub fn look(&self, session_id: &str, seen: Option<&str>) -> Result<Viewer, Refusal> {
        let seen = match seen {
            None => 0,
            Some(seen) => seen
                .trim()
                .parse()
                .map_err(|_| Refusal::shape("Last-Event-ID", "the number of an event"))?,
        };
        let chat = self
            .inner
            .chats
            .find(session_id)
            .ok_or_else(Refusal::no_session)?;
        Ok(Viewer::after(chat, seen))
    }

    /// `POST /chat/relay/{relayId}`.
    pub async fn resolve(&self, relay_id: &str, body: &[u8]) -> Result<Value, Refusal> {
        let answer = RelayAnswer::read(body)?;
        let chat = self.inner.chats.find(&answer.session_id);
        let chat = chat.filter(|chat| !chat.is_over() && !chat.cancelled.is_cancelled());
        let chat = chat.ok_or_else(Refusal::no_session)?;
        let id: PermissionId = relay_id.parse().map_err(|_| Refusal::no_relay())?;
        if !chat.log.has_asked(relay_id) {
            return Err(Refusal::no_relay());
        }
        chat.decides.decide(id, answer.decision).await?;
        Ok(json!({ "success": true }))
    }

    /// `DELETE /chat/{sessionId}`: cancels it.
    pub fn cancel(&self, session_id: &str) -> Result<(), Refusal> {
        let chat = self
            .inner
            .chats
            .find(session_id)
            .ok_or_else(Refusal::no_session)?;
        chat.cancelled.cancel();
        Ok(())
    }

    /// Cancels all chats and waits for their ends; no more are begun.
    pub async fn stop(&self) {
        // Those of all chats are below it.
        self.inner.stopping.cancel();
        self.inner.running.close();
        self.inner.running.wait().await;
    }
}

/// Runs a chat to its end, which comes whatever goes wrong: those who look at it would wait for ever.
async fn run(chat: Arc<Chat>, start: Starting) {
    let running = AssertUnwindSafe(async { start(chat.clone()).await });
    if running.catch_unwind().await.is_err() {
        tracing::error!("a chat broke down");
        let told = json!({ "type": "error", "message": "the server made a mistake" });
        chat.tell("error", &told);
    }
    chat.over();
}

/// Bits that nobody can guess: the name of a chat lets decide in it.
fn random() -> Result<u128, Refusal> {
    let mut bits = [0; 16];
    match getrandom::fill(&mut bits) {
        Ok(()) => Ok(u128::from_be_bytes(bits)),
        Err(_) => Err(Refusal::no_random_bits()),
    }
}
