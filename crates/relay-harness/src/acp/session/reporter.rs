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
    /// Follows the session of this id.
    pub(super) fn new(session: &str, relay_is_asked: bool) -> Self {
        Self {
            name: session.to_owned(),
            status: AgentStatus::Idle,
            text: None,
            sequence: 0,
            calls: HashMap::new(),
            relay_is_asked,
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
        match event {
            Event::ToolCall(call) | Event::ToolCallUpdate(call) => self.call(call, now, reports),
            Event::PermissionAsked { .. } | Event::PermissionAnswered { .. }
                if self.relay_is_asked => {}
            Event::PermissionAsked { .. } => {
                reports.extend(self.status(AgentStatus::Waiting, Some("permission")));
            }
            Event::PermissionAnswered { .. } => {
                reports.extend(self.status(AgentStatus::Active, None));
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::event::StopReason;

    fn reports(updates: &[Value]) -> Vec<Value> {
        let mut reporter = Reporter::new("s", false);
        let mut reports = Vec::new();
        for (number, update) in (0..).zip(updates) {
            let event = match update["ask"].as_bool() {
                Some(true) => Event::PermissionAsked {
                    tool_call: ToolCall::default(),
                },
                Some(false) => Event::PermissionAnswered { option_id: None },
                None => Event::read(update.clone()),
            };
            let event = SessionEvent {
                turn: Some(1),
                event,
            };
            reports.extend(reporter.take(&event, Timestamp::from_millis(number * 1000)));
        }
        reports.extend(reporter.flush());
        let written = reports
            .iter()
            .map(|report| serde_json::to_value(report).unwrap());
        written.collect()
    }

    fn chunk(kind: &str, text: &str) -> Value {
        json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn words_are_put_together_and_kept_in_order() {
        let said = reports(&[
            chunk("agent_thought_chunk", "hm"),
            chunk("agent_message_chunk", "one "),
            chunk("agent_message_chunk", "two"),
            json!({"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "read", "rawInput": {"path": "/a"}}),
            chunk("agent_message_chunk", "three"),
        ]);
        let kinds: Vec<_> = said
            .iter()
            .map(|report| report["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            [
                "transcript.chunk",
                "transcript.chunk",
                "tool.called",
                "transcript.chunk"
            ]
        );
        assert_eq!(said[0]["chunk"]["metadata"]["kind"], "thought");
        assert_eq!(said[1]["chunk"]["content"], "one two");
        assert_eq!(said[1]["chunk"]["sequence"], 2);
        assert_eq!(said[3]["chunk"]["content"], "three");
    }

    #[test]
    fn enough_text_is_reported_at_once() {
        let long = "x".repeat(ENOUGH_TEXT);
        let said = reports(&[
            chunk("agent_message_chunk", &long),
            chunk("agent_message_chunk", "y"),
        ]);
        assert_eq!(said.len(), 2);
    }

    #[test]
    fn tools_are_followed_however_an_agent_tells() {
        let said = reports(&[
            json!({"sessionUpdate": "tool_call", "toolCallId": "a", "kind": "edit", "title": "Write /w/n"}),
            // What it changes is said before the end, and not again.
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "in_progress", "content": [
                {"type": "diff", "path": "/w/n", "oldText": null, "newText": "x"},
                {"type": "diff", "path": "/w/o", "oldText": "a", "newText": "b"}]}),
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed"}),
            // Nothing but its end.
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "b", "kind": "execute", "status": "failed",
                "content": [{"type": "content", "content": {"type": "text", "text": "exit 1"}}]}),
        ]);
        let short: Vec<Value> = said
            .iter()
            .map(|report| {
                json!([
                    report["type"],
                    report["tool"],
                    report["path"],
                    report["operation"],
                    report["error"]
                ])
            })
            .collect();
        assert_eq!(
            short,
            [
                json!(["tool.called", "edit", null, null, null]),
                json!(["file.changed", null, "/w/n", "create", null]),
                json!(["file.changed", null, "/w/o", "update", null]),
                json!(["tool.completed", "edit", null, null, null]),
                json!(["tool.called", "execute", null, null, null]),
                json!(["tool.failed", "execute", null, null, "exit 1"]),
            ]
        );
        assert_eq!(said[3]["durationMs"], 2000);
    }

    #[test]
    fn status_usage_and_what_was_lost() {
        let said = reports(&[
            json!({"ask": true}),
            json!({"ask": true}),
            json!({"ask": false}),
            json!({"sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": {"amount": 0.5, "currency": "USD"}}),
            json!({"sessionUpdate": "hologram"}),
        ]);
        assert_eq!(
            said,
            [
                json!({"type": "status.changed", "status": "waiting", "reason": "permission"}),
                json!({"type": "status.changed", "status": "active"}),
                json!({"type": "usage.updated", "tokens": 5, "costUsd": 0.5, "metadata": {"contextSize": 9}}),
            ]
        );
        let mut reporter = Reporter::new("s", false);
        let end = SessionEvent {
            turn: Some(1),
            event: Event::TurnEnded {
                stop_reason: StopReason::EndTurn,
                tokens: None,
            },
        };
        assert!(reporter.take(&end, Timestamp::from_millis(0)).is_empty());
        assert!(reporter.status(AgentStatus::Idle, None).is_none());
    }
}
