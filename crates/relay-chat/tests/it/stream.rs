//! What a stream looks like: its events, their fields and their order.

use serde_json::{Value, json};

use crate::hall::{Hall, all, types};

#[tokio::test]
async fn a_stream_from_its_first_event_to_its_last() {
    let hall = Hall::start(json!([{ "reply": "hi", "usage": { "input": 3, "output": 1 } }])).await;
    let events = hall.begin_with(json!({})).await.end().await;
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(
        kinds,
        ["connected", "harness_start", "text", "usage", "harness_end"]
    );
    let connected = events[0].as_object().unwrap();
    assert_eq!(connected.keys().collect::<Vec<_>>(), ["type", "sessionId"]);
    for event in &events[1..] {
        for field in ["agentId", "runId"] {
            assert!(!event[field].as_str().unwrap().is_empty(), "{event}");
            assert_eq!(event[field], events[1][field], "{event}");
        }
        // Nothing began the outermost run.
        assert!(event.get("parentId").is_none(), "{event}");
    }
    let fields = |event: &Value| -> Vec<String> {
        let all = event.as_object().unwrap().keys();
        let mut own: Vec<String> = all
            .filter(|name| !["type", "agentId", "runId"].contains(&name.as_str()))
            .cloned()
            .collect();
        own.sort();
        own
    };
    assert_eq!(fields(&events[1]), ["depth", "maxIterations"]);
    assert_eq!(fields(&events[2]), ["content", "id"]);
    assert_eq!(fields(&events[3]), ["inputTokens", "outputTokens"]);
    assert_eq!(fields(&events[4]), ["iterations", "reason", "totalUsage"]);
    assert_eq!(
        (&events[4]["reason"], &events[4]["totalUsage"]),
        (
            &json!("final"),
            &json!({ "inputTokens": 3, "outputTokens": 1 })
        )
    );
    assert!(!hall_has_chat(&hall, connected["sessionId"].as_str()));
}

/// Whether a chat is still there.
fn hall_has_chat(hall: &Hall, session: Option<&str>) -> bool {
    hall.gateway.look(session.unwrap(), None).is_ok()
}

#[tokio::test]
async fn texts_are_put_together_by_their_ids() {
    let pieces = ["a\n\r\n\"b\" \u{2028}", "\\ é", "世\u{1F680}", "\u{0}end"];
    let script = json!([[
        { "reasoning": "hm" },
        pieces[0], pieces[1],
        { "reasoning": "so" },
        pieces[2], pieces[3],
    ]]);
    let hall = Hall::start(script).await;
    let events = hall.begin_with(json!({})).await.end().await;
    let mut texts: Vec<(Value, String)> = Vec::new();
    for event in &events {
        if !matches!(event["type"].as_str(), Some("text" | "reasoning")) {
            continue;
        }
        let content = event["content"].as_str().unwrap();
        match texts.last_mut() {
            Some((id, text)) if *id == event["id"] => text.push_str(content),
            _ => texts.push((event["id"].clone(), content.to_owned())),
        }
    }
    let texts: Vec<String> = texts.into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        texts,
        [
            "hm".to_owned(),
            pieces[..2].concat(),
            "so".to_owned(),
            pieces[2..].concat(),
        ]
    );
}

#[tokio::test]
async fn thoughts_words_and_costs_come_in_order() {
    let usage = json!({ "input": 7, "cached": 2, "output": 5 });
    let script = json!([{ "reply": [{ "reasoning": "hm" }, "hi"], "usage": usage }]);
    let hall = Hall::start(script).await;
    let events = hall.begin_with(json!({})).await.end().await;
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds[2..5], ["reasoning", "text", "usage"]);
    let usage = &events[4];
    assert_eq!(
        (
            &usage["inputTokens"],
            &usage["outputTokens"],
            &usage["cacheReadTokens"]
        ),
        (&json!(7), &json!(5), &json!(2))
    );
}

#[tokio::test]
async fn an_error_of_the_model_ends_the_run() {
    let script = json!([["par", { "error": { "message": "boom" } }]]);
    let hall = Hall::start(script).await;
    let events = hall.begin_with(json!({})).await.end().await;
    assert_eq!(
        types(&events),
        ["connected", "harness_start", "text", "error", "harness_end"]
    );
    let error = all(&events, "error")[0];
    assert_eq!(
        (&error["message"], &error["retryable"]),
        (&json!("boom"), &json!(false))
    );
    assert_eq!(all(&events, "harness_end")[0]["reason"], "error");
}
