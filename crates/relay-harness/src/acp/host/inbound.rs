//! What the agent asks of this side: permissions, files, terminals; and what it tells.
//!
//! Everything here returns at once. What takes time runs in a task of its own that answers the agent when it is done; the
//! agent can take its call back, and their number is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::shared::Shared;
use super::state::SessionState;
use crate::acp::event::{Event, ToolCall};
use crate::acp::permission::{AgentOption, PermissionAnswer, PermissionQuestion, choose};
use crate::acp::rpc::{
    Handler, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Noise, REQUEST_CANCELLED, RpcError,
};

/// Most calls of an agent that are open at once.
const MAX_OPEN_CALLS: usize = 256;

pub(super) type Answer = Result<Value, RpcError>;

pub(super) struct Inbound {
    shared: Arc<Shared>,
}

impl Inbound {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The session that a call is for.
    fn session(&self, params: &Value) -> Result<Arc<SessionState>, RpcError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let found = self.shared.session(id);
        found.ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("there is no session `{id}`")))
    }

    fn respond(&self, id: &Value, answer: &Answer) {
        respond(&self.shared, id, answer);
    }

    /// Answers a call in a task of its own.
    fn serve(&self, id: Value, work: impl Future<Output = Answer> + Send + 'static) {
        let key = id.to_string();
        let mut calls = self.shared.open_calls();
        if calls.len() >= MAX_OPEN_CALLS || calls.contains_key(&key) {
            drop(calls);
            let error = RpcError::new(INTERNAL_ERROR, "too many calls are open, or one of this id");
            self.respond(&id, &Err(error));
            return;
        }
        let (cancel, cancelled) = oneshot::channel();
        calls.insert(key.clone(), cancel);
        drop(calls);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            // A task of its own, so that a panic in it is an answer, too.
            let work = tokio::spawn(work);
            let abort = work.abort_handle();
            let answer = tokio::select! {
                done = work => done.unwrap_or_else(|_| Err(RpcError::new(INTERNAL_ERROR, "it failed"))),
                _ = cancelled => {
                    abort.abort();
                    Err(RpcError::new(REQUEST_CANCELLED, "cancelled"))
                }
            };
            shared.open_calls().remove(&key);
            respond(&shared, &id, &answer);
        });
    }

    /// A permission is asked for.
    fn ask(&self, id: Value, params: &Value) {
        let Ok(session) = self.session(params) else {
            self.shared.note_noise();
            self.respond(&id, &Ok(outcome(None)));
            return;
        };
        let tool_call = ToolCall::read(&params["toolCall"]).unwrap_or_default();
        let tool_call = session.completed(tool_call);
        let question = PermissionQuestion {
            agent: self.shared.agent.id.clone(),
            session_id: session.id.clone(),
            turn: session.turn(),
            cwd: session.cwd.clone(),
            tool_call: tool_call.clone(),
            options: AgentOption::read_all(&params["options"]),
        };
        let Some(asking) = Asking::open(&self.shared, &session, tool_call) else {
            self.respond(&id, &Ok(outcome(None)));
            return;
        };
        self.serve(id, async move {
            let options = question.options.clone();
            let answer = asking.answer(question).await;
            let chosen = choose(&answer, &options);
            asking.tell(chosen.clone());
            Ok(outcome(chosen))
        });
    }

    fn read_file(&self, params: &Value) -> impl Future<Output = Answer> + Send + 'static {
        let session = self.session(params);
        let path = text(params, "path");
        let (line, limit) = (params["line"].as_u64(), params["limit"].as_u64());
        let forbidden = self.shared.options.forbidden.clone();
        async move {
            let (session, path) = (session?, path?);
            blocking(move || {
                let content = session.files()?.read(&path, line, limit, &forbidden)?;
                Ok(json!({"content": content}))
            })
            .await
        }
    }

    fn write_file(&self, params: &Value) -> impl Future<Output = Answer> + Send + 'static {
        let session = self.session(params);
        let (path, content) = (text(params, "path"), text(params, "content"));
        let forbidden = self.shared.options.forbidden.clone();
        async move {
            let (session, path, content) = (session?, path?, content?);
            blocking(move || {
                session.files()?.write(&path, &content, &forbidden)?;
                Ok(json!({}))
            })
            .await
        }
    }

    fn terminal(&self, method: &str, params: Value) -> impl Future<Output = Answer> + use<> {
        let session = self.session(&params);
        let shared = self.shared.clone();
        let method = method.to_owned();
        async move { super::terminal::serve(&shared, session?, &method, &params).await }
    }
}

