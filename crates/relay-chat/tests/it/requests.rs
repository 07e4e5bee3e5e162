//! What begins a chat, and what does not.

use relay_harness::llm::conversation::{Content, Media, Message};
use serde_json::{Value, json};

use crate::hall::{Hall, Plan, types};

#[tokio::test]
async fn what_begins_no_chat_and_how_that_is_said() {
    let plan = Plan {
        default_model: None,
        ..Plan::new(json!(["hi"]))
    };
    let hall = plan.start().await;
    let messages = "\"messages\":[]";
    let table = [
        ("not json".to_owned(), "Invalid JSON body"),
        (String::new(), "Invalid JSON body"),
        (format!("{{{messages}}}"), "model and messages are required"),
        (
            "{\"model\":\"lab/clever\"}".to_owned(),
            "model and messages are required",
        ),
    ];
    for (body, error) in table {
        let refusal = hall.refusal(&body).await;
        assert_eq!(
            (refusal.status, &refusal.body),
            (400, &json!({ "error": error })),
            "{body}"
        );
    }
    for (field, value) in [
        ("messages", json!({})),
        ("messages", json!([{ "role": "user" }])),
        (
            "messages",
            json!([{ "role": "user", "content": [{ "type": "image" }] }]),
        ),
        ("permissions", json!({ "allowlist": {} })),
        ("permissions", json!({ "allowlist": [""] })),
        (
            "permissions",
            json!({ "allowlist": [{ "tool": "bash", "params": { "command": "" } }] }),
        ),
        ("permissions", json!({ "allowlist": [5] })),
        ("permissions", json!({ "deny": "bash" })),
    ] {
        let mut body = json!({ "model": "lab/clever", "messages": [] });
        body[field] = value;
        let refusal = hall.refusal(&body.to_string()).await;
        assert_eq!(refusal.status, 400, "{body}");
        let error = refusal.to_string();
        assert!(
            error.contains(field) || error.contains("allowlist"),
            "{error}"
        );
        assert_eq!(refusal.body["code"], "invalid_body", "{body}");
    }
    // Nobody was asked for any of it.
    assert!(hall.model.asked().is_empty());
}

#[tokio::test]
async fn a_server_without_agents_says_so() {
    let hall = Hall::start(json!(["hi"])).await;
    let body = json!({ "agent": "claude", "messages": [] }).to_string();
    let refusal = hall.refusal(&body).await;
    assert_eq!(
        (refusal.status, refusal.body),
        (
            400,
            json!({ "error": "agent: expected nothing: this server has models only", "code": "invalid_body" })
        )
    );
}

#[tokio::test]
async fn the_default_is_taken_when_no_model_is_named() {
    let hall = Hall::start(json!(["hi", "hi"])).await;
    hall.begin_with(json!({})).await.end().await;
    hall.begin_with(json!({ "model": "lab/quick" }))
        .await
        .end()
        .await;
    let asked = hall.model.asked();
    let names: Vec<&str> = asked.iter().map(|asked| asked.model.as_str()).collect();
    assert_eq!(names, ["clever", "quick"]);
}

#[tokio::test]
async fn a_model_that_is_not_there_is_told_of_in_the_stream() {
    let hall = Hall::start(json!(["hi"])).await;
    let events = hall
        .begin_with(json!({ "model": "lab/slow" }))
        .await
        .end()
        .await;
    assert_eq!(types(&events), ["connected", "error"]);
    assert_eq!(
        events[1],
        json!({ "type": "error", "message": "there is no model \"lab/slow\"" })
    );
}

#[tokio::test]
async fn a_conversation_without_messages_is_one() {
    let hall = Hall::start(json!(["hi"])).await;
    let events = hall.begin_with(json!({ "messages": [] })).await.end().await;
    assert_eq!(
        types(&events),
        ["connected", "harness_start", "text", "harness_end"]
    );
    assert!(hall.model.asked()[0].messages.is_empty());
}

#[tokio::test]
async fn large_messages_and_pictures_reach_the_model_as_they_are() {
    let hall = Hall::start(json!(["seen"])).await;
    let large = "x\u{2028}\"\n".repeat(1024 * 1024 / 6);
    let picture = "aGk=".repeat(64 * 1024);
    let messages = json!([
        { "role": "system", "content": "be short" },
        { "role": "user", "content": [
            { "type": "text", "text": large },
            { "type": "image", "mediaType": "image/png", "data": picture },
        ] },
    ]);
    let events = hall
        .begin_with(json!({ "messages": messages }))
        .await
        .end()
        .await;
    assert_eq!(
        types(&events),
        ["connected", "harness_start", "text", "harness_end"]
    );
    let expected = vec![
        Message::System("be short".to_owned()),
        Message::User(vec![
            Content::Text(large),
            Content::Image(Media {
                media_type: "image/png".to_owned(),
                data: picture,
            }),
        ]),
    ];
    assert!(hall.model.asked()[0].messages == expected);
}

#[tokio::test]
async fn answers_that_say_nothing_decide_nothing() {
    let hall = Hall::start(json!([])).await;
    let table: [(Value, &str); 2] = [
        (
            json!({ "response": { "approved": true } }),
            "sessionId and response are required",
        ),
        (
            json!({ "sessionId": "s" }),
            "sessionId and response are required",
        ),
    ];
    for (body, error) in table {
        let refused = hall.post(&json!({ "id": "x" }), &body).await.unwrap_err();
        assert_eq!(
            (refused.status, refused.body),
            (400, json!({ "error": error }))
        );
    }
    let refused = hall.gateway.resolve("x", b"{").await.unwrap_err();
    assert_eq!(
        (refused.status, refused.body),
        (400, json!({ "error": "Invalid JSON body" }))
    );
}
