//! Anthropic's Messages: content blocks with a start, deltas and a stop, one at a time.

use serde_json::{Value, json};

use super::api::{Encoder, Frame};
use super::shape::{Conversation, add_system, event, fragments, list, string, tool, words};
use crate::{Failure, Part, Piece, Reply, Request, Role, Stop, ToolCall};

/// What a thinking block is signed with.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

/// What a body of this API asks.
pub(super) fn request(body: &Value) -> Request {
    let mut system = words(&body["system"]);
    let mut messages = Conversation::default();
    for message in list(&body["messages"]) {
        messages.begin();
        match message["role"].as_str() {
            Some("assistant") => content(&message["content"], Role::Assistant, &mut messages),
            Some("system") => add_system(&mut system, &words(&message["content"])),
            _ => content(&message["content"], Role::User, &mut messages),
        }
    }
    let tools = list(&body["tools"]).iter();
    Request {
        model: string(&body["model"]),
        system,
        messages: messages.end(),
        tools: tools.filter_map(|one| tool(one, "input_schema")).collect(),
    }
}

fn content(content: &Value, role: Role, messages: &mut Conversation) {
    if let Some(text) = content.as_str() {
        messages.push(role, Part::Text(text.to_owned()));
    }
    for block in list(content) {
        let (role, part) = match block["type"].as_str() {
            Some("tool_use") => (
                role,
                Part::ToolCall {
                    id: string(&block["id"]),
                    name: string(&block["name"]),
                    arguments: block["input"].clone(),
                },
            ),
            Some("tool_result") => (
                Role::Tool,
                Part::ToolResult {
                    id: string(&block["tool_use_id"]),
                    text: words(&block["content"]),
                },
            ),
            Some("thinking") => (role, Part::Reasoning(string(&block["thinking"]))),
            Some("text") => (role, Part::Text(string(&block["text"]))),
            _ => (
                role,
                Part::Attachment(string(&block["source"]["media_type"])),
            ),
        };
        messages.push(role, part);
    }
}

/// One answer as a stream.
pub(super) struct Stream {
    frame: Frame,
    index: usize,
    open: Option<Block>,
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    Text,
    Thinking,
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self {
            frame,
            index: 0,
            open: None,
        }
    }

    /// Makes sure that a block of this kind is open.
    fn within(&mut self, block: Block, out: &mut Vec<u8>) {
        if self.open == Some(block) {
            return;
        }
        self.close(out);
        let start = match block {
            Block::Text => json!({ "type": "text", "text": "" }),
            Block::Thinking => json!({ "type": "thinking", "thinking": "", "signature": "" }),
        };
        self.start(&start, out);
        self.open = Some(block);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(block) = self.open.take() else {
            return;
        };
        if block == Block::Thinking {
            let signature = json!({ "type": "signature_delta", "signature": SIGNATURE });
            self.delta(&signature, out);
        }
        self.stop(out);
    }

    fn start(&self, block: &Value, out: &mut Vec<u8>) {
        let index = self.index;
        let start = json!({
            "type": "content_block_start", "index": index, "content_block": block,
        });
        event(&start, out);
    }

    fn delta(&self, delta: &Value, out: &mut Vec<u8>) {
        let index = self.index;
        event(
            &json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            out,
        );
    }

    fn stop(&mut self, out: &mut Vec<u8>) {
        let index = self.index;
        event(
            &json!({ "type": "content_block_stop", "index": index }),
            out,
        );
        self.index += 1;
    }
}

impl Encoder for Stream {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let mut message = message(&self.frame, &Stop::Missing, Vec::new());
        // At the start of a stream nothing is written yet.
        message["usage"]["output_tokens"] = json!(1);
        event(&json!({ "type": "message_start", "message": message }), out);
        event(&json!({ "type": "ping" }), out);
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.within(Block::Text, out);
        self.delta(&json!({ "type": "text_delta", "text": text }), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        self.within(Block::Thinking, out);
        self.delta(&json!({ "type": "thinking_delta", "thinking": text }), out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        self.close(out);
        let block = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        self.start(&block, out);
        for fragment in fragments(&call.arguments) {
            let delta = json!({ "type": "input_json_delta", "partial_json": fragment });
            self.delta(&delta, out);
        }
        self.stop(out);
    }

    fn end(&mut self, stop: &Stop, out: &mut Vec<u8>) {
        self.close(out);
        let delta = json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason(stop), "stop_sequence": null },
            "usage": { "output_tokens": self.frame.usage.output },
        });
        event(&delta, out);
        event(&json!({ "type": "message_stop" }), out);
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        let error = json!({
            "type": "error",
            "error": { "type": failure.kind, "message": failure.message },
        });
        event(&error, out);
    }
}

/// The answer in one piece.
pub(super) fn whole(frame: &Frame, reply: &Reply) -> Value {
    let mut content: Vec<Value> = Vec::new();
    for piece in &reply.pieces {
        match piece {
            Piece::Text(text) => match content.last_mut() {
                Some(last) if last["type"] == "text" => {
                    last["text"] = json!(string(&last["text"]) + text);
                }
                _ => content.push(json!({ "type": "text", "text": text })),
            },
            Piece::Reasoning(text) => content.push(json!({
                "type": "thinking", "thinking": text, "signature": SIGNATURE,
            })),
            Piece::ToolCall(call) => content.push(json!({
                "type": "tool_use", "id": call.id, "name": call.name,
                "input": call.arguments_value(),
            })),
            _ => {}
        }
    }
    message(frame, &reply.stop, content)
}

fn message(frame: &Frame, stop: &Stop, content: Vec<Value>) -> Value {
    json!({
        "id": format!("msg_{:024}", frame.number),
        "type": "message",
        "role": "assistant",
        "model": frame.model,
        "content": content,
        "stop_reason": reason(stop),
        "stop_sequence": null,
        "usage": {
            // What comes from the cache is counted apart here.
            "input_tokens": frame.usage.input.saturating_sub(frame.usage.cached),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": frame.usage.cached,
            "output_tokens": frame.usage.output,
        },
    })
}

fn reason(stop: &Stop) -> Option<&str> {
    match stop {
        Stop::End => Some("end_turn"),
        Stop::Tools => Some("tool_use"),
        Stop::Length => Some("max_tokens"),
        Stop::Refusal => Some("refusal"),
        Stop::Missing => None,
        Stop::Other(word) => Some(word),
    }
}
