//! Children end as asked, and nothing of them stays.

use std::time::{Duration, Instant};

use relay_harness::child::{Child, ChildCommand, ChildEnvironment, SpawnError, StopGrace};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::processes::{is_running, mark_of, until, with_entry};

const NONE: [(&str, &str); 0] = [];

fn shell(script: &str) -> ChildCommand {
    let environment = ChildEnvironment::for_agent(std::env::vars_os(), &[""; 0], NONE);
    ChildCommand {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: std::env::temp_dir(),
        environment,
    }
}

/// Starts a script and waits for the numbers that it writes as its first line.
async fn started(script: &str) -> (Child, Vec<u32>, BufReader<tokio::process::ChildStdout>) {
    let mut child = Child::spawn(&shell(script)).unwrap();
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).await.unwrap();
    let numbers = line
        .split_whitespace()
        .map(|number| number.parse().unwrap())
        .collect();
    (child, numbers, stdout)
}

#[tokio::test]
async fn a_child_that_reads_the_end_of_its_input_ends_by_itself() {
    let (child, _, _stdout) = started("echo; cat >/dev/null; exit 7").await;
    let exit = child.stop(StopGrace::STANDARD).await;
    assert_eq!(exit.status.unwrap().code(), Some(7));
    assert!(exit.stopped);
}

#[tokio::test]
async fn a_child_that_ignores_everything_is_killed_with_its_group() {
    let script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $!; while :; do sleep 1; done";
    let (child, numbers, _stdout) = started(script).await;
    let mark = mark_of(&child);
    assert!(is_running(numbers[0]));
    let quick = StopGrace {
        eof: Duration::from_millis(20),
        term: Duration::from_millis(50),
    };
    let exit = child.stop(quick).await;
    assert_eq!(exit.status.unwrap().code(), None, "{exit}");
    assert!(!is_running(numbers[0]));
    assert!(with_entry(&mark).is_empty());
}

#[tokio::test]
async fn a_process_that_left_the_group_is_found_by_its_mark() {
    // The shell between the two is gone at once, so that the one that stays has lost its parent.
    let script = "(setsid sleep 1000 >/dev/null 2>&1 & echo $!); exec cat";
    let (child, numbers, _stdout) = started(script).await;
    until("the escaped process runs", || is_running(numbers[0])).await;
    child.stop(StopGrace::STANDARD).await;
    assert!(!is_running(numbers[0]));
}

#[tokio::test]
async fn a_process_without_the_mark_is_found_by_its_parent() {
    let script = "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $!; cat; exit 0";
    let (child, numbers, _stdout) = started(script).await;
    let bare = || {
        let environment = std::fs::read(format!("/proc/{}/environ", numbers[0]));
        environment.is_ok_and(|environment| environment.is_empty())
    };
    until("its environment is cleared", bare).await;
    child.stop(StopGrace::STANDARD).await;
    assert!(!is_running(numbers[0]));
}

#[tokio::test]
async fn what_a_crashed_child_leaves_behind_is_ended() {
    let script =
        "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & echo $!; kill -9 $$";
    let (child, numbers, _stdout) = started(script).await;
    let exit = child.exited().await;
    assert!(!exit.stopped);
    assert!(!is_running(numbers[0]));
    assert_eq!(child.exit(), Some(exit));
}

#[tokio::test]
async fn a_dropped_child_is_killed() {
    let script = "setsid sleep 1000 >/dev/null 2>&1 & echo $$; sleep 1000";
    let (child, numbers, _stdout) = started(script).await;
    let mark = mark_of(&child);
    drop(child);
    until("nothing is left", || {
        with_entry(&mark).is_empty() && !is_running(numbers[0])
    })
    .await;
}

#[test]
fn a_runtime_that_ends_leaves_nothing() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mark, child) = runtime.block_on(async {
        let script = "setsid sleep 1000 >/dev/null 2>&1 & echo $$; sleep 1000";
        let (child, _, _stdout) = started(script).await;
        (mark_of(&child), child)
    });
    drop(runtime);
    drop(child);
    let start = Instant::now();
    while !with_entry(&mark).is_empty() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            with_entry(&mark)
        );
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_child_sees_its_own_environment_only() {
    let mut command = shell("env");
    let parent = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("SECRET", "x".to_owned()),
        ("RELAY_TOKEN", "at_0123456789abcdef".to_owned()),
    ];
    command.environment = ChildEnvironment::for_agent(parent, &[""; 0], [("EXTRA", "1")]);
    let mut child = Child::spawn(&command).unwrap();
    let mut text = String::new();
    child
        .take_stdout()
        .unwrap()
        .read_to_string(&mut text)
        .await
        .unwrap();
    let names = text.lines().filter_map(|line| line.split('=').next());
    let mut names: Vec<&str> = names
        .filter(|name| !matches!(*name, "_" | "PWD" | "SHLVL" | "OLDPWD"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["EXTRA", "PATH", "RELAY_CHILD"]);
    assert!(child.exited().await.status.unwrap().success());
}

#[tokio::test]
async fn what_it_said_last_is_there_when_it_has_ended() {
    let child = Child::spawn(&shell("echo 'it is broken' >&2; exit 3")).unwrap();
    let exit = child.exited().await;
    assert_eq!(exit.status.unwrap().code(), Some(3));
    assert_eq!(child.stderr().text(), "it is broken");
}

#[tokio::test]
async fn a_missing_program_and_a_missing_directory_are_told_apart() {
    let mut command = shell("");
    command.program = "relay-no-such-program".into();
    let error = Child::spawn(&command).unwrap_err();
    assert!(matches!(error, SpawnError::NotInstalled { .. }), "{error}");
    let mut command = shell("");
    command.cwd = "/no/such/directory".into();
    let error = Child::spawn(&command).unwrap_err();
    assert!(matches!(error, SpawnError::NoSuchDirectory(_)), "{error}");
}
