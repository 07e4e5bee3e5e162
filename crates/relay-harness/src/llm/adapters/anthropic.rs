//! Anthropic's Messages as a stream: content blocks with a start, deltas and a stop, then the reason and the end.
//!
//! Thoughts come with a signature, and the next question has to give them back unchanged: each block of them is kept whole.

mod body;

use std::collections::HashMap;

use serde_json::{Value, json};

pub(super) use body::body;

use super::Decoder;
use super::json::{object, reported, some_text, tokens};
use crate::llm::conversation::{Api, Kept};
use crate::llm::error::ProviderError;
use crate::llm::provider::{ProviderEvent, StopReason, Usage};
use relay_protocol::sse::SseEvent;

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct AnthropicDecoder {
    /// Blocks that are open, by their place.
    open: HashMap<u64, Block>,
    calls: usize,
    input: Input,
    output: u64,
    stop: Option<StopReason>,
    is_whole: bool,
}

#[derive(Debug)]
enum Block {
    Text,
    Thinking {
        text: String,
        signature: String,
    },
    /// Comes whole.
    Redacted(Value),
    Call {
        call: usize,
        /// The arguments that the start already had; deltas are instead of them.
        input: Option<String>,
    },
    /// Of a kind that is not asked for.
    Other,
}

/// Tokens that were read; those of the cache are counted apart here.
#[derive(Debug, Default)]
struct Input {
    plain: u64,
    cache_read: u64,
    cache_creation: u64,
}

