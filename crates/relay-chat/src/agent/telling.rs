//! What an agent does and asks, in the words of the contract. Pure.
//!
//! Agents tell of a call when they think of it, before it may run. It is shown as a call once it runs: a denied one never is. Each
//! that is shown has one result, at the latest when its turn is over.

use std::collections::BTreeMap;

use relay_harness::acp::event::{Event, StopReason, Tokens, ToolCall, ToolContent};
use relay_harness::acp::session::{BrokerNews, CallFate};
use relay_harness::llm::new_id;
use relay_harness::llm::provider::Usage;
use relay_harness::llm::run::{AskedShown, EndReason, Happening, MessageShown, ResolvedShown};
use relay_protocol::permission::{PermissionRecord, PermissionState};
use serde_json::{Value, json};

/// Most calls that are followed at once.
const MAX_CALLS: usize = 1_024;

/// Follows an agent's turns.
pub(super) struct Telling {
    run_id: String,
    /// The text to which the next piece belongs, and whether it is a thought.
    block: Option<(String, bool)>,
    calls: BTreeMap<String, Call>,
    usage: Usage,
    turns: u32,
    /// Why the last turn ended, once one has.
    reason: Option<EndReason>,
}

#[derive(Default)]
struct Call {
    name: Option<String>,
    input: Option<Value>,
    is_shown: bool,
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
            turns: 0,
            reason: None,
        }
    }

    /// Why the last turn ended; nothing where that was not told.
    pub(super) const fn reason(&self) -> Option<EndReason> {
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
            } => self.turn_over(&stop_reason, tokens),
            Event::TurnFailed { error } => self.fail(error),
            Event::Lagged { dropped } => {
                tracing::warn!(dropped, "updates of an agent came too fast and are lost");
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// A message has come into a turn.
    pub(super) fn message(&mut self, shown: MessageShown) -> Vec<Happening> {
        self.block = None;
        vec![Happening::Message(Box::new(shown))]
    }

    /// What there is to tell of a question, and whether the conversation ends with it.
    pub(super) fn hear(&mut self, news: BrokerNews) -> (Vec<Happening>, bool) {
        self.block = None;
        match news {
            BrokerNews::Asked { request, question } => {
                let call = self.full_id(&question.tool_call.id);
                let shown = AskedShown::new(&call, *request);
                (vec![Happening::Asked(Box::new(shown))], false)
            }
            BrokerNews::Ended { request, call } => {
                let shown = resolved(&request, &self.full_id(&call));
                (vec![Happening::Resolved(Box::new(shown))], false)
            }
            BrokerNews::Answered { call, fate } => self.answered(call, fate),
        }
    }

    /// It went wrong.
    pub(super) fn fail(&mut self, message: String) -> Vec<Happening> {
        self.reason = Some(EndReason::Error);
        vec![Happening::Failed {
            message,
            retryable: false,
        }]
    }

    /// Ends all calls, and the run.
    pub(super) fn end(&mut self, reason: EndReason) -> Vec<Happening> {
        let mut told = self.end_calls(reason);
        told.push(Happening::Ended {
            reason,
            iterations: self.turns.max(1),
            total_usage: self.usage.into(),
        });
        told
    }

    fn turn_over(&mut self, stop: &StopReason, tokens: Option<Tokens>) -> Vec<Happening> {
        self.block = None;
        self.turns += 1;
        // One that was stopped by a decision ends as cancelled.
        let reason = match self.reason {
            Some(EndReason::Stopped) => EndReason::Stopped,
            _ => reason(stop),
        };
        self.reason = Some(reason);
        let mut told = self.end_calls(reason);
        if let Some(tokens) = tokens {
            self.usage.input += tokens.input;
            self.usage.output += tokens.output;
            let usage = Usage {
                input: tokens.input,
                output: tokens.output,
                ..Usage::default()
            };
            told.push(Happening::Usage(usage.into()));
        }
        told
    }

    /// Ends the calls whose end the agent has not told.
    fn end_calls(&mut self, reason: EndReason) -> Vec<Happening> {
        let untold = match reason {
            EndReason::Cancelled => json!({ "status": "cancelled" }),
            _ => json!({ "error": "the agent did not say how it ended" }),
        };
        let mut ended = Vec::new();
        for (id, call) in &self.calls {
            match (&call.not_run, call.is_shown) {
                (Some(output), _) => ended.push((id.clone(), output.clone())),
                (None, true) => ended.push((id.clone(), untold.clone())),
                // Thought of and never begun, or still asked about.
                (None, false) => {}
            }
        }
        let ended = ended.into_iter();
        ended
            .flat_map(|(id, output)| self.result(&id, output))
            .collect()
    }

    /// A question is answered.
    fn answered(&mut self, call: String, fate: CallFate) -> (Vec<Happening>, bool) {
        let ends = matches!(
            fate,
            CallFate::Denied { stops: true, .. } | CallFate::Expired
        );
        if ends {
            self.reason = Some(EndReason::Stopped);
        }
        let known = self.calls.entry(call.clone()).or_default();
        match not_run(fate) {
            Some(output) => {
                known.not_run = Some(output);
                (Vec::new(), ends)
            }
            None => (self.show(&call), ends),
        }
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
                true => self.result(&told.id, output).into_iter().collect(),
                false => Vec::new(),
            };
        }
        let output = match told.status.as_deref() {
            Some("completed") => {
                let context = words(told);
                let result = told.output.clone().unwrap_or_else(|| json!(context));
                json!({ "context": context, "result": result })
            }
            Some("failed") => {
                let why = match words(told) {
                    text if text.is_empty() => "it failed".to_owned(),
                    text => text,
                };
                json!({ "error": why })
            }
            Some("in_progress") => return self.show(&told.id),
            _ => return Vec::new(),
        };
        let mut happened = self.show(&told.id);
        happened.extend(self.result(&told.id, output));
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

    fn result(&mut self, id: &str, output: Value) -> Option<Happening> {
        let name = self.calls.remove(id)?.name();
        let id = self.full_id(id);
        Some(Happening::Result { id, name, output })
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

/// What became of a request. Where that can't be known nobody needs it any more.
fn resolved(request: &PermissionRecord, call: &str) -> ResolvedShown {
    let id = request.permission_id.to_string();
    let state = match request.state {
        PermissionState::Pending => PermissionState::Cancelled,
        state => state,
    };
    ResolvedShown::new(&id, call, state, request.outcome.as_ref())
}

/// The result of a call that does not run; nothing for one that does.
fn not_run(fate: CallFate) -> Option<Value> {
    let (status, reason) = match fate {
        CallFate::Runs => return None,
        CallFate::Failed { error } => return Some(json!({ "error": error })),
        CallFate::Denied { reason, .. } => ("denied", reason),
        CallFate::Expired => ("expired", Some("nobody answered in time".to_owned())),
        CallFate::Cancelled { reason } => ("cancelled", reason),
    };
    Some(match reason {
        Some(reason) => json!({ "status": status, "reason": reason }),
        None => json!({ "status": status }),
    })
}
