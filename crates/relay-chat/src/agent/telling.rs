//! What an agent does, in the words of the contract.
//!
//! Agents tell of a call when they think of it, before it may run. It is shown as a call once it runs: a denied one never is. Each
//! that is shown has one result, at the latest when the turn is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relay_harness::acp::event::{Event, StopReason, ToolCall, ToolContent};
use relay_harness::llm::new_id;
use relay_harness::llm::permits::{PermitRequest, ToolEnd};
use relay_harness::llm::provider::Usage;
use relay_harness::llm::run::{EndReason, Happening};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::asking::News;

/// How long the end of a tool waits for the relay to know it.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Most calls that are followed at once.
const MAX_CALLS: usize = 1_024;

/// Follows an agent's turn.
pub(super) struct Telling {
    run_id: String,
    /// The text to which the next piece belongs, and whether it is a thought.
    block: Option<(String, bool)>,
    calls: BTreeMap<String, Call>,
    usage: Usage,
    reason: EndReason,
    finishing: JoinSet<()>,
}

#[derive(Default)]
struct Call {
    name: Option<String>,
    input: Option<Value>,
    is_shown: bool,
    /// The request that allowed it.
    request: Option<Arc<dyn PermitRequest>>,
    /// Its result, where it does not run.
    not_run: Option<Value>,
}

impl Telling {
    pub(super) fn new(run_id: String) -> Self {
        Self {
            run_id,
            block: None,
            calls: BTreeMap::new(),
            usage: Usage::default(),
            reason: EndReason::Error,
            finishing: JoinSet::new(),
        }
    }

    /// Why the turn ended.
    pub(super) const fn reason(&self) -> EndReason {
        self.reason
    }

