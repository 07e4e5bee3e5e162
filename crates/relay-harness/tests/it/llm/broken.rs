//! Streams that are not as they should be: each gives a clear error, wherever it is cut, and never a short answer.

use relay_harness::llm::conversation::Api;
use relay_harness::llm::error::ErrorKind;
use relay_harness::llm::limits::AnswerLimits;
use relay_harness::llm::provider::ProviderEvent;

use super::reading::{read, read_everyhow};

struct Case {
    api: Api,
    stream: Vec<u8>,
    kind: ErrorKind,
    says: &'static str,
}

fn chat(chunks: &[&str], kind: ErrorKind, says: &'static str) -> Case {
    let stream: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    Case {
        api: Api::Chat,
        stream: stream.into_bytes(),
        kind,
        says,
    }
}

fn other(api: Api, chunks: &[&str], kind: ErrorKind, says: &'static str) -> Case {
    Case {
        api,
        ..chat(chunks, kind, says)
    }
}

fn raw(stream: &[u8], kind: ErrorKind, says: &'static str) -> Case {
    Case {
        stream: stream.to_vec(),
        ..chat(&[], kind, says)
    }
}

const HI: &str = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const TOOLS: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
const EMPTY: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":""}]}"#;
const DONE: &str = "[DONE]";

const START: &str =
    r#"{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}"#;
const BLOCK: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const WORD: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#;
const REASON: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
const END: &str = r#"{"type":"message_stop"}"#;

#[rustfmt::skip]
fn chat_cases() -> Vec<Case> {
    use ErrorKind::{Broken, Busy, Reported};
    vec![
        raw(b"", Broken, "without a reason to stop"),
        raw(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"cont", Broken, "breaks off"),
        raw(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xf0\x9f\x9a\"}}]}\n\n", Broken, "no UTF-8"),
        raw(b"<html>502 Bad Gateway</html>", Broken, "without a reason to stop"),
        chat(&[HI], Broken, "without a reason to stop"),
        chat(&[HI, DONE], Broken, "without a reason to stop"),
        chat(&[HI, EMPTY, DONE], Broken, "an empty reason to stop"),
        chat(&[EMPTY], Broken, "an empty reason to stop"),
        chat(&[HI, "{not json", STOP, DONE], Broken, "no JSON"),
        chat(&[HI, "[1,2]", STOP, DONE], Broken, "no JSON object"),
        chat(&[HI, r#"{"error":{"message":"the model is gone","type":"invalid_request_error"}}"#], Reported, "the model is gone"),
        chat(&[HI, r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#], Busy, "slow down"),
        chat(&[r#"{"error":{"message":"upstream","code":502}}"#, DONE], Busy, "upstream (502)"),
        chat(&[r#"{"error":"boom"}"#], Reported, "boom"),
        chat(&[HI, STOP, HI, DONE], Broken, "went on after its end"),
        chat(&[TOOLS, DONE], Broken, "calls none"),
        // The same id twice, at two places.
        chat(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","function":{"name":"x","arguments":"{}"}}]}}]}"#,
            TOOLS, DONE,
        ], Broken, r#"have the id "a""#),
        // A part without an index, a call without an id, one without a name.
        chat(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{}"}}]}}]}"#,
            TOOLS, DONE,
        ], Broken, "without an index"),
        chat(&[r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"x"}}]}}]}"#, TOOLS, DONE], Broken, "without an id or a name"),
        chat(&[r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{}}]}}]}"#, TOOLS, DONE], Broken, "without an id or a name"),
    ]
}

