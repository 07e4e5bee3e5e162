//! What was asked of the server, and how each answer ended.
//!
//! Whoever waits for a request sleeps until one comes; nothing is polled.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use super::Api;
use crate::Request;

/// How many requests are kept; the oldest are forgotten first.
const MAX_KEPT: usize = 10_000;

/// A request for a model's answer.
#[derive(Debug)]
pub struct Recorded {
    /// Counted from 1 over all requests of this server.
    pub number: usize,
    /// The way in which it was asked.
    pub api: Api,
    /// The body as it came.
    pub body: Value,
    /// What it means.
    pub request: Request,
    ending: watch::Sender<Option<Ending>>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All of it was handed over.
    Complete,
    /// The script ended it early.
    Broken,
    /// The one who asked left before its end, or the server was dropped.
    Left,
}

impl Recorded {
    /// Waits until the answer has ended.
    pub async fn ended(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        let ended = ending.wait_for(Option::is_some).await;
        // Fails only without a sender, and this is one.
        ended.ok().and_then(|ended| *ended).unwrap_or(Ending::Left)
    }
}

/// Notes how an answer ends. If nobody says so before it is dropped, the one who asked has left.
pub(super) struct Witness {
    recorded: Arc<Recorded>,
    ending: Ending,
}

impl Witness {
    pub(super) fn new(recorded: Arc<Recorded>) -> Self {
        Self {
            recorded,
            ending: Ending::Left,
        }
    }

    pub(super) fn ends(mut self, ending: Ending) {
        self.ending = ending;
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.recorded.ending.send_replace(Some(self.ending));
    }
}

#[derive(Debug)]
pub(crate) struct Records {
    state: Mutex<State>,
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Arc<Recorded>>,
    unknown: Vec<String>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            count: watch::Sender::new(0),
        }
    }
}

impl Records {
    pub(super) fn add(&self, api: Api, body: Value, request: Request) -> Arc<Recorded> {
        let mut state = self.state();
        let mut number = 0;
        self.count.send_modify(|count| {
            *count += 1;
            number = *count;
        });
        let recorded = Arc::new(Recorded {
            number,
            api,
            body,
            request,
            ending: watch::Sender::new(None),
        });
        if state.kept.len() == MAX_KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(recorded.clone());
        recorded
    }

    pub(super) fn all(&self) -> Vec<Arc<Recorded>> {
        self.state().kept.iter().cloned().collect()
    }

    pub(super) async fn nth(&self, nth: usize, like: impl Fn(&Recorded) -> bool) -> Arc<Recorded> {
        let mut count = self.count.subscribe();
        loop {
            count.mark_unchanged();
            let found = self.all().into_iter().filter(|one| like(one));
            if let Some(one) = found.into_iter().nth(nth.saturating_sub(1)) {
                return one;
            }
            // Fails only without a sender, and this is one.
            let _ = count.changed().await;
        }
    }

    pub(super) fn add_unknown(&self, what: String) {
        let mut state = self.state();
        if state.unknown.len() < MAX_KEPT {
            state.unknown.push(what);
        }
    }

    pub(super) fn unknown(&self) -> Vec<String> {
        self.state().unknown.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
