//! Adapters over real connections, against a server that plays scripts in the providers' streams.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use relay_harness::llm::ask::ask;
use relay_harness::llm::conversation::{Api, Content, Media, Message, Said, ToolCall, ToolResult};
use relay_harness::llm::error::{ErrorKind, ProviderError};
use relay_harness::llm::http::{HttpProvider, HttpSettings};
use relay_harness::llm::key::ApiKey;
use relay_harness::llm::limits::AnswerLimits;
use relay_harness::llm::provider::{ModelRequest, Provider, ProviderEvent, ToolSpec};
use relay_harness::llm::retry::RetryPolicy;
use relay_script::{Ending, Part, Role, Script, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::reading::told;

const APIS: [Api; 3] = [Api::Chat, Api::Responses, Api::Anthropic];

/// Looks like no key of anybody: only its very letters can be found.
const KEY: &str = "open-sesame-1234";

async fn server(script: Value) -> Server {
    Server::start(Script::from_value(script).unwrap())
        .await
        .unwrap()
}

fn provider_with(server: &Server, api: Api, limits: AnswerLimits) -> Arc<dyn Provider> {
    let settings = HttpSettings {
        base_url: Some(server.url()),
        limits,
        ..HttpSettings::new(api, ApiKey::new(KEY))
    };
    Arc::new(HttpProvider::new(settings).unwrap())
}

fn provider(server: &Server, api: Api) -> Arc<dyn Provider> {
    provider_with(server, api, AnswerLimits::default())
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "some-model".to_owned(),
        messages,
        tools: vec![ToolSpec {
            name: "bash".to_owned(),
            description: "runs it".to_owned(),
            schema: json!({ "type": "object", "properties": { "command": { "type": "string" } } }),
        }],
    }
}