impl Decoder for AnthropicDecoder {
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        let value = object(&event.data)?;
        match some_text(&value["type"]).unwrap_or(&event.name) {
            "message_start" => self.count(&value["message"]["usage"], out),
            "content_block_start" | "content_block_delta" if self.stop.is_some() => {
                return Err(ProviderError::broken("the model went on after its end"));
            }
            "content_block_start" => self.start(&value, out)?,
            "content_block_delta" => self.delta(&value, out)?,
            "content_block_stop" => self.stop_block(&value, out)?,
            "message_delta" => {
                self.count(&value["usage"], out);
                if let Some(word) = some_text(&value["delta"]["stop_reason"]) {
                    self.stop = Some(reason(word));
                }
            }
            "message_stop" => self.end(out)?,
            "error" => return Err(reported(&value["error"])),
            // Pings, and what may be added to the protocol.
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let Some(stop) = self.stop.take() else {
            return Err(ProviderError::broken(
                "the answer ended without a reason to stop",
            ));
        };
        out.push(ProviderEvent::Stop(stop));
        self.is_whole = true;
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl AnthropicDecoder {
    /// Each number is the sum so far, and only some are told each time.
    fn count(&mut self, usage: &Value, out: &mut Vec<ProviderEvent>) {
        let take = |key: &str, into: &mut u64| {
            let told = tokens(&usage[key]);
            *into = told.unwrap_or(*into);
            told.is_some()
        };
        let told = [
            take("input_tokens", &mut self.input.plain),
            take("cache_read_input_tokens", &mut self.input.cache_read),
            take(
                "cache_creation_input_tokens",
                &mut self.input.cache_creation,
            ),
            take("output_tokens", &mut self.output),
        ];
        if told.contains(&true) {
            let input = &self.input;
            out.push(ProviderEvent::Usage(Usage {
                input: input.plain + input.cache_read + input.cache_creation,
                output: self.output,
                cache_read: input.cache_read,
                cache_creation: input.cache_creation,
            }));
        }
    }

    fn start(&mut self, value: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let place = place(value)?;
        let block = self.begin(&value["content_block"], out)?;
        if self.open.insert(place, block).is_some() {
            return Err(ProviderError::broken(
                "two blocks of the answer have the same place",
            ));
        }
        Ok(())
    }

    fn begin(
        &mut self,
        block: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<Block, ProviderError> {
        Ok(match block["type"].as_str() {
            Some("text") => {
                let text = some_text(&block["text"]);
                out.extend(text.map(|text| ProviderEvent::Text(text.to_owned())));
                Block::Text
            }
            Some("thinking") => {
                let text = block["thinking"].as_str().unwrap_or_default().to_owned();
                if !text.is_empty() {
                    out.push(ProviderEvent::Reasoning(text.clone()));
                }
                let signature = block["signature"].as_str().unwrap_or_default().to_owned();
                Block::Thinking { text, signature }
            }
            Some("redacted_thinking") => Block::Redacted(block.clone()),
            Some("tool_use") => self.begin_call(block, out)?,
            _ => Block::Other,
        })
    }

    fn begin_call(
        &mut self,
        block: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<Block, ProviderError> {
        let (Some(id), Some(name)) = (some_text(&block["id"]), some_text(&block["name"])) else {
            return Err(ProviderError::broken(
                "the stream has a tool call without an id or a name",
            ));
        };
        let call = self.calls;
        self.calls += 1;
        let (id, name) = (id.to_owned(), name.to_owned());
        out.push(ProviderEvent::CallBegin { call, id, name });
        let input = block["input"].as_object();
        let input = input.filter(|fields| !fields.is_empty());
        Ok(Block::Call {
            call,
            input: input.map(|_| block["input"].to_string()),
        })
    }

    fn delta(&mut self, value: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let block = self.open.get_mut(&place(value)?);
        let block = block.ok_or_else(|| {
            ProviderError::broken("the answer goes on with a block that is not open")
        })?;
        let delta = &value["delta"];
        match (block, delta["type"].as_str()) {
            (Block::Text, Some("text_delta")) => {
                let text = some_text(&delta["text"]);
                out.extend(text.map(|text| ProviderEvent::Text(text.to_owned())));
            }
            (Block::Thinking { text, .. }, Some("thinking_delta")) => {
                if let Some(more) = some_text(&delta["thinking"]) {
                    text.push_str(more);
                    out.push(ProviderEvent::Reasoning(more.to_owned()));
                }
            }
            (Block::Thinking { signature, .. }, Some("signature_delta")) => {
                signature.push_str(delta["signature"].as_str().unwrap_or_default());
            }
            (Block::Call { call, input }, Some("input_json_delta")) => {
                if let Some(text) = some_text(&delta["partial_json"]) {
                    *input = None;
                    let (call, text) = (*call, text.to_owned());
                    out.push(ProviderEvent::CallArguments { call, text });
                }
            }
            // Citations, and what may be added to the protocol.
            _ => {}
        }
        Ok(())
    }

    fn stop_block(
        &mut self,
        value: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        let block = self.open.remove(&place(value)?);
        let block = block
            .ok_or_else(|| ProviderError::broken("the answer ends a block that is not open"))?;
        match block {
            Block::Text | Block::Other => {}
            Block::Thinking { text, signature } => {
                let block = json!({ "type": "thinking", "thinking": text, "signature": signature });
                out.push(kept((!signature.is_empty()).then_some(block)));
            }
            Block::Redacted(block) => out.push(kept(Some(block))),
            Block::Call { call, input } => {
                out.extend(input.map(|text| ProviderEvent::CallArguments { call, text }));
                out.push(ProviderEvent::CallEnd { call });
            }
        }
        Ok(())
    }
}

fn kept(block: Option<Value>) -> ProviderEvent {
    let api = Api::Anthropic;
    ProviderEvent::ReasoningEnd(block.map(|block| Kept { api, block }))
}

fn place(value: &Value) -> Result<u64, ProviderError> {
    let place = value["index"].as_u64();
    place.ok_or_else(|| ProviderError::broken("the stream has a block without an index"))
}

fn reason(word: &str) -> StopReason {
    match word {
        "end_turn" | "stop_sequence" => StopReason::End,
        "tool_use" => StopReason::Tools,
        "max_tokens" => StopReason::Length,
        "refusal" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}
