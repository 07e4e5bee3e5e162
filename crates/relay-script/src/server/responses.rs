//! OpenAI's Responses: numbered events around output items, each added, filled and done, and the whole response at the end.

use serde_json::{Value, json};

use super::api::{Encoder, Frame};
use super::shape::{
    CREATED, Conversation, add_system, event, fragments, list, parsed, string, tool, user, words,
};
use crate::{Failure, Part, Piece, Reply, Request, Role, Stop, Tool, ToolCall};

/// What a body of this API asks.
pub(super) fn request(body: &Value) -> Request {
    let mut system = string(&body["instructions"]);
    let mut messages = Conversation::default();
    if let Some(text) = body["input"].as_str() {
        messages.push(Role::User, Part::Text(text.to_owned()));
    }
    for item in list(&body["input"]) {
        messages.begin();
        read_item(item, &mut system, &mut messages);
    }
    Request {
        model: string(&body["model"]),
        system,
        messages: messages.end(),
        tools: tools(body).map(|(tool, _)| tool).collect(),
    }
}

fn read_item(item: &Value, system: &mut String, messages: &mut Conversation) {
    match item["type"].as_str().unwrap_or("message") {
        "message" => match item["role"].as_str() {
            Some("system" | "developer") => add_system(system, &words(&item["content"])),
            Some("assistant") => {
                messages.push(Role::Assistant, Part::Text(words(&item["content"])));
            }
            _ => user(&item["content"], messages),
        },
        "reasoning" => {
            let part = Part::Reasoning(words(&item["summary"]));
            messages.push(Role::Assistant, part);
        }
        "function_call" | "custom_tool_call" => {
            let arguments = match item.get("arguments") {
                Some(arguments) => parsed(arguments),
                None => item["input"].clone(),
            };
            let part = Part::ToolCall {
                id: string(&item["call_id"]),
                name: string(&item["name"]),
                arguments,
            };
            messages.push(Role::Assistant, part);
        }
        "function_call_output" | "custom_tool_call_output" => {
            let part = Part::ToolResult {
                id: string(&item["call_id"]),
                text: words(&item["output"]),
            };
            messages.push(Role::Tool, part);
        }
        _ => {}
    }
}

/// How a tool has to be called.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Function {
        namespace: Option<String>,
    },
    /// Takes text instead of JSON.
    Custom,
}

/// The tools of a body; those in a namespace are listed like all others.
fn tools(body: &Value) -> impl Iterator<Item = (Tool, Kind)> {
    list(&body["tools"]).iter().flat_map(|entry| {
        let kind = entry["type"].as_str().unwrap_or_default();
        match kind {
            "namespace" => {
                let namespace = entry["name"].as_str().map(ToOwned::to_owned);
                let inside = list(&entry["tools"]).iter();
                let inside = inside.filter_map(|one| tool(one, "parameters"));
                inside
                    .map(|tool| {
                        let namespace = namespace.clone();
                        (tool, Kind::Function { namespace })
                    })
                    .collect::<Vec<_>>()
            }
            "custom" => tool(entry, "format")
                .map(|tool| (tool, Kind::Custom))
                .into_iter()
                .collect(),
            _ => tool(entry, "parameters")
                .map(|tool| (tool, Kind::Function { namespace: None }))
                .into_iter()
                .collect(),
        }
    })
}

/// One answer as a stream.
pub(super) struct Stream {
    frame: Frame,
    kinds: Vec<(String, Kind)>,
    sequence: u64,
    /// Items that are done.
    output: Vec<Value>,
    open: Option<Open>,
}

/// A text item that is being filled.
struct Open {
    kind: Filling,
    id: String,
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Filling {
    Message,
    Reasoning,
}

impl Filling {
    /// What the deltas are called, and the key of their place inside the item.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Message => (
                "response.output_text",
                "content_index",
                "response.content_part",
            ),
            Self::Reasoning => (
                "response.reasoning_summary_text",
                "summary_index",
                "response.reasoning_summary_part",
            ),
        }
    }

    fn item(self, id: &str, text: Option<&str>) -> Value {
        let status = if text.is_some() {
            "completed"
        } else {
            "in_progress"
        };
        match self {
            Self::Message => json!({
                "id": id, "type": "message", "status": status, "role": "assistant",
                "content": text.map(|text| self.part(text)).into_iter().collect::<Vec<_>>(),
            }),
            Self::Reasoning => json!({
                "id": id, "type": "reasoning",
                "summary": text.map(|text| self.part(text)).into_iter().collect::<Vec<_>>(),
            }),
        }
    }

    fn part(self, text: &str) -> Value {
        match self {
            Self::Message => json!({ "type": "output_text", "text": text, "annotations": [] }),
            Self::Reasoning => json!({ "type": "summary_text", "text": text }),
        }
    }
}

impl Stream {
    pub(super) fn new(frame: Frame, body: &Value) -> Self {
        Self {
            frame,
            kinds: tools(body).map(|(tool, kind)| (tool.name, kind)).collect(),
            sequence: 0,
            output: Vec::new(),
            open: None,
        }
    }

