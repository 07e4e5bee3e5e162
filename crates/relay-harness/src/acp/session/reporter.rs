//! What an agent's updates say to those who watch its session.
//!
//! Pure: the time comes in. Pieces of text are put together until something else happens or enough is there, because a
//! model's words come one by one and each report is stored.

use std::collections::HashMap;

use relay_protocol::agent::Metadata;
use relay_protocol::session_event::{
    AgentSessionEvent, ErrorReport, FileChanged, LogLevel, LogLine, StatusChanged, ToolCalled,
    ToolCompleted, ToolFailed, TranscriptChunk, TranscriptChunkReport, TranscriptRole,
    UsageUpdated,
};
use relay_protocol::status::AgentStatus;
use relay_protocol::time::Timestamp;
use serde_json::Value;

use crate::acp::event::{Event, SessionEvent, ToolCall, ToolContent, Usage};

/// Bytes of text that are reported without waiting for more.
const ENOUGH_TEXT: usize = 4 * 1024;

/// Most bytes of what a tool was given or answered that a report repeats.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Most tool calls that are followed at once.
const MAX_CALLS: usize = 1_024;

/// Follows a session.
#[derive(Debug)]
pub(super) struct Reporter {
    name: String,
    status: AgentStatus,
    text: Option<Text>,
    sequence: u64,
    calls: HashMap<String, Call>,
    /// Whether the relay is asked for permissions. It says then by itself that a session waits, and for whom.
    relay_is_asked: bool,
    /// How many questions wait, where it is not.
    questions: usize,
}

#[derive(Debug)]
struct Text {
    role: TranscriptRole,
    thought: bool,
    content: String,
    at: Timestamp,
}

#[derive(Debug)]
struct Call {
    tool: String,
    kind: Option<String>,
    began: Timestamp,
    /// What it changes, as it was told last: agents don't repeat it at the end.
    changes: Vec<FileChanged>,
}

impl Reporter {
    /// Follows the session of this id, which is known to have this status.
    pub(super) fn new(session: &str, relay_is_asked: bool, status: AgentStatus) -> Self {
        Self {
            name: session.to_owned(),
            status,
            text: None,
            sequence: 0,
            calls: HashMap::new(),
            relay_is_asked,
            questions: 0,
        }
    }

    /// What is to be reported of an event.
    pub(super) fn take(&mut self, event: &SessionEvent, now: Timestamp) -> Vec<AgentSessionEvent> {
        let mut reports = Vec::new();
        match &event.event {
            Event::Text { text } => self.say(TranscriptRole::Agent, false, text, now, &mut reports),
            Event::Thought { text } => {
                self.say(TranscriptRole::Agent, true, text, now, &mut reports);
            }
            Event::UserText { text } => {
                self.say(TranscriptRole::User, false, text, now, &mut reports);
            }
            other => {
                reports.extend(self.flush());
                self.other(other, now, &mut reports);
            }
        }
        reports
    }

    /// The text that was said and not reported yet.
    pub(super) fn flush(&mut self) -> Option<AgentSessionEvent> {
        let text = self.text.take()?;
        self.sequence += 1;
        let metadata = text
            .thought
            .then(|| Metadata::from_iter([("kind".to_owned(), Value::from("thought"))]));
        Some(AgentSessionEvent::TranscriptChunk(TranscriptChunkReport {
            chunk: TranscriptChunk {
                id: format!("{}/{}", self.name, self.sequence),
                at: text.at,
                role: text.role,
                content: text.content,
                sequence: self.sequence,
                metadata,
            },
        }))
    }

