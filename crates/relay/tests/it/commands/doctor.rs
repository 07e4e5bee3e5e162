//! `relay doctor`: what it says when all is well, and which layer it names when something is broken.

use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::path::Path;

use relay_sdk::protocol::policy::PolicyPatch;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::support::{Desk, Setup, finish, soon};

/// What a doctor found.
struct Found {
    code: i32,
    err: String,
    whole: Value,
}

async fn examined(command: &mut Command) -> Found {
    let done = finish(command.arg("--json")).await;
    let whole = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    Found {
        code: done.code,
        err: done.err,
        whole,
    }
}

impl Found {
    fn checks(&self) -> &[Value] {
        self.whole["checks"].as_array().unwrap()
    }

    fn check(&self, name: &str) -> &Value {
        let found = self.checks().iter().find(|check| check["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {}", self.whole))
    }

    fn outcome(&self, name: &str) -> &str {
        self.check(name)["outcome"].as_str().unwrap()
    }

    fn next(&self, name: &str) -> &str {
        self.check(name)["next"].as_str().unwrap()
    }

    /// The layers that broke, each once.
    fn broken(&self) -> Vec<&str> {
        let failed = self
            .checks()
            .iter()
            .filter(|check| check["outcome"] == "failed");
        let mut layers: Vec<&str> = failed
            .map(|check| check["layer"].as_str().unwrap())
            .collect();
        layers.dedup();
        layers
    }

    /// That the round trip went well all the same.
    fn assert_round_trip(&self) {
        for mode in MODES {
            assert_eq!(self.outcome(mode), "ok", "{}", self.whole);
        }
    }
}

const MODES: [&str; 5] = [
    "immediate",
    "next-message",
    "next-tool-call",
    "on-idle",
    "manual",
];

fn open_to_others(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
}

#[tokio::test]
async fn all_is_well_and_nothing_is_left_behind() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let found = examined(&mut desk.command(&["doctor", "--deep"])).await;
    assert_eq!(
        (found.code, &found.whole["ok"]),
        (0, &json!(true)),
        "{}",
        found.whole
    );
    let names: Vec<&str> = found
        .checks()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    let before = [
        "data directory",
        "credentials.json",
        "database files",
        "agent tokens",
        "settings",
        "disk space",
        "fsync",
        "open files",
        "database",
        "integrity",
        "hash chain",
        "server",
        "version",
        "credential",
        "store",
        "kept tokens",
        "two sessions",
        "clock",
    ];
    assert_eq!(names, [&before[..], &MODES].concat());
    found.assert_round_trip();
    assert_eq!(found.broken(), Vec::<&str>::new());
    for check in found.checks() {
        assert!(
            check["detail"].is_string() && check["tookMs"].is_number(),
            "{check}"
        );
    }
    let agents = desk.json(&["agent", "list"]).await;
    assert_eq!(agents["items"].as_array().unwrap().len(), 1, "{agents}");
    let said = desk.ok(&["doctor"]).await;
    assert!(said.starts_with("relay "), "{said}");
    assert!(
        said.contains("\nok       network      server            it answers at http://127.0.0.1:"),
        "{said}"
    );
    assert!(
        said.contains("\nok       delivery     manual            there: surfaced "),
        "{said}"
    );
    assert!(said.contains("receipt delivered "), "{said}");
    assert!(!said.contains('\u{1b}'), "colour in a pipe: {said}");
}

#[tokio::test]
async fn without_a_server_it_brings_its_own() {
    let setup = Setup::new();
    let mut command = setup.relay();
    command.args(["doctor", "--data"]).arg(setup.data());
    let done = finish(&mut command).await;
    assert_eq!(done.code, 0, "{done:?}");
    let remark =
        "\nNo server answers: the round trip takes place on one in a temporary directory.\n";
    assert!(done.out.contains(remark), "{done:?}");
    let found = examined(&mut command).await;
    found.assert_round_trip();
    assert_eq!(found.outcome("temporary server"), "ok");
    assert!(!setup.data().exists(), "looking makes nothing");
}

#[tokio::test]
async fn files_that_others_can_read_are_named_with_the_remedy() {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let credentials = desk.setup.data().join("credentials.json");
    open_to_others(&credentials);
    let found = examined(&mut desk.command(&["doctor"])).await;
    assert_eq!((found.code, found.broken()), (1, vec!["files"]));
    let remedy = format!("chmod 600 {}", credentials.display());
    assert_eq!(found.next("credentials.json"), remedy);
    assert!(
        found.err.contains("the layer that broke is files"),
        "{}",
        found.err
    );
    found.assert_round_trip();
    let done = desk.run(&["doctor"]).await;
    assert_eq!(done.code, 1);
    assert!(
        done.out.contains(&format!("\n         next: {remedy}\n")),
        "{done:?}"
    );
    assert!(
        done.err.ends_with(&format!("\nnext: {remedy}\n")),
        "{done:?}"
    );
}

#[tokio::test]
async fn a_setting_that_no_server_starts_with_is_named() {
    let desk = Desk::new().await;
    std::fs::write(
        desk.setup.data().join("relay.toml"),
        "[server]\nlisten = 7\n",
    )
    .unwrap();
    let found = examined(&mut desk.command(&["doctor"])).await;
    assert_eq!((found.code, found.broken()), (1, vec!["files"]));
    assert_eq!(found.outcome("settings"), "failed");
}

