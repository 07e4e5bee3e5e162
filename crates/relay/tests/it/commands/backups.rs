//! `relay backup` and `relay restore`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{Desk, Done, Server, finish, text};

#[tokio::test]
async fn a_backup_is_made_while_the_server_runs_and_becomes_a_server_again() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    desk.ok(&["send", "ada", "Hello", "--no-wait"]).await;
    let backup = desk.setup.file("backup");
    let done = desk.json(&["backup", text(&backup)]).await;
    assert_eq!(done["backup"], text(&backup));
    for name in ["relay.db", "credentials.json"] {
        let mode = std::fs::metadata(backup.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let (code, said) = desk.refused(&["backup", text(&backup)]).await;
    assert_eq!(code, 8, "{said}");
    // What comes after is not in it.
    desk.ok(&["send", "ada", "later", "--no-wait"]).await;
    let data = desk.setup.file("restored");
    let restore = ["restore", text(&backup), "--data", text(&data)];
    let said = desk.ok(&restore).await;
    assert!(
        said.contains(&format!("start it: relay up --data {}", data.display())),
        "{said}"
    );
    let (code, said) = desk.refused(&restore).await;
    assert_eq!(code, 8);
    assert!(
        said.starts_with("relay: expected a data directory without a database, found "),
        "{said}"
    );
    let mut command = desk.setup.relay();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data);
    let server = Server::start(command, &data, desk.setup.file("log2")).await;
    assert_ne!(server.url, desk.server.url);
    // The agents' tokens came along.
    let mut command = desk.setup.relay();
    command
        .args(["inbox", "--as", "ada", "--json", "--data"])
        .arg(&data);
    let done = finish(&mut command).await;
    assert_eq!(done.code, 0, "{done:?}");
    let inbox: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(inbox["unread"], 1);
}

#[tokio::test]
async fn what_is_no_backup_is_refused() {
    let desk = Desk::new().await;
    let empty = desk.setup.file("empty");
    std::fs::create_dir(&empty).unwrap();
    let data = desk.setup.file("restored");
    let restore = ["restore", text(&empty), "--data", text(&data)];
    let (code, said) = desk.refused(&restore).await;
    assert_eq!(code, 4);
    assert!(said.starts_with("relay: expected a backup with "), "{said}");
    // A damaged one, too: nothing of it stays.
    let backup = desk.setup.file("backup");
    desk.ok(&["backup", text(&backup)]).await;
    std::fs::write(backup.join("relay.db"), "not a database, not at all").unwrap();
    let restore = ["restore", text(&backup), "--data", text(&data)];
    let (code, said) = desk.refused(&restore).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is not a Relay database"), "{said}");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    let (code, said) = desk
        .refused(&["backup", text(&data.join("x")), "--data", text(&empty)])
        .await;
    assert_eq!(code, 4, "{said}");
}

fn credentials_in(folder: &Path) -> Value {
    let text = std::fs::read(folder.join("credentials.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

async fn sent_over(desk: &Desk, data: &Path) -> Done {
    let mut command = desk.setup.relay();
    command
        .args(["send", "bob", "to the copy", "--as", "ada", "--no-wait"])
        .arg("--data")
        .arg(data);
    finish(&mut command).await
}

/// A copy of the data has the keys of the original, whose server would take them.
#[tokio::test]
async fn a_copy_of_the_data_never_acts_on_the_live_server() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let backup = desk.setup.file("backup");
    desk.ok(&["backup", text(&backup)]).await;
    assert_eq!(credentials_in(&backup).get("url"), None);
    // Backups of before had the address.
    let live = credentials_in(&desk.setup.data());
    assert_eq!(live["url"], desk.server.url);
    std::fs::write(backup.join("credentials.json"), live.to_string()).unwrap();
    let restored = desk.setup.file("restored");
    desk.ok(&["restore", text(&backup), "--data", text(&restored)])
        .await;
    assert_eq!(credentials_in(&restored).get("url"), None);
    // A copy by other means has it, too.
    let copied = desk.setup.file("copied");
    std::fs::create_dir(&copied).unwrap();
    for name in ["relay.db", "credentials.json"] {
        std::fs::copy(backup.join(name), copied.join(name)).unwrap();
    }
    let before = desk.ok(&["audit", "head"]).await;
    for data in [&restored, &copied] {
        let done = sent_over(&desk, data).await;
        assert_eq!(done.code, 3, "{done:?}");
        let expected = format!(
            "relay: no server runs over the data in {0}\nnext: start it: relay up --data {0}\n",
            data.display()
        );
        assert_eq!(done.err, expected);
        let mut command = desk.setup.relay();
        command
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(data);
        let copy = Server::start(command, data, desk.setup.file("log2")).await;
        assert!(copy.said.contains(" is ready\n"), "{}", copy.said);
        assert_ne!(copy.url, desk.server.url);
        assert_eq!(credentials_in(data)["url"], copy.url);
        if *data == restored {
            let done = sent_over(&desk, data).await;
            assert_eq!(done.code, 0, "{done:?}");
        }
        copy.terminate();
        assert!(copy.end().await.success());
        assert_eq!(sent_over(&desk, data).await.code, 3);
    }
    // The environment may name the live server.
    let mut command = desk.setup.relay();
    command
        .args(["agent", "list", "--data", text(&restored)])
        .env("RELAY_URL", &desk.server.url)
        .env("RELAY_TOKEN", &desk.server.key);
    let done = finish(&mut command).await;
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.err.contains("no server runs over it"), "{done:?}");
    assert_eq!(desk.ok(&["audit", "head"]).await, before);
    desk.ok(&["agent", "list"]).await;
}
