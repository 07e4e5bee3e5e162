//! A conversation as one prompt: agents have sessions of their own, and this one is new. What was said before is told as text.

use relay_harness::acp::content::PromptContent;
use relay_harness::llm::conversation::{Content, Message, Said};

use crate::refusal::Refusal;

/// The prompt for a conversation, which ends with what the user says.
pub(crate) fn prompt(mut messages: Vec<Message>) -> Result<Vec<PromptContent>, Refusal> {
    let Some(Message::User(last)) = messages.pop() else {
        return Err(Refusal::shape(
            "messages",
            "a message of the user at the end: that is what an agent is given",
        ));
    };
    let before: Vec<String> = messages.iter().filter_map(told).collect();
    let mut prompt = Vec::new();
    if !before.is_empty() {
        let before = before.join("\n\n");
        prompt.push(PromptContent::Text(format!(
            "What was said so far:\n\n{before}\n\nNow:"
        )));
    }
    prompt.extend(last.into_iter().map(|part| match part {
        Content::Text(text) => PromptContent::Text(text),
        Content::Image(media) => PromptContent::Image {
            data: media.data,
            mime_type: media.media_type,
        },
        Content::Document(media) => PromptContent::Text(format!(
            "[a document of type {}, which can't be given to an agent]",
            media.media_type
        )),
    }));
    Ok(prompt)
}

/// An earlier message in words.
fn told(message: &Message) -> Option<String> {
    let (who, words) = match message {
        Message::System(text) => ("Instructions", text.clone()),
        Message::User(content) => ("User", words(content)),
        Message::Assistant(said) => {
            let texts = said.iter().filter_map(|part| match part {
                Said::Text(text) => Some(text.as_str()),
                Said::Reasoning { .. } | Said::ToolCall(_) => None,
            });
            ("Assistant", texts.collect::<Vec<_>>().join("\n"))
        }
        Message::Tool(_) => return None,
    };
    (!words.is_empty()).then(|| format!("{who}: {words}"))
}

fn words(content: &[Content]) -> String {
    let texts = content.iter().map(|part| match part {
        Content::Text(text) => text.as_str(),
        Content::Image(_) => "[an image]",
        Content::Document(_) => "[a document]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(messages: &Value) -> Result<Vec<PromptContent>, Refusal> {
        prompt(Message::from_chat(messages).unwrap())
    }

    #[test]
    fn the_last_words_are_the_prompt_and_the_rest_is_told() {
        let plain = of(&json!([{ "role": "user", "content": "hi" }])).unwrap();
        assert_eq!(plain, [PromptContent::Text("hi".to_owned())]);
        let long = of(&json!([
            { "role": "system", "content": "be short" },
            { "role": "user", "content": "a" },
            { "role": "assistant", "content": "b", "tool_calls": [{ "id": "c", "name": "x" }] },
            { "role": "tool", "tool_call_id": "c", "content": "d" },
            { "role": "user", "content": [{ "type": "image", "mediaType": "image/png", "data": "aGk=" }] },
        ]));
        let expected =
            "What was said so far:\n\nInstructions: be short\n\nUser: a\n\nAssistant: b\n\nNow:";
        let image = PromptContent::Image {
            data: "aGk=".to_owned(),
            mime_type: "image/png".to_owned(),
        };
        assert_eq!(
            long.unwrap(),
            [PromptContent::Text(expected.to_owned()), image]
        );
        for none in [json!([]), json!([{ "role": "assistant", "content": "x" }])] {
            assert_eq!(of(&none).unwrap_err().status, 400);
        }
    }
}
