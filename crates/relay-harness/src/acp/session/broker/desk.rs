//! What is known of one session that asks: through whom, under which ids, and what was allowed and runs.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use relay_protocol::ids::{PermissionId, RunId};
use relay_protocol::limits::CALL_ID_BYTES;
use relay_protocol::permission::ExecutionState;
use relay_sdk::{AttachedSession, Client, Question};
use tokio::sync::{mpsc, oneshot};

use super::Work;
use super::form::beginning;
use crate::acp::content::PromptContent;
use crate::acp::event::ToolCall;
use crate::acp::session::driver::Order;
use crate::acp::session::reporter::shown;
use crate::guidance;

/// Most ids of calls that are remembered; after that every question gets a number.
const MAX_IDS: usize = 10_000;

/// Most calls that are followed to their end.
const MAX_RUNNING: usize = 1_024;

/// Through whom a session asks.
pub(in crate::acp::session) struct Through {
    pub(in crate::acp::session) attached: Weak<AttachedSession>,
    pub(in crate::acp::session) orders: mpsc::Sender<Order>,
    /// The run whose rules hold for its calls, beside those of the workspace.
    pub(in crate::acp::session) run: Option<RunId>,
    /// Who fetches what is to be done instead of a refused call, where that does not come as a message.
    pub(in crate::acp::session) guided_by: Option<Client>,
}

pub(in crate::acp::session) struct Desk {
    through: Through,
    work: Work,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ids: HashSet<String>,
    asked: u64,
    /// What was allowed and has no end yet, by the agent's id of the call.
    running: HashMap<String, Question>,
}

impl Desk {
    pub(super) fn new(through: Through, work: Work) -> Self {
        Self {
            through,
            work,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session on the relay, while it is there.
    pub(super) fn attached(&self) -> Option<Arc<AttachedSession>> {
        self.through.attached.upgrade()
    }

    /// The run in which it asks.
    pub(super) const fn run(&self) -> Option<RunId> {
        self.through.run
    }

    /// What whoever refused a call wants to be done instead, where that does not come as a message. It is the next prompt then.
    pub(super) async fn guidance(&self, question: &Question) -> Option<String> {
        let client = self.through.guided_by.as_ref()?;
        let text = guidance::fetch(client, question.record().outcome.as_ref()).await?;
        let content = vec![PromptContent::Text(text.clone())];
        // Whether it was sent is seen in the session.
        let (reply, _) = oneshot::channel();
        let order = Order::Prompt { content, reply };
        // Without the task of the session there is nobody to tell.
        let _ = self.through.orders.send(order).await;
        Some(text)
    }

    /// The id under which a call is asked about. On the relay one id means one call, decided once; agents use theirs again.
    pub(super) fn id_of(&self, call: &str) -> String {
        let mut inner = self.inner();
        inner.asked += 1;
        let fits = !call.is_empty() && call.len() <= CALL_ID_BYTES;
        let id = call.to_owned();
        if fits && inner.ids.len() < MAX_IDS && inner.ids.insert(id.clone()) {
            return id;
        }
        let number = format!("#{}", inner.asked);
        let id = format!("{}{number}", beginning(call, CALL_ID_BYTES - number.len()));
        inner.ids.insert(id.clone());
        id
    }

    /// A call was allowed and is about to run.
    pub(super) fn started(&self, call: &str, question: Question) {
        let mut inner = self.inner();
        let before = match inner.running.len() < MAX_RUNNING {
            true => inner.running.insert(call.to_owned(), question),
            false => Some(question),
        };
        drop(inner);
        if let Some(question) = before {
            self.finish(question, ExecutionState::Unknown, None);
        }
    }

    /// A call does not run after all.
    pub(super) fn forget(&self, call: &str, id: PermissionId) {
        let mut inner = self.inner();
        if inner.running.get(call).is_some_and(|it| it.id() == id) {
            inner.running.remove(call);
        }
    }

    /// The agent tells of a call.
    pub(in crate::acp::session) fn observe(&self, call: &ToolCall) {
        let (state, error) = match call.status.as_deref() {
            Some("completed") => (ExecutionState::Completed, None),
            Some("failed") => (ExecutionState::Failed, Some(shown(call))),
            _ => return,
        };
        let running = self.inner().running.remove(&call.id);
        if let Some(question) = running {
            self.finish(question, state, error);
        }
    }

    /// A turn is over, or the agent is: how calls ended that it has not told of is not known.
    pub(in crate::acp::session) fn close(&self) {
        let running = std::mem::take(&mut self.inner().running);
        for question in running.into_values() {
            self.finish(question, ExecutionState::Unknown, None);
        }
    }

    /// Ends the turn.
    pub(super) fn stop_turn(&self) {
        let orders = &self.through.orders;
        if orders.try_send(Order::Cancel).is_err() {
            let orders = orders.clone();
            self.work.begin(async move {
                let _ = orders.send(Order::Cancel).await;
            });
        }
    }

    fn finish(&self, question: Question, state: ExecutionState, error: Option<String>) {
        self.work.begin(async move {
            let error = error.as_deref();
            if let Err(error) = question.finish(state, error).await {
                tracing::warn!(%error, permission.id = %question.id(), "how a tool ended was not stored");
            }
        });
    }
}
