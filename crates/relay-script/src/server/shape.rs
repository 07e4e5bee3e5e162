//! What the providers' bodies have in common: text in several shapes, messages in order, events on the wire.

use serde_json::Value;

use crate::{Message, Part, Role, Tool};

/// When everything was created: answers are the same every time.
pub(super) const CREATED: u64 = 1_760_000_000;

/// A conversation that is being read.
#[derive(Default)]
pub(super) struct Conversation {
    messages: Vec<Message>,
    /// Whether the next part belongs to another message of the body than the last.
    boundary: bool,
}

impl Conversation {
    /// Says that another message of the body begins.
    pub(super) fn begin(&mut self) {
        self.boundary = true;
    }

    /// Adds a part. What the assistant said without anything between is one message, however many items it was.
    pub(super) fn push(&mut self, role: Role, part: Part) {
        let joins = role == Role::Assistant || !self.boundary;
        self.boundary = false;
        match self.messages.last_mut() {
            Some(last) if last.role == role && joins => last.parts.push(part),
            _ => self.messages.push(Message {
                role,
                parts: vec![part],
            }),
        }
    }

    /// The messages.
    pub(super) fn end(self) -> Vec<Message> {
        self.messages
    }
}

/// What the user says in OpenAI's forms: a string, or a list of parts with or without text.
pub(super) fn user(content: &Value, messages: &mut Conversation) {
    if let Some(text) = content.as_str() {
        messages.push(Role::User, Part::Text(text.to_owned()));
    }
    for part in list(content) {
        let part = match part["text"].as_str() {
            Some(text) => Part::Text(text.to_owned()),
            None => Part::Attachment(string(&part["type"])),
        };
        messages.push(Role::User, part);
    }
}

/// A text that is a string, or a list of objects with a `text`.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(words).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(fields) => fields.get("text").map(words).unwrap_or_default(),
        _ => String::new(),
    }
}

/// A string, or nothing.
pub(super) fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A list, or nothing.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// JSON in a string; as it is where it is none.
pub(super) fn parsed(value: &Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| value.clone())
}

/// Joins instructions.
pub(super) fn add_system(system: &mut String, more: &str) {
    if !system.is_empty() && !more.is_empty() {
        system.push_str("\n\n");
    }
    system.push_str(more);
}

/// A tool of an object with a name, a description and a schema under this key.
pub(super) fn tool(value: &Value, schema: &str) -> Option<Tool> {
    Some(Tool {
        name: value["name"].as_str()?.to_owned(),
        description: string(&value["description"]),
        schema: value[schema].clone(),
    })
}

/// Tool arguments arrive in fragments, as they do from real models.
pub(super) fn fragments(arguments: &str) -> [&str; 2] {
    let mut middle = arguments.len() / 2;
    while !arguments.is_char_boundary(middle) {
        middle -= 1;
    }
    let (first, second) = arguments.split_at(middle);
    [first, second]
}

/// An event without a name.
pub(super) fn data(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("data: {value}\n\n").as_bytes());
}

/// An event whose name is also its type.
pub(super) fn event(value: &Value, out: &mut Vec<u8>) {
    let name = value["type"].as_str().unwrap_or_default();
    out.extend_from_slice(format!("event: {name}\ndata: {value}\n\n").as_bytes());
}
