//! The server apart from its formats: cuts, gates, what is kept of requests, what it does not serve, its end.

use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use relay_script::{Ending, Part, Role, Script, Server};
use serde_json::{Value, json};

use crate::support::http::{ask, open, playing, questions, read, send};
use crate::support::soon;

#[tokio::test]
async fn a_cut_ends_the_connection_at_that_very_byte() {
    for (_, path, body) in questions() {
        let whole = ask(&playing(r#"["Hello"]"#).await, path, &body).await;
        for at in [0, 1, 50, whole.body.len() - 1] {
            let script = json!([{ "reply": "Hello", "cutAt": at }]).to_string();
            let server = playing(&script).await;
            let cut = ask(&server, path, &body).await;
            assert!(!cut.whole, "{path} at {at}");
            assert_eq!(cut.body, whole.body[..at], "{path}");
            let recorded = server.nth_saying(1, "Hi").await;
            assert_eq!(recorded.ended().await, Ending::Broken);
        }
        let cut = ask(
            &playing(r#"[["Hel", { "cut": true }, "lo"]]"#).await,
            path,
            &body,
        )
        .await;
        assert!(!cut.whole && cut.body.contains("Hel") && !cut.body.contains("lo\""));
    }
}

#[tokio::test]
async fn an_answer_waits_at_a_gate_and_its_end_is_known() {
    let server = playing(r#"[["one", { "wait": "gate" }, "two"], [{ "hang": true }]]"#).await;
    let (_, path, body) = questions().into_iter().next().unwrap();
    let mut response = open(&server, path, &body).await;
    let mut text = String::new();
    while !text.contains("one") {
        let frame = soon("the first words", response.frame())
            .await
            .unwrap()
            .unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    let recorded = soon("the request", server.nth_saying(1, "Hi")).await;
    let early = tokio::time::timeout(Duration::from_millis(20), response.frame()).await;
    assert!(early.is_err(), "nothing comes before the gate is open");
    server.open("gate");
    assert!(read(response).await.body.contains("two"));
    assert_eq!(soon("the end", recorded.ended()).await, Ending::Complete);
    let hanging = open(&server, path, &body).await;
    let recorded = soon("the second request", server.nth_saying(2, "Hi")).await;
    drop(hanging);
    assert_eq!(soon("the end", recorded.ended()).await, Ending::Left);
}

#[tokio::test]
async fn every_request_is_understood_and_kept() {
    let server = Server::start(Script::saying("a")).await.unwrap();
    for (api, path, body) in questions() {
        ask(&server, path, &body).await;
        let recorded = server.requests().pop().unwrap();
        assert_eq!(recorded.api, api);
        let request = &recorded.request;
        assert_eq!(
            (request.model.as_str(), request.system.as_str()),
            ("m", "Be.")
        );
        assert_eq!(request.tools[0].name, "bash");
        assert_eq!(request.messages.len(), 1);
        assert!(request.says("Hi"));
    }
    let numbers: Vec<usize> = server.requests().iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let later = server.first_after(4, |_| true);
    tokio::pin!(later);
    assert!((&mut later).now_or_never().is_none());
    let (_, path, body) = questions().into_iter().next().unwrap();
    ask(&server, path, &body).await;
    assert_eq!(soon("the fifth", later).await.number, 5);
}

/// The same conversation in every form: a question, a thought, two calls, two results, and something said on top.
#[tokio::test]
async fn a_conversation_is_the_same_in_every_form() {
    let bodies = [
        (
            "/v1/messages",
            json!({ "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "go" }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "" },
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "a", "name": "read", "input": { "path": "x" } },
                { "type": "tool_use", "id": "b", "name": "read", "input": { "path": "y" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "x is" },
                { "type": "tool_result", "tool_use_id": "b", "content": [{ "type": "text", "text": "y is" }] },
                { "type": "text", "text": "and stop" },
            ] },
        ] }),
        ),
        (
            "/v1/chat/completions",
            json!({ "messages": [
            { "role": "user", "content": "go" },
            { "role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"x\"}" } },
                { "id": "b", "type": "function", "function": { "name": "read", "arguments": "{\"path\":\"y\"}" } },
            ] },
            { "role": "tool", "tool_call_id": "a", "content": "x is" },
            { "role": "tool", "tool_call_id": "b", "content": "y is" },
            { "role": "user", "content": "and stop" },
        ] }),
        ),
        (
            "/v1/responses",
            json!({ "input": [
            { "role": "user", "content": "go" },
            { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "hm" }] },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
            { "type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"path\":\"x\"}" },
            { "type": "function_call", "call_id": "b", "name": "read", "arguments": "{\"path\":\"y\"}" },
            { "type": "function_call_output", "call_id": "a", "output": "x is" },
            { "type": "function_call_output", "call_id": "b", "output": [{ "type": "input_text", "text": "y is" }] },
            { "role": "user", "content": "and stop" },
        ] }),
        ),
        (
            "/v1beta/models/m:generateContent",
            json!({ "contents": [
            { "role": "user", "parts": [{ "text": "go" }] },
            { "role": "model", "parts": [
                { "text": "hm", "thought": true }, { "text": "I look." },
                { "functionCall": { "id": "a", "name": "read", "args": { "path": "x" } } },
                { "functionCall": { "id": "b", "name": "read", "args": { "path": "y" } } },
            ] },
            { "role": "user", "parts": [
                { "functionResponse": { "id": "a", "name": "read", "response": { "output": "x is" } } },
                { "functionResponse": { "id": "b", "name": "read", "response": { "output": "y is" } } },
            ] },
            { "role": "user", "parts": [{ "text": "and stop" }] },
        ] }),
        ),
    ];
    let call = |id: &str, path: &str| Part::ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments: json!({ "path": path }),
    };
    let spoken = [
        Part::Reasoning("hm".to_owned()),
        Part::Text("I look.".to_owned()),
        call("a", "x"),
        call("b", "y"),
    ];
    let server = Server::start(Script::saying("a")).await.unwrap();
    for (path, body) in bodies {
        ask(&server, path, &body).await;
        let recorded = server.requests().pop().unwrap();
        let request = &recorded.request;
        assert_eq!(request.messages[1].role, Role::Assistant, "{path}");
        assert_eq!(request.messages[1].parts, spoken, "{path}");
        let results = request.fresh_results().map(|one| one.words());
        assert_eq!(
            results.collect::<Vec<_>>().join("\n"),
            "x is\ny is",
            "{path}"
        );
        assert_eq!(request.fresh_user().unwrap().words(), "and stop", "{path}");
        assert_eq!(request.calls(), 2, "{path}");
    }
}

