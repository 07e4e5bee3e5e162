//! OpenAI's Chat Completions as a stream: chunks with a delta each, the usage in a chunk without choices, then `[DONE]`.
//!
//! The reason to stop comes before the usage, so it is held back until the end. What servers do beyond the description and is
//! understood all the same: an empty `finish_reason` beside a delta, usage in every chunk, content in parts, no `[DONE]`, calls that come
//! whole and share an index.

mod body;

use serde_json::{Value, json};

pub(super) use body::body;

use super::Decoder;
use super::json::{object, reported, some_text, tokens};
use crate::llm::conversation::{Api, Kept};
use crate::llm::error::ProviderError;
use crate::llm::provider::{ProviderEvent, StopReason, Usage};
use relay_protocol::sse::SseEvent;

/// What stands in the place of JSON at the end.
const DONE: &str = "[DONE]";

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    calls: Vec<Call>,
    stop: Option<StopReason>,
    had_empty_stop: bool,
    usage: Option<Usage>,
    /// Thoughts that have not ended, and what they are called here.
    thought: Option<(&'static str, String)>,
    is_whole: bool,
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    is_open: bool,
}

impl Decoder for ChatDecoder {
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        if event.data.trim() == DONE {
            return self.end(out);
        }
        let chunk = object(&event.data)?;
        if !chunk["error"].is_null() {
            return Err(reported(&chunk["error"]));
        }
        self.usage = usage(&chunk["usage"]).or(self.usage);
        let choices = chunk["choices"].as_array().into_iter().flatten();
        // One answer is asked for; others could only be mixed up with it.
        for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            self.choice(choice, out)?;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let Some(stop) = self.stop.take() else {
            return Err(ProviderError::broken(match self.had_empty_stop {
                true => "the answer ended with an empty reason to stop",
                false => "the answer ended without a reason to stop",
            }));
        };
        out.extend(self.usage.map(ProviderEvent::Usage));
        out.push(ProviderEvent::Stop(stop));
        self.is_whole = true;
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl ChatDecoder {
    fn choice(
        &mut self,
        choice: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        let had_stopped = self.stop.is_some();
        let before = out.len();
        self.delta(&choice["delta"], out)?;
        if had_stopped && out.len() > before {
            return Err(ProviderError::broken("the model went on after its end"));
        }
        match &choice["finish_reason"] {
            Value::String(word) if word.is_empty() => self.had_empty_stop = true,
            Value::String(word) => {
                self.end_thought(out.len(), out);
                self.close(|_| true, out);
                self.stop.get_or_insert_with(|| reason(word));
            }
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        for name in ["reasoning_content", "reasoning"] {
            if let Some(text) = some_text(&delta[name]) {
                out.push(ProviderEvent::Reasoning(text.to_owned()));
                let (_, thought) = self.thought.get_or_insert((name, String::new()));
                thought.push_str(text);
                break;
            }
        }
        let before = out.len();
        self.answer(delta, out)?;
        if out.len() > before {
            self.end_thought(before, out);
        }
        Ok(())
    }

    fn end_thought(&mut self, at: usize, out: &mut Vec<ProviderEvent>) {
        if let Some((name, thought)) = self.thought.take() {
            let kept = Kept {
                api: Api::Chat,
                block: json!({ name: thought }),
            };
            out.insert(at, ProviderEvent::ReasoningEnd(Some(kept)));
        }
    }

    /// What is no thought.
    fn answer(&mut self, delta: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        match &delta["content"] {
            Value::Array(parts) => {
                let texts = parts.iter().filter_map(|part| some_text(&part["text"]));
                out.extend(texts.map(|text| ProviderEvent::Text(text.to_owned())));
            }
            content => {
                let text = some_text(content).or_else(|| some_text(&delta["refusal"]));
                out.extend(text.map(|text| ProviderEvent::Text(text.to_owned())));
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, out)?;
        }
        Ok(())
    }

    fn call(&mut self, part: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let index = part["index"].as_u64();
        let id = some_text(&part["id"]);
        let call = match self.known(index, id)? {
            Some(call) => call,
            None => self.begin(index, id, &part["function"]["name"], out)?,
        };
        if let Some(text) = some_text(&part["function"]["arguments"]) {
            let text = text.to_owned();
            out.push(ProviderEvent::CallArguments { call, text });
        }
        Ok(())
    }

    /// The call that a part belongs to, unless it begins one.
    fn known(&self, index: Option<u64>, id: Option<&str>) -> Result<Option<usize>, ProviderError> {
        if index.is_none() && id.is_none() {
            return Err(ProviderError::broken(
                "the stream has a part of a tool call without an index",
            ));
        }
        let belongs = |call: &Call| {
            let same_id = id.is_none_or(|id| id == call.id);
            // Without an index the id has to say it.
            call.is_open && same_id && (index.is_none() || call.index == index)
        };
        Ok(self.calls.iter().rposition(belongs))
    }

    fn begin(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        name: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<usize, ProviderError> {
        let (Some(id), Some(name)) = (id, some_text(name)) else {
            return Err(ProviderError::broken(
                "the stream has a tool call without an id or a name",
            ));
        };
        // Another call at the same place: the one that was there is whole.
        self.close(|call| call.index == index, out);
        let call = self.calls.len();
        self.calls.push(Call {
            index,
            id: id.to_owned(),
            is_open: true,
        });
        let (id, name) = (id.to_owned(), name.to_owned());
        out.push(ProviderEvent::CallBegin { call, id, name });
        Ok(call)
    }

    fn close(&mut self, which: impl Fn(&Call) -> bool, out: &mut Vec<ProviderEvent>) {
        for (call, state) in self.calls.iter_mut().enumerate() {
            if state.is_open && which(state) {
                state.is_open = false;
                out.push(ProviderEvent::CallEnd { call });
            }
        }
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let input = tokens(&usage["prompt_tokens"]);
    let output = tokens(&usage["completion_tokens"]);
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = tokens(&usage["prompt_tokens_details"]["cached_tokens"]);
    Some(Usage {
        input: input.unwrap_or_default(),
        output: output.unwrap_or_default(),
        cache_read: cached.unwrap_or_default(),
        cache_creation: 0,
    })
}

fn reason(word: &str) -> StopReason {
    match word {
        "stop" => StopReason::End,
        "tool_calls" | "function_call" => StopReason::Tools,
        "length" => StopReason::Length,
        "content_filter" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}
