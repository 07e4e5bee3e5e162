//! A disk that is full: senders are told, readers go on, and once there is room everything does.
//!
//! The tests run themselves once more, in a world of their own where the directory for temporary files is a tiny
//! disk. It is gone with the process that sees it, however that ends.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{Desk, Done, Setup, ended, installed, output, skipped, soon};

/// Says to a test that it runs on the tiny disk.
const INSIDE: &str = "RELAY_TEST_TINY_DISK";

/// Mounts the disk and goes on as the program that is named next.
const MOUNT: &str = r#"mount -t tmpfs -o size=12m tiny "$TMPDIR" && exec "$0" "$@""#;

/// Ways into such a world: one for everybody, where the system lets them, and one for root.
const WAYS: &[&[&str]] = &[&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// The least that a disk gives: with each step a server gets one write further.
const STEP: u64 = 4096;

/// More messages than fit into what the write-ahead log may use again.
const MOST_MESSAGES: usize = 500;

/// Whether this is the tiny disk; if not, the test is run there.
async fn is_on_tiny_disk(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let Some(unshare) = installed("full disk", &["unshare"], "--version") else {
        return false;
    };
    for way in WAYS {
        if enter(&unshare, way, &["true".into()])
            .await
            .status
            .success()
        {
            let program = std::env::current_exe().unwrap();
            let test = format!("commands::disk::{test}");
            let again = [program, "--exact".into(), "--nocapture".into(), test.into()];
            let done = enter(&unshare, way, &again).await;
            let said = String::from_utf8_lossy(&done.stdout);
            let errors = String::from_utf8_lossy(&done.stderr);
            assert!(said.contains("1 passed"), "{said}\n{errors}");
            return false;
        }
    }
    skipped(
        "full disk",
        "no disk can be mounted here, not even in a namespace",
    );
    false
}

/// Runs a program on a tiny disk, if the system lets us.
async fn enter(unshare: &Path, way: &[&str], program: &[PathBuf]) -> std::process::Output {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(unshare);
    command
        .args(way)
        // Whoever is left behind in there ends with it.
        .args(["--pid", "--fork", "--kill-child"])
        .args(["sh", "-c", MOUNT])
        .args(program)
        .env("TMPDIR", place.path())
        .env(INSIDE, "yes")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    output(&mut command).await
}

/// Fills the disk to the last byte; removing the file makes room.
fn fill() -> PathBuf {
    let path = std::env::temp_dir().join("ballast");
    let mut ballast = File::create(&path).unwrap();
    for size in [64 * 1024, 1024, 1] {
        loop {
            match ballast.write(&vec![7; size]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    path
}

/// Sends long messages until one is refused: how many were taken, and what was said to the one that wasn't.
async fn send_until_refused(desk: &Desk) -> (usize, Done) {
    for number in 0..MOST_MESSAGES {
        let long = format!("{number} {}", "ship ".repeat(4_000));
        let arguments = ["send", "bob", "-", "--as", "ada", "--no-wait"];
        let done = desk.fed(&long, &arguments).await;
        if done.code != 0 {
            return (number, done);
        }
    }
    panic!("the disk does not become full");
}

/// The first words of what waits for bob.
async fn unread(desk: &Desk) -> Vec<String> {
    let inbox = desk.json(&["inbox", "--as", "bob"]).await;
    let items = inbox["items"].as_array().unwrap().iter();
    let text = |item: &Value| item["message"]["text"].as_str().unwrap().to_owned();
    items.map(|item| text(item)[..5].to_owned()).collect()
}

#[tokio::test]
async fn a_send_is_refused_and_nothing_is_lost() {
    if !is_on_tiny_disk("a_send_is_refused_and_nothing_is_lost").await {
        return;
    }
    let mut desk = Desk::new().await;
    desk.server.unhurried().await;
    desk.register(&["ada", "bob"]).await;
    desk.ok(&["send", "bob", "before", "--as", "ada"]).await;
    desk.ok(&["search", "before"]).await;
    let ballast = fill();
    let (taken, done) = send_until_refused(&desk).await;
    let expected = "relay: the disk is full; nothing was written; make room and try again\n\
                    next: what was acknowledged is safe and can be read; `relay doctor` says how much room the data has\n";
    assert_eq!((done.code, done.err.as_str()), (1, expected));
    let done = desk
        .run(&["send", "bob", "x", "--as", "ada", "--json"])
        .await;
    let told: Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(told["error"]["code"], "storage_full");
    // Readers go on.
    let mut known = unread(&desk).await;
    assert_eq!(known.len(), taken + 1);
    desk.ok(&["agent", "list"]).await;
    desk.ok(&["delivery", "list"]).await;
    let found = desk.ok(&["search", "before"]).await;
    assert!(found.contains("before"), "{found}");
    // With room everything does, also after a crash.
    std::fs::remove_file(ballast).unwrap();
    desk.ok(&["send", "bob", "after", "--as", "ada"]).await;
    known.push("after".to_owned());
    assert_eq!(unread(&desk).await, known);
    desk.ok(&["audit", "verify"]).await;
    desk.server.kill().await;
    desk.server = desk.setup.start().await;
    assert_eq!(unread(&desk).await, known);
    desk.ok(&["audit", "verify"]).await;
}

#[tokio::test]
async fn a_server_that_finds_no_room_says_so_and_starts_when_there_is() {
    if !is_on_tiny_disk("a_server_that_finds_no_room_says_so_and_starts_when_there_is").await {
        return;
    }
    let mut setup = Setup::new();
    let ballast = fill();
    let mut room = 0;
    // It gets a little further every time.
    while let Some(refusal) = refusal(&setup).await {
        assert_eq!(refusal.code, 1, "{room}: {refusal:?}");
        let is_clear = refusal.err.contains("full") || refusal.err.contains("No space left");
        assert!(is_clear, "{room}: {refusal:?}");
        assert!(refusal.err.contains("make room"), "{room}: {refusal:?}");
        room += STEP;
        make_room(&ballast, STEP);
    }
    assert!(room > 0, "it needs no room");
    std::fs::remove_file(ballast).unwrap();
    let server = setup.start().await;
    server.relay().register("ada").await.unwrap();
}

/// Why a server does not start; none if it does.
async fn refusal(setup: &Setup) -> Option<Done> {
    let mut command = setup.relay();
    command
        .args(["up", "--listen", "127.0.0.1:0", "--data"])
        .arg(setup.data());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    match soon("a line or the end", lines.next_line()).await.unwrap() {
        Some(_) => None,
        None => Some(ended(child).await),
    }
}

/// Takes so many bytes off the ballast.
fn make_room(ballast: &Path, bytes: u64) {
    let file = File::options().write(true).open(ballast).unwrap();
    let left = file.metadata().unwrap().len().checked_sub(bytes);
    file.set_len(left.expect("a server needs less room than that"))
        .unwrap();
}