    /// Whether text waits to be reported.
    pub(super) const fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// The report of another status; nothing when it is the same.
    pub(super) fn status(
        &mut self,
        status: AgentStatus,
        reason: Option<&str>,
    ) -> Option<AgentSessionEvent> {
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

    fn say(
        &mut self,
        role: TranscriptRole,
        thought: bool,
        more: &str,
        now: Timestamp,
        reports: &mut Vec<AgentSessionEvent>,
    ) {
        let goes_on = |text: &Text| text.role == role && text.thought == thought;
        if !self.text.as_ref().is_some_and(goes_on) {
            reports.extend(self.flush());
        }
        let text = self.text.get_or_insert_with(|| Text {
            role,
            thought,
            content: String::new(),
            at: now,
        });
        text.content.push_str(more);
        if text.content.len() >= ENOUGH_TEXT {
            reports.extend(self.flush());
        }
    }

    fn other(&mut self, event: &Event, now: Timestamp, reports: &mut Vec<AgentSessionEvent>) {
        if let Event::PermissionAsked { tool_call } = event
            && let Some(call) = self.calls.get_mut(&tool_call.id)
        {
            // Some agents show what a call changes to whoever decides, and nowhere else.
            call.note(tool_call);
        }
        match event {
            Event::ToolCall(call) | Event::ToolCallUpdate(call) => self.call(call, now, reports),
            Event::PermissionAsked { .. } | Event::PermissionAnswered { .. }
                if self.relay_is_asked => {}
            Event::PermissionAsked { .. } => {
                self.questions += 1;
                reports.extend(self.status(AgentStatus::Waiting, Some("permission")));
            }
            Event::PermissionAnswered { .. } => {
                self.questions = self.questions.saturating_sub(1);
                if self.questions == 0 {
                    reports.extend(self.status(AgentStatus::Active, None));
                }
            }
            Event::Usage(usage) => reports.push(used(usage)),
            Event::Lagged { dropped } => reports.push(AgentSessionEvent::Log(LogLine {
                level: LogLevel::Warn,
                message: format!("{dropped} updates of the agent came too fast and are lost"),
            })),
            Event::TurnFailed { error } => reports.push(AgentSessionEvent::Error(ErrorReport {
                error: error.clone(),
                code: Some("turn_failed".to_owned()),
                retryable: None,
            })),
            _ => {}
        }
        if event.ends_turn() {
            self.calls.clear();
            self.questions = 0;
        }
    }

    /// Some agents tell of a call first by its update, or by its end.
    fn call(&mut self, call: &ToolCall, now: Timestamp, reports: &mut Vec<AgentSessionEvent>) {
        let ended = matches!(call.status.as_deref(), Some("completed" | "failed"));
        if !self.calls.contains_key(&call.id) && self.calls.len() < MAX_CALLS {
            reports.push(AgentSessionEvent::ToolCalled(ToolCalled {
                run: Some(call.id.clone()),
                tool: call.tool().to_owned(),
                input: call.input.as_ref().and_then(bounded),
            }));
            let begun = Call {
                tool: call.tool().to_owned(),
                kind: None,
                began: now,
                changes: Vec::new(),
            };
            self.calls.insert(call.id.clone(), begun);
        }
        let Some(begun) = self.calls.get_mut(&call.id) else {
            return;
        };
        begun.note(call);
        if !ended {
            return;
        }
        let Some(begun) = self.calls.remove(&call.id) else {
            return;
        };
        // A call that failed has changed nothing.
        if call.status.as_deref() == Some("completed") {
            let changes = begun.changes.into_iter();
            reports.extend(changes.map(AgentSessionEvent::FileChanged));
        }
        let (run, tool) = (Some(call.id.clone()), begun.tool);
        reports.push(match call.status.as_deref() {
            Some("failed") => AgentSessionEvent::ToolFailed(ToolFailed {
                run,
                tool,
                error: shown(call),
                retryable: None,
            }),
            _ => AgentSessionEvent::ToolCompleted(ToolCompleted {
                run,
                tool,
                output: output(call),
                duration_ms: u64::try_from(now.as_millis() - begun.began.as_millis()).ok(),
            }),
        });
    }
}

fn used(usage: &Usage) -> AgentSessionEvent {
    let size = usage.size;
    AgentSessionEvent::UsageUpdated(UsageUpdated {
        tokens: usage.used,
        cost_usd: usage.cost_usd,
        metadata: size.map(|size| Metadata::from_iter([("contextSize".to_owned(), size.into())])),
    })
}

impl Call {
    fn note(&mut self, call: &ToolCall) {
        if call.kind.is_some() {
            self.kind.clone_from(&call.kind);
        }
        let changes = super::changes::read(call, self.kind.as_deref());
        if !changes.is_empty() {
            self.changes = changes;
        }
    }
}

fn texts(call: &ToolCall) -> String {
    let texts = call.content.iter().filter_map(|content| match content {
        ToolContent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn output(call: &ToolCall) -> Option<Value> {
    let output = call.output.as_ref().and_then(bounded);
    output.or_else(|| match texts(call) {
        text if text.is_empty() || text.len() > MAX_VALUE_BYTES => None,
        text => Some(text.into()),
    })
}

/// Why a call failed, for people; at most 2,000 characters.
pub(super) fn shown(call: &ToolCall) -> String {
    let text = match (&call.output, texts(call)) {
        (_, text) if !text.is_empty() => text,
        (Some(Value::String(text)), _) => text.clone(),
        (Some(output), _) => output.to_string(),
        (None, _) => "it failed".to_owned(),
    };
    text.chars().take(2_000).collect()
}

/// A value that is not too large to be repeated.
fn bounded(value: &Value) -> Option<Value> {
    let fits = serde_json::to_string(value).is_ok_and(|text| text.len() <= MAX_VALUE_BYTES);
    fits.then(|| value.clone())
}

#[cfg(test)]
mod tests;
