//! An agent that dies: it is started again and goes on with its conversation, as often as it was said.

use serde_json::{Value, json};

use super::nothing_left;
use crate::support::{Desk, Runs, told};

fn dying() -> Value {
    json!({
        "handshake": {"protocolVersion": 1, "agentCapabilities": {"loadSession": true}},
        "turns": [[{"text": "Still "}, {"stderr": "out of memory"}, {"die": true}]],
    })
}

#[tokio::test]
async fn a_dead_agent_is_started_again_with_its_conversation() {
    let (desk, log) = Desk::with_fake(dying()).await;
    let mut runs = Runs::attached(&desk, &["fake", "go"]).await;
    let ended = runs.until("agentEnded").await;
    assert!(
        ended["error"].as_str().unwrap().contains("out of memory"),
        "{ended}"
    );
    assert_eq!(ended["restartInMs"], 500);
    let attached = runs.until("attached").await;
    assert_eq!(attached["agentSessionId"], "session-1");
    assert_eq!(told(&log, "session/load").len(), 1);
    assert_eq!(told(&log, "session/new").len(), 1);

    // What it had not seen when it died comes again, until it has died often enough.
    desk.register(&["ada"]).await;
    desk.run(&["send", "fake", "Hello", "--as", "ada", "--no-wait"])
        .await;
    runs.until("message").await;
    runs.until("agentEnded").await;
    assert_eq!(runs.end().await.0, 0);
    nothing_left(&log);
}

#[tokio::test]
async fn a_dead_agent_stays_dead_if_that_was_said() {
    let (desk, log) = Desk::with_fake(dying()).await;
    let runs = Runs::attached(&desk, &["fake", "go", "--restart", "never"]).await;
    let (code, said) = runs.running.end().await;
    assert_eq!(code, 1);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["error"]["code"], "connection-closed");
    assert!(
        said["error"]["message"]
            .as_str()
            .unwrap()
            .contains("out of memory"),
        "{said}"
    );
    nothing_left(&log);
}
