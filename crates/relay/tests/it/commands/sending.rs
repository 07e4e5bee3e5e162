//! `relay send` and `relay reply`: every recipient's outcome is told.

use relay_sdk::{CallbackSession, accepted, delivered, failed};
use serde_json::json;

use crate::support::{Desk, masked};

/// Has an agent take everything at once.
async fn present(desk: &Desk, name: &str) -> relay_sdk::AttachedSession {
    let agent = desk.agent(name).await;
    let session = CallbackSession::new(agent.identity().clone(), |_, context| async move {
        Ok(delivered(context.id))
    });
    agent.attach(session).await.unwrap()
}

#[tokio::test]
async fn a_message_is_followed_to_its_end() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let _bob = present(&desk, "bob").await;
    let said = desk
        .ok(&["send", "bob", "Shall", "we", "ship?", "--as", "ada"])
        .await;
    assert_eq!(said, "sent ID\n@bob  delivered after TIME\n");
    let arguments = ["send", "bob", "once", "--as", "ada", "--key", "k"];
    assert_eq!(desk.ok(&arguments).await, said);
    // The second time it was there already.
    assert_eq!(desk.ok(&arguments).await, "sent ID\n@bob  delivered\n");
    let sent = desk.json(&["send", "@bob", "again"]).await;
    assert_eq!(sent["deliveries"][0]["state"], "delivered");
    assert_eq!(sent["message"]["from"]["name"], "relay");
}

#[tokio::test]
async fn who_is_not_connected_gets_it_later_and_is_not_waited_for() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob", "eve"]).await;
    let _bob = present(&desk, "bob").await;
    let done = desk.run(&["send", "bob,eve", "Hello", "--as", "ada"]).await;
    assert_eq!(done.code, 0, "{done:?}");
    let expected =
        "sent ID\n@bob  delivered after TIME\n@eve  waits: no session of the agent is connected\n";
    assert_eq!(masked(&done.out), expected);
    assert_eq!(masked(&done.err), "follow it: relay delivery show ID\n");
    // Unless that was asked for.
    let done = desk
        .run(&["send", "eve", "Hello", "--as", "ada", "--wait", "300ms"])
        .await;
    assert_eq!(done.code, 7, "{done:?}");
    let expected =
        "relay: after TIME 1 of 1 deliveries had not ended\nnext: relay delivery show ID\n";
    assert_eq!(masked(&done.err), expected);
    // Or nobody wants to know.
    let said = desk
        .ok(&["send", "eve", "Hello", "--as", "ada", "--no-wait"])
        .await;
    assert_eq!(
        said,
        "sent ID\n@eve  pending  ID  waits: no session of the agent is connected\n"
    );
}

#[tokio::test]
async fn a_delivery_that_fails_is_told_with_its_reason() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob", "eve"]).await;
    let bob = desk.agent("bob").await;
    let session = CallbackSession::new(bob.identity().clone(), |_, _| async move {
        Ok(failed("the screen is full"))
    });
    let _session = bob.attach(session).await.unwrap();
    let done = desk.run(&["send", "bob", "Hello", "--as", "ada"]).await;
    assert_eq!(done.code, 6, "{done:?}");
    assert_eq!(
        masked(&done.out),
        "sent ID\n@bob  failed: the screen is full\n"
    );
    let expected = "relay: 1 of 1 deliveries did not succeed\nnext: relay delivery show ID\n";
    assert_eq!(masked(&done.err), expected);
    let done = desk.run(&["send", "bob", "Hello", "--json"]).await;
    let sent: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(sent["deliveries"][0]["state"], "failed");
    assert_eq!(sent["deliveries"][0]["reason"], "the screen is full");
    let done = desk
        .run(&["send", "bob", "Hello", "--mode", "on-idle", "--json"])
        .await;
    assert_eq!(done.code, 6);
    let sent: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(
        sent["deliveries"][0]["error"]["code"],
        "capability_not_supported"
    );
    let told: serde_json::Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(
        (&told["error"]["code"], &told["error"]["exit"]),
        (&json!("delivery_failed"), &json!(6))
    );
}

#[tokio::test]
async fn what_a_session_queues_is_waited_for() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let bob = desk.agent("bob").await;
    let session = CallbackSession::new(bob.identity().clone(), |_, context| async move {
        Ok(accepted(context.id))
    });
    let _session = bob.attach(session).await.unwrap();
    let done = desk
        .run(&["send", "bob", "Hello", "--as", "ada", "--wait", "1s"])
        .await;
    assert_eq!(done.code, 7, "{done:?}");
    let expected = "sent ID\n@bob  accepted: the session shows it when it can\n";
    assert_eq!(masked(&done.out), expected);
}

