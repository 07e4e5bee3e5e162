//! One session as the host knows it: its turns, its open questions, its settings.
//!
//! The wire tells of an update which session it is for, not which turn. So a turn owns what comes from its prompt until the
//! answer to it, and after a cancel nothing is handed on until the next prompt has gone out, which waits for that
//! answer.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::calls::KnownCalls;
use super::error::HostError;
use super::files::Files;
use super::opening::OpenSession;
use super::queue::Queue;
use super::settings::Settings;
use crate::acp::event::{Event, SessionEvent, StopReason, Tokens, ToolCall, Usage};
use crate::acp::rpc::{INTERNAL_ERROR, RpcError};

/// Most prompts of a session that are on their way at once.
const MAX_TURNS: usize = 16;

/// A session that is open in an agent.
pub(super) struct SessionState {
    pub(super) id: String,
    /// What it was opened with, so that it can be forked.
    pub(super) opened: OpenSession,
    pub(super) cwd: PathBuf,
    pub(super) directories: Vec<PathBuf>,
    pub(super) queue: Queue,
    files: Option<Files>,
    inner: Mutex<Inner>,
    /// A turn has ended.
    pub(super) settled: Notify,
    /// What runs was cancelled.
    pub(super) cancelled: Notify,
}

#[derive(Default)]
struct Inner {
    turns: VecDeque<Turn>,
    last_turn: u64,
    /// From a cancel until the next prompt: what belongs to a turn is not handed on.
    muted: bool,
    settings: Settings,
    usage: Usage,
    calls: KnownCalls,
    /// Dropping one takes the question back.
    questions: HashMap<u64, oneshot::Sender<()>>,
    last_question: u64,
    /// Why the last turns that failed did, until somebody asks.
    failed: VecDeque<(u64, HostError)>,
    closed: Option<HostError>,
}

struct Turn {
    number: u64,
    cancelled: Option<Instant>,
}

impl Inner {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Usage(usage) => {
                // An update without a figure does not take it back.
                self.usage.used = usage.used.or(self.usage.used);
                self.usage.size = usage.size.or(self.usage.size);
                self.usage.cost_usd = usage.cost_usd.or(self.usage.cost_usd);
            }
            Event::ToolCall(call) | Event::ToolCallUpdate(call) => self.calls.note(call),
            event => self.settings.apply(event),
        }
    }

    fn note_failure(&mut self, turn: u64, error: HostError) {
        if self.failed.len() >= MAX_TURNS {
            self.failed.pop_front();
        }
        self.failed.push_back((turn, error));
    }
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes a prompt.
    Free,
    /// It is in a turn.
    Busy,
    /// It was cancelled at this time, and the agent has not confirmed that.
    Cancelling(Instant),
}

impl SessionState {
    pub(super) fn new(id: String, opened: OpenSession, directories: Vec<PathBuf>) -> Self {
        let cwd = opened.cwd.clone();
        // Missing directories are the agent's to complain about; there is just nothing to read in them.
        let files = Files::open(&cwd, &directories).ok();
        Self {
            id,
            opened,
            cwd,
            directories,
            files,
            queue: Queue::default(),
            inner: Mutex::default(),
            settled: Notify::new(),
            cancelled: Notify::new(),
        }
    }

