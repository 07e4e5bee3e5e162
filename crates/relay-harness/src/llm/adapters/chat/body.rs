//! A question in the form of Chat Completions.
//!
//! Tools answer in text alone here, so pictures that a tool gave are shown by the user right after the answers. Instructions are one message
//! at the start: templates of some models refuse others. Thoughts go back, under the name under which they came, with the calls of the turn that
//! is not over yet: there some servers want them, and elsewhere some refuse them.

use serde_json::{Value, json};

use crate::llm::adapters::BodyOptions;
use crate::llm::conversation::{Api, Content, Message, Said, instructions, words};
use crate::llm::provider::ModelRequest;

/// The body of a request.
pub(in crate::llm::adapters) fn body(request: &ModelRequest, options: &BodyOptions) -> Value {
    let mut body = json!({
        "model": request.model,
        "messages": messages(&request.messages),
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            } })
        });
        body["tools"] = tools.collect();
    }
    if let Some(most) = options.max_output_tokens {
        // The newer name; servers that know only the older one ignore it.
        body["max_completion_tokens"] = json!(most);
    }
    body
}

fn messages(messages: &[Message]) -> Value {
    let mut all = Vec::with_capacity(messages.len());
    let instructions = instructions(messages);
    if !instructions.is_empty() {
        all.push(json!({ "role": "system", "content": instructions }));
    }
    let is_user = |message: &Message| matches!(message, Message::User(_));
    let turn = messages.iter().rposition(is_user).unwrap_or(0);
    // What tools showed; it may not stand between their answers.
    let mut shown = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if !matches!(message, Message::Tool(_)) {
            show(&mut shown, &mut all);
        }
        all.push(match message {
            Message::System(_) => continue,
            Message::User(content) => json!({ "role": "user", "content": user(content) }),
            Message::Assistant(said) => assistant(said, at > turn),
            Message::Tool(result) => {
                shown.extend(result.content.iter().filter_map(not_text));
                json!({
                    "role": "tool", "tool_call_id": result.call_id,
                    "content": words(&result.content),
                })
            }
        });
    }
    show(&mut shown, &mut all);
    Value::Array(all)
}

fn show(shown: &mut Vec<Value>, all: &mut Vec<Value>) {
    if !shown.is_empty() {
        all.push(json!({ "role": "user", "content": std::mem::take(shown) }));
    }
}

fn user(content: &[Content]) -> Value {
    match content {
        [Content::Text(text)] => json!(text),
        parts => parts
            .iter()
            .map(|part| match part {
                Content::Text(text) => json!({ "type": "text", "text": text }),
                other => not_text(other).unwrap_or_default(),
            })
            .collect(),
    }
}

fn not_text(content: &Content) -> Option<Value> {
    match content {
        Content::Text(_) => None,
        Content::Image(media) => Some(json!({
            "type": "image_url", "image_url": { "url": media.data_url() },
        })),
        Content::Document(media) => Some(json!({
            "type": "file",
            "file": { "filename": "document", "file_data": media.data_url() },
        })),
    }
}

fn assistant(said: &[Said], in_turn: bool) -> Value {
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in said {
        match part {
            Said::Text(more) => text.push_str(more),
            Said::Reasoning { .. } => {}
            Said::ToolCall(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.shown().to_string() },
            })),
        }
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !calls.is_empty() {
        if text.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = json!(calls);
        if in_turn {
            give_back(said, &mut message);
        }
    }
    message
}

fn give_back(said: &[Said], message: &mut Value) {
    for part in said {
        let Said::Reasoning {
            kept: Some(kept), ..
        } = part
        else {
            continue;
        };
        for (name, thought) in kept.block.as_object().into_iter().flatten() {
            if kept.api == Api::Chat {
                let before = message[name].as_str().unwrap_or_default();
                message[name] = json!(before.to_owned() + thought.as_str().unwrap_or_default());
            }
        }
    }
}
