//! Commands that are proposed work as they stand, for whoever pastes them into a shell.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::support::{Desk, Done, Setup, finish, soon, text};

/// Runs a line in a shell that knows nothing of the data.
async fn paste(line: &str) -> Done {
    let program = Path::new(env!("CARGO_BIN_EXE_relay"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let mut shell = Command::new("bash");
    shell.args(["-c", line]).env_clear().env("PATH", path);
    finish(shell.stdin(Stdio::null())).await
}

/// What comes before and after the command that a text proposes.
fn proposed<'a>(said: &'a str, before: &str, after: &str) -> &'a str {
    let (_, line) = said.split_once(before).unwrap_or_else(|| panic!("{said}"));
    line.split_once(after).unwrap().0
}

#[tokio::test]
async fn the_data_that_was_asked_for_is_asked_for_again() {
    let desk = Desk::new().await;
    let data = desk.setup.file("ada's own data");
    symlink(desk.setup.data(), &data).unwrap();
    let run = async |arguments: &[&str]| {
        let mut command = desk.setup.relay();
        command.args(arguments).args(["--data", text(&data)]);
        finish(&mut command).await
    };
    let done = run(&["agent", "register", "ada"]).await;
    let inbox = proposed(&done.out, "act as it with --as ada: ", "\n");
    assert_eq!(paste(inbox).await.out, "nothing unread\n", "{inbox}");
    run(&["agent", "register", "bob"]).await;
    let done = run(&["send", "bob", "Hello", "--as", "ada"]).await;
    let show = paste(proposed(&done.err, "follow it: ", "\n")).await;
    assert!(show.out.contains("to @bob"), "{done:?} {show:?}");
    // Also where something was refused.
    let done = run(&["send", "bobb", "Hello", "--as", "ada"]).await;
    let list = paste(proposed(&done.err, "next: `", "`")).await;
    assert!(list.out.contains("@bob"), "{done:?} {list:?}");
}

#[tokio::test]
async fn a_directory_is_named_so_that_it_is_found_from_everywhere() {
    let desk = Desk::new().await;
    let mut command = desk.setup.relay();
    command.args(["agent", "register", "ada", "--data", "data"]);
    command.current_dir(desk.setup.data().parent().unwrap());
    let done = finish(&mut command).await;
    let inbox = proposed(&done.out, "act as it with --as ada: ", "\n");
    assert_eq!(paste(inbox).await.code, 0, "{inbox}");
}

#[tokio::test]
async fn the_usual_place_needs_no_flag_even_if_it_got_one() {
    let setup = Setup::new();
    let home = setup.file("home");
    let mut command = setup.relay();
    command.args(["listen", "--data", text(&home.join(".local/share/relay"))]);
    let done = finish(command.env("HOME", &home)).await;
    let next = "next: start a server: relay up; or set";
    assert!(done.err.contains(next), "{done:?}");
}

#[tokio::test]
async fn what_up_proposes_can_be_done_in_another_terminal() {
    let setup = Setup::new();
    let data = setup.file("two words");
    let mut command = setup.relay();
    command.args(["up", "--listen", "127.0.0.1:0", "--data", text(&data)]);
    let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut line = async || soon("a line", lines.next_line()).await.unwrap().unwrap();
    while line().await != "Try it in another terminal" {}
    for _ in 0..4 {
        let proposed = line().await;
        let done = paste(&proposed).await;
        assert_eq!(done.code, 0, "{proposed}: {done:?}");
    }
    assert_eq!(line().await, "");
}