    fn send(&mut self, mut value: Value, out: &mut Vec<u8>) {
        value["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        event(&value, out);
    }

    /// An event about the item that comes after those that are done.
    fn about_item(&mut self, name: &str, mut value: Value, out: &mut Vec<u8>) {
        value["type"] = json!(name);
        value["output_index"] = json!(self.output.len());
        self.send(value, out);
    }

    /// An event about the one part of the open item.
    fn about_part(&mut self, name: &str, mut value: Value, out: &mut Vec<u8>) {
        let Some(open) = &self.open else { return };
        value["item_id"] = json!(open.id);
        value[open.kind.names().1] = json!(0);
        self.about_item(name, value, out);
    }

    fn fill(&mut self, kind: Filling, text: &str, out: &mut Vec<u8>) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close(out);
            let id = self.item_id("item");
            self.open = Some(Open {
                kind,
                id: id.clone(),
                text: String::new(),
            });
            let added = json!({ "item": kind.item(&id, None) });
            self.about_item("response.output_item.added", added, out);
            let part = json!({ "part": kind.part("") });
            self.about_part(&format!("{}.added", kind.names().2), part, out);
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
        }
        let delta = json!({ "delta": text });
        self.about_part(&format!("{}.delta", kind.names().0), delta, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = &self.open else { return };
        let (kind, id, text) = (open.kind, open.id.clone(), open.text.clone());
        let (deltas, _, part) = kind.names();
        self.about_part(&format!("{deltas}.done"), json!({ "text": text }), out);
        let done = json!({ "part": kind.part(&text) });
        self.about_part(&format!("{part}.done"), done, out);
        self.open = None;
        self.finish_item(kind.item(&id, Some(&text)), out);
    }

    fn finish_item(&mut self, item: Value, out: &mut Vec<u8>) {
        let done = json!({ "item": item });
        self.about_item("response.output_item.done", done, out);
        self.output.push(item);
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.frame.number, self.output.len())
    }

    fn kind(&self, name: &str) -> Kind {
        let known = self.kinds.iter().find(|(known, _)| known == name);
        known.map_or(Kind::Function { namespace: None }, |(_, kind)| kind.clone())
    }

    fn response(&self, status: &str) -> Value {
        let usage = self.frame.usage;
        let ended = status != "in_progress";
        json!({
            "id": format!("resp_{}", self.frame.number),
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "model": self.frame.model,
            "output": self.output,
            "parallel_tool_calls": true,
            "usage": ended.then(|| json!({
                "input_tokens": usage.input,
                "input_tokens_details": { "cached_tokens": usage.cached },
                "output_tokens": usage.output,
                "output_tokens_details": { "reasoning_tokens": 0 },
                "total_tokens": usage.input + usage.output,
            })),
        })
    }

    /// The response as it is at its end, and the name of the event that says so.
    fn ended(&self, stop: &Stop) -> (&'static str, Value) {
        let reason = match stop {
            Stop::Length => "max_output_tokens",
            Stop::Refusal => "content_filter",
            Stop::Other(word) => word,
            Stop::End | Stop::Tools | Stop::Missing => {
                return ("response.completed", self.response("completed"));
            }
        };
        let mut response = self.response("incomplete");
        response["incomplete_details"] = json!({ "reason": reason });
        ("response.incomplete", response)
    }
}

impl Encoder for Stream {
    fn begin(&mut self, out: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            let response = self.response("in_progress");
            self.send(json!({ "type": name, "response": response }), out);
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        self.fill(Filling::Message, text, out);
    }

    fn reasoning(&mut self, text: &str, out: &mut Vec<u8>) {
        self.fill(Filling::Reasoning, text, out);
    }

    fn call(&mut self, call: &ToolCall, out: &mut Vec<u8>) {
        self.close(out);
        let id = self.item_id("call");
        let kind = self.kind(&call.name);
        let (key, deltas) = match &kind {
            Kind::Custom => ("input", "response.custom_tool_call_input"),
            Kind::Function { .. } => ("arguments", "response.function_call_arguments"),
        };
        let added = json!({ "item": call_item(&id, call, &kind, key, None) });
        self.about_item("response.output_item.added", added, out);
        for fragment in fragments(&call.arguments) {
            let delta = json!({ "item_id": id, "delta": fragment });
            self.about_item(&format!("{deltas}.delta"), delta, out);
        }
        let mut done = json!({ "item_id": id });
        done[key] = json!(call.arguments);
        self.about_item(&format!("{deltas}.done"), done, out);
        let item = call_item(&id, call, &kind, key, Some(&call.arguments));
        self.finish_item(item, out);
    }

    fn end(&mut self, stop: &Stop, out: &mut Vec<u8>) {
        self.close(out);
        // Here the closing event is the reason: a stream that gives none just ends.
        if *stop == Stop::Missing {
            return;
        }
        let (name, response) = self.ended(stop);
        self.send(json!({ "type": name, "response": response }), out);
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        let mut response = self.response("failed");
        response["error"] = json!({ "code": failure.kind, "message": failure.message });
        self.send(
            json!({ "type": "response.failed", "response": response }),
            out,
        );
    }
}

fn call_item(id: &str, call: &ToolCall, kind: &Kind, key: &str, arguments: Option<&str>) -> Value {
    let status = if arguments.is_some() {
        "completed"
    } else {
        "in_progress"
    };
    let mut item = json!({
        "id": id, "status": status, "call_id": call.id, "name": call.name,
    });
    item[key] = json!(arguments.unwrap_or_default());
    item["type"] = match kind {
        Kind::Custom => json!("custom_tool_call"),
        Kind::Function { namespace } => {
            if let Some(namespace) = namespace {
                item["namespace"] = json!(namespace);
            }
            json!("function_call")
        }
    };
    item
}

/// The answer in one piece: what the stream says at its end.
pub(super) fn whole(frame: &Frame, reply: &Reply, body: &Value) -> Value {
    let mut stream = Stream::new(frame.clone(), body);
    let mut unread = Vec::new();
    for piece in &reply.pieces {
        match piece {
            Piece::Text(text) => stream.text(text, &mut unread),
            Piece::Reasoning(text) => stream.reasoning(text, &mut unread),
            Piece::ToolCall(call) => stream.call(call, &mut unread),
            _ => {}
        }
    }
    stream.close(&mut unread);
    stream.ended(&reply.stop).1
}