#[tokio::test]
async fn a_wrong_token_is_a_matter_of_credentials() {
    let desk = Desk::new().await;
    let mut command = desk.command(&["doctor"]);
    command.env("RELAY_TOKEN", "rk_wrong");
    let found = examined(&mut command).await;
    assert_eq!((found.code, found.broken()), (1, vec!["credentials"]));
    assert!(found.next("credential").contains("RELAY_TOKEN"));
    assert_eq!(found.outcome("round trip"), "skipped");
}

#[tokio::test]
async fn a_kept_token_that_is_no_longer_taken_is_a_warning() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    let folder = desk.setup.data().join("agents");
    let workspace = folder.read_dir().unwrap().next().unwrap().unwrap().path();
    std::fs::write(
        workspace.join("ada.json"),
        r#"{"agent":"ada","token":"at_wrong"}"#,
    )
    .unwrap();
    let found = examined(&mut desk.command(&["doctor"])).await;
    assert_eq!((found.code, found.outcome("kept tokens")), (0, "warning"));
    assert_eq!(
        found.next("kept tokens"),
        "relay agent rotate ada gets a new one"
    );
}

#[tokio::test]
async fn a_server_that_is_away_is_a_matter_of_the_process() {
    let Desk { setup, server } = Desk::new().await;
    server.kill().await;
    let mut command = setup.relay();
    command.args(["doctor", "--data"]).arg(setup.data());
    let found = examined(&mut command).await;
    assert_eq!((found.code, found.broken()), (1, vec!["process"]));
    let expected = format!("start it: relay up --data {}", setup.data().display());
    assert_eq!(found.next("server"), expected);
    found.assert_round_trip();
}

#[tokio::test]
async fn somebody_else_at_the_address_is_a_matter_of_the_network() {
    let Desk { setup, server } = Desk::new().await;
    let (address, url, key) = (server.address, server.url.clone(), server.key.clone());
    server.kill().await;
    let listener = TcpListener::bind(address).await.unwrap();
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"220 mail.example.com\r\n").await;
        }
    });
    let mut command = setup.relay();
    command
        .args(["doctor"])
        .env("RELAY_DATA", setup.data())
        .env("RELAY_URL", &url)
        .env("RELAY_TOKEN", &key);
    let found = examined(&mut command).await;
    answering.abort();
    assert_eq!((found.code, found.broken()), (1, vec!["network"]));
    assert!(
        found.check("server")["detail"]
            .as_str()
            .unwrap()
            .contains("is not Relay")
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_named_by_its_process() {
    let desk = Desk::new().await;
    let pid = Pid::from_raw(desk.server.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let found = examined(&mut desk.command(&["doctor"])).await;
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!((found.code, found.broken()), (1, vec!["network"]));
    let expected = format!("process {} has the database open", desk.server.id());
    assert!(
        found.check("server")["detail"]
            .as_str()
            .unwrap()
            .starts_with(&expected)
    );
    found.assert_round_trip();
}

#[tokio::test]
async fn damage_is_a_matter_of_the_store() {
    let desk = Desk::new().await;
    desk.register(&["ada", "bob"]).await;
    desk.ok(&["send", "bob", "Hello", "--as", "ada", "--no-wait"])
        .await;
    let Desk { setup, server } = desk;
    server.terminate();
    assert!(server.end().await.success());
    let file = std::fs::File::options()
        .write(true)
        .open(setup.data().join("relay.db"))
        .unwrap();
    let length = file.metadata().unwrap().len();
    // The first pages say what is where; the rest is what is kept.
    file.write_all_at(&vec![0x5a; (length / 2) as usize], length / 2)
        .unwrap();
    let mut command = setup.relay();
    command
        .args(["doctor", "--deep", "--data"])
        .arg(setup.data());
    let found = examined(&mut command).await;
    assert_eq!(found.code, 1);
    assert!(found.broken().contains(&"store"), "{}", found.whole);
    assert_eq!(found.outcome("integrity"), "failed");
    assert!(found.next("integrity").contains("restore a backup"));
}

#[tokio::test]
async fn a_policy_that_holds_messages_back_is_found_by_the_deliveries() {
    let desk = Desk::new().await;
    let patch = PolicyPatch {
        sender_per_minute: Some(1),
        ..PolicyPatch::default()
    };
    desk.server.relay().update_policy(&patch).await.unwrap();
    let found = examined(&mut desk.command(&["doctor"])).await;
    assert_eq!(found.code, 0, "it works as it was told: {}", found.whole);
    assert_eq!(found.outcome("immediate"), "warning");
    assert!(found.next("immediate").contains("relay policy show"));
}

#[tokio::test]
async fn sessions_that_find_no_room_are_named() {
    let mut setup = Setup::new().with("RELAY_SERVER_CONNECTIONS", "2");
    let server = setup.start().await;
    let mut command = setup.relay();
    command.args(["doctor", "--data"]).arg(setup.data());
    let found = soon("the verdict", examined(&mut command)).await;
    assert_eq!(
        (found.code, found.broken()),
        (1, vec!["session"]),
        "{}",
        found.whole
    );
    assert_eq!(found.outcome("round trip"), "skipped");
    drop(server);
}

#[tokio::test]
async fn stopped_half_way_it_leaves_nobody_behind() {
    let desk = Desk::new().await;
    let mut running = desk.start(&["doctor"]);
    while !running.line().await.contains("two sessions") {}
    running.interrupt();
    let ended = soon("the end", running.child.wait()).await.unwrap();
    // On a fast machine it may have been through already; either way nobody is left.
    assert!(matches!(ended.code(), Some(130 | 0)), "{ended:?}");
    let agents = desk.json(&["agent", "list"]).await;
    assert_eq!(agents["items"].as_array().unwrap().len(), 0, "{agents}");
}
