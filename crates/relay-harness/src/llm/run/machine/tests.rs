//! Answers and results in, steps out.

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
    // What was said before the run is not what the run has said.
    let before = vec![Message::Assistant(vec![Said::Text("old".to_owned())])];
    let mut machine = Machine::new(before, 5);
    machine.begin();
    machine.broke_off();
    assert_eq!(machine.last_words(), "");
}
