//! OpenAI's Responses as a stream: output items that are added, filled and done, and an event that ends the response.
//!
//! Calls are known by their place in the output. Their arguments come in deltas and are told again as a whole, twice; what the deltas
//! left out is taken from there, and what contradicts them is an error.

mod body;

use std::collections::HashMap;

use serde_json::Value;

pub(super) use body::body;

use super::Decoder;
use super::json::{object, reported, some_text, tokens};
use crate::llm::conversation::{Api, Kept};
use crate::llm::error::ProviderError;
use crate::llm::provider::{ProviderEvent, StopReason, Usage};
use relay_protocol::sse::SseEvent;

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct ResponsesDecoder {
    calls: Vec<Call>,
    /// Calls by their place in the output.
    places: HashMap<u64, usize>,
    is_whole: bool,
}

#[derive(Debug)]
struct Call {
    arguments: String,
    is_open: bool,
}

impl Decoder for ResponsesDecoder {
    fn event(
        &mut self,
        event: &SseEvent,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        if event.data.trim() == "[DONE]" {
            return self.end(out);
        }
        let value = object(&event.data)?;
        match some_text(&value["type"]).unwrap_or(&event.name) {
            "response.output_text.delta" | "response.refusal.delta" => {
                say(&value["delta"], ProviderEvent::Text, out);
            }
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                say(&value["delta"], ProviderEvent::Reasoning, out);
            }
            // The parts of a summary are paragraphs.
            "response.reasoning_summary_part.added" if value["summary_index"] != 0 => {
                out.push(ProviderEvent::Reasoning("\n\n".to_owned()));
            }
            "response.output_item.added" => self.added(&value, out)?,
            "response.function_call_arguments.delta" => {
                let call = self.at(&value)?;
                self.fill(call, value["delta"].as_str().unwrap_or_default(), out);
            }
            "response.function_call_arguments.done" => {
                let call = self.at(&value)?;
                self.complete(call, &value["arguments"], out)?;
            }
            "response.output_item.done" => self.done(&value, out)?,
            "response.completed" => self.completed(&value["response"], out)?,
            "response.incomplete" => self.incomplete(&value["response"], out),
            "response.failed" | "response.cancelled" => {
                return Err(reported(&value["response"]["error"]));
            }
            "error" => return Err(error(&value)),
            _ if !value["error"].is_null() => return Err(error(&value)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        // Here the event that ends the response is the reason.
        Err(ProviderError::broken(
            "the answer ended without a reason to stop",
        ))
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl ResponsesDecoder {
    fn added(&mut self, value: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        match value["item"]["type"].as_str() {
            Some("function_call") => self.begin(value, out).map(drop),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        value: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<usize, ProviderError> {
        let item = &value["item"];
        let (Some(id), Some(name)) = (some_text(&item["call_id"]), some_text(&item["name"])) else {
            return Err(ProviderError::broken(
                "the stream has a tool call without an id or a name",
            ));
        };
        let call = self.calls.len();
        if self.places.insert(place(value)?, call).is_some() {
            return Err(ProviderError::broken(
                "two tool calls of the answer have the same place",
            ));
        }
        self.calls.push(Call {
            arguments: String::new(),
            is_open: true,
        });
        let (id, name) = (id.to_owned(), name.to_owned());
        out.push(ProviderEvent::CallBegin { call, id, name });
        Ok(call)
    }

    /// The call that an event is about.
    fn at(&self, value: &Value) -> Result<usize, ProviderError> {
        let known = self.places.get(&place(value)?).copied();
        known.ok_or_else(|| {
            ProviderError::broken("the answer goes on with a tool call that is not open")
        })
    }

    fn fill(&mut self, call: usize, text: &str, out: &mut Vec<ProviderEvent>) {
        if !text.is_empty() {
            self.calls[call].arguments.push_str(text);
            let text = text.to_owned();
            out.push(ProviderEvent::CallArguments { call, text });
        }
    }

    /// Takes the arguments as a whole.
    fn complete(
        &mut self,
        call: usize,
        whole: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        let Some(whole) = some_text(whole) else {
            return Ok(());
        };
        let rest = whole.strip_prefix(self.calls[call].arguments.as_str());
        let rest = rest.ok_or_else(|| {
            ProviderError::broken("the arguments of a tool call are told in two ways")
        })?;
        self.fill(call, rest, out);
        Ok(())
    }

    fn done(&mut self, value: &Value, out: &mut Vec<ProviderEvent>) -> Result<(), ProviderError> {
        let item = &value["item"];
        match item["type"].as_str() {
            Some("function_call") => {
                let call = match self.places.get(&place(value)?) {
                    Some(call) => *call,
                    None => self.begin(value, out)?,
                };
                self.complete(call, &item["arguments"], out)?;
                self.close(call, out);
            }
            Some("reasoning") => {
                let is_kept = some_text(&item["encrypted_content"]).is_some();
                let kept = is_kept.then(|| Kept {
                    api: Api::Responses,
                    block: item.clone(),
                });
                out.push(ProviderEvent::ReasoningEnd(kept));
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, call: usize, out: &mut Vec<ProviderEvent>) {
        if std::mem::take(&mut self.calls[call].is_open) {
            out.push(ProviderEvent::CallEnd { call });
        }
    }

    fn completed(
        &mut self,
        response: &Value,
        out: &mut Vec<ProviderEvent>,
    ) -> Result<(), ProviderError> {
        if !response["error"].is_null() {
            return Err(reported(&response["error"]));
        }
        let reason = match self.calls.is_empty() {
            true => StopReason::End,
            false => StopReason::Tools,
        };
        self.stop(response, reason, out);
        Ok(())
    }

    fn incomplete(&mut self, response: &Value, out: &mut Vec<ProviderEvent>) {
        let reason = match some_text(&response["incomplete_details"]["reason"]) {
            Some("max_output_tokens") => StopReason::Length,
            Some("content_filter") => StopReason::Refusal,
            Some(other) => StopReason::Other(other.to_owned()),
            None => StopReason::Other("incomplete".to_owned()),
        };
        // The last call may be cut off; its arguments will show it.
        for call in 0..self.calls.len() {
            self.close(call, out);
        }
        self.stop(response, reason, out);
    }

    fn stop(&mut self, response: &Value, reason: StopReason, out: &mut Vec<ProviderEvent>) {
        out.extend(usage(&response["usage"]).map(ProviderEvent::Usage));
        out.push(ProviderEvent::Stop(reason));
        self.is_whole = true;
    }
}

fn say(delta: &Value, event: fn(String) -> ProviderEvent, out: &mut Vec<ProviderEvent>) {
    out.extend(some_text(delta).map(|text| event(text.to_owned())));
}

fn place(value: &Value) -> Result<u64, ProviderError> {
    let place = value["output_index"].as_u64();
    place.ok_or_else(|| {
        ProviderError::broken("the stream has a part of a tool call without an index")
    })
}

/// Told flat, or inside of `error`.
fn error(value: &Value) -> ProviderError {
    match &value["error"] {
        Value::Null => reported(value),
        error => reported(error),
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let cached = tokens(&usage["input_tokens_details"]["cached_tokens"]);
    Some(Usage {
        input: tokens(&usage["input_tokens"])?,
        output: tokens(&usage["output_tokens"]).unwrap_or_default(),
        cache_read: cached.unwrap_or_default(),
        cache_creation: 0,
    })
}
