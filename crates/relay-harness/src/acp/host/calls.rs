//! What the agent has said about the tool calls of a turn, because it says each thing once: a question about a call may
//! have nothing but its id.

use std::collections::HashMap;

use serde_json::Value;

use crate::acp::event::ToolCall;

/// Most calls that are remembered.
const MAX_CALLS: usize = 256;

/// Most bytes of parameters that are remembered of one call.
const MAX_INPUT_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct KnownCalls(HashMap<String, ToolCall>);

impl KnownCalls {
    /// Remembers what is said about a call, until that has ended.
    pub(super) fn note(&mut self, call: &ToolCall) {
        if matches!(call.status.as_deref(), Some("completed" | "failed")) {
            self.0.remove(&call.id);
            return;
        }
        if self.0.len() >= MAX_CALLS && !self.0.contains_key(&call.id) {
            return;
        }
        let fits = |input: &Value| input.to_string().len() <= MAX_INPUT_BYTES;
        let known = self.0.entry(call.id.clone()).or_default();
        newer(&mut known.title, call.title.as_ref());
        newer(&mut known.name, call.name.as_ref());
        newer(&mut known.kind, call.kind.as_ref());
        if let Some(input) = &call.input {
            known.input = Some(input.clone()).filter(fits);
        }
        if !call.locations.is_empty() {
            known.locations.clone_from(&call.locations);
        }
    }

    /// A call with what was said about it before. What it says itself counts.
    pub(super) fn completed(&self, mut call: ToolCall) -> ToolCall {
        let Some(known) = self.0.get(&call.id) else {
            return call;
        };
        let ToolCall {
            title,
            name,
            kind,
            input,
            locations,
            ..
        } = known.clone();
        call.title = call.title.or(title);
        call.name = call.name.or(name);
        call.kind = call.kind.or(kind);
        call.input = call.input.or(input);
        if call.locations.is_empty() {
            call.locations = locations;
        }
        call
    }
}

fn newer(known: &mut Option<String>, said: Option<&String>) {
    if let Some(said) = said {
        *known = Some(said.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(mut call: Value) -> ToolCall {
        call["toolCallId"] = "c".into();
        ToolCall::read(&call).unwrap()
    }

    #[test]
    fn a_call_is_all_that_was_said_about_it() {
        let mut known = KnownCalls::default();
        known.note(&call(
            json!({"kind": "execute", "title": "Terminal", "rawInput": {}}),
        ));
        known.note(&call(
            json!({"title": "ls", "rawInput": {"command": "ls"}, "status": "in_progress"}),
        ));
        let asked = known.completed(call(json!({"title": "List"})));
        assert_eq!(
            (asked.title.as_deref(), asked.tool(), asked.input.clone()),
            (Some("List"), "execute", Some(json!({"command": "ls"})))
        );
        // Ids are used again: what has ended says nothing about the next.
        known.note(&call(json!({"status": "completed"})));
        assert_eq!(known.completed(call(json!({}))), call(json!({})));
    }
}
