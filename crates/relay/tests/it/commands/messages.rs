//! `relay inbox`, `relay react`, `relay search`.

use serde_json::json;

use crate::support::Desk;

#[tokio::test]
async fn the_inbox_shows_what_is_unread_and_settles_it_when_asked_to() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let sent = desk
        .json(&["send", "bob", "Shall we ship?\nToday?", "--as", "ada"])
        .await;
    desk.ok(&["send", "#general", "Hello", "--as", "ada"]).await;
    let expected = "@ada TIME ago  ID\n  Shall we ship?\n  Today?\n\n@ada in #general TIME ago  ID\n  Hello\n\n2 unread\n";
    assert_eq!(desk.ok(&["inbox", "--as", "bob"]).await, expected);
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    assert_eq!(
        (&inbox["unread"], &inbox["items"][0]["reason"]),
        (&json!(2), &json!("dm"))
    );
    let read = desk.ok(&["inbox", "--as", "bob", "--ack"]).await;
    assert!(read.ends_with("\n2 unread, read now\n"), "{read}");
    assert_eq!(desk.ok(&["inbox", "--as", "bob"]).await, "nothing unread\n");
    let delivery = sent["deliveries"][0]["deliveryId"].as_str().unwrap();
    assert_eq!(
        desk.json(&["delivery", "show", delivery]).await["state"],
        "delivered"
    );
    let expected = "relay: expected an agent token, found a workspace key\n\
                    next: say with --as NAME as which agent to act\n";
    assert_eq!(desk.refused(&["inbox"]).await, (5, expected.to_owned()));
}

#[tokio::test]
async fn text_of_others_can_not_play_with_the_terminal() {
    let desk = Desk::new().await;
    desk.register(&["bob"]).await;
    desk.ok(&["send", "bob", "\u{1b}[2J\u{1b}]0;gotcha\u{7}hi\rthere"])
        .await;
    let shown = desk.ok(&["inbox", "--as", "bob", "--color", "never"]).await;
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\r']), "{shown:?}");
    let shown = desk
        .ok(&["inbox", "--as", "bob", "--color", "always"])
        .await;
    assert!(
        shown.starts_with("\u{1b}[1mrelay\u{1b}[0m in @bob "),
        "{shown:?}"
    );
}

#[tokio::test]
async fn reactions_come_and_go() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let sent = desk
        .json(&["send", "#general", "Shipped", "--as", "ada"])
        .await;
    let id = sent["messageId"].as_str().unwrap();
    let reacted = desk.ok(&["react", id, ":rocket:", "--as", "bob"]).await;
    assert_eq!(reacted, ":rocket: bob\n");
    let reacted = desk.json(&["react", id, ":rocket:", "--as", "ada"]).await;
    assert_eq!(
        reacted["items"],
        json!([{ "emoji": ":rocket:", "agents": ["bob", "ada"] }])
    );
    let shown = desk.ok(&["channel", "messages", "general"]).await;
    assert_eq!(
        shown,
        "@ada in #general TIME ago  ID\n  Shipped\n  :rocket: bob, ada\n"
    );
    desk.ok(&["react", id, ":rocket:", "--remove", "--as", "ada"])
        .await;
    let none = desk
        .ok(&["react", id, ":rocket:", "--remove", "--as", "bob"])
        .await;
    assert_eq!(none, "no reactions\n");
}

#[tokio::test]
async fn messages_are_found_by_their_words() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    desk.ok(&["send", "#general", "The changelog is ready", "--as", "ada"])
        .await;
    desk.ok(&["send", "bob", "A changelog for you", "--as", "ada"])
        .await;
    let arguments = [
        "search",
        "change*",
        "--channel",
        "#general",
        "--from",
        "@ada",
        "--after",
        "1h",
    ];
    // Words are indexed a moment after the message is stored.
    let found = loop {
        let found = desk.ok(&arguments).await;
        if found != "nothing found\n" {
            break found;
        }
    };
    assert_eq!(
        found,
        "@ada in #general TIME ago  ID\n  The [changelog] is ready\n"
    );
    let found = desk.json(&["search", "changelog", "ready"]).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    let before = desk.ok(&["search", "changelog", "--before", "1h"]).await;
    assert_eq!(before, "nothing found\n");
}

#[tokio::test]
async fn the_inbox_names_what_waits_and_does_not_show_it() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let sent = desk
        .json(&[
            "send",
            "bob",
            "secret plan",
            "--as",
            "ada",
            "--mode",
            "manual",
            "--no-wait",
        ])
        .await;
    for arguments in [
        &["inbox", "--as", "bob", "--ack"][..],
        &["inbox", "--as", "bob"],
    ] {
        let shown = desk.ok(arguments).await;
        let expected = "@ada waits: it waits for a flush  ID\n\nnothing unread\n";
        assert_eq!(shown, expected);
    }
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    let waits = &inbox["waiting"][0];
    assert_eq!(
        (&waits["deliveryId"], &waits["waiting"]["code"]),
        (&sent["deliveries"][0]["deliveryId"], &"manual".into())
    );
    assert!(!inbox.to_string().contains("secret plan"));
    desk.run(&["delivery", "flush", "bob", "--mode", "manual"])
        .await;
    let shown = desk.ok(&["inbox", "--as", "bob", "--ack"]).await;
    assert!(shown.contains("secret plan"), "{shown}");
}

#[tokio::test]
async fn the_readers_of_a_message_are_listed() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob", "eve"]).await;
    let sent = desk
        .json(&["send", "#general", "Hello", "--as", "ada", "--no-wait"])
        .await;
    let id = sent["message"]["id"].as_str().unwrap();
    assert_eq!(desk.ok(&["readers", id]).await, "no agent has read it\n");
    desk.ok(&["inbox", "--as", "bob", "--ack"]).await;
    let read = desk.ok(&["readers", id, "--as", "ada"]).await;
    assert_eq!(read, "agent  read\n@bob   TIME ago\n");
    let read = desk.json(&["readers", id]).await;
    assert_eq!(read["items"][0]["agentName"], "bob");
    assert!(read["items"][0]["readAt"].is_string(), "{read}");
    let unknown = "01a1e393-83fa-718d-8000-010000000009";
    assert_eq!(desk.refused(&["readers", unknown]).await.0, 4);
}
