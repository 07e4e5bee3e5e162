//! What a turn comes to, put together from its events.

use std::time::Duration;

use serde::Serialize;

use super::spending::Spent;
use crate::acp::event::{Event, SessionEvent, StopReason, Tokens};

/// Most bytes of text that an answer has.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// What an agent answered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The agent.
    pub agent: String,
    /// The session, to go on with it.
    pub session_id: String,
    /// What it said.
    pub text: String,
    /// What it thought.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub thoughts: String,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// The tokens of this turn, where the agent tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// What the conversation has cost so far.
    pub spent: Spent,
    /// Events that are missing because they came too fast.
    pub dropped: u64,
    /// How long it took.
    pub duration_ms: u64,
}

/// Puts an answer together.
#[derive(Clone, Debug, Default)]
pub(super) struct Folding {
    text: String,
    thoughts: String,
    dropped: u64,
    end: Option<(StopReason, Option<Tokens>)>,
}

impl Folding {
    /// Takes an event of the turn, or one that belongs to none.
    pub(super) fn take(&mut self, turn: u64, event: &SessionEvent) {
        match &event.event {
            Event::Lagged { dropped } => self.dropped += dropped,
            _ if event.turn != Some(turn) => {}
            Event::Text { text } => append(&mut self.text, text),
            Event::Thought { text } => append(&mut self.thoughts, text),
            Event::TurnEnded {
                stop_reason,
                tokens,
            } => self.end = Some((stop_reason.clone(), *tokens)),
            _ => {}
        }
    }

    /// The answer; nothing when the turn has no end.
    pub(super) fn answer(
        self,
        agent: &str,
        session: &str,
        spent: Spent,
        duration: Duration,
    ) -> Option<Answer> {
        let (stop_reason, tokens) = self.end?;
        Some(Answer {
            agent: agent.to_owned(),
            session_id: session.to_owned(),
            text: self.text,
            thoughts: self.thoughts,
            stop_reason,
            tokens,
            spent,
            dropped: self.dropped,
            duration_ms: super::milliseconds(duration),
        })
    }
}

fn append(text: &mut String, more: &str) {
    if text.len() + more.len() <= MAX_TEXT_BYTES {
        text.push_str(more);
    }
}
