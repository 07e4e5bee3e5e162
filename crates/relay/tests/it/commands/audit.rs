//! `relay audit`: verify, head, export, erase.

use std::os::unix::fs::PermissionsExt as _;

use relay_sdk::Relay;
use serde_json::{Value, json};

use crate::support::{Desk, Setup, finish, text};

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

/// The place in the database file where these bytes are.
fn place_of(file: &[u8], bytes: &[u8]) -> usize {
    let mut windows = file.windows(bytes.len());
    windows.position(|found| found == bytes).unwrap()
}

#[tokio::test]
async fn damage_in_the_log_of_any_workspace_is_found() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let credentials = std::fs::read(desk.setup.data().join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_slice(&credentials).unwrap();
    let admin = credentials["adminKey"].as_str().unwrap();
    let other = Relay::create_workspace(&desk.server.url, admin, "elsewhere")
        .await
        .unwrap();
    let [kim, _lee] = ["kim", "lee"].map(|name| other.register(name));
    let (kim, _lee) = (kim.await.unwrap(), _lee.await.unwrap());
    kim.send_message("@lee", "what was said there")
        .await
        .unwrap();
    let checked = desk.json(&["audit", "verify"]).await;
    assert_eq!(checked["workspaces"].as_array().unwrap().len(), 2);
    assert_eq!(checked["workspaces"][1]["name"], "elsewhere");
    let backup = desk.setup.file("backup");
    desk.ok(&["backup", text(&backup)]).await;
    let Desk { setup, server } = desk;
    server.terminate();
    assert!(server.end().await.success());

    for database in [setup.data().join("relay.db"), backup.join("relay.db")] {
        let mut file = std::fs::read(&database).unwrap();
        let place = place_of(&file, b"what was said there");
        file[place..place + 4].copy_from_slice(b"WHAT");
        std::fs::write(&database, file).unwrap();
    }
    let mut command = setup.relay();
    command
        .args(["audit", "verify", "--data"])
        .arg(setup.data());
    let done = finish(&mut command).await;
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.out.contains("workspace  elsewhere\nlog        NOT"),
        "{done:?}"
    );
    let restored = setup.file("restored");
    let mut command = setup.relay();
    command
        .args(["restore", text(&backup), "--data"])
        .arg(&restored);
    let done = finish(&mut command).await;
    assert_eq!(done.code, 1, "{done:?}");
    assert!(
        done.err.contains("the log of workspace \"elsewhere\" in "),
        "{done:?}"
    );
    assert!(!restored.join("relay.db").exists());
}

#[tokio::test]
async fn retention_is_applied_by_command_and_by_setting() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    desk.ok(&["send", "ada", "this message stays", "--no-wait"])
        .await;
    assert_eq!(desk.refused(&["audit", "retain"]).await.0, 2);
    let kept = desk
        .json(&["audit", "retain", "--bulky", "1d", "--all", "365d"])
        .await;
    assert_eq!(kept, json!({ "erased": 0, "cut": 0 }));
    let cut = desk.json(&["audit", "retain", "--all", "0s"]).await;
    assert!(cut["cut"].as_u64().unwrap() > 3, "{cut}");
    let report = desk.json(&["audit", "verify"]).await;
    assert_eq!(report["intact"], true, "{report}");
    assert_ne!(report["fromSeq"], 1);
    let found = desk.json(&["search", "stays"]).await;
    assert_eq!(found["items"].as_array().unwrap().len(), 1);

    let setup = Setup::new().with("RELAY_RETENTION_BULKY_DAYS", "30");
    let mut command = setup.relay();
    command
        .args(["config", "show", "--json", "--data"])
        .arg(setup.data());
    let done = finish(&mut command).await;
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    let value = |name: &str| {
        let items = shown["items"].as_array().unwrap().iter();
        let mut found = items.filter(|item| item["setting"] == name);
        found.next().unwrap()["value"].clone()
    };
    assert_eq!(value("retention.bulky_days"), 30);
    assert_eq!(value("retention.all_days"), 0);
}
