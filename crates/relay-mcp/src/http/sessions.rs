//! The sessions of clients that began with `initialize`: whose they are, how many there may be, when they end.
//!
//! The library keeps what a session is ([`LocalSessionManager`]); the registry beside it knows who opened it, how many streams of it
//! are open and when it was last used. A session with an open stream does not rest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures_util::{Stream, StreamExt as _};
use relay_protocol::ids::{AgentId, SessionId as RelaySession};
use relay_protocol::problem::{ErrorCode, Problem};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};

use super::HttpLimits;
use super::leaving::Outgoing;

/// Who may use a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) agent: AgentId,
    pub(super) token: String,
    pub(super) session: Option<RelaySession>,
}

/// All sessions.
pub(super) struct Sessions {
    limits: HttpLimits,
    local: LocalSessionManager,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<SessionId, Entry>,
    /// Places of sessions that are about to open, by their agents.
    reserved: Vec<AgentId>,
}

struct Entry {
    owner: Arc<Owner>,
    streams: usize,
    used: Instant,
}

/// Where a session for an agent can be.
#[derive(Debug, PartialEq, Eq)]
enum Room {
    Free,
    /// Where another one of the agent is, which rests.
    InsteadOf(SessionId),
    /// The agent has as many as it may, all in use.
    NoneForAgent,
    /// There are as many as there may be.
    None,
}

impl State {
    /// Where one more session of this agent can be.
    fn room(&self, agent: AgentId, limits: HttpLimits) -> Room {
        let own = self.open.iter().filter(|(_, it)| it.owner.agent == agent);
        let reserved = self.reserved.iter().filter(|it| **it == agent);
        if own.clone().count() + reserved.count() >= limits.per_agent {
            let resting = own.filter(|(_, entry)| entry.streams == 0);
            let longest = resting.min_by_key(|(_, entry)| entry.used);
            return longest.map_or(Room::NoneForAgent, |(id, _)| Room::InsteadOf(id.clone()));
        }
        match self.open.len() + self.reserved.len() < limits.sessions {
            true => Room::Free,
            false => Room::None,
        }
    }

    /// Takes out those that have rested for too long.
    fn rested(&mut self, now: Instant, limits: HttpLimits) -> Vec<SessionId> {
        let has_rested = |entry: &Entry| {
            entry.streams == 0 && now.saturating_duration_since(entry.used) >= limits.idle
        };
        let rested = self.open.extract_if(|_, entry| has_rested(entry));
        rested.map(|(id, _)| id).collect()
    }
}

impl Sessions {
    pub(super) fn new(limits: HttpLimits) -> Self {
        let mut local = LocalSessionManager::default();
        // When a session has rested is decided here: one whose client listens does not.
        local.session_config.keep_alive = None;
        Self {
            limits,
            local,
            state: Mutex::default(),
        }
    }

    /// Whether there is such a session, and it is of this owner.
    pub(super) fn is_of(&self, id: &str, owner: &Owner) -> bool {
        let state = self.state();
        let entry = state.open.get(id);
        entry.is_some_and(|entry| *entry.owner == *owner)
    }

    /// A place for a new session.
    pub(super) async fn reserve(
        self: &Arc<Self>,
        owner: &Owner,
    ) -> Result<Reservation, Box<Problem>> {
        let (reservation, closed) = self.take_place(owner.agent)?;
        if let Some(closed) = closed {
            self.close(&closed).await;
        }
        Ok(reservation)
    }

    fn take_place(
        self: &Arc<Self>,
        agent: AgentId,
    ) -> Result<(Reservation, Option<SessionId>), Box<Problem>> {
        let HttpLimits {
            sessions,
            per_agent,
            ..
        } = self.limits;
        let mut state = self.state();
        let closed = match state.room(agent, self.limits) {
            Room::Free => None,
            Room::InsteadOf(id) => {
                state.open.remove(&id);
                Some(id)
            }
            Room::NoneForAgent => {
                return Err(too_many(format!(
                    "expected at most {per_agent} MCP sessions of an agent, found one more"
                )));
            }
            Room::None => {
                return Err(too_many(format!(
                    "expected at most {sessions} MCP sessions, found one more"
                )));
            }
        };
        state.reserved.push(agent);
        let reservation = Reservation {
            sessions: self.clone(),
            agent,
        };
        Ok((reservation, closed))
    }

    /// Ends those that have rested for too long.
    pub(super) async fn sweep(&self, now: Instant) {
        let rested = self.state().rested(now, self.limits);
        for id in rested {
            self.close(&id).await;
        }
    }

    pub(super) async fn close_all(&self) {
        let open = std::mem::take(&mut self.state().open);
        for id in open.into_keys() {
            self.close(&id).await;
        }
    }

    /// Ends a session that is no longer in the registry.
    async fn close(&self, id: &SessionId) {
        if let Err(error) = self.local.close_session(id).await {
            tracing::debug!(%error, "an MCP session was gone before it was closed");
        }
    }

