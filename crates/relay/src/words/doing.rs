//! What a coding agent does, in words, as it comes: its text as it is, everything else as lines.

use std::collections::HashMap;

use relay_harness::acp::event::{Event, StopReason, ToolCall, ToolContent};
use serde_json::Value;

use crate::output::{Style, one_line, safe};

/// Most tool calls that are remembered at once.
const MAX_CALLS: usize = 1_024;

/// Most characters of a call, and of what went wrong with it, on a line.
const SHOWN: usize = 300;

/// A piece of what is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The agent's own words; a piece, often without the end of a line.
    Text(String),
    /// Its thoughts, in pieces, too.
    Thought(String),
    /// A line that stands alone.
    Line(String),
}

/// Tells what an agent does.
#[derive(Default)]
pub(crate) struct Doing {
    calls: HashMap<String, Call>,
}

/// What is known of a tool call, and whether it was told.
#[derive(Default)]
struct Call {
    tool: Option<String>,
    title: Option<String>,
    is_told: bool,
}

impl Doing {
    /// What is told of an event; often nothing.
    pub(crate) fn tell(&mut self, style: &Style, event: &Event) -> Option<Told> {
        let line = match event {
            Event::Text { text } => return Some(Told::Text(safe(text))),
            Event::Thought { text } => return Some(Told::Thought(safe(text))),
            Event::ToolCall(call) | Event::ToolCallUpdate(call) => self.call(style, call)?,
            Event::PermissionAsked { tool_call } => {
                let what = self.known(tool_call).named();
                format!("{} {what}", style.open("asks"))
            }
            Event::PermissionAnswered {
                option_id: Some(option),
            } => {
                format!("{} {}", style.faint("answered"), one_line(option))
            }
            Event::PermissionAnswered { option_id: None } => style.faint("nobody answers any more"),
            Event::Plan { plan } => format!("{} {}", style.faint("plan"), planned(plan)),
            Event::Mode { mode } => format!("{} {}", style.faint("mode"), one_line(mode)),
            Event::Lagged { dropped } => {
                style.bad(&format!("{dropped} updates came too fast and are lost"))
            }
            Event::TurnEnded { stop_reason, .. } => {
                self.calls.clear();
                ended(style, stop_reason)?
            }
            Event::TurnFailed { error } => {
                self.calls.clear();
                style.bad(&format!("the turn failed: {}", shortened(error)))
            }
            Event::UserText { .. }
            | Event::Commands { .. }
            | Event::ConfigOptions { .. }
            | Event::Title { .. }
            | Event::Usage(_)
            | Event::Raw { .. } => return None,
        };
        Some(Told::Line(line))
    }

    /// A call is told when it is known what it is, and when it has ended.
    fn call(&mut self, style: &Style, update: &ToolCall) -> Option<String> {
        let call = self.known(update);
        let what = call.named();
        let has_title = call.title.is_some();
        let was_told = call.is_told;
        call.is_told |= has_title;
        let status = update.status.as_deref();
        let state = match status {
            Some("completed") => style.good("completed"),
            Some("failed") => style.bad(&format!("failed{}", why(update))),
            status if has_title && !was_told => style.faint(status.unwrap_or("called")),
            _ => return None,
        };
        Some(format!("{} {what}  {state}", style.joint("tool")))
    }

    /// What is known of a call with what an update adds.
    fn known(&mut self, update: &ToolCall) -> &mut Call {
        if self.calls.len() >= MAX_CALLS {
            self.calls.clear();
        }
        let call = self.calls.entry(update.id.clone()).or_default();
        let tool = update.name.clone().or_else(|| update.kind.clone());
        call.tool = tool.or(call.tool.take());
        let title = update
            .title
            .clone()
            .filter(|title| !title.trim().is_empty());
        call.title = title.or(call.title.take());
        call
    }
}

impl Call {
    fn named(&self) -> String {
        let tool = self.tool.as_deref().map_or("tool".to_owned(), one_line);
        match &self.title {
            Some(title) if *title != tool => format!("{tool}: {}", shortened(title)),
            _ => tool,
        }
    }
}

fn ended(style: &Style, reason: &StopReason) -> Option<String> {
    match reason {
        StopReason::EndTurn => None,
        StopReason::Cancelled => Some(style.open("the turn was cancelled")),
        other => Some(style.open(&format!("the turn ended: {}", one_line(other.as_str())))),
    }
}

/// Why a call failed, where it says so.
fn why(call: &ToolCall) -> String {
    let shown = call.content.iter().find_map(|content| match content {
        ToolContent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    let output = call.output.as_ref().and_then(Value::as_str);
    match shown.or(output) {
        Some(text) => format!(": {}", shortened(text)),
        None => String::new(),
    }
}

/// How far a plan is.
fn planned(plan: &Value) -> String {
    let steps = plan.as_array().map_or(&[][..], Vec::as_slice);
    let done = steps.iter().filter(|step| step["status"] == "completed");
    let now = steps.iter().find(|step| step["status"] == "in_progress");
    let now = now.and_then(|step| step["content"].as_str());
    let now = now.map_or(String::new(), |now| format!(": {}", shortened(now)));
    format!("{} of {} done{now}", done.count(), steps.len())
}

fn shortened(text: &str) -> String {
    let text = one_line(text);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(events: &[Value]) -> Vec<String> {
        let mut doing = Doing::default();
        let style = Style::new(false);
        let events = events
            .iter()
            .map(|event| serde_json::from_value::<Event>(event.clone()).unwrap());
        let told = events.filter_map(|event| doing.tell(&style, &event));
        told.map(|told| match told {
            Told::Text(text) | Told::Thought(text) | Told::Line(text) => text,
        })
        .collect()
    }

    #[test]
    fn calls_are_told_when_they_are_known_and_when_they_end() {
        let lines = told(&[
            json!({"type": "tool-call", "id": "a", "kind": "execute", "title": "", "status": "pending"}),
            json!({"type": "tool-call-update", "id": "a", "title": "ls\n-l"}),
            json!({"type": "tool-call-update", "id": "a", "status": "in_progress"}),
            json!({"type": "permission-asked", "toolCall": {"id": "a"}}),
            json!({"type": "permission-answered", "optionId": "allow"}),
            json!({"type": "tool-call-update", "id": "a", "status": "completed"}),
            json!({"type": "tool-call-update", "id": "b", "name": "Bash", "title": "rm", "status": "failed",
                "content": [{"type": "text", "text": "no such\u{1b}[2J file"}]}),
        ]);
        assert_eq!(
            lines,
            [
                "tool execute: ls -l  called",
                "asks execute: ls -l",
                "answered allow",
                "tool execute: ls -l  completed",
                "tool Bash: rm  failed: no such[2J file",
            ]
        );
    }

    #[test]
    fn a_turn_is_told_when_it_does_not_end_by_itself() {
        let lines = told(&[
            json!({"type": "text", "text": "Hello\u{1b}[31m"}),
            json!({"type": "turn-ended", "stopReason": "end_turn"}),
            json!({"type": "turn-ended", "stopReason": "cancelled"}),
            json!({"type": "turn-ended", "stopReason": "max_tokens"}),
            json!({"type": "turn-failed", "error": "it broke"}),
            json!({"type": "plan", "plan": [{"status": "completed"}, {"status": "in_progress", "content": "dig"}]}),
        ]);
        assert_eq!(
            lines,
            [
                "Hello[31m",
                "the turn was cancelled",
                "the turn ended: max_tokens",
                "the turn failed: it broke",
                "plan 1 of 2 done: dig",
            ]
        );
    }
}
