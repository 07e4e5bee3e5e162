//! What comes next in a run: pure. Answers and results go in; the next question, calls to make, or the end come out.
//!
//! After `limit` answers with calls the model is asked once more, without tools and with the request to sum up. What it calls then
//! is not made.

use std::collections::HashSet;

use super::event::EndReason;
use crate::llm::conversation::{Message, Said, ToolCall, ToolResult};
use crate::llm::provider::{ProviderEvent, StopReason, Usage};

/// What the model is told before its last answer.
const CLOSING: &str = "You have used all the turns that you may use, and no more tools can be called. \
    Say in short what you have done, what you found, and what is left to do.";

/// What the model is told of calls that are not made any more.
const NOT_MADE: &str = "This call was not made: no more tools can be called.";

/// The state of a run.
#[derive(Debug)]
pub(super) struct Machine {
    messages: Vec<Message>,
    /// How many of them were there before the run.
    given: usize,
    /// How many there were before what was heard last.
    heard: usize,
    limit: u32,
    /// Answers so far.
    pub(super) iterations: u32,
    /// What all questions cost.
    pub(super) usage: Usage,
    /// What this question cost so far.
    pub(super) question_usage: Usage,
    said: Vec<Said>,
    /// For each call of the answer its place in `said`.
    calls: Vec<usize>,
    /// Whether the next piece begins another text.
    is_new_block: bool,
    is_closing: bool,
    /// Ids of calls that this run has used.
    used: HashSet<String>,
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Ask the model.
    Ask {
        /// Whether tools are offered.
        with_tools: bool,
    },
    /// Make these calls.
    Call(Vec<Planned>),
    /// Nothing more.
    End(EndReason),
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Planned {
    /// Names the call in this run. Some providers begin to count anew with each answer.
    pub(super) id: String,
    /// As the model wrote it.
    pub(super) call: ToolCall,
}

/// A piece that is shown.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) is_thought: bool,
    /// Whether it begins another text than the piece before.
    pub(super) begins: bool,
    pub(super) text: String,
}

