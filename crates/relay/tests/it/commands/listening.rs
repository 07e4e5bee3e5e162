//! `relay listen`: live, resumed, over a restart, and into a pipe that closes.

use serde_json::Value;

use crate::support::{Desk, soon};

#[tokio::test]
async fn events_are_told_as_they_happen() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let mut words = desk.start(&["listen", "--since", "0"]);
    while !words.line().await.contains("agent.registered       @bob") {}
    let mut json = desk.start(&[
        "listen",
        "message.*",
        "--from",
        "ada",
        "--since",
        "0",
        "--json",
    ]);
    let sent = desk
        .json(&["send", "bob", "Shall we\nship?", "--as", "ada", "--no-wait"])
        .await;
    loop {
        let line = words.line().await;
        if line.contains("message.created") {
            assert!(
                line.ends_with("@ada in a direct conversation: Shall we ship?  ID"),
                "{line}"
            );
            break;
        }
    }
    let event: Value = serde_json::from_str(&json.line().await).unwrap();
    assert_eq!(event["type"], "message.created");
    assert_eq!(event["message"]["text"], sent["message"]["text"]);
}

#[tokio::test]
async fn it_goes_on_where_it_was_also_after_a_restart() {
    let mut desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let mut listening = desk.start(&["listen", "message.created", "--since", "0", "--json"]);
    desk.ok(&["send", "ada", "one", "--no-wait"]).await;
    let text = |line: String| -> (u64, Value) {
        let event: Value = serde_json::from_str(&line).unwrap();
        (
            event["seq"].as_u64().unwrap(),
            event["message"]["text"].clone(),
        )
    };
    let (first, said) = text(listening.line().await);
    assert_eq!(said, "one");
    desk.server.kill().await;
    desk.server = desk.setup.start().await;
    desk.ok(&["send", "ada", "two", "--no-wait"]).await;
    desk.ok(&["send", "ada", "three", "--no-wait"]).await;
    assert_eq!(text(listening.line().await).1, "two");
    assert_eq!(text(listening.line().await).1, "three");
    // Another one goes on after what was seen, and ends when it has enough.
    let since = first.to_string();
    let done = desk
        .run(&[
            "listen",
            "message.created",
            "--since",
            &since,
            "--count",
            "2",
            "--json",
        ])
        .await;
    assert_eq!(done.code, 0, "{done:?}");
    let texts: Vec<Value> = done
        .out
        .lines()
        .map(|line| text(line.to_owned()).1)
        .collect();
    assert_eq!(texts, ["two", "three"]);
}

#[tokio::test]
async fn it_ends_quietly_when_nobody_reads() {
    let desk = Desk::new().await;
    let mut listening = desk.start(&["listen", "--since", "0"]);
    listening.line().await;
    // Like `relay listen | head -1`: nothing more happens, and it ends all the same.
    let mut child = listening.stop_reading();
    let status = soon("the end", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn what_can_not_be_listened_to_is_refused() {
    let desk = Desk::new().await;
    let (code, said) = desk.refused(&["listen", "mesage.created"]).await;
    assert_eq!(code, 2);
    assert!(
        said.contains("there is no event `mesage.created`; the nearest are message.created"),
        "{said}"
    );
    let (code, said) = desk.refused(&["listen", "{\"evnt\":1}"]).await;
    assert_eq!(code, 2);
    assert!(
        said.starts_with("relay: expected a filter as JSON: unknown field `evnt`"),
        "{said}"
    );
}

#[tokio::test]
async fn a_token_that_is_taken_back_ends_it() {
    let desk = Desk::new().await;
    let created = desk.json(&["token", "create"]).await;
    let token = created["token"].as_str().unwrap();
    let mut listening = desk.start_with(&[("RELAY_TOKEN", token)], &["listen", "--since", "0"]);
    listening.line().await;
    let id = created["observer"]["tokenId"].as_str().unwrap();
    desk.ok(&["token", "revoke", id]).await;
    // The server looks at it again within half a minute.
    let (code, said) = listening.end().await;
    assert_eq!(code, 5);
    assert!(
        said.contains("does not take the token in RELAY_TOKEN"),
        "{said}"
    );
}
