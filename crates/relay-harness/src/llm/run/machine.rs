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
        let last = self
            .messages
            .iter()
            .rev()
            .find_map(|message| match message {
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::llm::conversation::{Api, Kept};

    fn machine(limit: u32) -> Machine {
        let mut machine = Machine::new(vec![Message::user("hi")], limit);
        assert_eq!(machine.begin(), Step::Ask { with_tools: true });
        machine
    }

    fn call(machine: &mut Machine, number: usize, id: &str) {
        let (id, name) = (id.to_owned(), "bash".to_owned());
        let call = number;
        machine.take(ProviderEvent::CallBegin { call, id, name });
        for text in ["{", "}"] {
            let text = text.to_owned();
            machine.take(ProviderEvent::CallArguments { call, text });
        }
        machine.take(ProviderEvent::CallEnd { call });
    }

    fn ids(step: Step) -> Vec<String> {
        match step {
            Step::Call(calls) => calls.into_iter().map(|planned| planned.id).collect(),
            other => panic!("expected calls, found {other:?}"),
        }
    }

    #[test]
    fn pieces_of_a_text_are_one_and_kept_thoughts_stay_with_their_text() {
        let mut machine = machine(5);
        let mut say = |event| {
            machine
                .take(event)
                .map(|shown| (shown.is_thought, shown.begins))
        };
        let text = |text: &str| ProviderEvent::Text(text.to_owned());
        let thought = |text: &str| ProviderEvent::Reasoning(text.to_owned());
        let kept = Kept {
            api: Api::Anthropic,
            block: json!({ "signature": "x" }),
        };
        assert_eq!(say(thought("a")), Some((true, true)));
        assert_eq!(say(thought("b")), Some((true, false)));
        assert_eq!(say(ProviderEvent::ReasoningEnd(Some(kept.clone()))), None);
        assert_eq!(say(thought("c")), Some((true, true)));
        assert_eq!(say(text("d")), Some((false, true)));
        assert_eq!(say(text("")), None);
        assert_eq!(say(text("e")), Some((false, false)));
        assert_eq!(
            machine.stopped(&StopReason::End),
            Step::End(EndReason::Final)
        );
        let reasoning = |text: &str, kept| Said::Reasoning {
            text: text.to_owned(),
            kept,
        };
        let said = vec![
            reasoning("ab", Some(kept)),
            reasoning("c", None),
            Said::Text("de".to_owned()),
        ];
        assert_eq!(machine.messages()[1..], [Message::Assistant(said)]);
        assert_eq!(machine.last_words(), "de");
    }

    #[test]
    fn how_answers_end() {
        let table = [
            (false, StopReason::End, Step::End(EndReason::Final)),
            (false, StopReason::Length, Step::End(EndReason::Length)),
            (false, StopReason::Refusal, Step::End(EndReason::Refusal)),
            (
                false,
                StopReason::Other("x".to_owned()),
                Step::End(EndReason::Final),
            ),
            (true, StopReason::Refusal, Step::End(EndReason::Refusal)),
        ];
        for (calls, reason, expected) in table {
            let mut machine = machine(5);
            if calls {
                call(&mut machine, 0, "a");
            }
            assert_eq!(machine.stopped(&reason), expected, "{reason:?}");
        }
        // Servers are not careful about the reason; the calls are what counts.
        for reason in [StopReason::Tools, StopReason::End, StopReason::Length] {
            let mut machine = machine(5);
            call(&mut machine, 0, "a");
            call(&mut machine, 1, "b");
            assert_eq!(ids(machine.stopped(&reason)), ["a", "b"], "{reason:?}");
        }
    }

    #[test]
    fn after_the_last_turn_the_model_sums_up_and_calls_nothing() {
        let mut machine = machine(2);
        for turn in 1..=2 {
            call(&mut machine, 0, "same");
            let expected = if turn == 1 { "same" } else { "same~2" };
            assert_eq!(ids(machine.stopped(&StopReason::Tools)), [expected]);
            let results = vec![ToolResult::text("same", "ok")];
            let step = machine.results(results, Vec::new(), None);
            assert_eq!(
                step,
                Step::Ask {
                    with_tools: turn < 2
                }
            );
        }
        let is_system = |message: &&Message| matches!(message, Message::System(_));
        assert!(machine.messages().last().as_ref().is_some_and(is_system));
        call(&mut machine, 0, "more");
        let step = machine.stopped(&StopReason::Tools);
        assert_eq!(step, Step::End(EndReason::MaxIterations));
        let last = machine.messages().last();
        assert!(
            matches!(last, Some(Message::Tool(result)) if result.is_error),
            "{last:?}"
        );
    }

    #[test]
    fn usage_is_summed_by_what_came_since() {
        let mut machine = machine(5);
        let usage = |input, output| {
            ProviderEvent::Usage(Usage {
                input,
                output,
                ..Usage::default()
            })
        };
        for event in [usage(10, 1), usage(10, 5), usage(10, 5)] {
            machine.take(event);
        }
        call(&mut machine, 0, "a");
        machine.stopped(&StopReason::Tools);
        machine.results(Vec::new(), Vec::new(), None);
        machine.take(usage(20, 3));
        assert_eq!((machine.usage.input, machine.usage.output), (30, 8));
        assert_eq!(machine.question_usage.input, 20);
    }

    #[test]
    fn an_answer_that_broke_off_leaves_its_words() {
        let mut machine = machine(5);
        machine.take(ProviderEvent::Text("so".to_owned()));
        call(&mut machine, 0, "a");
        machine.broke_off();
        let words = vec![Said::Text("so".to_owned())];
        assert_eq!(machine.messages()[1..], [Message::Assistant(words)]);
        machine.broke_off();
        assert_eq!(machine.into_messages().len(), 2);
    }
}
