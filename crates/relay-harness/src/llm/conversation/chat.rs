//! Conversations as chat clients write them: `{role, content, tool_calls?, tool_call_id?}`, read strictly, with the place of
//! what is wrong.

use serde_json::Value;

use super::{Content, Media, Message, Said, ToolCall, ToolResult};

/// What is wrong with a conversation, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}")]
pub struct InvalidMessages {
    /// The place, such as `messages[2].content[0]`.
    pub place: String,
    /// What should be there.
    pub expected: &'static str,
}

impl Message {
    /// Reads a client's list of messages.
    pub fn from_chat(messages: &Value) -> Result<Vec<Self>, InvalidMessages> {
        let place = "messages".to_owned();
        let list = messages.as_array();
        let list = list.ok_or_else(|| invalid(place, "a list"))?;
        let numbered = list.iter().enumerate();
        numbered
            .map(|(at, message)| one(message, &format!("messages[{at}]")))
            .collect()
    }
}

fn one(message: &Value, place: &str) -> Result<Message, InvalidMessages> {
    let content = &message["content"];
    let inside = format!("{place}.content");
    match message["role"].as_str() {
        Some("system") => Ok(Message::System(text(content, inside)?)),
        Some("user") => Ok(Message::User(parts(content, &inside)?)),
        Some("assistant") => assistant(message, place),
        Some("tool") => Ok(Message::Tool(ToolResult {
            call_id: text(&message["tool_call_id"], format!("{place}.tool_call_id"))?,
            content: parts(content, &inside)?,
            is_error: false,
        })),
        _ => Err(invalid(
            format!("{place}.role"),
            "`system`, `user`, `assistant` or `tool`",
        )),
    }
}

fn assistant(message: &Value, place: &str) -> Result<Message, InvalidMessages> {
    let mut said = Vec::new();
    match &message["content"] {
        Value::Null => {}
        content => {
            for part in parts(content, &format!("{place}.content"))? {
                if let Content::Text(text) = part {
                    said.push(Said::Text(text));
                }
            }
        }
    }
    let place = format!("{place}.tool_calls");
    match &message["tool_calls"] {
        Value::Null => {}
        Value::Array(calls) => {
            for (at, one) in calls.iter().enumerate() {
                said.push(Said::ToolCall(call(one, &format!("{place}[{at}]"))?));
            }
        }
        _ => return Err(invalid(place, "a list")),
    }
    Ok(Message::Assistant(said))
}

/// Flat, or inside of `function` as OpenAI's clients have it; arguments are an object, or its text.
fn call(call: &Value, place: &str) -> Result<ToolCall, InvalidMessages> {
    let inner = match &call["function"] {
        Value::Null => call,
        function => function,
    };
    let arguments = match &inner["arguments"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        object @ Value::Object(_) => object.to_string(),
        _ => return Err(invalid(format!("{place}.arguments"), "an object")),
    };
    Ok(ToolCall {
        id: text(&call["id"], format!("{place}.id"))?,
        name: text(&inner["name"], format!("{place}.name"))?,
        arguments,
    })
}

fn parts(content: &Value, place: &str) -> Result<Vec<Content>, InvalidMessages> {
    match content {
        Value::String(text) => Ok(vec![Content::Text(text.clone())]),
        Value::Array(parts) => {
            let numbered = parts.iter().enumerate();
            numbered
                .map(|(at, one)| part(one, &format!("{place}[{at}]")))
                .collect()
        }
        _ => Err(invalid(place.to_owned(), "a string or a list of parts")),
    }
}

fn part(part: &Value, place: &str) -> Result<Content, InvalidMessages> {
    let media = || {
        Ok(Media {
            media_type: text(&part["mediaType"], format!("{place}.mediaType"))?,
            data: text(&part["data"], format!("{place}.data"))?,
        })
    };
    match part["type"].as_str() {
        Some("text") => Ok(Content::Text(text(&part["text"], format!("{place}.text"))?)),
        Some("image") => media().map(Content::Image),
        Some("document") => media().map(Content::Document),
        _ => Err(invalid(
            format!("{place}.type"),
            "`text`, `image` or `document`",
        )),
    }
}

fn text(value: &Value, place: String) -> Result<String, InvalidMessages> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| invalid(place, "a string"))
}

const fn invalid(place: String, expected: &'static str) -> InvalidMessages {
    InvalidMessages { place, expected }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_message_is_read() {
        let messages = json!([
            { "role": "system", "content": "be short" },
            { "role": "user", "content": "hi" },
            { "role": "user", "content": [
                { "type": "text", "text": "look" },
                { "type": "image", "mediaType": "image/png", "data": "aGk=" },
                { "type": "document", "mediaType": "application/pdf", "data": "aGk=" },
            ] },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c1", "name": "read", "arguments": { "path": "a" } },
                { "id": "c2", "function": { "name": "bash", "arguments": "{\"command\":" } },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "text" },
        ]);
        let media = |media_type: &str| Media {
            media_type: media_type.to_owned(),
            data: "aGk=".to_owned(),
        };
        let call = |id: &str, name: &str, arguments: &str| {
            Said::ToolCall(ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: arguments.to_owned(),
            })
        };
        let expected = [
            Message::System("be short".to_owned()),
            Message::user("hi"),
            Message::User(vec![
                Content::Text("look".to_owned()),
                Content::Image(media("image/png")),
                Content::Document(media("application/pdf")),
            ]),
            Message::Assistant(vec![
                call("c1", "read", r#"{"path":"a"}"#),
                call("c2", "bash", r#"{"command":"#),
            ]),
            Message::Tool(ToolResult::text("c1", "text")),
        ];
        assert_eq!(Message::from_chat(&messages).unwrap(), expected);
        assert_eq!(Message::from_chat(&json!([])).unwrap(), []);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let table = [
            (json!({}), "messages"),
            (json!(null), "messages"),
            (json!(["hi"]), "messages[0].role"),
            (
                json!([{ "role": "robot", "content": "x" }]),
                "messages[0].role",
            ),
            (json!([{ "role": "user" }]), "messages[0].content"),
            (
                json!([{ "role": "user", "content": "x" }, { "role": "tool", "content": "x" }]),
                "messages[1].tool_call_id",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "video" }] }]),
                "messages[0].content[0].type",
            ),
            (
                json!([{ "role": "user", "content": [{ "type": "image", "data": "x" }] }]),
                "messages[0].content[0].mediaType",
            ),
            (
                json!([{ "role": "assistant", "tool_calls": [{ "id": "a", "name": "b", "arguments": 1 }] }]),
                "messages[0].tool_calls[0].arguments",
            ),
        ];
        for (messages, place) in table {
            let error = Message::from_chat(&messages).unwrap_err();
            assert_eq!(error.place, place, "{messages}");
        }
    }
}
