//! What was said so far, as the next turn has to send it: made of the events of the turns before. Pure.
//!
//! Only the outermost run counts. A call that was denied was made all the same: the model has to see that it asked, and the
//! answer. Every call has an answer, as providers want it.

use serde_json::{Value, json};

/// The conversation.
#[derive(Default)]
pub(super) struct History {
    messages: Vec<Value>,
    /// What the model says just now.
    text: String,
    calls: Vec<Call>,
}

struct Call {
    id: String,
    name: String,
    arguments: Value,
    result: Option<String>,
}

impl History {
    /// The user says something.
    pub(super) fn say(&mut self, words: &str) {
        self.settle();
        self.messages
            .push(json!({ "role": "user", "content": words }));
    }

    /// All of it.
    pub(super) fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Takes an event of a turn.
    pub(super) fn take(&mut self, event: &Value) {
        if event.get("parentId").is_some() {
            return;
        }
        let text = |field: &str| event[field].as_str().unwrap_or_default();
        match text("type") {
            "text" => {
                self.settle_if_answered();
                self.text.push_str(text("content"));
            }
            "relay" => self.call(text("toolCallId"), text("tool"), &event["params"]),
            "tool_call" => self.call(text("id"), text("name"), &event["input"]),
            "tool_result" => {
                // One that a rule denied was shown nowhere before.
                self.call(text("id"), text("name"), &Value::Null);
                let id = own_id(text("id"));
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == id) {
                    call.result = Some(for_model(&event["output"]));
                }
            }
            _ => {}
        }
    }

    /// The turn is over: what was said stands.
    pub(super) fn settle(&mut self) {
        let (text, calls) = (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.calls),
        );
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let content = match text.as_str() {
            "" => Value::Null,
            text => json!(text),
        };
        let mut said = json!({ "role": "assistant", "content": content });
        if !calls.is_empty() {
            let listed = calls.iter().map(
                |call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }),
            );
            said["tool_calls"] = listed.collect();
        }
        self.messages.push(said);
        for call in calls {
            let result = call.result;
            let result = result.unwrap_or_else(|| for_model(&json!({ "status": "cancelled" })));
            self.messages
                .push(json!({ "role": "tool", "tool_call_id": call.id, "content": result }));
        }
    }

    /// Something new after all calls have their answers belongs to the next thing that the model says.
    fn settle_if_answered(&mut self) {
        let is_answered = self.calls.iter().all(|call| call.result.is_some());
        if is_answered && !self.calls.is_empty() {
            self.settle();
        }
    }

    /// A call, with what it really runs with if that is known later.
    fn call(&mut self, id: &str, name: &str, arguments: &Value) {
        let id = own_id(id);
        if let Some(known) = self.calls.iter_mut().find(|call| call.id == id) {
            if arguments.is_object() {
                known.arguments = arguments.clone();
            }
            return;
        }
        self.settle_if_answered();
        self.calls.push(Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: match arguments.is_object() {
                true => arguments.clone(),
                false => json!({}),
            },
            result: None,
        });
    }
}

/// The provider's own id of a call; before it stands the run.
fn own_id(id: &str) -> &str {
    id.split_once('/').map_or(id, |(_, own)| own)
}

/// What the model reads of a result.
fn for_model(output: &Value) -> String {
    match output["context"].as_str() {
        Some(context) => context.to_owned(),
        None => output.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(events: &[Value]) -> Vec<Value> {
        let mut history = History::default();
        history.say("Hello");
        for event in events {
            history.take(event);
        }
        history.settle();
        history.messages().to_vec()
    }

    fn text(content: &str) -> Value {
        json!({ "type": "text", "id": "t", "content": content })
    }

    fn asked(id: &str, command: &str) -> Value {
        json!({ "type": "relay", "id": "p", "toolCallId": id, "tool": "bash", "params": { "command": command } })
    }

    #[test]
    fn calls_and_their_results_stand_between_what_was_said() {
        let messages = history(&[
            text("Let me "),
            text("see."),
            asked("r/c1", "ls"),
            json!({ "type": "tool_call", "id": "r/c1", "name": "bash", "input": { "command": "ls -a" } }),
            json!({ "type": "text", "parentId": "r/c1", "id": "n", "content": "of another" }),
            json!({ "type": "tool_result", "id": "r/c1", "name": "bash", "output": { "context": "notes", "result": {} } }),
            text("That is all."),
        ]);
        assert_eq!(
            Value::from(messages),
            json!([
                { "role": "user", "content": "Hello" },
                { "role": "assistant", "content": "Let me see.",
                  "tool_calls": [{ "id": "c1", "name": "bash", "arguments": { "command": "ls -a" } }] },
                { "role": "tool", "tool_call_id": "c1", "content": "notes" },
                { "role": "assistant", "content": "That is all." },
            ])
        );
    }

    #[test]
    fn a_denied_call_was_made_all_the_same() {
        let denied = json!({ "status": "denied", "reason": "no" });
        let messages = history(&[
            asked("r/c1", "rm x"),
            json!({ "type": "tool_result", "id": "r/c1", "name": "bash", "output": denied }),
            json!({ "type": "tool_result", "id": "r/c2", "name": "read", "output": { "status": "denied" } }),
        ]);
        assert_eq!(messages[1]["tool_calls"][0]["arguments"]["command"], "rm x");
        assert_eq!(messages[2]["content"], denied.to_string());
        // A rule denied it: nobody was shown what it was, but it was.
        assert_eq!(messages[3]["tool_calls"][0]["id"], "c2");
        assert_eq!(messages[4]["tool_call_id"], "c2");
    }

    #[test]
    fn a_call_that_broke_off_has_an_answer_all_the_same() {
        let messages = history(&[asked("r/c1", "ls"), asked("r/c2", "pwd")]);
        assert_eq!(messages.len(), 4);
        assert_eq!(messages[1]["tool_calls"].as_array().map(Vec::len), Some(2));
        assert_eq!(messages[3]["content"], r#"{"status":"cancelled"}"#);
    }
}