impl Handler for Inbound {
    fn request(&self, id: Value, method: String, params: Value) {
        match method.as_str() {
            "session/request_permission" => self.ask(id, &params),
            "fs/read_text_file" if self.shared.has_files() => {
                self.serve(id, self.read_file(&params));
            }
            "fs/write_text_file" if self.shared.has_files() => {
                self.serve(id, self.write_file(&params));
            }
            method if method.starts_with("terminal/") && self.shared.options.terminals => {
                self.serve(id, self.terminal(method, params));
            }
            method => {
                let error = RpcError::new(METHOD_NOT_FOUND, format!("there is no method {method}"));
                self.respond(&id, &Err(error));
            }
        }
    }

    fn notification(&self, method: String, mut params: Value, bytes: usize) {
        match method.as_str() {
            "session/update" => {
                let update = params
                    .get_mut("update")
                    .map(Value::take)
                    .unwrap_or_default();
                let Some(session) = params["sessionId"].as_str() else {
                    self.shared.note_noise();
                    return;
                };
                self.shared.update(session, Event::read(update), bytes);
            }
            "$/cancel_request" => {
                let cancelled = self
                    .shared
                    .open_calls()
                    .remove(&params["requestId"].to_string());
                drop(cancelled);
            }
            // Agents have notifications of their own. Those that name a session are kept with it.
            _ => {
                if let Some(session) = params["sessionId"].as_str().map(str::to_owned) {
                    let update = json!({"method": method, "params": params});
                    self.shared.update(&session, Event::Raw { update }, bytes);
                }
            }
        }
    }

    fn noise(&self, noise: Noise) {
        self.shared.note_noise();
        match noise {
            Noise::TooLong(bytes) => {
                tracing::warn!(agent = %self.shared.agent.id, bytes, "a line of the agent was too long and is lost");
            }
            noise => {
                tracing::debug!(agent = %self.shared.agent.id, ?noise, "a line of the agent could not be used");
            }
        }
    }
}

/// A question that is open in a session.
pub(super) struct Asking {
    shared: Arc<Shared>,
    session: Arc<SessionState>,
    number: u64,
    cancelled: std::sync::Mutex<Option<oneshot::Receiver<()>>>,
    /// Whether the reader knows that it is over.
    is_told: AtomicBool,
}

impl Asking {
    /// Opens a question; nothing when the turn was cancelled.
    pub(super) fn open(
        shared: &Arc<Shared>,
        session: &Arc<SessionState>,
        tool_call: ToolCall,
    ) -> Option<Self> {
        let (number, cancelled) = session.open_question()?;
        session.update(Event::PermissionAsked { tool_call }, 0);
        Some(Self {
            shared: shared.clone(),
            session: session.clone(),
            number,
            cancelled: std::sync::Mutex::new(Some(cancelled)),
            is_told: AtomicBool::new(false),
        })
    }

    /// The decision; `Cancelled` when the turn is.
    pub(super) async fn answer(&self, question: PermissionQuestion) -> PermissionAnswer {
        let cancelled = self
            .cancelled
            .lock()
            .ok()
            .and_then(|mut cancelled| cancelled.take());
        let Some(cancelled) = cancelled else {
            return PermissionAnswer::Cancelled;
        };
        tokio::select! {
            biased;
            _ = cancelled => PermissionAnswer::Cancelled,
            answer = self.shared.options.decides.decide(question) => answer,
        }
    }

    /// Tells the session's reader what was chosen.
    pub(super) fn tell(&self, option_id: Option<String>) {
        self.is_told.store(true, Ordering::Relaxed);
        self.session
            .update(Event::PermissionAnswered { option_id }, 0);
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.session.close_question(self.number);
        // The agent has taken it back.
        if !*self.is_told.get_mut() {
            self.tell(None);
        }
    }
}

fn respond(shared: &Shared, id: &Value, answer: &Answer) {
    if shared.outgoing.respond(id, answer).is_err() {
        tracing::debug!(agent = %shared.agent.id, "the agent does not read the answer to its call");
    }
}

fn outcome(chosen: Option<String>) -> Value {
    match chosen {
        Some(option_id) => json!({"outcome": {"outcome": "selected", "optionId": option_id}}),
        None => json!({"outcome": {"outcome": "cancelled"}}),
    }
}

pub(super) fn text(params: &Value, name: &str) -> Result<String, RpcError> {
    let found = params[name].as_str().map(str::to_owned);
    found.ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("expected a text as `{name}`")))
}

async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(RpcError::new(INTERNAL_ERROR, "it failed")))
}