#[tokio::test]
async fn other_questions_are_answered_or_refused_in_order() {
    let server = Server::start(Script::saying("a")).await.unwrap();
    for path in ["/v1/models", "/models"] {
        let answer = read(send(&server, Method::GET, path, String::new()).await).await;
        let list: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(list["data"][0]["id"], "scripted");
    }
    let count = ask(
        &server,
        "/v1/messages/count_tokens",
        &json!({ "messages": [] }),
    )
    .await;
    let count: Value = serde_json::from_str(&count.body).unwrap();
    assert!(count["input_tokens"].is_u64(), "{count}");
    for (method, path) in [
        (Method::GET, "/v1/responses"),
        (Method::POST, "/v1/embeddings"),
    ] {
        let answer = read(send(&server, method, path, String::new()).await).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(
        server.unknown(),
        ["GET /v1/responses", "POST /v1/embeddings"]
    );
    let answer = read(send(&server, Method::POST, "/v1/messages", "{".to_owned()).await).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_its_readers() {
    let server = playing(r#"[[{ "hang": true }]]"#).await;
    let (_, path, body) = questions().into_iter().next().unwrap();
    let response = open(&server, path, &body).await;
    let recorded = server.nth_saying(1, "Hi").await;
    drop(server);
    assert_eq!(soon("the end", recorded.ended()).await, Ending::Left);
    // The reader is not left alone with an open stream.
    read(response).await;
}