/// Everything up to the end or the error.
async fn answer(
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    retry: RetryPolicy,
) -> (Vec<ProviderEvent>, Option<ProviderError>) {
    let mut answer = ask(provider, request, retry);
    let mut events = Vec::new();
    while let Some(event) = answer.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

async fn asked(server: &Server, api: Api) -> (Vec<ProviderEvent>, Option<ProviderError>) {
    let request = request(vec![Message::user("hi")]);
    answer(provider(server, api), request, RetryPolicy::default()).await
}

/// Texts joined, the rest in words, without what costs.
fn shortly(events: &[ProviderEvent]) -> Vec<String> {
    let told = told(events).into_iter();
    told.filter(|line| {
        !line.starts_with("usage") && !line.starts_with("kept") && line != "thought."
    })
    .collect()
}

#[tokio::test]
async fn every_adapter_runs_a_turn_with_tools() {
    for api in APIS {
        let server = server(json!([
            { "reply": [
                { "reasoning": "which?" }, "Looking 👀",
                { "tool": "bash", "arguments": { "command": "ls" }, "id": "c1" },
                { "tool": "bash", "arguments": {}, "id": "c2" },
            ], "usage": { "input": 11, "cached": 4, "output": 7 } },
            "done",
        ]))
        .await;
        let (events, error) = asked(&server, api).await;
        assert_eq!(error, None, "{api:?}");
        let lines = shortly(&events);
        let joined = lines.join("|");
        // How arguments are cut is the provider's affair.
        let expected = [
            r#"thought "which?"|text "Looking 👀"|call 0 c1 bash|more 0 {"comm"#,
            "|call 1 c2 bash|",
            "|stop Tools",
        ];
        for part in expected {
            assert!(joined.contains(part), "{api:?}: {joined}");
        }
        let usage = events.iter().rev().find_map(|event| match event {
            ProviderEvent::Usage(usage) => Some(*usage),
            _ => None,
        });
        let usage = usage.unwrap();
        assert_eq!(
            (usage.input, usage.cache_read, usage.output),
            (11, 4, 7),
            "{api:?}"
        );

        let call = |id: &str, arguments: &str| {
            Said::ToolCall(ToolCall {
                id: id.to_owned(),
                name: "bash".to_owned(),
                arguments: arguments.to_owned(),
            })
        };
        let picture = Media {
            media_type: "image/png".to_owned(),
            data: "aGk=".to_owned(),
        };
        let messages = vec![
            Message::System("be short".to_owned()),
            Message::User(vec![
                Content::Text("hi".to_owned()),
                Content::Image(picture),
            ]),
            Message::Assistant(vec![
                Said::Text("Looking".to_owned()),
                call("c1", r#"{"command":"ls"}"#),
                call("c2", "{broken"),
            ]),
            Message::Tool(ToolResult::text("c1", "a b")),
            Message::Tool(ToolResult::text("c2", "no JSON")),
            Message::System("and kind".to_owned()),
        ];
        let (events, error) = answer(
            provider(&server, api),
            request(messages),
            RetryPolicy::NEVER,
        )
        .await;
        assert_eq!(error, None, "{api:?}");
        assert_eq!(shortly(&events), [r#"text "done""#, "stop End"], "{api:?}");
        check_second(api, &server);
    }
}

/// What the server understood of the second question.
fn check_second(api: Api, server: &Server) {
    let requests = server.requests();
    let second = &requests[1].request;
    assert_eq!(second.model, "some-model");
    assert_eq!(second.system, "be short\n\nand kind", "{api:?}");
    assert_eq!(second.tools[0].name, "bash");
    assert_eq!(second.tools[0].schema["type"], "object");
    let roles: Vec<Role> = second.messages.iter().map(|message| message.role).collect();
    assert!(
        roles.starts_with(&[Role::User, Role::Assistant, Role::Tool]),
        "{api:?} {roles:?}"
    );
    let user = &second.messages[0];
    assert!(
        matches!(&user.parts[..], [Part::Text(_), Part::Attachment(_)]),
        "{user:?}"
    );
    let assistant = &second.messages[1].parts;
    let arguments = |id: &str| {
        assistant.iter().find_map(|part| match part {
            Part::ToolCall {
                id: own, arguments, ..
            } if own == id => Some(arguments.clone()),
            _ => None,
        })
    };
    assert_eq!(
        arguments("c1").unwrap(),
        json!({ "command": "ls" }),
        "{api:?}"
    );
    assert_eq!(
        arguments("c2").unwrap(),
        json!({ "invalidArguments": "{broken" }),
        "{api:?}"
    );
    let results: Vec<String> = second
        .fresh_results()
        .map(|message| message.words())
        .collect();
    assert_eq!(results.join("\n"), "a b\nno JSON", "{api:?}");
    assert_eq!(server.unknown(), [""; 0]);
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_and_not_for_ever() {
    let busy = |status: u16| {
        json!({ "refuse": {
            "status": status, "headers": { "retry-after": "0" },
            "body": { "error": { "message": "slow down" } },
        } })
    };
    for api in APIS {
        let later = server(json!([busy(429), busy(503), "here"])).await;
        let (events, error) = asked(&later, api).await;
        assert_eq!(error, None, "{api:?}");
        assert_eq!(shortly(&events), [r#"text "here""#, "stop End"]);
        assert_eq!(later.requests().len(), 3);

        let never = server(json!({ "turns": [], "otherwise": busy(429) })).await;
        let (events, error) = asked(&never, api).await;
        let error = error.unwrap();
        assert!(events.is_empty());
        assert_eq!(
            (error.kind, error.status),
            (ErrorKind::Busy, Some(429)),
            "{error}"
        );
        assert_eq!(error.retry_after, Some(Duration::ZERO));
        assert!(error.message.contains("answered 429: slow down"), "{error}");
        assert_eq!(never.requests().len(), 4);
    }
}

#[tokio::test]
async fn what_cannot_get_better_is_not_asked_again() {
    let table = [
        (
            json!({ "refuse": { "status": 400, "body": { "error": { "message": "bad" } } } }),
            ErrorKind::Refused,
            "answered 400: bad",
        ),
        (
            json!({ "refuse": { "status": 429, "headers": { "retry-after": "3600" }, "body": "quota" } }),
            ErrorKind::Busy,
            "answered 429: quota",
        ),
    ];
    for (turn, kind, says) in table {
        for api in APIS {
            let server = server(json!({ "turns": [], "otherwise": turn })).await;
            let (events, error) = asked(&server, api).await;
            let error = error.unwrap();
            assert!(events.is_empty());
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(says), "{error}");
            assert_eq!(server.requests().len(), 1, "{error}");
        }
    }
}

/// A server that answers everything with the same bytes.
async fn always(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 64 * 1024];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    url
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_an_error() {
    let table = [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 34\r\n\r\n{\"error\":{\"message\":\"no credit\"}} ",
            ErrorKind::Reported,
            "no credit",
        ),
        (
            "HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            ErrorKind::Refused,
            "redirect",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n<html>hi</html>",
            ErrorKind::Broken,
            "without a reason to stop",
        ),
        (
            "SSH-2.0-OpenSSH_9.9\r\n",
            ErrorKind::Unreachable,
            "no answer",
        ),
    ];
    for (bytes, kind, says) in table {
        let settings = HttpSettings {
            base_url: Some(always(bytes).await),
            ..HttpSettings::new(Api::Chat, ApiKey::new(KEY))
        };
        let provider = Arc::new(HttpProvider::new(settings).unwrap());
        let request = request(vec![Message::user("hi")]);
        let (events, error) = answer(provider, request, RetryPolicy::NEVER).await;
        let error = error.unwrap();
        assert!(events.is_empty());
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn an_error_before_the_first_word_is_asked_again() {
    let failed = json!([{ "error": { "kind": "overloaded_error", "message": "boom" } }]);
    let retry = RetryPolicy {
        first: Duration::from_millis(1),
        ..RetryPolicy::default()
    };
    let server = server(json!([failed, "here"])).await;
    let request = request(vec![Message::user("hi")]);
    let (events, error) = answer(provider(&server, Api::Chat), request, retry).await;
    assert_eq!(error, None);
    assert_eq!(shortly(&events), [r#"text "here""#, "stop End"]);
}

#[tokio::test]
async fn after_the_first_word_nothing_is_asked_again() {
    let failures = [
        json!([{ "reply": ["par", { "error": { "kind": "overloaded_error", "message": "boom" } }] }]),
        json!([{ "reply": ["par", { "cut": true }] }]),
        json!([{ "reply": ["par"], "stop": "missing" }]),
    ];
    for failure in failures {
        for api in APIS {
            let server = server(failure.clone()).await;
            let (events, error) = asked(&server, api).await;
            assert_eq!(shortly(&events), [r#"text "par""#], "{api:?} {failure}");
            assert!(error.is_some(), "{api:?} {failure}");
            assert_eq!(server.requests().len(), 1);
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_anywhere_is_an_error() {
    for api in APIS {
        let tools = json!([{ "tool": "bash", "arguments": { "command": "ls" } }]);
        let whole = server(json!([tools])).await;
        let (_, error) = asked(&whole, api).await;
        assert_eq!(error, None);
        for at in (1..700).step_by(67) {
            let server = server(json!([{ "reply": tools, "cutAt": at }])).await;
            let request = request(vec![Message::user("hi")]);
            let (events, error) = answer(provider(&server, api), request, RetryPolicy::NEVER).await;
            let stopped = events
                .iter()
                .any(|event| matches!(event, ProviderEvent::Stop(_)));
            // A stream that was whole before the cut is an answer.
            assert_eq!(error.is_none(), stopped, "{api:?} at {at}: {error:?}");
        }
    }
}

#[tokio::test]
async fn who_leaves_closes_the_connection() {
    for api in APIS {
        let server = server(json!([["one", { "wait": "never" }, "two"]])).await;
        let request = request(vec![Message::user("hi")]);
        let mut answer = ask(provider(&server, api), request, RetryPolicy::default());
        while let Some(event) = answer.next().await {
            if matches!(event.unwrap(), ProviderEvent::Text(_)) {
                break;
            }
        }
        drop(answer);
        assert_eq!(server.requests()[0].ended().await, Ending::Left, "{api:?}");
    }
}

#[tokio::test]
async fn a_provider_that_falls_silent_is_given_up() {
    for api in APIS {
        let server = server(json!([["one", { "hang": true }]])).await;
        let limits = AnswerLimits {
            idle: Duration::from_millis(50),
            ..AnswerLimits::default()
        };
        let request = request(vec![Message::user("hi")]);
        let provider = provider_with(&server, api, limits);
        let (events, error) = answer(provider, request, RetryPolicy::default()).await;
        assert_eq!(shortly(&events), [r#"text "one""#]);
        let error = error.unwrap();
        assert_eq!(error.kind, ErrorKind::Limit, "{error}");
        assert!(error.message.contains("nothing came"), "{error}");
        assert_eq!(server.requests()[0].ended().await, Ending::Left);
    }
}

#[tokio::test]
async fn keys_are_in_no_error() {
    for api in APIS {
        let told = format!("Incorrect API key provided: {KEY}");
        let body = json!({ "error": { "message": told, "code": KEY } });
        let refused = json!({ "refuse": { "status": 401, "body": body } });
        let failed = json!({ "reply": ["x", { "error": { "kind": KEY, "message": told } }] });
        for turn in [refused, failed] {
            let server = server(json!([turn])).await;
            let (_, error) = asked(&server, api).await;
            let error = error.unwrap();
            assert!(error.message.contains("Incorrect"), "{error}");
            assert!(
                !format!("{error} {error:?}").contains("sesame"),
                "{error:?}"
            );
        }
    }
}

#[tokio::test]
async fn nobody_there_is_an_error_that_says_so() {
    let gone = {
        let server = server(json!([])).await;
        server.url()
    };
    let settings = HttpSettings {
        base_url: Some(gone),
        ..HttpSettings::new(Api::Chat, ApiKey::default())
    };
    let provider = Arc::new(HttpProvider::new(settings).unwrap());
    let request = request(vec![Message::user("hi")]);
    let (_, error) = answer(provider, request, RetryPolicy::NEVER).await;
    let error = error.unwrap();
    assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
}

/// What an adapter is told of thoughts, and where it gives them back.
#[tokio::test]
async fn thoughts_go_back_to_whoever_thought_them() {
    let thinks = json!([{ "reasoning": "hm" }, { "tool": "bash", "arguments": {}, "id": "c1" }]);
    let server = server(json!([thinks, "done", "done", "done"])).await;
    let (events, error) = asked(&server, Api::Chat).await;
    assert_eq!(error, None);
    let kept = events.iter().find_map(|event| match event {
        ProviderEvent::ReasoningEnd(kept) => kept.clone(),
        _ => None,
    });
    let said = vec![
        Said::Reasoning {
            text: "hm".to_owned(),
            kept,
        },
        Said::ToolCall(ToolCall {
            id: "c1".to_owned(),
            name: "bash".to_owned(),
            arguments: "{}".to_owned(),
        }),
    ];
    let mut messages = vec![
        Message::user("hi"),
        Message::Assistant(said),
        Message::Tool(ToolResult::text("c1", "ok")),
    ];
    let thought = |number: usize| {
        let body = server.requests()[number].body.clone();
        body["messages"][1]["reasoning_content"].clone()
    };
    let ask = |api, messages: &Vec<Message>| {
        let request = ModelRequest {
            tools: Vec::new(),
            ..request(messages.clone())
        };
        answer(provider(&server, api), request, RetryPolicy::NEVER)
    };
    ask(Api::Chat, &messages).await;
    assert_eq!(thought(1), "hm");
    messages.push(Message::user("and now?"));
    ask(Api::Chat, &messages).await;
    assert_eq!(thought(2), Value::Null, "the turn is over");
    ask(Api::Anthropic, &messages).await;
    let body = server.requests()[3].body.clone();
    assert!(!body.to_string().contains("hm"), "{body}");
    // Without tools to call the provider wants to know at least those that were called.
    assert_eq!(body["tools"][0]["name"], "bash");
    assert_eq!(body["tool_choice"], json!({ "type": "none" }));
}