#[rustfmt::skip]
fn other_cases() -> Vec<Case> {
    use Api::{Anthropic, Responses};
    use ErrorKind::{Broken, Busy, Reported};
    const CALL: &str = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"x"}}"#;
    const COMPLETED: &str = r#"{"type":"response.completed","response":{}}"#;
    vec![
        other(Anthropic, &[START, BLOCK, WORD], Broken, "without a reason to stop"),
        other(Anthropic, &[START, BLOCK, WORD, END], Broken, "without a reason to stop"),
        other(Anthropic, &[START, r#"{"type":"message_delta","delta":{"stop_reason":""}}"#, END], Broken, "without a reason to stop"),
        other(Anthropic, &[START, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#], Busy, "Overloaded"),
        other(Anthropic, &[START, r#"{"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#], Reported, "no (invalid_request_error)"),
        other(Anthropic, &[START, BLOCK, REASON, WORD, END], Broken, "went on after its end"),
        other(Anthropic, &[START, WORD], Broken, "not open"),
        other(Anthropic, &[START, BLOCK, BLOCK], Broken, "same place"),
        other(Anthropic, &[START, r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}"#], Broken, "without an index"),
        other(Anthropic, &[
            START,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"x","input":{}}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#, END,
        ], Broken, "middle of a tool call"),
        other(Responses, &[r#"{"type":"response.output_text.delta","delta":"hi"}"#], Broken, "without a reason to stop"),
        other(Responses, &[r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"broke"}}}"#], Busy, "broke"),
        other(Responses, &[r#"{"type":"error","code":"invalid_prompt","message":"bad prompt"}"#], Reported, "bad prompt"),
        other(Responses, &[r#"{"error":{"message":"nope"}}"#], Reported, "nope"),
        other(Responses, &[r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}"#, COMPLETED], Broken, "not open"),
        other(Responses, &[CALL, r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#, COMPLETED], Broken, "without an index"),
        other(Responses, &[
            CALL, r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\":1}"}"#,
            r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":2}"}"#, COMPLETED,
        ], Broken, "told in two ways"),
        other(Responses, &[CALL, COMPLETED], Broken, "middle of a tool call"),
    ]
}

#[test]
fn broken_streams_are_errors() {
    for case in chat_cases().into_iter().chain(other_cases()) {
        let shown = String::from_utf8_lossy(&case.stream).into_owned();
        let (events, error) = read_everyhow(case.api, AnswerLimits::default(), &case.stream);
        let error = error.unwrap_or_else(|| panic!("no error, {events:?}: {shown}"));
        assert_eq!(error.kind, case.kind, "{error}: {shown}");
        assert!(error.message.contains(case.says), "{error}: {shown}");
        let stopped = events
            .iter()
            .any(|event| matches!(event, ProviderEvent::Stop(_)));
        assert!(!stopped, "{shown}");
    }
}

#[test]
fn what_comes_before_an_error_is_told() {
    let (events, error) = read_everyhow(
        Api::Chat,
        AnswerLimits::default(),
        format!("data: {HI}\n\ndata: {{\n\n").as_bytes(),
    );
    assert_eq!(events, [ProviderEvent::Text("hi".to_owned())]);
    assert!(error.is_some());
}

/// The model's mistake, not the stream's: the loop tells the model.
#[test]
fn arguments_that_are_no_json_are_passed_on() {
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"a\": tru"}}]},"finish_reason":"tool_calls"}]}"#;
    let stream = format!("data: {call}\n\ndata: [DONE]\n\n");
    let (events, error) = read_everyhow(Api::Chat, AnswerLimits::default(), stream.as_bytes());
    assert_eq!(error, None);
    let text = r#"{"a": tru"#.to_owned();
    assert!(events.contains(&ProviderEvent::CallArguments { call: 0, text }));
}

#[test]
fn endless_streams_have_an_end() {
    let limits = AnswerLimits {
        bytes: 600,
        calls: 2,
        arguments_bytes: 40,
        ..AnswerLimits::default()
    };
    let words = format!("data: {HI}\n\n").repeat(20);
    let comments = ": still here\n\n".repeat(60);
    let begin = |n: u8| {
        format!(
            r#"data: {{"choices":[{{"delta":{{"tool_calls":[{{"index":{n},"id":"{n}","function":{{"name":"x"}}}}]}}}}]}}"#
        ) + "\n\n"
    };
    let calls = begin(0) + &begin(1) + &begin(2);
    let more = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"01234567890123456789"}}]}}]}"#;
    let arguments = begin(0) + &format!("{more}\n\n").repeat(3);
    for (stream, says) in [
        (words, "more than 600 bytes"),
        (comments, "more than 600 bytes"),
        (calls, "more than 2 tool calls"),
        (arguments, "more than 40 bytes of arguments"),
    ] {
        let (_, error) = read_everyhow(Api::Chat, limits, stream.as_bytes());
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Limit, "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}

/// Whatever is done to a stream: it is an answer with an end, or an error, and nothing panics.
#[test]
fn damaged_streams_are_answers_or_errors() {
    let streams = [
        (Api::Chat, include_str!("recorded/chat-tools.sse")),
        (Api::Chat, include_str!("recorded/chat-gateway.sse")),
        (Api::Responses, include_str!("recorded/responses-tools.sse")),
        (Api::Anthropic, include_str!("recorded/anthropic-tools.sse")),
    ];
    for (api, stream) in streams {
        for at in (0..stream.len()).step_by(5) {
            for change in [
                b"".as_slice(),
                b"\0",
                b"\xff",
                b"\"",
                b"{",
                b"0",
                b"\n",
                b"\n\n",
                b"null",
            ] {
                let (before, after) = stream.as_bytes().split_at(at);
                let damaged = [before, change, &after[1..]].concat();
                let (events, error) = read(api, AnswerLimits::default(), [damaged.as_slice()]);
                let stops = |event: &ProviderEvent| matches!(event, ProviderEvent::Stop(_));
                assert_eq!(
                    events.last().is_some_and(stops),
                    error.is_none(),
                    "{at} {change:?}"
                );
            }
        }
    }
}
