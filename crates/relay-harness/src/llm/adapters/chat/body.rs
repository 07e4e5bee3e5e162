//! A question in the form of Chat Completions.
//!
//! Tools answer in text alone here, so pictures that a tool gave are shown by the user right after the answers. Thoughts are not given
//! back: there is no agreed place for them, and some servers refuse them.

use serde_json::{Value, json};

use crate::llm::adapters::BodyOptions;
use crate::llm::conversation::{Content, Message, Said, words};
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
    // What tools showed; it may not stand between their answers.
    let mut shown = Vec::new();
    for message in messages {
        if !matches!(message, Message::Tool(_)) {
            show(&mut shown, &mut all);
        }
        all.push(match message {
            Message::System(text) => json!({ "role": "system", "content": text }),
            Message::User(content) => json!({ "role": "user", "content": user(content) }),
            Message::Assistant(said) => assistant(said),
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

fn assistant(said: &[Said]) -> Value {
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
    }
    message
}
