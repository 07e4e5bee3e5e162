//! `relay agent`: register, list, show, rotate, release.

use std::os::unix::fs::PermissionsExt as _;

use relay_sdk::{CallbackSession, delivered};
use serde_json::json;

use crate::support::{Desk, masked};

#[tokio::test]
async fn a_registered_agent_can_act_and_its_token_stays_secret() {
    let desk = Desk::new().await;
    let done = desk.run(&["agent", "register", "Ada"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    let agents = desk.setup.data().join("agents");
    let expected = format!(
        "registered @Ada\nkept in  {}/ID/ada.json\nact as it with --as Ada: relay inbox --as Ada\n",
        agents.display()
    );
    assert_eq!(masked(&done.out), expected);
    assert!(!done.out.contains("at_"));
    let workspace = desk.server.relay().workspace().await.unwrap().workspace_id;
    let kept = agents.join(workspace.to_string()).join("ada.json");
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    // Names are the same in any case.
    assert_eq!(
        desk.ok(&["inbox", "--as", "@ADA"]).await,
        "nothing unread\n"
    );
    // It is shown to whoever asks for it.
    let shown = desk
        .json(&[
            "agent",
            "register",
            "bob",
            "--type",
            "human",
            "--show-token",
            "--metadata",
            "{\"team\":1}",
        ])
        .await;
    assert!(shown["token"].as_str().unwrap().starts_with("at_"));
    assert_eq!(
        (&shown["agent"]["type"], &shown["agent"]["metadata"]),
        (&json!("human"), &json!({"team": 1}))
    );
    // Whoever acts as an agent by habit can still do what only the workspace can.
    let mut command = desk.command(&["agent", "register", "kim"]);
    let done = crate::support::finish(command.env("RELAY_AS", "ada")).await;
    assert_eq!(done.code, 0, "{done:?}");
    let mut command = desk.command(&["token", "show", "--json"]);
    let done = crate::support::finish(command.env("RELAY_AS", "ada")).await;
    assert!(done.out.contains("\"agent\":\"Ada\""), "{done:?}");
    // Without keeping it, it is shown: nobody else has it.
    let shown = desk.json(&["agent", "register", "eve", "--no-keep"]).await;
    assert!(shown["token"].is_string() && shown.get("tokenFile").is_none());
    let (code, said) = desk.refused(&["inbox", "--as", "eve"]).await;
    assert_eq!(code, 5);
    assert!(
        said.starts_with("relay: expected a token of @eve in "),
        "{said}"
    );
    assert!(said.contains("relay agent register eve --adopt"), "{said}");
}

#[tokio::test]
async fn a_taken_name_can_be_adopted() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let expected = "relay: the agent name \"ada\" is taken; choose another, or adopt it\n\
                    next: with --adopt you take it over, and its old token ends within a minute\n";
    let refused = desk.refused(&["agent", "register", "ada"]).await;
    assert_eq!(refused, (8, expected.to_owned()));
    desk.ok(&["agent", "register", "ada", "--adopt"]).await;
    desk.ok(&["inbox", "--as", "ada"]).await;
}

#[tokio::test]
async fn agents_are_listed_and_shown() {
    let desk = Desk::new().await;
    let nobody = "no agents yet; `relay agent register NAME` makes one\n";
    assert_eq!(desk.ok(&["agent", "list"]).await, nobody);
    desk.register(&["ada", "bob"]).await;
    let listed = desk.ok(&["agent", "list"]).await;
    assert_eq!(
        listed,
        "agent  type   status  since  id\n@ada   agent  -       -      ID\n@bob   agent  -       -      ID\n"
    );
    let listed = desk.json(&["agent", "list"]).await;
    assert_eq!(listed["items"][1]["handle"], "@bob");
    assert_eq!(
        listed["items"][1]["presence"],
        json!({ "status": "offline" })
    );
    let expected = "agent     @ada\ntype      agent\nid        ID\nsessions  none; messages wait in its inbox\n";
    assert_eq!(desk.ok(&["agent", "show", "ada"]).await, expected);
    let bob = desk.agent("bob").await;
    let session = CallbackSession::new(bob.identity().clone(), |_, context| async move {
        Ok(delivered(context.id))
    });
    let session = bob.attach(session).await.unwrap();
    let expected =
        "agent    @bob\ntype     agent\nid       ID\nsession  ID  idle, current, relay-sdk\n";
    assert_eq!(desk.ok(&["agent", "show", "@bob"]).await, expected);
    let listed = desk.ok(&["agent", "list"]).await;
    assert!(
        listed.ends_with("\n@bob   agent  idle    TIME ago  ID\n"),
        "{listed}"
    );
    assert_eq!(
        desk.json(&["agent", "show", "bob"]).await["sessions"][0]["status"],
        "idle"
    );
    let listed = async || desk.json(&["agent", "list"]).await["items"][1]["presence"].clone();
    let id = session.session_id().unwrap();
    let here = listed().await;
    assert_eq!(
        (&here["status"], &here["sessionId"]),
        (&json!("idle"), &json!(id))
    );
    // It stays in the list as it was last seen.
    let relay = desk.server.relay();
    relay.release_session(id, Some("enough")).await.unwrap();
    let gone = listed().await;
    assert_eq!(
        (&gone["status"], gone.get("sessionId")),
        (&json!("offline"), None)
    );
    assert!(gone["since"].as_str() >= here["since"].as_str(), "{gone}");
}

#[tokio::test]
async fn a_token_is_rotated_and_an_agent_released() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let before = desk.json(&["token", "show", "--as", "ada"]).await;
    let said = desk.ok(&["agent", "rotate", "ada"]).await;
    assert!(
        said.starts_with("@ada has a new token; the old one works until WHEN\nkept in  "),
        "{said}"
    );
    let after = desk.json(&["token", "show", "--as", "ada"]).await;
    assert_ne!(before["token"], after["token"]);
    let shown = desk.json(&["agent", "rotate", "ada", "--show-token"]).await;
    assert!(shown["token"].is_string() && shown["graceUntil"].is_string());
    let expected = "released @ada: its sessions end, and what waited for it has failed\n";
    assert_eq!(
        desk.ok(&["agent", "release", "ada", "--reason", "done"])
            .await,
        expected
    );
    assert_eq!(desk.refused(&["agent", "show", "ada"]).await.0, 4);
    // Its token is forgotten with it.
    let (code, said) = desk.refused(&["inbox", "--as", "ada"]).await;
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("`relay agent register ada` makes it"),
        "{said}"
    );
}
