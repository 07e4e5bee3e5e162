//! A conversation as one prompt: agents have sessions of their own, and this one is new. What was said before is told as text.

use relay_harness::acp::content::PromptContent;
use relay_harness::llm::conversation::{Content, Message, Said};
use relay_harness::llm::run::DroppedPart;

use crate::refusal::Refusal;

/// What an agent is prompted with.
#[derive(Debug, PartialEq)]
pub(crate) struct AgentPrompt {
    content: Vec<PromptContent>,
    /// The images in it, by their place in the content.
    images: Vec<(usize, DroppedPart)>,
    /// Parts that no agent can be given.
    dropped: Vec<DroppedPart>,
}

impl AgentPrompt {
    /// The prompt for an agent that takes images or does not, and the parts that it is not given.
    pub(crate) fn for_agent(self, takes_images: bool) -> (Vec<PromptContent>, Vec<DroppedPart>) {
        let Self {
            mut content,
            images,
            mut dropped,
        } = self;
        if !takes_images {
            for (at, image) in images {
                content[at] = PromptContent::Text(not_given(&image));
                dropped.push(image);
            }
        }
        dropped.sort_by_key(|part| (part.message, part.part));
        (content, dropped)
    }
}

/// The prompt for a conversation, which ends with what the user says.
pub(crate) fn prompt(mut messages: Vec<Message>) -> Result<AgentPrompt, Refusal> {
    let Some(Message::User(last)) = messages.pop() else {
        return Err(Refusal::shape(
            "messages",
            "a message of the user at the end: that is what an agent is given",
        ));
    };
    let before: Vec<String> = messages.iter().filter_map(told).collect();
    let earlier = messages.iter().enumerate();
    let mut prompt = AgentPrompt {
        content: Vec::new(),
        images: Vec::new(),
        dropped: earlier
            .flat_map(|(at, message)| media_of(at, message))
            .collect(),
    };
    if !before.is_empty() {
        let before = before.join("\n\n");
        prompt.content.push(PromptContent::Text(format!(
            "What was said so far:\n\n{before}\n\nNow:"
        )));
    }
    for (part, content) in last.into_iter().enumerate() {
        let place = (messages.len(), part);
        let content = match content {
            Content::Text(text) => PromptContent::Text(text),
            Content::Image(media) => {
                let image = DroppedPart::new("image", &media, place);
                prompt.images.push((prompt.content.len(), image));
                PromptContent::Image {
                    data: media.data,
                    mime_type: media.media_type,
                }
            }
            Content::Document(media) => {
                let document = DroppedPart::new("document", &media, place);
                let text = not_given(&document);
                prompt.dropped.push(document);
                PromptContent::Text(text)
            }
        };
        prompt.content.push(content);
    }
    Ok(prompt)
}

/// What stands where a part was.
fn not_given(part: &DroppedPart) -> String {
    let article = match part.kind {
        "image" => "an",
        _ => "a",
    };
    format!(
        "[{article} {} of type {}, which can't be given to this agent]",
        part.kind, part.media_type
    )
}

/// The images and documents of an earlier message, which is told as text.
fn media_of(at: usize, message: &Message) -> Vec<DroppedPart> {
    let content = match message {
        Message::User(content) => content.as_slice(),
        Message::Tool(result) => result.content.as_slice(),
        Message::System(_) | Message::Assistant(_) => &[],
    };
    let parts = content.iter().enumerate();
    let media = parts.filter_map(|(part, content)| match content {
        Content::Text(_) => None,
        Content::Image(media) => Some(DroppedPart::new("image", media, (at, part))),
        Content::Document(media) => Some(DroppedPart::new("document", media, (at, part))),
    });
    media.collect()
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
        let prompt = prompt(Message::from_chat(messages).unwrap())?;
        Ok(prompt.for_agent(true).0)
    }

    #[test]
    fn what_an_agent_is_not_given_is_listed() {
        let messages = json!([
            { "role": "user", "content": [{ "type": "image", "mediaType": "image/gif", "data": "aGk=" }] },
            { "role": "assistant", "content": "nice" },
            { "role": "user", "content": [
                { "type": "text", "text": "and these?" },
                { "type": "document", "mediaType": "application/pdf", "data": "aGk=" },
                { "type": "image", "mediaType": "image/png", "data": "aGk=" },
            ] },
        ]);
        let prompt = || prompt(Message::from_chat(&messages).unwrap()).unwrap();
        let dropped = |takes_images| {
            let (_, dropped) = prompt().for_agent(takes_images);
            let parts = dropped.into_iter();
            let parts = parts.map(|part| (part.kind, part.media_type, part.message, part.part));
            parts.collect::<Vec<_>>()
        };
        let gif = ("image", "image/gif".to_owned(), 0, 0);
        let pdf = ("document", "application/pdf".to_owned(), 2, 1);
        let png = ("image", "image/png".to_owned(), 2, 2);
        assert_eq!(dropped(true), [gif.clone(), pdf.clone()]);
        assert_eq!(dropped(false), [gif, pdf, png]);
        let (content, _) = prompt().for_agent(false);
        let last = "[an image of type image/png, which can't be given to this agent]";
        assert_eq!(content.last(), Some(&PromptContent::Text(last.to_owned())));
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
