//! The actions that a socket handles: registering them, now and after every loss, and their calls.
//!
//! A call may come again while its handler runs, or after it has answered: the server can't know what got lost. It
//! is run once here, and its answer is said until the server has it.

use std::collections::{BTreeMap, HashMap, HashSet};

use relay_protocol::action::RegisterAction;
use relay_protocol::ids::InvocationId;
use relay_protocol::problem::Problem;
use relay_protocol::socket::{InvocationResult, InvokeFrame};
use tokio::sync::oneshot;

use super::HandlerKey;
use crate::action::Run;
use crate::error::{Error, Result};

/// A handler on its way to the socket.
pub(crate) struct NewHandler {
    pub(crate) key: HandlerKey,
    pub(crate) register: RegisterAction,
    pub(crate) run: Run,
    /// Told once the action is registered, or can't be.
    pub(crate) ready: oneshot::Sender<Result<()>>,
}

/// All handlers of a socket, and the calls that they have.
#[derive(Default)]
pub(super) struct Handlers {
    entries: BTreeMap<HandlerKey, Entry>,
    running: HashSet<InvocationId>,
    /// What the server may not have yet.
    unsaid: HashMap<InvocationId, InvocationResult>,
}

struct Entry {
    register: RegisterAction,
    run: Run,
    ready: Option<oneshot::Sender<Result<()>>>,
}

impl Handlers {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a handler; the frame that registers it.
    pub(super) fn add(&mut self, new: NewHandler) -> RegisterAction {
        let frame = new.register.clone();
        let entry = Entry {
            register: new.register,
            run: new.run,
            ready: Some(new.ready),
        };
        self.entries.insert(new.key, entry);
        frame
    }

    pub(super) fn remove(&mut self, key: HandlerKey) -> bool {
        self.entries.remove(&key).is_some()
    }

    /// The frames that register all of them.
    pub(super) fn registrations(&self) -> Vec<(HandlerKey, RegisterAction)> {
        let entries = self.entries.iter();
        entries
            .map(|(key, entry)| (*key, entry.register.clone()))
            .collect()
    }

    /// The answers that the server may not have yet.
    pub(super) fn unsaid(&self) -> Vec<InvocationResult> {
        self.unsaid.values().cloned().collect()
    }

    pub(super) fn registered(&mut self, key: HandlerKey) {
        let entry = self.entries.get_mut(&key);
        if let Some(ready) = entry.and_then(|entry| entry.ready.take()) {
            let _ = ready.send(Ok(()));
        }
    }

    /// An action can't be registered; false: it may be later.
    pub(super) fn refused(&mut self, key: HandlerKey, problem: Box<Problem>) -> bool {
        if problem.retryable {
            return false;
        }
        if let Some(entry) = self.entries.remove(&key) {
            entry.end(Error::Problem(problem));
        }
        true
    }

    pub(super) fn end_all(&mut self, error: &Error) {
        for (_, entry) in std::mem::take(&mut self.entries) {
            entry.end(error.clone());
        }
        self.unsaid.clear();
    }

    /// Begins a call, unless it is under way.
    pub(super) fn invoked(&mut self, frame: InvokeFrame) {
        let id = frame.invocation_id;
        let mut entries = self.entries.values();
        let entry = entries.find(|entry| entry.register.name == frame.action);
        let Some(entry) = entry else {
            tracing::debug!(frame.action, "a call of an action that is not here");
            return;
        };
        if !self.unsaid.contains_key(&id) && self.running.insert(id) {
            (entry.run)(frame);
        }
    }

    /// A handler has answered.
    pub(super) fn answered(&mut self, result: InvocationResult) {
        self.running.remove(&result.invocation_id);
        self.unsaid.insert(result.invocation_id, result);
    }

    /// The server has an answer, or does not want it.
    pub(super) fn said(&mut self, id: InvocationId) {
        self.unsaid.remove(&id);
    }
}

impl Entry {
    fn end(self, error: Error) {
        match self.ready {
            Some(ready) => drop(ready.send(Err(error))),
            None => tracing::error!(self.register.name, %error, "an action is handled no more"),
        }
    }
}
