//! `relay policy` and `relay token`.

use serde_json::json;

use crate::support::Desk;

#[tokio::test]
async fn the_policy_is_shown_and_changed() {
    let desk = Desk::new().await;
    let shown = desk.run(&["policy", "show"]).await.out;
    assert!(shown.contains("\nretry.attempts     8\n"), "{shown}");
    let set = [
        "policy",
        "set",
        "window=8",
        "retry.attempts=5",
        "boundaries=on-idle",
    ];
    let policy = desk.json(&set).await;
    assert_eq!(policy["window"], 8);
    assert_eq!(
        policy["retry"],
        json!({ "attempts": 5, "minMs": 1_000, "maxMs": 300_000 })
    );
    assert_eq!(
        (&policy["boundaries"], &policy["version"]),
        (&json!(["on-idle"]), &json!(2))
    );
    let expected = "relay: the policy has no \"windw\"; the nearest are window\n\
                    next: `relay policy show` has all names\n";
    assert_eq!(
        desk.refused(&["policy", "set", "windw=1"]).await,
        (2, expected.to_owned())
    );
    let (code, said) = desk.refused(&["policy", "set", "window=0"]).await;
    assert_eq!(
        (code, said.as_str()),
        (2, "relay: policy window: expected 1 to 1024, found 0\n")
    );
}

#[tokio::test]
async fn the_credential_in_use_is_printed_when_asked_for() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let shown = desk.run(&["token", "show"]).await.out;
    assert_eq!(shown.trim_end(), desk.server.key);
    let shown = desk.json(&["token", "show", "--as", "ada"]).await;
    assert_eq!(
        (&shown["kind"], &shown["agent"]),
        (&json!("agent"), &json!("ada"))
    );
    assert_eq!(shown["url"], desk.server.url);
    // A program that was given that token is the agent.
    let mut command = desk.setup.relay();
    command.arg("inbox").env("RELAY_URL", &desk.server.url);
    command.env("RELAY_TOKEN", shown["token"].as_str().unwrap());
    let done = crate::support::finish(&mut command).await;
    assert_eq!(
        (done.code, done.out.as_str()),
        (0, "nothing unread\n"),
        "{done:?}"
    );
}

#[tokio::test]
async fn observers_are_made_listed_and_revoked() {
    let desk = Desk::new().await;
    let none = "no observer tokens; `relay token create` makes one\n";
    assert_eq!(desk.ok(&["token", "list"]).await, none);
    let arguments = [
        "token",
        "create",
        "--name",
        "wall",
        "--channel",
        "#general",
        "--grant",
        "terminal",
    ];
    let created = desk.json(&arguments).await;
    assert!(created["token"].as_str().unwrap().starts_with("ot_"));
    let said = desk.ok(&["token", "create"]).await;
    assert!(said.ends_with("\nthe token is shown this once\n"), "{said}");
    let listed = desk.ok(&["token", "list"]).await;
    assert!(!listed.contains("ot_"), "{listed}");
    assert!(
        listed.contains("ID  wall  channels general; also terminal"),
        "{listed}"
    );
    let id = created["observer"]["tokenId"].as_str().unwrap();
    assert_eq!(desk.ok(&["token", "revoke", id]).await, "revoked ID\n");
    assert_eq!(desk.refused(&["token", "revoke", id]).await.0, 4);
}