    /// What there is to tell of an event.
    pub(super) fn take(&mut self, event: Event) -> Vec<Happening> {
        match event {
            Event::Text { text } => vec![self.say(false, text)],
            Event::Thought { text } => vec![self.say(true, text)],
            Event::ToolCall(call) | Event::ToolCallUpdate(call) => self.call(&call),
            Event::TurnEnded {
                stop_reason,
                tokens,
            } => {
                // One that was stopped by a decision ends as cancelled.
                if self.reason != EndReason::Stopped {
                    self.reason = reason(&stop_reason);
                }
                let Some(tokens) = tokens else {
                    return Vec::new();
                };
                self.usage.input += tokens.input;
                self.usage.output += tokens.output;
                vec![Happening::Usage(self.usage.into())]
            }
            Event::TurnFailed { error } => {
                self.reason = EndReason::Error;
                vec![Happening::Failed {
                    message: error,
                    retryable: false,
                }]
            }
            Event::Lagged { dropped } => {
                tracing::warn!(dropped, "updates of an agent came too fast and are lost");
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// What there is to tell of a question, and whether the turn ends with it.
    pub(super) fn hear(&mut self, news: News) -> (Vec<Happening>, bool) {
        self.block = None;
        match news {
            News::Asked(shown) => (vec![Happening::Asked(shown)], false),
            News::Resolved(shown) => (vec![Happening::Resolved(shown)], false),
            News::May { call, request } => {
                let known = self.calls.entry(call.clone()).or_default();
                known.request = Some(request);
                (self.show(&call), false)
            }
            News::NotRun {
                call,
                output,
                stops,
            } => {
                if stops {
                    self.reason = EndReason::Stopped;
                }
                let known = self.calls.entry(call).or_default();
                known.not_run = Some(output);
                (Vec::new(), stops)
            }
        }
    }

    /// Ends all calls, and the run.
    pub(super) fn end(&mut self, reason: EndReason) -> Vec<Happening> {
        let ids: Vec<String> = self.calls.keys().cloned().collect();
        let untold = match reason {
            EndReason::Cancelled => json!({ "status": "cancelled" }),
            _ => json!({ "error": "the agent did not say how it ended" }),
        };
        let mut told = Vec::new();
        for id in ids {
            let call = &self.calls[&id];
            let output = match (&call.not_run, call.is_shown) {
                (Some(output), _) => output.clone(),
                (None, true) => untold.clone(),
                // Thought of, and never begun.
                (None, false) => continue,
            };
            told.extend(self.result(&id, output, ToolEnd::Unknown));
        }
        told.push(Happening::Ended {
            reason,
            iterations: 1,
            total_usage: self.usage.into(),
        });
        told
    }

    /// Waits until the relay knows how all calls ended.
    pub(super) async fn finished(&mut self) {
        while self.finishing.join_next().await.is_some() {}
    }

    fn say(&mut self, is_thought: bool, content: String) -> Happening {
        let id = match &self.block {
            Some((id, same)) if *same == is_thought => id.clone(),
            _ => {
                let id = new_id();
                self.block = Some((id.clone(), is_thought));
                id
            }
        };
        match is_thought {
            true => Happening::Reasoning { id, content },
            false => Happening::Text { id, content },
        }
    }

    fn call(&mut self, told: &ToolCall) -> Vec<Happening> {
        self.block = None;
        if !self.calls.contains_key(&told.id) && self.calls.len() >= MAX_CALLS {
            return Vec::new();
        }
        let known = self.calls.entry(told.id.clone()).or_default();
        if told.name.is_some() || known.name.is_none() {
            known.name = Some(told.tool().to_owned());
        }
        if told.input.is_some() {
            known.input.clone_from(&told.input);
        }
        if let Some(output) = known.not_run.clone() {
            let is_over = matches!(told.status.as_deref(), Some("completed" | "failed"));
            return match is_over {
                true => self.result(&told.id, output, ToolEnd::Unknown),
                false => Vec::new(),
            };
        }
        let (output, ended) = match told.status.as_deref() {
            Some("completed") => {
                let context = words(told);
                let result = told.output.clone().unwrap_or_else(|| json!(context));
                let output = json!({ "context": context, "result": result });
                (output, ToolEnd::Completed)
            }
            Some("failed") => {
                let why = match words(told) {
                    text if text.is_empty() => "it failed".to_owned(),
                    text => text,
                };
                (json!({ "error": why }), ToolEnd::Failed(why))
            }
            Some("in_progress") => return self.show(&told.id),
            _ => return Vec::new(),
        };
        let mut happened = self.show(&told.id);
        happened.extend(self.result(&told.id, output, ended));
        happened
    }

    /// A call runs.
    fn show(&mut self, id: &str) -> Vec<Happening> {
        let full_id = self.full_id(id);
        match self.calls.get_mut(id) {
            Some(call) if !call.is_shown => {
                call.is_shown = true;
                vec![Happening::Called {
                    id: full_id,
                    name: call.name(),
                    input: call.input.clone().unwrap_or_else(|| json!({})),
                }]
            }
            _ => Vec::new(),
        }
    }

    fn result(&mut self, id: &str, output: Value, ended: ToolEnd) -> Vec<Happening> {
        let Some(call) = self.calls.remove(id) else {
            return Vec::new();
        };
        let name = call.name();
        if let Some(request) = call.request {
            self.finishing.spawn(async move {
                let _ = timeout(LAST_WORDS, request.finish(ended)).await;
            });
        }
        let id = self.full_id(id);
        vec![Happening::Result { id, name, output }]
    }

    /// The call as events name it.
    fn full_id(&self, id: &str) -> String {
        format!("{}/{id}", self.run_id)
    }
}

impl Call {
    fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| "tool".to_owned())
    }
}

fn words(call: &ToolCall) -> String {
    let texts = call.content.iter().filter_map(|content| match content {
        ToolContent::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

const fn reason(stop: &StopReason) -> EndReason {
    match stop {
        StopReason::EndTurn | StopReason::Other(_) => EndReason::Final,
        StopReason::MaxTokens => EndReason::Length,
        StopReason::MaxTurnRequests => EndReason::MaxIterations,
        StopReason::Refusal => EndReason::Refusal,
        StopReason::Cancelled => EndReason::Cancelled,
    }
}
