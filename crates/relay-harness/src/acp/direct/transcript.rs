//! What happened in a conversation, as a file of JSON lines, and the same read back.
//!
//! The first line says whose conversation it is; each further one is a prompt or an event with the time since the
//! beginning. Secrets are removed before a line is written; one that is told in pieces may get through.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use relay_protocol::redact::Redactor;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Folding};
use super::spending::Spending;
use crate::acp::content::PromptContent;
use crate::acp::event::{Event, SessionEvent};

/// The version of the format.
const VERSION: u32 = 1;

/// Why a transcript could not be written or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The file.
    #[error("the transcript: {0}")]
    File(Arc<std::io::Error>),
    /// A line.
    #[error("line {line} of the transcript: {why}")]
    Line {
        /// Which, counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl From<std::io::Error> for TranscriptError {
    fn from(error: std::io::Error) -> Self {
        Self::File(Arc::new(error))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    transcript: u32,
    agent: String,
    session_id: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
}

/// Writes a transcript.
pub struct Recorder {
    output: Box<dyn Write + Send>,
    began: Instant,
    redactor: Redactor,
}

impl Recorder {
    /// Writes to this.
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self {
            output: Box::new(output),
            began: Instant::now(),
            redactor: Redactor::new(),
        }
    }

    pub(super) fn begin(&mut self, agent: &str, session: &str) -> Result<(), TranscriptError> {
        self.write(&Header {
            transcript: VERSION,
            agent: agent.to_owned(),
            session_id: session.to_owned(),
        })
    }

    pub(super) fn prompt(&mut self, content: &[PromptContent]) -> Result<(), TranscriptError> {
        let texts = content.iter().map(|content| match content {
            PromptContent::Text(text) => text.clone(),
            other => format!("[{}]", other.part()),
        });
        let prompt = texts.collect::<Vec<_>>().join("\n");
        let at_ms = self.at_ms();
        self.write(&Line {
            at_ms,
            prompt: Some(prompt),
            turn: None,
            event: None,
        })
    }

    pub(super) fn event(&mut self, event: &SessionEvent) -> Result<(), TranscriptError> {
        let at_ms = self.at_ms();
        self.write(&Line {
            at_ms,
            prompt: None,
            turn: event.turn,
            event: Some(event.event.clone()),
        })
    }

    fn at_ms(&self) -> u64 {
        super::milliseconds(self.began.elapsed())
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), TranscriptError> {
        let mut line = serde_json::to_value(line).map_err(std::io::Error::other)?;
        self.redactor.redact_json(&mut line);
        writeln!(self.output, "{line}")?;
        Ok(self.output.flush()?)
    }
}

/// A transcript that is played again.
#[derive(Debug)]
pub struct Replay {
    /// The agent.
    pub agent: String,
    /// Its session.
    pub session_id: String,
    lines: VecDeque<(Duration, Played)>,
    played: Duration,
}

#[derive(Debug)]
enum Played {
    Prompt(String),
    Event(Box<SessionEvent>),
}

impl Replay {
    /// Reads a transcript. A line that is none is an error that names it.
    pub fn read(input: impl BufRead) -> Result<Self, TranscriptError> {
        let mut lines = input.lines().enumerate();
        let bad = |number: usize, why: String| TranscriptError::Line {
            line: number + 1,
            why,
        };
        let Some((_, first)) = lines.next() else {
            return Err(bad(0, "expected a header, found nothing".to_owned()));
        };
        let header: Header =
            serde_json::from_str(&first?).map_err(|error| bad(0, error.to_string()))?;
        if header.transcript != VERSION {
            let found = header.transcript;
            return Err(bad(0, format!("expected version {VERSION}, found {found}")));
        }
        let mut read = VecDeque::new();
        for (number, line) in lines {
            let line: Line =
                serde_json::from_str(&line?).map_err(|error| bad(number, error.to_string()))?;
            let at = Duration::from_millis(line.at_ms);
            let turn = line.turn;
            read.push_back(match (line.prompt, line.event) {
                (Some(prompt), None) => (at, Played::Prompt(prompt)),
                (None, Some(event)) => (at, Played::Event(Box::new(SessionEvent { turn, event }))),
                _ => return Err(bad(number, "expected a prompt or an event".to_owned())),
            });
        }
        Ok(Self {
            agent: header.agent,
            session_id: header.session_id,
            lines: read,
            played: Duration::ZERO,
        })
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<SessionEvent> {
        loop {
            let (at, played) = self.lines.pop_front()?;
            self.played = at;
            if let Played::Event(event) = played {
                return Some(*event);
            }
        }
    }

    /// The next event, as long after the one before it as it was.
    pub async fn next_in_time(&mut self) -> Option<SessionEvent> {
        let before = self.played;
        let event = self.next_event()?;
        tokio::time::sleep(self.played.saturating_sub(before)).await;
        Some(event)
    }

    /// Plays the next question and its answer, as they were.
    pub fn next_answer(&mut self) -> Option<(String, Answer)> {
        let mut prompt = String::new();
        let mut began = self.played;
        let mut spending = Spending::default();
        let mut folding: Option<(u64, Folding)> = None;
        while let Some((at, played)) = self.lines.pop_front() {
            self.played = at;
            let event = match played {
                Played::Prompt(text) => {
                    (prompt, began) = (text, at);
                    continue;
                }
                Played::Event(event) => event,
            };
            if let Event::Usage(usage) = &event.event {
                spending.report(&self.session_id, usage);
            }
            let Some(turn) = event.turn else { continue };
            let (turn, folding_now) = folding.get_or_insert_with(|| (turn, Folding::default()));
            folding_now.take(*turn, &event);
            if event.turn == Some(*turn) && event.event.ends_turn() {
                if let Event::TurnEnded { tokens, .. } = &event.event {
                    spending.turn(*tokens);
                }
                let (_, folding) = folding?;
                let (agent, session) = (&self.agent, &self.session_id);
                let answer = folding.answer(agent, session, spending.spent(), at - began)?;
                return Some((prompt, answer));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_none_are_named() {
        let header = r#"{"transcript":1,"agent":"a","sessionId":"s"}"#;
        let table = [
            (String::new(), "line 1 "),
            ("{}".to_owned(), "line 1 "),
            (
                header.replace('1', "2"),
                "line 1 of the transcript: expected version 1, found 2",
            ),
            (format!("{header}\n{{\"atMs\":1}}"), "line 2 "),
            (
                format!("{header}\n{{\"atMs\":1,\"prompt\":\"x\"}}\nwords"),
                "line 3 ",
            ),
            (
                format!("{header}\n{{\"atMs\":1,\"event\":{{\"type\":\"hologram\"}}}}"),
                "line 2 ",
            ),
        ];
        for (text, expected) in table {
            let error = Replay::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(Replay::read(header.as_bytes()).is_ok());
    }
}
