//! `relay action`: list, invoke, show, watch, remove.

use relay_sdk::{Action, ActionCall, ActionError};
use serde_json::json;

use crate::support::Desk;

async fn desk_with_action() -> (Desk, relay_sdk::Handling) {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let bob = desk.agent("bob").await;
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    let action = Action::with_schema("classify", schema).description("labels a text");
    let handling = bob
        .register_action(action, |call: ActionCall| async move {
            match call.input["text"].as_str() {
                Some("bad") => Err(ActionError::new("that text is bad")),
                _ => Ok(json!({ "label": "spam" })),
            }
        })
        .await
        .unwrap();
    (desk, handling)
}

#[tokio::test]
async fn an_action_is_listed_called_and_shown() {
    let (desk, _handling) = desk_with_action().await;
    let listed = desk.ok(&["action", "list", "--as", "ada"]).await;
    let expected = "action    by    handlers  what it does\n\
                    classify  @bob  1         labels a text\n";
    assert_eq!(listed, expected);
    let call = [
        "action",
        "invoke",
        "classify",
        r#"{"text": "x"}"#,
        "--as",
        "ada",
    ];
    let expected = "classify completed after TIME\n{\n  \"label\": \"spam\"\n}\nby ada  ID\n";
    assert_eq!(desk.ok(&call).await, expected);
    let called = desk.json(&call).await;
    assert_eq!(called["output"], json!({ "label": "spam" }));
    let id = called["invocationId"].as_str().unwrap();
    assert_eq!(desk.ok(&["action", "show", id]).await, expected);
    let keyed = [&call[..], &["--key", "k"]].concat();
    let (first, again) = (desk.json(&keyed).await, desk.json(&keyed).await);
    assert_eq!(first["invocationId"], again["invocationId"]);
    assert_ne!(first["invocationId"], called["invocationId"]);
    let fed = desk
        .fed(
            r#"{"text": "y"}"#,
            &["action", "invoke", "classify", "-", "--json"],
        )
        .await;
    assert_eq!(fed.code, 0, "{fed:?}");
}

#[tokio::test]
async fn what_goes_wrong_is_told_with_its_code() {
    let (desk, handling) = desk_with_action().await;
    let (code, said) = desk
        .refused(&["action", "invoke", "classify", r#"{"text": "bad"}"#])
        .await;
    assert_eq!((code, said.as_str()), (6, "relay: that text is bad\n"));
    let (code, said) = desk
        .refused(&["action", "invoke", "classify", r#"{"text": 7}"#])
        .await;
    assert_eq!(code, 2, "{said}");
    assert!(said.starts_with("relay: input.text: "), "{said}");
    let (code, said) = desk.refused(&["action", "invoke", "clasify"]).await;
    assert_eq!(code, 4);
    assert!(said.contains("the nearest are classify"), "{said}");
    let (code, said) = desk
        .refused(&["action", "invoke", "classify", "{oops"])
        .await;
    assert_eq!(code, 2);
    assert!(said.contains("next: quote it"), "{said}");

    // Nobody is there to run it.
    drop(handling);
    while desk.json(&["action", "list"]).await["items"][0]["handlers"] != 0 {}
    let (code, said) = desk
        .refused(&["action", "invoke", "classify", "--wait", "1ms"])
        .await;
    assert_eq!(code, 7);
    assert!(
        said.starts_with("relay: classify has not ended yet\nnext: relay action show ID"),
        "{said}"
    );
    let later = desk
        .ok(&["action", "invoke", "classify", "--no-wait"])
        .await;
    assert_eq!(later, "called ID\nfollow it: relay action show ID\n");
    let removed = desk.ok(&["action", "remove", "classify"]).await;
    assert_eq!(removed, "classify can't be called any more\n");
    assert_eq!(
        desk.ok(&["action", "list"]).await,
        "no actions; a process registers them with the SDK or the API\n"
    );
}

#[tokio::test]
async fn what_happens_to_actions_is_watched() {
    let (desk, _handling) = desk_with_action().await;
    desk.ok(&["action", "invoke", "classify", "--as", "ada"])
        .await;
    let watched = desk
        .ok(&[
            "action", "watch", "classify", "--since", "0", "--count", "3",
        ])
        .await;
    let lines: Vec<&str> = watched.lines().collect();
    let expected = [
        "action.registered      classify of @bob",
        "action.invoked         classify by @ada",
        "action.completed       classify by @ada",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.ends_with(expected), "{watched}");
    }
    assert_eq!(lines.len(), expected.len());
}
