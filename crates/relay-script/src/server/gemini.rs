//! Gemini's `generateContent`: every event is a whole answer with some more parts; the last has the reason and the usage.

use serde_json::{Value, json};

use super::api::{Encoder, Frame};
use super::shape::{Conversation, data, list, string, tool, words};
use crate::{Failure, Part, Piece, Reply, Request, Role, Stop, ToolCall};

/// What a body of this API asks. The model is in the path, and put into the body by the route.
pub(super) fn request(body: &Value) -> Request {
    let mut messages = Conversation::default();
    for content in list(&body["contents"]) {
        messages.begin();
        let role = match content["role"].as_str() {
            Some("model") => Role::Assistant,
            _ => Role::User,
        };
        for part in list(&content["parts"]) {
            read_part(part, role, &mut messages);
        }
    }
    let tools = list(&body["tools"]).iter();
    let tools = tools.flat_map(|group| list(&group["functionDeclarations"]));
    let tools = tools.filter_map(|one| {
        let plain = tool(one, "parameters")?;
        // Two ways of saying what the arguments are.
        match one.get("parametersJsonSchema") {
            Some(schema) => Some(crate::Tool {
                schema: schema.clone(),
                ..plain
            }),
            None => Some(plain),
        }
    });
    Request {
        model: string(&body["model"]),
        system: words(&body["systemInstruction"]["parts"]),
        messages: messages.end(),
        tools: tools.collect(),
    }
}

fn read_part(part: &Value, role: Role, messages: &mut Conversation) {
    let text = part["text"].as_str();
    let (role, part) = if let Some(call) = part.get("functionCall") {
        let part = Part::ToolCall {
            id: string(&call["id"]),
            name: string(&call["name"]),
            arguments: call["args"].clone(),
        };
        (role, part)
    } else if let Some(answer) = part.get("functionResponse") {
        let part = Part::ToolResult {
            id: string(&answer["id"]),
            text: answer_text(&answer["response"]),
        };
        (Role::Tool, part)
    } else if let Some(text) = text {
        let part = match part["thought"] == true {
            true => Part::Reasoning(text.to_owned()),
            false => Part::Text(text.to_owned()),
        };
        (role, part)
    } else {
        let media = string(&part["inlineData"]["mimeType"]);
        (role, Part::Attachment(media))
    };
    messages.push(role, part);
}

/// The words of a tool's answer, which is an object of the tool's choice.
fn answer_text(response: &Value) -> String {
    match response.get("output").or_else(|| response.get("error")) {
        Some(Value::String(text)) => text.clone(),
        _ => response.to_string(),
    }
}

/// One answer as a stream.
pub(super) struct Stream {
    frame: Frame,
}

impl Stream {
    pub(super) fn new(frame: Frame) -> Self {
        Self { frame }
    }

    fn part(&self, part: Value, out: &mut Vec<u8>) {
        let content = json!({ "role": "model", "parts": [part] });
        let candidate = json!({ "index": 0, "content": content });
        data(&answer(&self.frame, &candidate), out);
    }
}

impl Encoder for Stream {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.part(json!({ "text": text }), out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        self.part(json!({ "text": text, "thought": true }), out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        self.part(call_part(call), out);
    }

    fn end(&mut self, stop: &Stop, out: &mut Vec<u8>) {
        let content = json!({ "role": "model", "parts": [{ "text": "" }] });
        let candidate = json!({
            "index": 0, "content": content, "finishReason": reason(stop),
        });
        data(&answer(&self.frame, &candidate), out);
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        let error = json!({ "error": {
            "code": 503, "status": failure.kind, "message": failure.message,
        } });
        data(&error, out);
    }
}

/// The answer in one piece.
pub(super) fn whole(frame: &Frame, reply: &Reply) -> Value {
    let parts = reply.pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(json!({ "text": text })),
        Piece::Reasoning(text) => Some(json!({ "text": text, "thought": true })),
        Piece::ToolCall(call) => Some(call_part(call)),
        _ => None,
    });
    let content = json!({ "role": "model", "parts": parts.collect::<Vec<_>>() });
    let candidate = json!({
        "index": 0, "content": content, "finishReason": reason(&reply.stop),
    });
    answer(frame, &candidate)
}

fn answer(frame: &Frame, candidate: &Value) -> Value {
    let usage = frame.usage;
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.input,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output,
            "totalTokenCount": usage.input + usage.output,
        },
        "modelVersion": frame.model,
        "responseId": format!("scripted-{}", frame.number),
    })
}

fn call_part(call: &ToolCall) -> Value {
    json!({ "functionCall": {
        "id": call.id, "name": call.name, "args": call.arguments_value(),
    } })
}

fn reason(stop: &Stop) -> Option<&str> {
    match stop {
        // Calls are no reason of their own here.
        Stop::End | Stop::Tools => Some("STOP"),
        Stop::Length => Some("MAX_TOKENS"),
        Stop::Refusal => Some("SAFETY"),
        Stop::Missing => None,
        Stop::Other(word) => Some(word),
    }
}
