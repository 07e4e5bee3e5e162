//! Each provider's protocol: exact events, whole answers, reasons, errors.

use http::StatusCode;
use relay_script::{Api, Server};
use serde_json::{Value, json};

use crate::support::http::{ask, playing, questions};
use crate::support::script;

/// The events of a stream: name and data. The end mark of chat streams is a string.
fn events(body: &str) -> Vec<(String, Value)> {
    let blocks = body.split_terminator("\n\n").map(|block| {
        let (name, data) = match block.strip_prefix("event: ") {
            Some(rest) => rest.split_once("\ndata: ").unwrap(),
            None => ("", block.strip_prefix("data: ").unwrap()),
        };
        let data = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        (name.to_owned(), data)
    });
    blocks.collect()
}

const EVERYTHING: &str = r#"[{
    "reply": [{ "reasoning": "Hm." }, "Hel", "lo.", { "tool": "bash", "arguments": { "command": "ls" } }],
    "usage": { "input": 10, "cached": 4, "output": 6 }
}]"#;

async fn streamed(api: Api, script: &str) -> Vec<(String, Value)> {
    let server = playing(script).await;
    let questions = questions();
    let (_, path, body) = questions.iter().find(|one| one.0 == api).unwrap();
    let answer = ask(&server, path, body).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.whole);
    let kind = answer.headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    events(&answer.body)
}

