//! `relay audit`: verify, head, export, erase.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::{Desk, finish, text};

#[tokio::test]
async fn the_log_is_checked_beside_the_server_and_without_it() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let anchor = desk.run(&["audit", "head"]).await.out.trim_end().to_owned();
    desk.ok(&["send", "ada", "Hello", "--no-wait"]).await;
    let said = desk.ok(&["audit", "verify", "--anchor", &anchor]).await;
    assert!(said.starts_with("log      intact\nchecked  "), "{said}");
    assert!(
        said.ends_with("\nanchor   up to there the log is what it was\n"),
        "{said}"
    );
    let head = desk.json(&["audit", "head"]).await;
    let report = desk.json(&["audit", "verify"]).await;
    assert_eq!(
        (&report["intact"], &report["toSeq"], &report["head"]),
        (&json!(true), &head["seq"], &head["hash"])
    );
    // Another hash at the same place is another log.
    let (seq, _) = anchor.split_once(':').unwrap();
    let other = format!("{seq}:{}", "0".repeat(64));
    let (code, said) = desk.refused(&["audit", "verify", "--anchor", &other]).await;
    assert_eq!(code, 1);
    assert!(said.starts_with("relay: the log is ANOTHER one"), "{said}");
    assert_eq!(
        desk.refused(&["audit", "verify", "--anchor", "x"]).await.0,
        2
    );
    let Desk { setup, server } = desk;
    server.terminate();
    server.end().await;
    let mut command = setup.relay();
    command
        .args(["audit", "verify", "--data"])
        .arg(setup.data());
    let done = finish(&mut command).await;
    assert_eq!(done.code, 0, "{done:?}");
}

#[tokio::test]
async fn events_are_exported_and_erased() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    desk.ok(&["send", "ada", "the password is hunter2", "--no-wait"])
        .await;
    let exported = desk.run(&["audit", "export"]).await.out;
    let events: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seqs: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let created = events
        .iter()
        .find(|event| event["type"] == "message.created")
        .unwrap();
    let seq = created["seq"].to_string();
    let said = desk
        .ok(&["audit", "erase", &seq, "--reason", "a password"])
        .await;
    assert_eq!(
        said,
        "the content of 1 entry is gone; that it was there, and was erased, stays\n"
    );
    assert_eq!(
        desk.json(&["audit", "erase", &seq, "--reason", "again"])
            .await,
        json!({ "erased": 0 })
    );
    let file = desk.setup.file("events.jsonl");
    let done = desk
        .json(&["audit", "export", "--output", text(&file)])
        .await;
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        done["events"].as_u64().unwrap() as usize,
        written.lines().count()
    );
    assert!(!written.contains("hunter2"));
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(desk.json(&["audit", "verify"]).await["erased"], 1);
    // Nothing is overwritten, and nothing erased without a reason.
    assert_eq!(
        desk.refused(&["audit", "export", "--output", text(&file)])
            .await
            .0,
        1
    );
    assert_eq!(desk.refused(&["audit", "erase", &seq]).await.0, 2);
}
