//! What all handles and tasks of one agent share.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::HostOptions;
use super::error::HostError;
use super::owner::Ended;
use super::state::SessionState;
use super::terminal::Terminals;
use crate::acp::capabilities::Handshake;
use crate::acp::catalogue::AgentDefinition;
use crate::acp::event::Event;
use crate::acp::rpc::{Connection, Outgoing};
use crate::child::StderrTail;

/// Most sessions that are not known yet and whose updates are kept.
const EARLY_SESSIONS: usize = 64;

/// Most updates that are kept of each.
const EARLY_UPDATES: usize = 256;

/// Most bytes of updates that are kept of all of them.
const EARLY_BYTES: usize = 8 * 1024 * 1024;

/// Most different warnings that are remembered, so that each is given once.
const WARNINGS: usize = 1_000;

pub(super) struct Shared {
    pub(super) agent: AgentDefinition,
    pub(super) options: HostOptions,
    pub(super) outgoing: Outgoing,
    pub(super) handshake: OnceLock<Handshake>,
    pub(super) ended: watch::Sender<Option<Ended>>,
    pub(super) terminals: Terminals,
    /// Calls of the agent that are not answered yet, by their id as text.
    pub(super) calls: Mutex<HashMap<String, oneshot::Sender<()>>>,
    stderr: OnceLock<StderrTail>,
    sessions: Mutex<Sessions>,
    noise: AtomicU64,
    warned: Mutex<HashSet<String>>,
    warned_of_directories: AtomicBool,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<String, Arc<SessionState>>,
    /// Updates of sessions that the agent has made and not told of yet.
    early: HashMap<String, Vec<(Event, usize)>>,
    early_bytes: usize,
}

impl Shared {
    pub(super) fn parts(agent: AgentDefinition, options: HostOptions) -> (Self, Connection) {
        let connection = Connection::new();
        let shared = Self {
            agent,
            options,
            outgoing: connection.outgoing(),
            handshake: OnceLock::new(),
            ended: watch::Sender::new(None),
            terminals: Terminals::default(),
            calls: Mutex::default(),
            stderr: OnceLock::new(),
            sessions: Mutex::default(),
            noise: AtomicU64::new(0),
            warned: Mutex::default(),
            warned_of_directories: AtomicBool::new(false),
        };
        (shared, connection)
    }

    pub(super) fn set_stderr(&self, tail: StderrTail) {
        let _ = self.stderr.set(tail);
    }

    /// What the agent said last on standard error.
    pub(super) fn stderr(&self) -> String {
        self.stderr.get().map(StderrTail::text).unwrap_or_default()
    }

    /// The handshake; before it nothing is advertised.
    pub(super) fn handshake(&self) -> &Handshake {
        static NOTHING: OnceLock<Handshake> = OnceLock::new();
        self.handshake.get().unwrap_or_else(|| {
            NOTHING.get_or_init(|| Handshake {
                protocol_version: 0,
                agent: Default::default(),
                capabilities: relay_protocol::acp::AgentCapabilities::baseline(),
                extensions: Default::default(),
                auth_methods: Vec::new(),
                answers_anything: false,
                raw: Value::Null,
            })
        })
    }

    pub(super) const fn has_files(&self) -> bool {
        self.options.files && !self.agent.quirks.no_client_files && cfg!(unix)
    }

    pub(super) fn warn(&self, warning: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= WARNINGS || !warned.insert(warning.to_owned()) {
            return;
        }
        drop(warned);
        tracing::warn!(agent = %self.agent.id, "{warning}");
        if let Some(on_warning) = &self.options.on_warning {
            on_warning(warning);
        }
    }

    /// Warns of directories that are left out: once, however many sessions ask for however many.
    pub(super) fn warn_of_directories(&self, warning: &str) {
        if !self.warned_of_directories.swap(true, Ordering::Relaxed) {
            self.warn(warning);
        }
    }

