//! What a session can do by the relay's tools is declared when the agent has started them, not because they were handed over.

use serde_json::{Value, json};

use crate::support::{Desk, Runs};

#[tokio::test]
async fn sending_and_calling_are_declared_when_the_agent_has_started_the_tools() {
    let loads = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
    let (new, load) = (&["fake"][..], &["fake", "--load", "old"][..]);
    for (starts_none, arguments, expected) in [
        (json!([]), new, json!(true)),
        (json!(["new"]), new, Value::Null),
        (json!(["new"]), load, json!(true)),
        (json!(["load"]), load, Value::Null),
    ] {
        let script = json!({"handshake": loads, "startsNoServers": starts_none});
        let (desk, _) = Desk::with_fake(script).await;
        let mut runs = Runs::attached(&desk, arguments).await;
        let sessions = desk.json(&["session", "list"]).await;
        let capabilities = &sessions["items"][0]["capabilities"];
        assert_eq!(
            (
                &capabilities["actions"]["invoke"],
                &capabilities["messaging"]["send"]
            ),
            (&expected, &expected),
            "{arguments:?} {starts_none}"
        );
        if expected.is_null() {
            let warning = runs.until("warning").await;
            let text = warning["text"].as_str().unwrap();
            assert!(text.contains("has not started Relay's tools"), "{text}");
        }
        assert_eq!(runs.end().await, (0, String::new()));
    }
}
