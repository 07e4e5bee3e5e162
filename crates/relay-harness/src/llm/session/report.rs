//! What a run's events say to others on the relay.

use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use relay_protocol::session_event::{
    AgentSessionEvent, AgentSessionEventType, ErrorReport, StatusChanged, ToolCalled,
    ToolCompleted, ToolFailed, TranscriptChunk, TranscriptChunkReport, TranscriptRole,
    UsageUpdated,
};
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use relay_sdk::EventHandler;
use serde_json::Value;

use crate::llm::run::{Happening, RunEvent};

/// What is reported.
pub(super) const EMITS: &[AgentSessionEventType] = &[
    AgentSessionEventType::StatusChanged,
    AgentSessionEventType::ToolCalled,
    AgentSessionEventType::ToolCompleted,
    AgentSessionEventType::ToolFailed,
    AgentSessionEventType::TranscriptChunk,
    AgentSessionEventType::UsageUpdated,
    AgentSessionEventType::Error,
];

/// Bytes of text after which the rest is another report.
const ENOUGH_TEXT: usize = 4 * 1024;

/// Most bytes of what was said, or of what a tool was given or gave, in one report. What a tool was given or gave is left out where it is more.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Most characters of why a tool failed.
const ERROR_CHARS: usize = 2_000;

/// Reports what happens.
pub(super) struct Reporter {
    events: Arc<OnceLock<EventHandler>>,
    status: AgentStatus,
    /// A text that is being said: its id and what there is of it.
    text: Option<(String, String)>,
    sequence: u64,
}

impl Reporter {
    pub(super) const fn new(events: Arc<OnceLock<EventHandler>>, status: AgentStatus) -> Self {
        Self {
            events,
            status,
            text: None,
            sequence: 0,
        }
    }

    /// Reports a change of status.
    pub(super) fn status(&mut self, status: AgentStatus, reason: Option<&str>) {
        if let Some(changed) = self.change(status, reason) {
            self.emit(changed);
        }
    }

    /// The session rests: reports what was said so far, and gives the report of that to whoever waits until it is stored.
    pub(super) fn rest(&mut self) -> Option<AgentSessionEvent> {
        self.flush();
        self.change(AgentStatus::Idle, None)
    }

    fn change(&mut self, status: AgentStatus, reason: Option<&str>) -> Option<AgentSessionEvent> {
        if self.status == status {
            return None;
        }
        self.status = status;
        Some(AgentSessionEvent::StatusChanged(StatusChanged {
            status,
            previous_status: None,
            reason: reason.map(str::to_owned),
        }))
    }

    /// Reports an event of a run.
    pub(super) fn take(&mut self, event: &RunEvent) {
        match &event.what {
            Happening::Text { id, content } => match &mut self.text {
                Some((own, text)) if own == id && text.len() < ENOUGH_TEXT => {
                    text.push_str(content);
                }
                _ => {
                    self.flush();
                    self.text = Some((id.clone(), content.clone()));
                }
            },
            Happening::Called { id, name, input } => {
                self.flush();
                self.emit(AgentSessionEvent::ToolCalled(ToolCalled {
                    run: Some(id.clone()),
                    tool: name.clone(),
                    input: bounded(input),
                }));
            }
            Happening::Result { id, name, output } => {
                self.flush();
                self.result(id, name, output);
            }
            Happening::Usage(usage) => {
                self.flush();
                self.emit(AgentSessionEvent::UsageUpdated(UsageUpdated {
                    tokens: Some(usage.input_tokens + usage.output_tokens),
                    cost_usd: None,
                    metadata: None,
                }));
            }
            Happening::Failed { message, retryable } => {
                self.flush();
                self.emit(AgentSessionEvent::Error(ErrorReport {
                    error: message.clone(),
                    code: None,
                    retryable: Some(*retryable),
                }));
            }
            Happening::Started { .. }
            | Happening::Ended { .. }
            | Happening::Reasoning { .. }
            | Happening::Progress { .. }
            | Happening::Message(_)
            | Happening::Warning { .. }
            | Happening::Asked(_)
            | Happening::Resolved(_) => self.flush(),
        }
    }

    fn result(&self, id: &str, name: &str, output: &Value) {
        let (run, tool) = (Some(id.to_owned()), name.to_owned());
        self.emit(match output.get("result") {
            Some(_) => AgentSessionEvent::ToolCompleted(ToolCompleted {
                run,
                tool,
                output: bounded(output),
                duration_ms: None,
            }),
            None => AgentSessionEvent::ToolFailed(ToolFailed {
                run,
                tool,
                error: output.to_string().chars().take(ERROR_CHARS).collect(),
                retryable: None,
            }),
        });
    }

    /// Reports the text that was said so far.
    fn flush(&mut self) {
        let Some((id, content)) = self.text.take() else {
            return;
        };
        let mut rest = content.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_VALUE_BYTES));
            self.chunk(id.clone(), piece.to_owned());
            rest = after;
        }
    }

    fn chunk(&mut self, id: String, content: String) {
        self.sequence += 1;
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        self.emit(AgentSessionEvent::TranscriptChunk(TranscriptChunkReport {
            chunk: TranscriptChunk {
                id,
                at: Timestamp::from_millis(i64::try_from(now.as_millis()).unwrap_or(i64::MAX)),
                role: TranscriptRole::Agent,
                content,
                sequence: self.sequence,
                metadata: None,
            },
        }));
    }

    fn emit(&self, event: AgentSessionEvent) {
        let Some(events) = self.events.get() else {
            return;
        };
        if let Err(error) = events.emit(event) {
            tracing::warn!(%error, "an event of a session is lost");
        }
    }
}

fn bounded(value: &Value) -> Option<Value> {
    let fits = serde_json::to_string(value).is_ok_and(|text| text.len() <= MAX_VALUE_BYTES);
    fits.then(|| value.clone())
}
