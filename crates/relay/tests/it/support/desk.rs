//! Somebody at the command line of a server: runs the real program and reads what it prints.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use relay_sdk::AgentClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Server, Setup, soon};

/// A running server, and commands that find it by its data directory.
pub(crate) struct Desk {
    pub(crate) setup: Setup,
    pub(crate) server: Server,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command that goes on, line by line.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        let mut setup = Setup::new();
        let server = setup.start().await;
        Self { setup, server }
    }

    /// The program, told where the data is.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.setup.relay();
        command.env("RELAY_DATA", self.setup.data()).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Done {
        finish(&mut self.command(arguments)).await
    }

    /// What a command prints that has to succeed; ids and durations as `ID` and `TIME`.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments).await;
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        masked(&done.out)
    }

    /// What a command tells programs that has to succeed.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let done = self.run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(done.code, 0, "{arguments:?}: {done:?}");
        serde_json::from_str(&done.out).unwrap()
    }

    /// The code and the error of a command that has to fail.
    pub(crate) async fn refused(&self, arguments: &[&str]) -> (i32, String) {
        let done = self.run(arguments).await;
        assert_ne!(done.code, 0, "{arguments:?}: {done:?}");
        (done.code, masked(&done.err))
    }

    /// What a command says that reads this from standard input.
    pub(crate) async fn fed(&self, input: &str, arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        ended(child).await
    }

    /// Starts a command that goes on.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(&[], arguments)
    }

    /// The same with something in the environment.
    pub(crate) fn start_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { child, lines }
    }

    /// Starts a command that goes on and is told things.
    pub(crate) fn start_fed(
        &self,
        variables: &[(&str, OsString)],
        arguments: &[&str],
    ) -> (Running, ChildStdin) {
        let mut command = self.command(arguments);
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (Running { child, lines }, input)
    }

    /// Registers agents from the command line.
    pub(crate) async fn register(&self, names: &[&str]) {
        for name in names {
            self.ok(&["agent", "register", name]).await;
        }
    }

    /// A client that acts as an agent whose token is kept.
    pub(crate) async fn agent(&self, name: &str) -> AgentClient {
        let shown = self.json(&["token", "show", "--as", name]).await;
        let token = shown["token"].as_str().unwrap();
        self.server.relay().reconnect(token).await.unwrap()
    }
}

impl Running {
    /// The next line that it prints, masked.
    pub(crate) async fn line(&mut self) -> String {
        masked(&self.unmasked_line().await)
    }

    /// The next line as it is.
    pub(crate) async fn unmasked_line(&mut self) -> String {
        self.try_line().await.expect("the command goes on")
    }

    /// The next line as it is; nothing at the end.
    pub(crate) async fn try_line(&mut self) -> Option<String> {
        soon("a line", self.lines.next_line()).await.unwrap()
    }

    /// Reads all that it still prints; its code and its error.
    pub(crate) async fn end(mut self) -> (i32, String) {
        while let Ok(Some(_)) = soon("the end", self.lines.next_line()).await {}
        let Done { code, err, .. } = ended(self.child).await;
        (code, err)
    }

    /// Asks it to stop, as people do.
    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// Asks it to stop, as service managers do.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.id().unwrap().try_into().unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// `kill -9`.
    pub(crate) async fn kill(&mut self) {
        soon("the kill", self.child.kill()).await.unwrap();
    }

    /// Nobody reads what it prints from now on.
    pub(crate) fn stop_reading(self) -> Child {
        self.child
    }
}

/// Runs a command to its end.
pub(crate) async fn finish(command: &mut Command) -> Done {
    done(super::output(command).await)
}

/// What a command comes to that was started.
pub(crate) async fn ended(child: Child) -> Done {
    done(soon("the end", child.wait_with_output()).await.unwrap())
}

fn done(output: std::process::Output) -> Done {
    Done {
        code: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Text without what differs from run to run: ids, durations, times.
pub(crate) fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (word, mask) = if let Some(id) = rest.get(..36).filter(|id| is_uuid(id)) {
            (id.len(), "ID")
        } else if let Some(length) = timestamp(rest) {
            (length, "WHEN")
        } else if let Some(length) = duration(rest).filter(|_| !ends_in_digit(&masked)) {
            (length, "TIME")
        } else {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        masked.push_str(mask);
        rest = &rest[word..];
    }
    masked
}

fn ends_in_digit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit() || c == '.')
}

fn is_uuid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// `2026-11-15T21:54:20.123Z` at the beginning.
fn timestamp(text: &str) -> Option<usize> {
    let candidate = text.get(..24)?;
    let shape = "0000-00-00T00:00:00.000Z";
    let alike = candidate
        .bytes()
        .zip(shape.bytes())
        .all(|(found, like)| match like {
            b'0' => found.is_ascii_digit(),
            like => found == like,
        });
    alike.then_some(24)
}

/// `9 ms`, `1.2 s` or `3 min` at the beginning.
fn duration(text: &str) -> Option<usize> {
    let digits = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .count();
    let unit = text
        .get(digits..)?
        .strip_prefix(' ')
        .filter(|_| digits > 0)?;
    ["ms", "min", "s", "h", "days"]
        .into_iter()
        .find_map(|name| {
            let after = unit.strip_prefix(name)?.chars().next();
            let is_whole = !after.is_some_and(char::is_alphanumeric);
            is_whole.then_some(digits + 1 + name.len())
        })
}