#[tokio::test]
async fn text_and_files_come_from_where_they_are() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    for arguments in [["send", "bob", "-"].as_slice(), &["send", "bob"]] {
        let done = desk.fed("one\ntwo\n", arguments).await;
        assert_eq!(done.code, 0, "{done:?}");
    }
    let notes = desk.setup.file("notes.md");
    std::fs::write(&notes, "# Notes").unwrap();
    let notes = notes.to_str().unwrap();
    let sent = desk
        .json(&[
            "send",
            "#general",
            "see",
            "--as",
            "ada",
            "--attach",
            notes,
            "--urgent",
            "--deadline",
            "1h",
            "--key",
            "k",
        ])
        .await;
    let attachment = &sent["message"]["attachments"][0];
    assert_eq!(
        (&attachment["name"], &attachment["mediaType"]),
        (&json!("notes.md"), &json!("text/markdown"))
    );
    // The same key is the same message.
    let arguments = [
        "send",
        "#general",
        "see",
        "--as",
        "ada",
        "--urgent",
        "--key",
        "k2",
        "--no-wait",
    ];
    let first = desk.json(&arguments).await;
    assert_eq!(desk.json(&arguments).await["messageId"], first["messageId"]);
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    assert_eq!(inbox["items"][0]["message"]["text"], "one\ntwo");
    let (code, said) = desk
        .refused(&["send", "bob", "x", "--attach", "/nowhere/file"])
        .await;
    assert_eq!(code, 1);
    assert!(
        said.starts_with("relay: /nowhere/file can't be read"),
        "{said}"
    );
}

#[tokio::test]
async fn recipients_that_do_not_exist_are_suggested() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let expected = "relay: no agent is called \"bobb\"; the nearest are bob\n\
                    next: `relay agent list` shows who there is\n";
    assert_eq!(
        desk.refused(&["send", "bobb", "x"]).await,
        (4, expected.to_owned())
    );
    let expected = "relay: no agent is called \"general\"\n\
                    next: there is a channel of that name: relay send '#general' …\n";
    assert_eq!(
        desk.refused(&["send", "general", "x"]).await,
        (4, expected.to_owned())
    );
    assert_eq!(desk.refused(&["send", "#opps", "x"]).await.0, 4);
    assert_eq!(desk.refused(&["send", "ada,#general", "x"]).await.0, 2);
    assert_eq!(
        desk.refused(&["send", "bob", "x", "--mode", "soon"])
            .await
            .0,
        2
    );
    assert_eq!(
        desk.refused(&["send", "bob", "x", "--deadline", "soon"])
            .await
            .0,
        2
    );
    assert_eq!(desk.refused(&["send", "bob", ""]).await.0, 2);
}

#[tokio::test]
async fn a_reply_goes_to_the_thread() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let sent = desk
        .json(&["send", "#general", "Shall we ship?", "--as", "ada"])
        .await;
    let id = sent["messageId"].as_str().unwrap();
    let said = desk.ok(&["reply", id, "On it", "--as", "bob"]).await;
    assert_eq!(
        said,
        "sent ID\n@ada  waits: no session of the agent is connected\n"
    );
    let reply = desk
        .json(&["reply", id, "Done", "--as", "bob", "--no-wait"])
        .await;
    assert_eq!(reply["message"]["parent"], sent["messageId"]);
    let (code, said) = desk.refused(&["reply", "no-id", "x"]).await;
    assert_eq!(code, 2, "{said}");
}

#[tokio::test]
async fn what_a_session_has_shown_is_seen_and_not_unread() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let _bob = present(&desk, "bob").await;
    desk.ok(&["send", "bob", "Shown", "--as", "ada"]).await;
    let said = desk.ok(&["inbox", "--as", "bob"]).await;
    assert!(said.contains("Shown\n  seen by the session\n"), "{said}");
    assert!(
        said.ends_with("\nnothing unread, 1 seen by the session\n"),
        "{said}"
    );
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    assert_eq!((&inbox["unread"], &inbox["seen"]), (&0.into(), &1.into()));
    assert_eq!(inbox["items"][0]["seenBy"], "session");
    desk.ok(&["inbox", "--as", "bob", "--ack"]).await;
    assert_eq!(desk.ok(&["inbox", "--as", "bob"]).await, "nothing unread\n");
}
