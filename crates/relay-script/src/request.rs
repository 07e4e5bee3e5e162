//! What a model is asked, whatever the provider: instructions, the conversation so far, the tools that it may call.
//!
//! A conversation is a list of messages of three roles. Tool calls are parts of what the assistant said, results are messages
//! of their own, in the order in which they were given.

use serde_json::Value;

/// One question to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The model's name, as the caller wrote it.
    pub model: String,
    /// All instructions, joined by empty lines.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<Tool>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one who asks.
    User,
    /// The model.
    Assistant,
    /// A tool that was called.
    Tool,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// What the model thought, given back to it.
    Reasoning(String),
    /// Something that is not text, by its media type.
    Attachment(String),
    /// A call of a tool by the model.
    ToolCall {
        /// Names the call; its result has the same.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments; a string where they were no JSON.
        arguments: Value,
    },
    /// What a tool answered.
    ToolResult {
        /// The call's id.
        id: String,
        /// The answer, as text.
        text: String,
    },
}

/// A tool that is offered to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// What it is called by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The schema of its arguments; null where it has none.
    pub schema: Value,
}

impl Message {
    /// A message that is one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text(text.into())],
        }
    }

    /// The words of this message: text and tool results, joined by line ends.
    pub fn words(&self) -> String {
        let words = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) | Part::ToolResult { text, .. } => Some(text.as_str()),
            Part::Reasoning(_) | Part::Attachment(_) | Part::ToolCall { .. } => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

impl Request {
    /// What the model has not answered yet: all messages after its last one.
    pub fn fresh(&self) -> &[Message] {
        let last = self
            .messages
            .iter()
            .rposition(|message| message.role == Role::Assistant);
        &self.messages[last.map_or(0, |place| place + 1)..]
    }

    /// What the user said last, if the model has not answered it yet.
    pub fn fresh_user(&self) -> Option<&Message> {
        self.fresh()
            .iter()
            .rfind(|message| message.role == Role::User)
    }

    /// What tools answered and the model has not seen yet.
    pub fn fresh_results(&self) -> impl Iterator<Item = &Message> {
        let fresh = self.fresh().iter();
        fresh.filter(|message| message.role == Role::Tool)
    }

    /// Whether these words are in the conversation, said by anybody.
    pub fn says(&self, words: &str) -> bool {
        self.messages
            .iter()
            .any(|message| message.words().contains(words))
    }

    /// How many tools were called in this conversation so far.
    pub fn calls(&self) -> usize {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts
            .filter(|part| matches!(part, Part::ToolCall { .. }))
            .count()
    }
}
