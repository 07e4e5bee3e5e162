//! `relay session`: list, show, pause, resume, fork, release.

use relay_sdk::{
    AgentDeliveryAdapter, AgentIdentity, AgentSession, AgentSessionCapabilities, ControlError,
    Fork, MessageContext, MessageReceipt, RelayMessage, SessionError, delivered,
};
use serde_json::json;

use crate::support::Desk;

/// A session that can be directed.
struct Able(AgentIdentity);

impl AgentDeliveryAdapter for Able {
    async fn receive_message(
        &self,
        _: RelayMessage,
        context: MessageContext,
    ) -> Result<MessageReceipt, SessionError> {
        Ok(delivered(context.id))
    }
}

impl AgentSession for Able {
    fn identity(&self) -> AgentIdentity {
        self.0.clone()
    }

    fn capabilities(&self) -> AgentSessionCapabilities {
        let mut capabilities = AgentSessionCapabilities::minimum();
        let lifecycle = &mut capabilities.lifecycle;
        lifecycle.pause = Some(true);
        lifecycle.resume = Some(true);
        lifecycle.fork = Some(true);
        capabilities
    }

    async fn release(&self, _: Option<String>) {}

    async fn pause(&self, _: Option<String>) -> Result<(), ControlError> {
        Ok(())
    }

    async fn resume(&self, _: Option<String>) -> Result<(), ControlError> {
        Ok(())
    }

    async fn fork(&self, _: Fork) -> Result<(), ControlError> {
        Ok(())
    }
}

#[tokio::test]
async fn sessions_are_shown_and_directed() {
    let desk = Desk::new().await;
    let none = "no sessions; messages wait in the agents' inboxes\n";
    assert_eq!(desk.ok(&["session", "list"]).await, none);
    desk.register(&["ada"]).await;
    let ada = desk.agent("ada").await;
    let _session = ada
        .attach(Able(ada.identity().clone()))
        .harness("test")
        .await
        .unwrap();
    let listed = desk.ok(&["session", "list", "--agent", "ada"]).await;
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1],
        [
            "ID",
            "@ada",
            "idle",
            "*",
            "websocket",
            "test",
            "TIME",
            "ago"
        ]
    );
    assert_eq!(rows[2].join(" "), "* gets the agent's messages");
    let listed = desk.json(&["session", "list"]).await;
    let id = listed["items"][0]["sessionId"].as_str().unwrap().to_owned();
    let shown = desk.ok(&["session", "show", &id]).await;
    let expected = "session    ID\nagent      @ada\nstatus     idle\nharness    test\nlink       websocket\n\
                    modes      immediate\ncan        pause, resume, fork\nsince      TIME ago\n\
                    last seen  TIME ago\ncurrent    yes\n";
    assert_eq!(shown, expected);
    let paused = desk.ok(&["session", "pause", &id]).await;
    assert_eq!(paused, "paused ID of @ada, now paused\n");
    assert_eq!(
        desk.json(&["session", "resume", &id]).await["status"],
        "idle"
    );
    let forked = desk.json(&["session", "fork", &id, "--into", "ada2"]).await;
    assert_eq!(forked["agent"]["name"], "ada2");
    let forked = desk.ok(&["session", "fork", &id]).await;
    assert_eq!(forked, "forked ID into ID of @ada\n");
    let released = desk
        .ok(&["session", "release", &id, "--reason", "done", "--as", "ada"])
        .await;
    assert_eq!(released, "released ID of @ada, now released\n");
    let (code, said) = desk.refused(&["session", "pause", &id]).await;
    assert_eq!(code, 1, "{said}");
    let all = desk
        .json(&["session", "list", "--agent", "ada", "--all"])
        .await;
    let ended = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["sessionId"] == json!(id));
    assert_eq!(ended.unwrap()["status"], "released");
    let unknown = "01a1e393-b029-7db0-bef2-676dc047b5be";
    assert_eq!(desk.refused(&["session", "show", unknown]).await.0, 4);
}
