//! What was said so far, whatever the provider: instructions, the user, the model, and what tools answered.
//!
//! Arguments of tool calls stay the text that the model wrote. They are read when the call is made, not before, and what is
//! no JSON is the model's mistake, to be told to the model.

mod chat;

use serde_json::{Value, json};

pub use chat::InvalidMessages;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Instructions. All of a conversation count, wherever they are.
    System(String),
    /// What the user says.
    User(Vec<Content>),
    /// What the model said.
    Assistant(Vec<Said>),
    /// What a tool answered.
    Tool(ToolResult),
}

/// Something that is shown to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Words.
    Text(String),
    /// A picture.
    Image(Media),
    /// A document, such as a PDF.
    Document(Media),
}

/// Something that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is, such as `image/png`.
    pub media_type: String,
    /// Its bytes in base64.
    pub data: String,
}

/// A part of what the model said.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// Words.
    Text(String),
    /// Thoughts.
    Reasoning {
        /// As far as they were shown.
        text: String,
        /// What the provider wants back with the next question.
        kept: Option<Kept>,
    },
    /// A tool is to be called.
    ToolCall(ToolCall),
}

/// Something of a provider's own that it wants to see again as it is, such as signed thoughts. No other provider gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Whose it is.
    pub api: Api,
    /// As it came.
    pub block: Value,
}

/// The way in which a provider is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's Chat Completions, which many others speak.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
}

impl Api {
    /// The way of asking that a configuration calls this.
    #[must_use]
    pub fn from_kind(kind: &str) -> Option<Self> {
        match kind {
            "openai" => Some(Self::Chat),
            "openai-responses" => Some(Self::Responses),
            "anthropic" => Some(Self::Anthropic),
            _ => None,
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Names the call; the provider made it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// The answer.
    pub content: Vec<Content>,
    /// Whether the call failed, or never ran.
    pub is_error: bool,
}

impl Message {
    /// What the user says, in words.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Content::Text(text.into())])
    }
}

impl ToolCall {
    /// The arguments as an object; no text at all is an object without members. The error says what is wrong with them.
    pub fn parse(&self) -> Result<serde_json::Map<String, Value>, String> {
        if self.arguments.trim().is_empty() {
            return Ok(serde_json::Map::new());
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(_) => Err("the arguments are no JSON object".to_owned()),
            Err(error) => Err(format!("the arguments are no JSON: {error}")),
        }
    }

    /// The arguments as they are given back to a model: always an object, because servers refuse anything else.
    pub fn shown(&self) -> Value {
        match self.parse() {
            Ok(fields) => Value::Object(fields),
            Err(_) => json!({ "invalidArguments": self.arguments }),
        }
    }
}

impl ToolResult {
    /// An answer in words.
    pub fn text(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            call_id: call_id.into(),
            content: vec![Content::Text(text.into())],
            is_error: false,
        }
    }
}

/// The words of some content, joined by line ends.
pub(crate) fn words(content: &[Content]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        Content::Image(_) | Content::Document(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// All instructions of a conversation, joined by empty lines.
pub(crate) fn instructions(messages: &[Message]) -> String {
    let texts = messages.iter().filter_map(|message| match message {
        Message::System(text) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

impl Media {
    /// The whole of it as a URL.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.data)
    }
}
