//! Streams in the forms that the providers document, whole and cut anywhere: the same events each time.

use relay_harness::llm::conversation::Api;
use relay_harness::llm::limits::AnswerLimits;
use relay_harness::llm::provider::ProviderEvent;
use serde_json::json;

use super::reading::{read_everyhow, told};

fn events(api: Api, bytes: &str) -> Vec<ProviderEvent> {
    let limits = AnswerLimits::default();
    let (events, error) = read_everyhow(api, limits, bytes.as_bytes());
    assert_eq!(error, None);
    // Proxies rewrite line ends, and some servers begin with a byte order mark.
    let windows = format!("\u{feff}{}", bytes.replace('\n', "\r\n"));
    let (same, error) = read_everyhow(api, limits, windows.as_bytes());
    assert_eq!((&same, error), (&events, None));
    events
}

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("recorded/", $name, ".sse"))
    };
}

#[test]
fn chat_completions() {
    let text = events(Api::Chat, recorded!("chat-text"));
    let expected = [
        r#"text "Grüße,""#,
        r#"text " 世界 🚀\n\"quoted\"""#,
        "usage 19 10 8 0",
        "stop End",
    ];
    assert_eq!(told(&text), expected);

    let tools = events(Api::Chat, recorded!("chat-tools"));
    let expected = [
        "call 0 call_a bash",
        r#"more 0 {"comm"#,
        "call 1 call_b read",
        r#"more 1 {"path":"a"}"#,
        r#"more 0 and":"ls"}"#,
        "end 0",
        "end 1",
        "usage 50 30 0 0",
        "stop Tools",
    ];
    assert_eq!(told(&tools), expected);
}

#[test]
fn what_gateways_make_of_chat_completions() {
    // Comments, an empty reason beside a delta, content in parts, `usage: {}`, and no `[DONE]`.
    let gateway = events(Api::Chat, recorded!("chat-gateway"));
    let expected = [
        r#"thought "Let me""#,
        r#"thought " see.""#,
        r#"kept {"reasoning":"Let me see."}"#,
        r#"text "It is ""#,
        r#"text "done.""#,
        "usage 7 5 0 0",
        "stop End",
    ];
    assert_eq!(told(&gateway), expected);

    // Whole calls, all at the same index or at none.
    let whole = events(Api::Chat, recorded!("chat-whole-calls"));
    let expected = [
        "call 0 function-call-1 read",
        r#"more 0 {"path":"a"}"#,
        "end 0",
        "call 1 function-call-2 read",
        r#"more 1 {"path":"b"}"#,
        "call 2 function-call-3 read",
        "more 2 {}",
        "end 1",
        "end 2",
        "stop End",
    ];
    assert_eq!(told(&whole), expected);
}

#[test]
fn responses() {
    let text = events(Api::Responses, recorded!("responses-text"));
    let expected = [
        r#"thought "**Greeting**""#,
        r#"thought "\n\n""#,
        r#"thought "Be kind.""#,
        r#"kept "reasoning""#,
        r#"text "Hello""#,
        r#"text " 👋""#,
        "usage 36 87 4 0",
        "stop End",
    ];
    assert_eq!(told(&text), expected);

    let tools = events(Api::Responses, recorded!("responses-tools"));
    let expected = [
        "call 0 call_1 bash",
        r#"more 0 {"command":"#,
        r#"more 0 "ls"}"#,
        "end 0",
        "call 1 call_2 read",
        r#"more 1 {"path":"a"}"#,
        "end 1",
        "usage 5 6 0 0",
        "stop Tools",
    ];
    assert_eq!(told(&tools), expected);
}

#[test]
fn messages() {
    let text = events(Api::Anthropic, recorded!("anthropic-text"));
    let expected = [
        "usage 30 1 3 2",
        r#"text "Hällo""#,
        r#"text "!""#,
        "usage 30 15 3 2",
        "stop End",
    ];
    assert_eq!(told(&text), expected);

    let tools = events(Api::Anthropic, recorded!("anthropic-tools"));
    let expected = [
        "usage 472 2 0 0",
        r#"thought "I need ""#,
        r#"thought "a list.""#,
        r#"kept "thinking""#,
        r#"kept "redacted_thinking""#,
        "call 0 toolu_1 bash",
        r#"more 0 {"command": "l"#,
        r#"more 0 s"}"#,
        "end 0",
        "call 1 toolu_2 read",
        r#"more 1 {"path":"a"}"#,
        "end 1",
        "usage 472 89 0 0",
        "stop Tools",
    ];
    assert_eq!(told(&tools), expected);
    let kept = tools.iter().find_map(|event| match event {
        ProviderEvent::ReasoningEnd(kept) => kept.clone(),
        _ => None,
    });
    let signed = json!({
        "type": "thinking", "thinking": "I need a list.", "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
    });
    assert_eq!(kept.unwrap().block, signed);
}