    /// Its files.
    pub(super) fn files(&self) -> Result<&Files, RpcError> {
        let files = self.files.as_ref();
        files.ok_or_else(|| {
            RpcError::new(
                INTERNAL_ERROR,
                "the directories of the session can't be opened",
            )
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn standing(&self) -> Result<Standing, HostError> {
        let inner = self.inner();
        if let Some(closed) = &inner.closed {
            return Err(closed.clone());
        }
        let cancelled = inner.turns.iter().filter_map(|turn| turn.cancelled).min();
        Ok(match (inner.turns.is_empty(), cancelled) {
            (true, _) => Standing::Free,
            (false, Some(at)) => Standing::Cancelling(at),
            (false, None) => Standing::Busy,
        })
    }

    /// Begins a turn, or puts one behind those that run.
    pub(super) fn begin(&self, behind_others: bool) -> Result<u64, HostError> {
        let mut inner = self.inner();
        if let Some(closed) = &inner.closed {
            return Err(closed.clone());
        }
        let cancelling = inner.turns.iter().any(|turn| turn.cancelled.is_some());
        let full = match behind_others {
            true => inner.turns.len() >= MAX_TURNS,
            false => !inner.turns.is_empty(),
        };
        if cancelling || full {
            return Err(HostError::Busy);
        }
        inner.last_turn += 1;
        inner.muted = false;
        let number = inner.last_turn;
        inner.turns.push_back(Turn {
            number,
            cancelled: None,
        });
        Ok(number)
    }

    /// A turn whose prompt could not be sent.
    pub(super) fn take_back(&self, number: u64) {
        self.inner().turns.retain(|turn| turn.number != number);
        self.settled.notify_waiters();
    }

    /// Takes what the agent says about the session.
    pub(super) fn update(&self, event: Event, bytes: usize) {
        let mut inner = self.inner();
        inner.apply(&event);
        let turn = match event.is_of_session() {
            true => None,
            false if inner.muted => return,
            false => inner.turns.front().map(|turn| turn.number),
        };
        // Pushed under the lock: a cancel either comes before and mutes this, or after and purges it.
        self.queue.push(SessionEvent { turn, event }, bytes);
    }

    /// The answer to a prompt.
    pub(super) fn end(&self, number: u64, answer: Result<Value, HostError>) {
        let mut inner = self.inner();
        let Some(place) = inner.turns.iter().position(|turn| turn.number == number) else {
            return;
        };
        let Some(turn) = inner.turns.remove(place) else {
            return;
        };
        if inner.turns.is_empty() {
            inner.calls = KnownCalls::default();
        }
        let event = match (answer, turn.cancelled) {
            // Whatever the agent calls it, it was cancelled.
            (answer, Some(_)) => Event::TurnEnded {
                stop_reason: StopReason::Cancelled,
                tokens: answer.ok().and_then(|answer| Tokens::read(&answer)),
            },
            (Ok(answer), None) => Event::TurnEnded {
                stop_reason: answer["stopReason"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
                    .into(),
                tokens: Tokens::read(&answer),
            },
            (Err(error), None) => {
                inner.note_failure(number, error.clone());
                Event::TurnFailed {
                    error: error.to_string(),
                }
            }
        };
        let turn = Some(number);
        self.queue.push(SessionEvent { turn, event }, 0);
        drop(inner);
        self.settled.notify_waiters();
    }

    /// Cancels what runs: nothing of it is handed on any more. Says whether anything ran.
    pub(super) fn cancel(&self) -> bool {
        let mut inner = self.inner();
        inner.muted |= !inner.turns.is_empty();
        let now = Instant::now();
        for turn in &mut inner.turns {
            turn.cancelled.get_or_insert(now);
            self.queue.purge(turn.number);
        }
        let running = !inner.turns.is_empty();
        drop(inner);
        self.cancelled.notify_waiters();
        running
    }

    /// The turn that runs.
    pub(super) fn turn(&self) -> Option<u64> {
        self.inner().turns.front().map(|turn| turn.number)
    }

    /// A tool call with what the agent said about it before: a question may repeat its id only.
    pub(super) fn completed(&self, call: ToolCall) -> ToolCall {
        self.inner().calls.completed(call)
    }

    /// Whether this turn was not answered yet.
    pub(super) fn is_running(&self, number: u64) -> bool {
        self.inner().turns.iter().any(|turn| turn.number == number)
    }

    /// Takes back all open questions: each is answered with `cancelled`.
    pub(super) fn drop_questions(&self) {
        let questions = std::mem::take(&mut self.inner().questions);
        drop(questions);
    }

    /// Opens a question; nothing when the turn was cancelled, so that nobody is asked.
    pub(super) fn open_question(&self) -> Option<(u64, oneshot::Receiver<()>)> {
        let mut inner = self.inner();
        if inner.muted || inner.closed.is_some() {
            return None;
        }
        inner.last_question += 1;
        let number = inner.last_question;
        let (cancel, cancelled) = oneshot::channel();
        inner.questions.insert(number, cancel);
        Some((number, cancelled))
    }

    pub(super) fn close_question(&self, number: u64) {
        self.inner().questions.remove(&number);
    }

    /// How many questions are open.
    pub(super) fn open_questions(&self) -> usize {
        self.inner().questions.len()
    }

    /// The agent is gone, or the session was closed: all turns fail.
    pub(super) fn close(&self, why: &HostError) {
        let mut inner = self.inner();
        if inner.closed.is_some() {
            return;
        }
        inner.closed = Some(why.clone());
        for turn in std::mem::take(&mut inner.turns) {
            let event = match turn.cancelled {
                Some(_) => Event::TurnEnded {
                    stop_reason: StopReason::Cancelled,
                    tokens: None,
                },
                None => Event::TurnFailed {
                    error: why.to_string(),
                },
            };
            let turn = Some(turn.number);
            self.queue.push(SessionEvent { turn, event }, 0);
        }
        inner.questions.clear();
        self.queue.close();
        drop(inner);
        self.settled.notify_waiters();
    }

    /// Why a turn failed: what was lost when it became an event.
    pub(super) fn failure(&self, number: u64) -> Option<HostError> {
        let mut inner = self.inner();
        let place = inner.failed.iter().position(|(turn, _)| *turn == number);
        let failed = place.and_then(|place| inner.failed.remove(place));
        failed
            .map(|(_, error)| error)
            .or_else(|| inner.closed.clone())
    }

    /// Reads the settings.
    pub(super) fn settings<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        read(&self.inner().settings)
    }

    /// Changes the settings.
    pub(super) fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.inner().settings);
    }

    pub(super) fn usage(&self) -> Usage {
        self.inner().usage.clone()
    }
}