#[tokio::test]
async fn an_anthropic_stream_is_blocks_with_start_deltas_and_stop() {
    let events = streamed(Api::Anthropic, EVERYTHING).await;
    for (name, data) in &events {
        assert_eq!(data["type"], json!(name));
    }
    let short: Vec<String> = events
        .iter()
        .map(|(name, data)| {
            let index = data["index"]
                .as_u64()
                .map(|at| at.to_string())
                .unwrap_or_default();
            let kind = data["delta"]["type"]
                .as_str()
                .or(data["content_block"]["type"].as_str());
            format!("{name} {index} {}", kind.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        short,
        [
            "message_start  ",
            "ping  ",
            "content_block_start 0 thinking",
            "content_block_delta 0 thinking_delta",
            "content_block_delta 0 signature_delta",
            "content_block_stop 0 ",
            "content_block_start 1 text",
            "content_block_delta 1 text_delta",
            "content_block_delta 1 text_delta",
            "content_block_stop 1 ",
            "content_block_start 2 tool_use",
            "content_block_delta 2 input_json_delta",
            "content_block_delta 2 input_json_delta",
            "content_block_stop 2 ",
            "message_delta  ",
            "message_stop  ",
        ]
    );
    let usage = &events[0].1["message"]["usage"];
    assert_eq!(usage["input_tokens"], 6);
    assert_eq!(usage["cache_read_input_tokens"], 4);
    let end = &events[events.len() - 2].1;
    assert_eq!(end["delta"]["stop_reason"], "tool_use");
    assert_eq!(end["usage"]["output_tokens"], 6);
    let json: String = events
        .iter()
        .filter_map(|(_, data)| data["delta"]["partial_json"].as_str())
        .collect();
    assert_eq!(json, r#"{"command":"ls"}"#);
}

#[tokio::test]
async fn a_chat_stream_ends_with_the_reason_the_usage_and_the_mark() {
    let events = streamed(Api::Chat, EVERYTHING).await;
    let deltas: Vec<Value> = events
        .iter()
        .map(|(_, data)| data["choices"][0]["delta"].clone())
        .collect();
    assert_eq!(
        deltas[..6],
        [
            json!({ "role": "assistant", "content": "" }),
            json!({ "reasoning_content": "Hm." }),
            json!({ "content": "Hel" }),
            json!({ "content": "lo." }),
            json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "bash", "arguments": "" } }] }),
            json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "{\"comman" } }] }),
        ]
    );
    let rest = &events[events.len() - 3..];
    assert_eq!(rest[0].1["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(rest[1].1["choices"], json!([]));
    assert_eq!(
        rest[1].1["usage"],
        json!({
            "prompt_tokens": 10, "completion_tokens": 6, "total_tokens": 16,
            "prompt_tokens_details": { "cached_tokens": 4 },
        })
    );
    assert_eq!(rest[2].1, "[DONE]");
}

#[tokio::test]
async fn a_clock_tells_times_in_a_stream_and_is_paid_for() {
    let events = streamed(Api::Chat, r#"[[{ "clock": 3, "everyMs": 1 }, "end"]]"#).await;
    let said = events.iter().filter_map(|(_, data)| {
        let text = data["choices"][0]["delta"]["content"].as_str()?;
        (!text.is_empty()).then_some(text)
    });
    let said: Vec<&str> = said.collect();
    assert_eq!(said.len(), 4);
    assert!(said[..3].iter().all(|time| time.parse::<u64>().is_ok()));
    let usage = events.iter().find_map(|(_, data)| data.get("usage"));
    assert_eq!(usage.unwrap()["completion_tokens"], 15);
}

#[tokio::test]
async fn a_responses_stream_adds_fills_and_finishes_each_item() {
    let events = streamed(Api::Responses, EVERYTHING).await;
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for (at, (name, data)) in events.iter().enumerate() {
        assert_eq!(
            (&data["type"], &data["sequence_number"]),
            (&json!(name), &json!(at))
        );
    }
    let response = &events.last().unwrap().1["response"];
    assert_eq!(response["status"], "completed");
    assert_eq!(
        response["usage"]["input_tokens_details"]["cached_tokens"],
        4
    );
    assert_eq!(response["output"][1]["content"][0]["text"], "Hello.");
    assert_eq!(response["output"][2]["arguments"], r#"{"command":"ls"}"#);
    assert_eq!(response["output"][2]["call_id"], "call_1");
}

#[tokio::test]
async fn a_gemini_stream_is_answers_with_parts() {
    let events = streamed(Api::Gemini, EVERYTHING).await;
    let parts: Vec<&Value> = events
        .iter()
        .map(|(_, data)| &data["candidates"][0]["content"]["parts"][0])
        .collect();
    assert_eq!(
        parts[..4],
        [
            &json!({ "text": "Hm.", "thought": true }),
            &json!({ "text": "Hel" }),
            &json!({ "text": "lo." }),
            &json!({ "functionCall": { "id": "call_1", "name": "bash", "args": { "command": "ls" } } }),
        ]
    );
    let last = &events.last().unwrap().1;
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    assert_eq!(last["usageMetadata"]["totalTokenCount"], 16);
}

#[tokio::test]
async fn reasons_are_said_in_each_providers_words_or_not_at_all() {
    let table = [
        ("end", ["end_turn", "stop", "response.completed", "STOP"]),
        (
            "length",
            ["max_tokens", "length", "response.incomplete", "MAX_TOKENS"],
        ),
        (
            "refusal",
            ["refusal", "content_filter", "response.incomplete", "SAFETY"],
        ),
        ("odd", ["odd", "odd", "response.incomplete", "odd"]),
        ("missing", ["", "", "response.output_item.done", ""]),
    ];
    for (stop, expected) in table {
        let script = json!([{ "reply": "a", "stop": stop }]).to_string();
        let anthropic = streamed(Api::Anthropic, &script).await;
        let chat = streamed(Api::Chat, &script).await;
        let responses = streamed(Api::Responses, &script).await;
        let gemini = streamed(Api::Gemini, &script).await;
        let found = [
            anthropic[anthropic.len() - 2].1["delta"]["stop_reason"].as_str(),
            chat[chat.len() - 3].1["choices"][0]["finish_reason"].as_str(),
            Some(responses.last().unwrap().0.as_str()),
            gemini.last().unwrap().1["candidates"][0]["finishReason"].as_str(),
        ];
        assert_eq!(found.map(Option::unwrap_or_default), expected, "{stop}");
    }
}

#[tokio::test]
async fn an_answer_in_one_piece_says_the_same() {
    let places = [
        [
            "/content/1/text",
            "/content/2/input/command",
            "/stop_reason",
        ],
        [
            "/choices/0/message/content",
            "/choices/0/message/tool_calls/0/function/name",
            "/choices/0/finish_reason",
        ],
        ["/output/1/content/0/text", "/output/2/name", "/status"],
        [
            "/candidates/0/content/parts/1/text",
            "/candidates/0/content/parts/3/functionCall/name",
            "/candidates/0/finishReason",
        ],
    ];
    let expected = [
        ["Hello.", "ls", "tool_use"],
        ["Hello.", "bash", "tool_calls"],
        ["Hello.", "bash", "completed"],
        ["Hel", "bash", "STOP"],
    ];
    for (((_, path, mut body), places), expected) in
        questions().into_iter().zip(places).zip(expected)
    {
        body["stream"] = json!(false);
        let path = path.replace("streamGenerateContent", "generateContent");
        let answer = ask(&playing(EVERYTHING).await, &path, &body).await;
        let whole: Value = serde_json::from_str(&answer.body).unwrap();
        let found = places.map(|place| {
            whole
                .pointer(place)
                .and_then(Value::as_str)
                .unwrap_or_default()
        });
        assert_eq!(found, expected, "{whole}");
    }
}

#[tokio::test]
async fn refusals_have_the_status_the_headers_and_the_body_of_the_script() {
    let script = r#"[
        { "refuse": { "status": 429, "headers": { "retry-after": "3" } } },
        { "refuse": { "status": 503, "body": "<html>busy</html>" } }
    ]"#;
    for (api, path, body) in questions() {
        let server = playing(script).await;
        let first = ask(&server, path, &body).await;
        assert_eq!(first.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(first.headers["retry-after"], "3");
        let error: Value = serde_json::from_str(&first.body).unwrap();
        assert!(error["error"]["message"].is_string(), "{error}");
        assert_eq!(error["type"] == "error", api == Api::Anthropic, "{error}");
        let second = ask(&server, path, &body).await;
        assert_eq!(
            (second.status.as_u16(), second.body.as_str()),
            (503, "<html>busy</html>")
        );
    }
}

#[tokio::test]
async fn an_error_in_mid_stream_is_its_last_event() {
    let script =
        r#"[["Hel", { "error": { "kind": "overloaded_error", "message": "busy" } }, "lo"]]"#;
    let places = [
        (Api::Anthropic, "/error/type"),
        (Api::Chat, "/error/type"),
        (Api::Responses, "/response/error/code"),
        (Api::Gemini, "/error/status"),
    ];
    for (api, place) in places {
        let events = streamed(api, script).await;
        let last = &events.last().unwrap().1;
        assert_eq!(last.pointer(place).unwrap(), "overloaded_error", "{last}");
        assert!(
            events
                .iter()
                .any(|(_, data)| data.to_string().contains("Hel"))
        );
    }
}

#[tokio::test]
async fn a_responses_tool_is_called_in_the_way_it_is_offered() {
    let server = Server::start(script(json!([[
        { "tool": "apply_patch", "arguments": "*** Begin Patch" }, { "tool": "send" },
    ]])))
    .await
    .unwrap();
    let body = json!({ "stream": true, "input": "Hi", "tools": [
        { "type": "custom", "name": "apply_patch" },
        { "type": "namespace", "name": "mcp__relay", "tools": [{ "type": "function", "name": "send" }] },
    ] });
    let events = events(&ask(&server, "/v1/responses", &body).await.body);
    let output = &events.last().unwrap().1["response"]["output"];
    assert_eq!(output[0]["type"], "custom_tool_call");
    assert_eq!(output[0]["input"], "*** Begin Patch");
    assert_eq!(output[1]["type"], "function_call");
    assert_eq!(output[1]["namespace"], "mcp__relay");
    assert!(
        events
            .iter()
            .any(|(name, _)| name == "response.custom_tool_call_input.delta")
    );
}
