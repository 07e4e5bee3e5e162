//! A question in the form of Messages: roles take turns, and the answers of tools are said by the user.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::llm::adapters::BodyOptions;
use crate::llm::conversation::{Api, Content, Message, Said, instructions};
use crate::llm::provider::ModelRequest;

/// Most tokens of an answer where nothing is said: this provider wants a number.
const MAX_TOKENS: u32 = 16_384;

/// The body of a request.
pub(in crate::llm::adapters) fn body(request: &ModelRequest, options: &BodyOptions) -> Value {
    let mut body = json!({
        "model": request.model,
        "max_tokens": options.max_output_tokens.unwrap_or(MAX_TOKENS),
        "messages": messages(&request.messages),
        "stream": true,
    });
    let instructions = instructions(&request.messages);
    if !instructions.is_empty() {
        body["system"] = json!(instructions);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name, "description": tool.description, "input_schema": tool.schema,
            })
        });
        body["tools"] = tools.collect();
    } else {
        let names: BTreeSet<&str> = called(&request.messages).collect();
        if !names.is_empty() {
            // A conversation with calls is refused without the tools that it calls.
            let tools = names.into_iter();
            let tools =
                tools.map(|name| json!({ "name": name, "input_schema": { "type": "object" } }));
            body["tools"] = tools.collect();
            body["tool_choice"] = json!({ "type": "none" });
        }
    }
    body
}

/// The tools that a conversation calls.
fn called(messages: &[Message]) -> impl Iterator<Item = &str> {
    let said = messages.iter().flat_map(|message| match message {
        Message::Assistant(said) => said.as_slice(),
        _ => &[],
    });
    said.filter_map(|part| match part {
        Said::ToolCall(call) => Some(call.name.as_str()),
        _ => None,
    })
}

fn messages(messages: &[Message]) -> Value {
    let mut all: Vec<(&str, Vec<Value>)> = Vec::with_capacity(messages.len());
    for message in messages {
        let (role, blocks): (_, Vec<Value>) = match message {
            // They are told apart from the conversation.
            Message::System(_) => continue,
            Message::User(content) => ("user", content.iter().filter_map(block).collect()),
            Message::Assistant(said) => ("assistant", said.iter().filter_map(part).collect()),
            Message::Tool(result) => {
                let content: Value = result.content.iter().filter_map(block).collect();
                let answer = json!({
                    "type": "tool_result", "tool_use_id": result.call_id,
                    "content": content, "is_error": result.is_error,
                });
                ("user", vec![answer])
            }
        };
        match all.last_mut() {
            // The answers to one turn have to be in one message.
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => all.push((role, blocks)),
        }
    }
    let all = all.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    all.map(|(role, blocks)| json!({ "role": role, "content": blocks }))
        .collect()
}

/// Empty texts are refused there.
fn block(content: &Content) -> Option<Value> {
    match content {
        Content::Text(text) if text.is_empty() => None,
        Content::Text(text) => Some(json!({ "type": "text", "text": text })),
        Content::Image(media) => Some(json!({ "type": "image", "source": {
            "type": "base64", "media_type": media.media_type, "data": media.data,
        } })),
        Content::Document(media) => Some(json!({ "type": "document", "source": {
            "type": "base64", "media_type": media.media_type, "data": media.data,
        } })),
    }
}

fn part(said: &Said) -> Option<Value> {
    match said {
        Said::Text(text) if text.is_empty() => None,
        Said::Text(text) => Some(json!({ "type": "text", "text": text })),
        Said::Reasoning { kept, .. } => {
            let own = kept.as_ref().filter(|kept| kept.api == Api::Anthropic)?;
            Some(own.block.clone())
        }
        Said::ToolCall(call) => Some(json!({
            "type": "tool_use", "id": call.id, "name": call.name, "input": call.shown(),
        })),
    }
}