impl Machine {
    pub(super) fn new(messages: Vec<Message>, limit: u32) -> Self {
        Self {
            given: messages.len(),
            heard: messages.len(),
            messages,
            limit,
            iterations: 0,
            usage: Usage::default(),
            question_usage: Usage::default(),
            said: Vec::new(),
            calls: Vec::new(),
            is_new_block: true,
            is_closing: false,
            used: HashSet::new(),
        }
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(super) fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// The words of the last answer.
    pub(super) fn last_words(&self) -> String {
        let own = self.messages[self.given..].iter();
        let last = own.rev().find_map(|message| match message {
            Message::Assistant(said) => Some(said),
            _ => None,
        });
        let texts = last.into_iter().flatten().filter_map(|part| match part {
            Said::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The first step.
    pub(super) fn begin(&mut self) -> Step {
        self.ask()
    }

    /// The model has said all, and something has come for it: it is asked again.
    pub(super) fn go_on(&mut self) -> Step {
        self.ask()
    }

    fn ask(&mut self) -> Step {
        self.is_closing = self.iterations >= self.limit;
        if self.is_closing {
            self.messages.push(Message::System(CLOSING.to_owned()));
        }
        self.said.clear();
        self.calls.clear();
        self.is_new_block = true;
        self.question_usage = Usage::default();
        Step::Ask {
            with_tools: !self.is_closing,
        }
    }

    /// Takes what came for the model, to be said with the next question.
    pub(super) fn hear(&mut self, messages: Vec<Message>) {
        self.heard = self.messages.len();
        self.messages.extend(messages);
    }

    /// The question was not answered: what was heard before it is taken out again.
    pub(super) fn unhear(&mut self) {
        self.messages.truncate(self.heard);
    }

    /// Takes an event of an answer, except its end; what there is to show comes out.
    pub(super) fn take(&mut self, event: ProviderEvent) -> Option<Shown> {
        match event {
            ProviderEvent::Text(text) => return self.say(false, text),
            ProviderEvent::Reasoning(text) => return self.say(true, text),
            ProviderEvent::ReasoningEnd(kept) => {
                match self.said.last_mut() {
                    Some(Said::Reasoning { kept: own, .. }) if !self.is_new_block => *own = kept,
                    _ if kept.is_some() => self.said.push(Said::Reasoning {
                        text: String::new(),
                        kept,
                    }),
                    _ => {}
                }
                self.is_new_block = true;
            }
            ProviderEvent::CallBegin { id, name, .. } => {
                self.is_new_block = true;
                self.calls.push(self.said.len());
                self.said.push(Said::ToolCall(ToolCall {
                    id,
                    name,
                    arguments: String::new(),
                }));
            }
            ProviderEvent::CallArguments { call, text } => {
                let place = self.calls.get(call).copied();
                if let Some(Said::ToolCall(call)) = place.and_then(|at| self.said.get_mut(at)) {
                    call.arguments.push_str(&text);
                }
            }
            ProviderEvent::Usage(usage) => {
                self.usage.add_since(self.question_usage, usage);
                self.question_usage = usage;
            }
            ProviderEvent::CallEnd { .. } | ProviderEvent::Stop(_) => {}
        }
        None
    }

    fn say(&mut self, is_thought: bool, text: String) -> Option<Shown> {
        if text.is_empty() {
            return None;
        }
        let continues = match self.said.last_mut() {
            Some(Said::Text(before)) if !is_thought && !self.is_new_block => {
                before.push_str(&text);
                true
            }
            Some(Said::Reasoning { text: before, .. }) if is_thought && !self.is_new_block => {
                before.push_str(&text);
                true
            }
            _ => false,
        };
        if !continues {
            let text = text.clone();
            self.said.push(match is_thought {
                true => Said::Reasoning { text, kept: None },
                false => Said::Text(text),
            });
        }
        self.is_new_block = false;
        Some(Shown {
            is_thought,
            begins: !continues,
            text,
        })
    }

    /// Takes the end of an answer.
    pub(super) fn stopped(&mut self, reason: &StopReason) -> Step {
        self.iterations += 1;
        let said = std::mem::take(&mut self.said);
        let calls: Vec<ToolCall> = calls_in(&said);
        self.messages.push(Message::Assistant(said));
        if calls.is_empty() {
            return Step::End(match reason {
                _ if self.is_closing => EndReason::MaxIterations,
                StopReason::Length => EndReason::Length,
                StopReason::Refusal => EndReason::Refusal,
                StopReason::End | StopReason::Tools | StopReason::Other(_) => EndReason::Final,
            });
        }
        let not_now = match reason {
            _ if self.is_closing => Some(EndReason::MaxIterations),
            StopReason::Refusal => Some(EndReason::Refusal),
            _ => None,
        };
        if let Some(end) = not_now {
            self.answer_all(&calls);
            return Step::End(end);
        }
        Step::Call(calls.into_iter().map(|call| self.plan(call)).collect())
    }

    /// A conversation in which a call has no answer is refused by providers.
    fn answer_all(&mut self, calls: &[ToolCall]) {
        for call in calls {
            self.messages.push(Message::Tool(ToolResult {
                is_error: true,
                ..ToolResult::text(&call.id, NOT_MADE)
            }));
        }
    }

    fn plan(&mut self, call: ToolCall) -> Planned {
        let mut id = call.id.clone();
        let mut again = 1;
        while !self.used.insert(id.clone()) {
            again += 1;
            id = format!("{}~{again}", call.id);
        }
        Planned { id, call }
    }

    /// Takes an answer that broke off: what was said stays, calls that were not made go.
    pub(super) fn broke_off(&mut self) {
        let mut said = std::mem::take(&mut self.said);
        said.retain(|part| matches!(part, Said::Text(_)));
        if !said.is_empty() {
            self.messages.push(Message::Assistant(said));
        }
    }

    /// Takes the results of all calls, in their order, and what whoever decided wants to be said.
    pub(super) fn results(
        &mut self,
        results: Vec<ToolResult>,
        guidance: Vec<String>,
        end: Option<EndReason>,
    ) -> Step {
        self.messages.extend(results.into_iter().map(Message::Tool));
        self.messages
            .extend(guidance.into_iter().map(Message::user));
        match end {
            Some(end) => Step::End(end),
            None => self.ask(),
        }
    }
}

fn calls_in(said: &[Said]) -> Vec<ToolCall> {
    let calls = said.iter().filter_map(|part| match part {
        Said::ToolCall(call) => Some(call.clone()),
        Said::Text(_) | Said::Reasoning { .. } => None,
    });
    calls.collect()
}

#[cfg(test)]
mod tests;
