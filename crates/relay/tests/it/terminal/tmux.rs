//! A shell in a terminal that tmux draws: it takes keys, and tells what is on the screen.
//!
//! Nothing tells when a screen changes, so it is looked at again and again until it is as expected.

use std::path::PathBuf;
use std::time::Duration;

use tokio::process::Command;

use crate::support::{PATIENCE, Setup, installed, masked, output, search_path};

/// Between two looks at the screen.
const GLANCE: Duration = Duration::from_millis(20);

/// How many commands the shell has run, and the exit code of the last one.
const PROMPT: &str = r"PS1='\#:$?> '";

const COLUMNS: &str = "100";
const ROWS: &str = "40";

/// The terminal. It ends with this, whatever runs in it.
pub(super) struct Terminal {
    tmux: PathBuf,
    socket: PathBuf,
    /// The number of the command that was typed last.
    typed: usize,
}

impl Terminal {
    /// Opens one whose shell finds the server of this setup. None, and that is told, where there is no tmux.
    pub(super) async fn open(setup: &Setup) -> Option<Self> {
        let terminal = Self {
            tmux: installed("terminal", &["tmux"], "-V")?,
            socket: setup.file("tmux"),
            typed: 0,
        };
        let prompt = setup.file("prompt");
        std::fs::write(&prompt, PROMPT).unwrap();
        let mut begin = terminal.command(&["-f", "/dev/null", "new-session", "-d"]);
        begin
            .args(["-x", COLUMNS, "-y", ROWS, "bash", "--noprofile", "--rcfile"])
            .arg(prompt)
            .env_clear()
            .env("HOME", setup.file("home"))
            .env("LC_ALL", "C.UTF-8")
            .env("PATH", search_path())
            .env("RELAY_DATA", setup.data());
        answer(&mut begin).await;
        assert_eq!(terminal.ended().await, 0);
        Some(terminal)
    }

    /// Types a command.
    pub(super) async fn enter(&mut self, command: &str) {
        self.ask(&["send-keys", "-l", command]).await;
        self.press("Enter").await;
        self.typed += 1;
    }

    /// Types a line for the command that runs.
    pub(super) async fn type_line(&self, line: &str) {
        self.ask(&["send-keys", "-l", line]).await;
        self.press("Enter").await;
    }

    /// Presses a key, by the name that tmux has for it.
    pub(super) async fn press(&self, key: &str) {
        self.ask(&["send-keys", key]).await;
    }

    pub(super) async fn resize(&self, columns: usize) {
        let columns = columns.to_string();
        self.ask(&["resize-window", "-x", &columns]).await;
    }

    /// Waits for the end of the command, when the prompt is back on a line of its own; the exit code.
    pub(super) async fn ended(&self) -> i32 {
        let prompt = format!("{}:", self.typed + 1);
        let code = |screen: &str| {
            let last = screen.trim_end().lines().last()?;
            last.strip_prefix(&prompt)?.strip_suffix('>')?.parse().ok()
        };
        self.until("the prompt", code).await
    }

    /// Runs a command to its end: what it has said. It has to succeed.
    pub(super) async fn run(&mut self, command: &str) -> String {
        self.enter(command).await;
        assert_eq!(self.ended().await, 0, "{}", self.screen().await);
        self.said(&self.screen().await)
    }

    /// Waits until a command has said something.
    pub(super) async fn until_shown(&self, text: &str) {
        let shown = |screen: &str| self.said(screen).contains(text).then_some(());
        self.until(text, shown).await;
    }

    /// Waits until a command has said something so often.
    pub(super) async fn until_count(&self, text: &str, times: usize) {
        let shown = |screen: &str| (self.said(screen).matches(text).count() == times).then_some(());
        self.until(text, shown).await;
    }

    /// Waits until the last command has said this and nothing else, but for ids and times.
    pub(super) async fn until_said(&self, expected: &str) {
        let said = |screen: &str| (masked(&self.said(screen)) == expected).then_some(());
        self.until(expected, said).await;
    }

    /// What is on the screen; a line that goes on in the next row is one.
    pub(super) async fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p", "-J"]).await
    }

    /// The same with the colours.
    pub(super) async fn colored_screen(&self) -> String {
        self.ask(&["capture-pane", "-p", "-J", "-e"]).await
    }

    pub(super) async fn is_cursor_visible(&self) -> bool {
        let asked = ["display-message", "-p", "#{cursor_flag}"];
        self.ask(&asked).await.trim() == "1"
    }

    /// What the last command has left on the screen.
    fn said(&self, screen: &str) -> String {
        let (prompt, next) = (format!("{}:", self.typed), format!("{}:", self.typed + 1));
        let lines = screen.trim_end().lines().map(str::trim_end);
        let said: Vec<&str> = lines
            .skip_while(|line| !line.starts_with(&prompt))
            .skip(1)
            .take_while(|line| !line.starts_with(&next))
            .collect();
        said.join("\n")
    }

    /// Waits until the screen has something to say.
    pub(super) async fn until<T>(&self, what: &str, seen: impl Fn(&str) -> Option<T>) -> T {
        let mut screen = String::new();
        let looking = async {
            loop {
                screen = self.screen().await;
                if let Some(found) = seen(&screen) {
                    return found;
                }
                tokio::time::sleep(GLANCE).await;
            }
        };
        match tokio::time::timeout(PATIENCE, looking).await {
            Ok(found) => found,
            Err(_) => panic!("expected on the screen:\n{what}\nfound:\n{screen}"),
        }
    }

    async fn ask(&self, arguments: &[&str]) -> String {
        answer(&mut self.command(arguments)).await
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.tmux);
        command.arg("-S").arg(&self.socket).args(arguments);
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut end = std::process::Command::new(&self.tmux);
        let _ = end.arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// What tmux answers.
async fn answer(command: &mut Command) -> String {
    let output = output(command).await;
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
