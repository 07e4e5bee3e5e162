//! The sessions whose link a socket is: attaching them, now and after every loss, and telling them what comes.

use std::collections::HashMap;

use relay_protocol::ids::SessionId;
use relay_protocol::problem::Problem;
use relay_protocol::session::{Attach, AttachAttempt, Attached};
use relay_protocol::socket::{ControlFrame, DeliverFrame, ServerMessage};
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::SessionKey;
use crate::error::Error;
use crate::key::new_key;
use crate::session::{Order, Tag};

/// A session on its way to the socket.
pub(crate) struct NewSession {
    pub(crate) key: SessionKey,
    pub(crate) attach: Attach,
    pub(crate) inputs: mpsc::UnboundedSender<Input>,
}

/// What a session is told.
pub(crate) enum Input {
    /// It is attached, for the first time or again.
    Attached(Box<NowAttached>),
    /// Its link is lost; it will be attached again.
    Lost,
    /// It will not be attached again.
    Over(Error),
    /// A delivery for it.
    Deliver(Box<DeliverFrame>),
    /// An operation on it.
    Control(Box<ControlFrame>),
    /// The answer to something it said.
    Answer(Tag, Result<Box<ServerMessage>, Box<Problem>>),
    /// Its owner wants something.
    Order(Order),
}

/// What a session learns when it is attached.
pub(crate) struct NowAttached {
    /// The connection; what is said for it goes over no other.
    pub(crate) connection: u64,
    pub(crate) attached: Attached,
    pub(crate) clock: Clock,
}

/// The server's clock, as far as it can be known here. This machine's own may be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) server_time: Timestamp,
    pub(crate) read_at: Instant,
}

impl Clock {
    pub(crate) fn now(self) -> Timestamp {
        let passed = self.read_at.elapsed().as_millis();
        let passed = i64::try_from(passed).unwrap_or(i64::MAX);
        self.server_time.plus_millis(passed)
    }
}

/// All sessions of a socket.
#[derive(Default)]
pub(super) struct Sessions {
    entries: HashMap<SessionKey, Entry>,
    keys: HashMap<SessionId, SessionKey>,
}

struct Entry {
    attach: Attach,
    first_status: Option<AgentStatus>,
    id: Option<SessionId>,
    inputs: mpsc::UnboundedSender<Input>,
}

impl Entry {
    /// The frame that attaches it: one more attempt.
    fn attempt(&mut self) -> Attach {
        if let Some(attempt) = &mut self.attach.attempt {
            attempt.number += 1;
        }
        self.attach.clone()
    }
}

/// What follows from a refusal to attach.
pub(super) enum Refusal {
    /// To try again without the resume token, as a new session.
    Again(Box<Attach>),
    /// To connect again, later.
    Later,
    /// Nothing: the session was told that it is over.
    Over,
}

impl Sessions {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a session; the frame that attaches it.
    pub(super) fn add(&mut self, new: NewSession) -> Attach {
        let mut entry = Entry {
            first_status: new.attach.status,
            attach: new.attach,
            id: None,
            inputs: new.inputs,
        };
        // Without random bits the server takes what comes last for the newest.
        entry.attach.attempt = new_key().map(|client| AttachAttempt { client, number: 0 });
        let attach = entry.attempt();
        self.entries.insert(new.key, entry);
        attach
    }

    /// The frames that attach all of them.
    pub(super) fn attaches(&mut self) -> Vec<(SessionKey, Attach)> {
        let entries = self.entries.iter_mut();
        entries
            .map(|(key, entry)| (*key, entry.attempt()))
            .collect()
    }

    pub(super) fn attached(&mut self, key: SessionKey, now: NowAttached) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        let id = now.attached.session_id;
        if let Some(old) = entry.id.replace(id) {
            self.keys.remove(&old);
        }
        self.keys.insert(id, key);
        entry.attach.resume = Some(now.attached.resume_token.clone());
        // It goes on with the status that the server knows.
        entry.attach.status = None;
        let _ = entry.inputs.send(Input::Attached(Box::new(now)));
    }

    pub(super) fn refused(&mut self, key: SessionKey, problem: Box<Problem>) -> Refusal {
        let Some(entry) = self.entries.get_mut(&key) else {
            return Refusal::Over;
        };
        if problem.retryable {
            return Refusal::Later;
        }
        if entry.attach.resume.take().is_some() {
            tracing::info!(%problem.detail, "a session can't go on; a new one begins");
            entry.attach.status = entry.first_status;
            return Refusal::Again(Box::new(entry.attempt()));
        }
        self.end(key, Error::Problem(problem));
        Refusal::Over
    }

    /// Tells a session that it is over and forgets it.
    pub(super) fn end(&mut self, key: SessionKey, error: Error) {
        if let Some(entry) = self.remove(key) {
            let _ = entry.inputs.send(Input::Over(error));
        }
    }

    pub(super) fn detach(&mut self, key: SessionKey) {
        self.remove(key);
    }

    fn remove(&mut self, key: SessionKey) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        if let Some(id) = entry.id {
            self.keys.remove(&id);
        }
        Some(entry)
    }

    pub(super) fn end_all(&mut self, error: &Error) {
        let keys: Vec<_> = self.entries.keys().copied().collect();
        for key in keys {
            self.end(key, error.clone());
        }
    }

    /// Those that were attached go on over another link.
    pub(super) fn all_superseded(&mut self) {
        let keys: Vec<_> = self.keys.values().copied().collect();
        for key in keys {
            self.end(key, Error::Superseded);
        }
    }

    pub(super) fn superseded(&mut self, id: SessionId) {
        if let Some(key) = self.keys.get(&id).copied() {
            self.end(key, Error::Superseded);
        }
    }

    /// Tells all of them that the link is lost.
    pub(super) fn all_lost(&mut self) {
        self.keys.clear();
        for entry in self.entries.values_mut() {
            entry.id = None;
            let _ = entry.inputs.send(Input::Lost);
        }
    }

    /// Tells a session something.
    pub(super) fn tell(&self, key: SessionKey, input: Input) {
        if let Some(entry) = self.entries.get(&key) {
            let _ = entry.inputs.send(input);
        }
    }

    pub(super) fn tell_by_id(&self, id: SessionId, input: Input) {
        match self.keys.get(&id) {
            Some(key) => self.tell(*key, input),
            None => {
                tracing::debug!(session.id = %id, "something came for a session that is not here");
            }
        }
    }
}
