//! OpenAI's Chat Completions: chunks with deltas, the usage in a last chunk without choices if it is wanted, then `[DONE]`.

use serde_json::{Value, json};

use super::api::{Encoder, Frame};
use super::shape::{
    CREATED, Conversation, add_system, data, fragments, list, parsed, string, tool, user, words,
};
use crate::{Failure, Part, Piece, Reply, Request, Role, Stop, ToolCall, Usage};

/// What a body of this API asks.
pub(super) fn request(body: &Value) -> Request {
    let mut system = String::new();
    let mut messages = Conversation::default();
    for message in list(&body["messages"]) {
        messages.begin();
        match message["role"].as_str() {
            Some("system" | "developer") => add_system(&mut system, &words(&message["content"])),
            Some("assistant") => assistant(message, &mut messages),
            Some("tool") => {
                let part = Part::ToolResult {
                    id: string(&message["tool_call_id"]),
                    text: words(&message["content"]),
                };
                messages.push(Role::Tool, part);
            }
            _ => user(&message["content"], &mut messages),
        }
    }
    let tools = list(&body["tools"]).iter();
    Request {
        model: string(&body["model"]),
        system,
        messages: messages.end(),
        tools: tools
            .filter_map(|one| tool(&one["function"], "parameters"))
            .collect(),
    }
}

fn assistant(message: &Value, messages: &mut Conversation) {
    for key in ["reasoning_content", "reasoning"] {
        if let Some(text) = message[key].as_str() {
            messages.push(Role::Assistant, Part::Reasoning(text.to_owned()));
        }
    }
    let calls = list(&message["tool_calls"]);
    let text = words(&message["content"]);
    // Even if nothing was said there was a turn.
    if !text.is_empty() || calls.is_empty() {
        messages.push(Role::Assistant, Part::Text(text));
    }
    for call in calls {
        let part = Part::ToolCall {
            id: string(&call["id"]),
            name: string(&call["function"]["name"]),
            arguments: parsed(&call["function"]["arguments"]),
        };
        messages.push(Role::Assistant, part);
    }
}

/// One answer as a stream.
pub(super) struct Stream {
    frame: Frame,
    wants_usage: bool,
    calls: usize,
}

impl Stream {
    pub(super) fn new(frame: Frame, body: &Value) -> Self {
        Self {
            frame,
            wants_usage: body["stream_options"]["include_usage"] == true,
            calls: 0,
        }
    }

    fn chunk(&self, choices: &Value) -> Value {
        json!({
            "id": id(&self.frame),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.frame.model,
            "choices": choices,
        })
    }

    fn delta(&self, delta: &Value, out: &mut Vec<u8>) {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": null }]);
        data(&self.chunk(&choices), out);
    }
}

impl Encoder for Stream {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.delta(&json!({ "role": "assistant", "content": "" }), out);
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.delta(&json!({ "content": text }), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        self.delta(&json!({ "reasoning_content": text }), out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        let index = self.calls;
        self.calls += 1;
        let start = json!({ "tool_calls": [{
            "index": index, "id": call.id, "type": "function",
            "function": { "name": call.name, "arguments": "" },
        }] });
        self.delta(&start, out);
        for fragment in fragments(&call.arguments) {
            let more = json!({ "tool_calls": [{
                "index": index, "function": { "arguments": fragment },
            }] });
            self.delta(&more, out);
        }
    }

    fn end(&mut self, stop: &Stop, out: &mut Vec<u8>) {
        let choices = json!([{ "index": 0, "delta": {}, "finish_reason": reason(stop) }]);
        data(&self.chunk(&choices), out);
        if self.wants_usage {
            let mut last = self.chunk(&json!([]));
            last["usage"] = usage(self.frame.usage);
            data(&last, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        let error = json!({ "error": {
            "message": failure.message, "type": failure.kind, "code": failure.kind,
        } });
        data(&error, out);
    }
}

/// The answer in one piece.
pub(super) fn whole(frame: &Frame, reply: &Reply) -> Value {
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in &reply.pieces {
        match piece {
            Piece::Text(more) => text.push_str(more),
            Piece::Reasoning(more) => reasoning.push_str(more),
            Piece::ToolCall(call) => calls.push(json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments },
            })),
            _ => {}
        }
    }
    let mut message = json!({ "role": "assistant", "content": text });
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": id(frame),
        "object": "chat.completion",
        "created": CREATED,
        "model": frame.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": reason(&reply.stop) }],
        "usage": usage(frame.usage),
    })
}

fn id(frame: &Frame) -> String {
    format!("chatcmpl-{}", frame.number)
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
    })
}

fn reason(stop: &Stop) -> Option<&str> {
    match stop {
        Stop::End => Some("stop"),
        Stop::Tools => Some("tool_calls"),
        Stop::Length => Some("length"),
        Stop::Refusal => Some("content_filter"),
        Stop::Missing => None,
        Stop::Other(word) => Some(word),
    }
}