    pub(super) fn note_noise(&self) {
        self.noise.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn noise(&self) -> u64 {
        self.noise.load(Ordering::Relaxed)
    }

    /// Asks the agent something that it has to answer in time.
    pub(super) async fn call(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, HostError> {
        let answer = timeout(limit, self.answer(method, params)).await;
        answer.unwrap_or_else(|_| Err(self.timeout(method, limit)))
    }

    /// Asks the agent something that a person has to do.
    pub(super) async fn call_patiently(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Value, HostError> {
        self.answer(method, params).await
    }

    pub(super) fn timeout(&self, method: &str, after: Duration) -> HostError {
        HostError::Timeout {
            agent: self.agent.id.clone(),
            method: method.to_owned(),
            after,
            stderr: self.stderr(),
        }
    }

    async fn answer(&self, method: &str, params: &Value) -> Result<Value, HostError> {
        let (tell, told) = oneshot::channel();
        let answer = Box::new(move |answer| {
            // Whoever asked may be gone.
            let _ = tell.send(answer);
        });
        let Ok(call) = self.outgoing.call(method, params, answer).await else {
            return Err(self.closed().await);
        };
        let _forgetting = Forgetting(&self.outgoing, call);
        match told.await {
            Ok(answer) => answer.map_err(|error| HostError::from_rpc(&self.agent, method, error)),
            Err(_) => Err(self.closed().await),
        }
    }

    /// That the agent is gone, once it is known how.
    pub(super) async fn closed(&self) -> HostError {
        self.until_ended().await.error(&self.agent.id)
    }

    pub(super) async fn until_ended(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone().unwrap_or_default(),
            Err(_) => Ended::default(),
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a session known; nothing when one of this id is open already. What came for it before is handed on first.
    pub(super) fn register(&self, state: SessionState) -> Option<Arc<SessionState>> {
        let state = Arc::new(state);
        let mut sessions = self.sessions();
        if sessions.open.contains_key(&state.id) {
            return None;
        }
        let early = sessions.early.remove(&state.id).unwrap_or_default();
        for (event, bytes) in early {
            sessions.early_bytes -= bytes;
            state.update(event, bytes);
        }
        sessions.open.insert(state.id.clone(), state.clone());
        Some(state)
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<SessionState>> {
        self.sessions().open.get(id).cloned()
    }

    pub(super) fn unregister(&self, id: &str) -> Option<Arc<SessionState>> {
        self.sessions().open.remove(id)
    }

    /// Takes an update for a session, also for one that is not known yet.
    pub(super) fn update(&self, id: &str, event: Event, bytes: usize) {
        let mut sessions = self.sessions();
        if let Some(state) = sessions.open.get(id).cloned() {
            drop(sessions);
            state.update(event, bytes);
            return;
        }
        let Sessions {
            early, early_bytes, ..
        } = &mut *sessions;
        let known = early.len() < EARLY_SESSIONS || early.contains_key(id);
        if !known || *early_bytes + bytes > EARLY_BYTES {
            drop(sessions);
            self.note_noise();
            return;
        }
        let updates = early.entry(id.to_owned()).or_default();
        if updates.len() < EARLY_UPDATES {
            *early_bytes += bytes;
            updates.push((event, bytes));
        } else {
            drop(sessions);
            self.note_noise();
        }
    }

    /// The agent is gone: nobody waits for anything any more.
    pub(super) fn close(&self, ended: Ended) {
        let why = ended.error(&self.agent.id);
        let open = std::mem::take(&mut self.sessions().open);
        for state in open.values() {
            state.close(&why);
        }
        let calls = std::mem::take(&mut *self.open_calls());
        drop(calls);
        self.ended.send_replace(Some(ended));
    }

    pub(super) fn open_calls(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<()>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a call up when nobody waits for it any more.
pub(super) struct Forgetting<'a>(pub(super) &'a Outgoing, pub(super) u64);

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}
