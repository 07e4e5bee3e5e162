//! `relay permission run`: what the command gets, what its end is, and that it runs once.

use std::process::Stdio;

use relay_sdk::PermissionRecord;
use serde_json::Value;

use super::permissions::{ada_asks, asked, happened};
use crate::support::{Desk, Running, Setup, finish, masked};

async fn desk_and_watch() -> (Desk, Running) {
    let desk = Desk::new().await;
    desk.register(&["ada"]).await;
    let watch = desk.start(&["permission", "watch", "--json"]);
    (desk, watch)
}

#[tokio::test]
async fn the_command_gets_streams_exit_code_and_other_parameters() {
    let (desk, mut watch) = desk_and_watch().await;
    let allow = async |watch: &mut Running, more: &[&str]| {
        let id = asked(watch).await;
        desk.ok(&[&["permission", "approve", &id], more].concat())
            .await;
    };
    // One word is shell text.
    let mut run = ada_asks(&desk, &["--", "echo out; echo err >&2; exit 3"]);
    allow(&mut watch, &[]).await;
    assert_eq!(run.line().await, "out");
    let (code, said) = run.end().await;
    assert_eq!(code, 3);
    assert!(
        said.ends_with("allowed by the workspace via cli\nerr\n"),
        "{said}"
    );
    let mut run = ada_asks(&desk, &["--", "echo", "two words"]);
    allow(&mut watch, &["--params", r#"{"command": "echo other"}"#]).await;
    assert_eq!(run.line().await, "other");
    let (code, said) = run.end().await;
    assert_eq!(code, 0);
    assert!(said.ends_with("via cli, with another command\n"), "{said}");
    let run = ada_asks(&desk, &["--", "kill -9 $$"]);
    allow(&mut watch, &[]).await;
    assert_eq!(run.end().await.0, 137);

    let mut command = desk.command(&["permission", "run", "--as", "ada", "--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stdin, b"fed")
        .await
        .unwrap();
    drop(stdin);
    allow(&mut watch, &[]).await;
    assert_eq!(crate::support::ended(child).await.out, "fed");
}

#[tokio::test]
async fn the_command_knows_no_key_but_its_agents_own() {
    let (desk, mut watch) = desk_and_watch().await;
    desk.register(&["bob"]).await;
    let bob = desk.json(&["token", "show", "--as", "bob"]).await;
    let bob = bob["token"].as_str().unwrap();
    let ada = desk.json(&["token", "show", "--as", "ada"]).await;
    let ada = ada["token"].as_str().unwrap();
    let key = desk.server.key.as_str();
    let credentials = std::fs::read_to_string(desk.setup.data().join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_str(&credentials).unwrap();
    let admin = credentials["adminKey"].as_str().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = desk.command(&[
        "permission",
        "run",
        "--as",
        "ada",
        "--env",
        "HARMLESS",
        "--env",
        "BOB",
        "--env",
        "RELAY_KEY",
        "--",
        "env",
    ]);
    command.envs([
        ("PATH", path.as_str()),
        ("HARMLESS", "yes"),
        ("OTHER", "no"),
        ("BOB", bob),
        ("KEY", key),
        ("LANG", admin),
        ("RELAY_KEY", "x"),
        ("RELAY_AS", "bob"),
        ("RELAY_LOG_FILTER", "warn"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ]);
    let running = async { finish(&mut command).await };
    let allowing = async {
        let id = asked(&mut watch).await;
        desk.ok(&["permission", "approve", &id]).await;
    };
    let (done, ()) = tokio::join!(running, allowing);
    assert_eq!(done.code, 0, "{done:?}");
    let mut names: Vec<&str> = done
        .out
        .lines()
        .filter_map(|line| line.split('=').next())
        .collect();
    names.sort_unstable();
    // The shell adds those two.
    names.retain(|name| !["PWD", "_", "SHLVL", "OLDPWD"].contains(name));
    assert_eq!(
        names,
        ["HARMLESS", "PATH", "RELAY_TOKEN", "RELAY_URL"],
        "{}",
        done.out
    );
    assert!(
        done.out.contains(&format!("RELAY_TOKEN={ada}\n")),
        "{}",
        done.out
    );
    for secret in [bob, key, admin, text_of(&desk).as_str()] {
        assert!(!done.out.contains(secret), "{}", done.out);
    }
    assert!(
        done.err
            .contains("the command does not get BOB: it holds a credential"),
        "{}",
        done.err
    );
}

/// Where the keys are.
fn text_of(desk: &Desk) -> String {
    desk.setup.data().display().to_string()
}

#[tokio::test]
async fn ctrl_c_withdraws_the_question_and_later_goes_to_the_command() {
    let (desk, mut watch) = desk_and_watch().await;
    let run = ada_asks(&desk, &["--", "id"]);
    let id = asked(&mut watch).await;
    run.interrupt();
    let (code, said) = run.end().await;
    assert_eq!(code, 130);
    let last = masked(said.lines().last().unwrap());
    assert_eq!(last, "relay: stopped; the request ID is withdrawn");
    let shown = desk.json(&["permission", "show", &id]).await;
    assert_eq!(shown["permission"]["state"], "cancelled");

    let command = "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.05; done";
    let mut run = ada_asks(&desk, &["--", command]);
    let id = asked(&mut watch).await;
    desk.ok(&["permission", "approve", &id]).await;
    assert_eq!(run.line().await, "ready");
    run.interrupt();
    assert_eq!(run.line().await, "caught");
    assert_eq!(run.end().await.0, 4);
}

#[tokio::test]
async fn a_call_with_an_id_is_asked_and_run_once() {
    let (desk, mut watch) = desk_and_watch().await;
    let file = desk.setup.file("ran");
    let append = format!("echo once >> {}", file.display());
    let arguments = ["--call-id", "c1", "--", append.as_str()];
    let first = ada_asks(&desk, &arguments);
    let id = asked(&mut watch).await;
    desk.ok(&["permission", "approve", &id]).await;
    assert_eq!(first.end().await.0, 0);
    let (code, said) = ada_asks(&desk, &arguments).end().await;
    assert_eq!(code, 0);
    assert_eq!(
        masked(&said),
        "ID has completed before; it is not run again\n"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "once\n");

    let fails = ["--call-id", "c2", "--", "exit 5"];
    let first = ada_asks(&desk, &fails);
    let id = asked(&mut watch).await;
    desk.ok(&["permission", "approve", &id]).await;
    assert_eq!(first.end().await.0, 5);
    let (code, said) = ada_asks(&desk, &fails).end().await;
    assert_eq!(code, 5);
    assert_eq!(
        masked(&said),
        "ID has failed before: exit code 5; it is not run again\n"
    );
    // The same id for something else is a mistake.
    let (code, said) = ada_asks(&desk, &["--call-id", "c1", "--", "id"])
        .end()
        .await;
    assert_eq!(code, 8, "{said}");

    let (code, said) = ada_asks(&desk, &["--expires", "1ms", "--", "id"])
        .end()
        .await;
    assert_eq!(code, 124);
    let last = masked(said.lines().last().unwrap());
    assert_eq!(last, "relay: nobody answered ID in time; nothing was run");
    let (code, said) = desk.refused(&["permission", "run", "--", "id"]).await;
    assert_eq!(code, 5);
    assert!(
        said.ends_with("next: say with --as NAME which agent asks\n"),
        "{said}"
    );
}

#[tokio::test]
async fn programs_are_told_how_it_stands_and_how_long_it_waits_is_a_setting() {
    let mut setup = Setup::new().with("RELAY_PERMISSIONS_EXPIRES_AFTER_S", "60");
    let server = setup.start().await;
    let desk = Desk { setup, server };
    desk.register(&["ada"]).await;
    let mut watch = desk.start(&["permission", "watch", "--json"]);
    let mut run = ada_asks(&desk, &["--json", "--", "echo out"]);
    let asked = happened(&mut watch).await;
    let record: PermissionRecord = serde_json::from_value(asked["permission"].clone()).unwrap();
    let waits = record.expires_at.as_millis() - record.created_at.as_millis();
    assert_eq!(waits, 60_000);
    let id = record.permission_id.to_string();
    desk.ok(&["permission", "approve", &id]).await;
    assert_eq!(run.line().await, "out");
    let (code, said) = run.end().await;
    assert_eq!(code, 0);
    let expected = format!(
        "{{\"permissionId\":\"{id}\",\"state\":\"pending\"}}\n\
         {{\"permissionId\":\"{id}\",\"state\":\"approved\",\"execution\":\"started\"}}\n\
         {{\"permissionId\":\"{id}\",\"state\":\"approved\",\"execution\":\"completed\"}}\n"
    );
    assert_eq!(said, expected);
    for (value, expected) in [
        (
            "0",
            "permissions.expires_after_s has to be a whole number, 1 or greater",
        ),
        (
            "2592001",
            "permissions.expires_after_s has to be 2592000 or less; found 2592001",
        ),
    ] {
        let mut serve = Setup::new()
            .with("RELAY_PERMISSIONS_EXPIRES_AFTER_S", value)
            .serve();
        let done = finish(&mut serve).await;
        assert_eq!(done.code, 1);
        assert!(done.err.contains(expected), "{done:?}");
    }
}