    fn stream_of(self: &Arc<Self>, id: &SessionId) -> OpenStream {
        if let Some(entry) = self.state().open.get_mut(id) {
            entry.streams += 1;
        }
        OpenStream {
            sessions: self.clone(),
            id: id.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many(detail: String) -> Box<Problem> {
    Box::new(Problem::new(ErrorCode::Overloaded, detail))
}

/// A place that is kept until its session is open, or will not be.
pub(super) struct Reservation {
    sessions: Arc<Sessions>,
    agent: AgentId,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &mut self.sessions.state().reserved;
        let at = reserved.iter().position(|agent| *agent == self.agent);
        at.map(|at| reserved.swap_remove(at));
    }
}

/// A stream that a client reads.
struct OpenStream {
    sessions: Arc<Sessions>,
    id: SessionId,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(entry) = self.sessions.state().open.get_mut(&self.id) {
            entry.streams -= 1;
            entry.used = Instant::now();
        }
    }
}

/// The sessions as one request sees them.
pub(super) struct Door {
    sessions: Arc<Sessions>,
    owner: Arc<Owner>,
    outgoing: Arc<Outgoing>,
    reservation: Mutex<Option<Reservation>>,
}

/// Why a session can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("there is no place for a session")]
    NoPlace,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Door {
    pub(super) const fn new(
        sessions: Arc<Sessions>,
        owner: Arc<Owner>,
        outgoing: Arc<Outgoing>,
        reservation: Option<Reservation>,
    ) -> Self {
        Self {
            sessions,
            owner,
            outgoing,
            reservation: Mutex::new(reservation),
        }
    }

    fn local(&self) -> &LocalSessionManager {
        &self.sessions.local
    }
}

impl SessionManager for Door {
    type Error = Fault;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Fault> {
        let reservation = self
            .reservation
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or(Fault::NoPlace)?;
        let (id, transport) = self.local().create_session().await?;
        let entry = Entry {
            owner: self.owner.clone(),
            streams: 0,
            used: Instant::now(),
        };
        self.sessions.state().open.insert(id.clone(), entry);
        drop(reservation);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Fault> {
        Ok(self.local().initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Fault> {
        Ok(self.sessions.is_of(id, &self.owner) && self.local().has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Fault> {
        self.sessions.state().open.remove(id);
        Ok(self.local().close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Fault> {
        let open = self.sessions.stream_of(id);
        let stream = self.local().create_stream(id, message).await?;
        let outgoing = self.outgoing.clone();
        Ok(stream.inspect(move |event| {
            let _open = &open;
            if matches!(event.message.as_deref(), Some(JsonRpcMessage::Response(_))) {
                outgoing.passes();
            }
        }))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Fault> {
        let _open = self.sessions.stream_of(id);
        Ok(self.local().accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Fault> {
        let open = self.sessions.stream_of(id);
        let stream = self.local().create_standalone_stream(id).await?;
        Ok(stream.inspect(move |_| {
            let _open = &open;
        }))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Fault> {
        let open = self.sessions.stream_of(id);
        let stream = self.local().resume(id, last_event_id).await?;
        Ok(stream.inspect(move |_| {
            let _open = &open;
        }))
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "whatever is not as expected ends the test"
)]
mod tests {
    use std::time::Duration;

    use relay_protocol::time::Timestamp;

    use super::*;

    const LIMITS: HttpLimits = HttpLimits {
        sessions: 3,
        per_agent: 2,
        idle: Duration::from_secs(60),
    };

    fn agent(number: u128) -> AgentId {
        AgentId::new(Timestamp::from_millis(1), number)
    }

    /// A session of an agent, last used so many seconds after the start.
    fn entry(begin: Instant, owner: u128, used: u64, streams: usize) -> Entry {
        Entry {
            owner: Arc::new(Owner {
                agent: agent(owner),
                token: "at_x".to_owned(),
                session: None,
            }),
            streams,
            used: begin + Duration::from_secs(used),
        }
    }

    fn state(entries: Vec<(&str, Entry)>) -> State {
        State {
            open: entries
                .into_iter()
                .map(|(id, it)| (id.into(), it))
                .collect(),
            reserved: Vec::new(),
        }
    }

    #[test]
    fn an_agent_that_has_many_loses_the_one_that_rested_longest() {
        let begin = Instant::now();
        let mut state = state(vec![
            ("a", entry(begin, 1, 5, 0)),
            ("b", entry(begin, 1, 3, 0)),
        ]);
        assert_eq!(state.room(agent(1), LIMITS), Room::InsteadOf("b".into()));
        assert_eq!(state.room(agent(2), LIMITS), Room::Free);
        state.open.get_mut("b").unwrap().streams = 1;
        assert_eq!(state.room(agent(1), LIMITS), Room::InsteadOf("a".into()));
        state.open.get_mut("a").unwrap().streams = 2;
        assert_eq!(state.room(agent(1), LIMITS), Room::NoneForAgent);
    }

    #[test]
    fn places_that_are_reserved_are_taken() {
        let begin = Instant::now();
        let mut state = state(vec![("a", entry(begin, 1, 5, 0))]);
        state.reserved = vec![agent(2), agent(2)];
        assert_eq!(state.room(agent(2), LIMITS), Room::NoneForAgent);
        assert_eq!(state.room(agent(3), LIMITS), Room::None);
        state.reserved.pop();
        assert_eq!(state.room(agent(3), LIMITS), Room::Free);
    }

    #[test]
    fn only_what_rests_ends() {
        let begin = Instant::now();
        let mut state = state(vec![
            ("old", entry(begin, 1, 0, 0)),
            ("read", entry(begin, 1, 0, 1)),
            ("new", entry(begin, 2, 30, 0)),
        ]);
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(state.rested(at(59), LIMITS).is_empty());
        assert_eq!(state.rested(at(60), LIMITS), ["old".into()]);
        assert_eq!(state.rested(at(600), LIMITS), ["new".into()]);
        assert_eq!(state.open.len(), 1);
    }
}
