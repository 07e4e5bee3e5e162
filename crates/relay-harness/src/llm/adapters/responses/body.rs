//! A question in the form of Responses. Nothing is stored with the provider: the conversation is here, and is sent whole.

use serde_json::{Value, json};

use crate::llm::adapters::BodyOptions;
use crate::llm::conversation::{Api, Content, Message, Said, instructions};
use crate::llm::provider::ModelRequest;

/// The body of a request.
pub(in crate::llm::adapters) fn body(request: &ModelRequest, options: &BodyOptions) -> Value {
    let mut body = json!({
        "model": request.model,
        "input": input(&request.messages),
        "stream": true,
        "store": false,
    });
    let instructions = instructions(&request.messages);
    if !instructions.is_empty() {
        body["instructions"] = json!(instructions);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": tool.schema, "strict": false,
            })
        });
        body["tools"] = tools.collect();
    }
    if let Some(most) = options.max_output_tokens {
        body["max_output_tokens"] = json!(most);
    }
    if options.encrypted_reasoning {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    body
}

fn input(messages: &[Message]) -> Value {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message {
            // They are the instructions.
            Message::System(_) => {}
            Message::User(content) => {
                items.push(json!({ "role": "user", "content": parts(content) }));
            }
            Message::Assistant(said) => items.extend(said.iter().filter_map(item)),
            Message::Tool(result) => {
                let output = match result.content.as_slice() {
                    [Content::Text(text)] => json!(text),
                    content => parts(content),
                };
                items.push(json!({
                    "type": "function_call_output", "call_id": result.call_id, "output": output,
                }));
            }
        }
    }
    Value::Array(items)
}

fn parts(content: &[Content]) -> Value {
    let parts = content.iter().map(|part| match part {
        Content::Text(text) => json!({ "type": "input_text", "text": text }),
        Content::Image(media) => json!({ "type": "input_image", "image_url": media.data_url() }),
        Content::Document(media) => json!({
            "type": "input_file", "filename": "document", "file_data": media.data_url(),
        }),
    });
    parts.collect()
}

fn item(said: &Said) -> Option<Value> {
    match said {
        Said::Text(text) if text.is_empty() => None,
        Said::Text(text) => Some(json!({
            "role": "assistant", "content": [{ "type": "output_text", "text": text }],
        })),
        Said::Reasoning { kept, .. } => {
            let own = kept.as_ref().filter(|kept| kept.api == Api::Responses)?;
            let mut item = own.block.clone();
            // Ids are of what is stored there, and nothing is.
            item.as_object_mut()?.remove("id");
            Some(item)
        }
        Said::ToolCall(call) => Some(json!({
            "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": call.shown().to_string(),
        })),
    }
}
