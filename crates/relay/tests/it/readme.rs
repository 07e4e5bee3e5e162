//! The README's first ten minutes, as they are written there: every command is run, and has to say what the
//! README shows, but for ids and times.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use relay_sdk::{AgentClient, Handling};

use crate::support::{Setup, finish, masked, search_path, soon};

#[cfg(target_os = "linux")]
mod agents;

/// The example that the chapter starts, which is another package's.
#[path = "../../../../examples/src/bin/action.rs"]
#[allow(dead_code, reason = "only its `main` is not used")]
mod action_example;

const README: &str = include_str!("../../../../README.md");

/// Where the chapter begins, and what comes after it.
const CHAPTER: (&str, &str) = ("## The first ten minutes", "### The engine as a library");

/// The story that needs coding agents, and what comes after it. It has a test of its own.
const AGENTS: (&str, &str) = ("### Two agents that talk", "### More");

/// Stands for lines, or the rest of a line, that are not shown.
const AND_SO_ON: &str = "…";

/// A command of the README, and what it says there.
struct Step {
    command: String,
    says: Vec<String>,
}

impl Step {
    /// Whether it is a chat as a stream.
    fn is_chat(&self) -> bool {
        self.command.starts_with("curl -sN")
    }

    /// Whether it decides about what somebody asks.
    fn decides(&self) -> bool {
        self.command.starts_with("relay permission approve")
            || self.command.contains(" deny ")
            || self.command.contains("/chat/relay/")
    }

    /// How many lines it says until somebody has to decide.
    fn says_before_it_waits(&self) -> usize {
        let mut says = self.says.iter();
        match says.position(|line| line.contains(r#""type":"relay""#)) {
            Some(question) => question + 1,
            None if self.says[0].starts_with("waiting") => 2,
            None => 0,
        }
    }
}

/// The steps of the chapter.
fn steps() -> Vec<Step> {
    let (_, chapter) = README.split_once(CHAPTER.0).unwrap();
    let (chapter, _) = chapter.split_once(CHAPTER.1).unwrap();
    let (before, agents) = chapter.split_once(AGENTS.0).unwrap();
    let (_, after) = agents.split_once(AGENTS.1).unwrap();
    let (mut steps, after) = (steps_in(before), steps_in(after));
    steps.extend(after);
    steps
}

fn steps_in(chapter: &str) -> Vec<Step> {
    let blocks = chapter.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("```").unwrap().0);
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step {
                command: command.to_owned(),
                says: Vec::new(),
            }),
            None => steps.last_mut().unwrap().says.push(line.to_owned()),
        }
    }
    steps
}

/// The terminal of somebody who reads the README.
struct Reader {
    setup: Setup,
    /// What stands in the README, and what it is here.
    here: HashMap<String, String>,
    /// What goes on in other terminals.
    others: Vec<(Step, Child, Lines<BufReader<ChildStdout>>)>,
    /// What asks there, and what it has said so far.
    asking: Option<(Step, Running, Vec<String>)>,
    /// The action that an agent offers.
    offered: Option<(AgentClient, Handling)>,
}

impl Reader {
    fn new() -> Self {
        let setup = Setup::new();
        let home = setup.file("home");
        std::fs::create_dir(&home).unwrap();
        let project = project().canonicalize().unwrap();
        let here = HashMap::from([
            ("/home/you".to_owned(), home.display().to_string()),
            ("/srv/site".to_owned(), project.display().to_string()),
        ]);
        Self {
            setup,
            here,
            others: Vec::new(),
            asking: None,
            offered: None,
        }
    }

    /// Text of the README as it is here.
    fn translated(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (there, here) in &self.here {
            text = text.replace(there, here);
        }
        text
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &format!("exec {}", self.translated(command))])
            .current_dir(project())
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.setup.file("home"))
            .env("RELAY_SERVER_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        shell
    }

    /// What was said has to be what the README shows. Ids of the README are from now on those that stand in
    /// their places here.
    fn compare(&mut self, step: &Step, said: &str) {
        let shown: Vec<&String> = step
            .says
            .iter()
            .take_while(|line| *line != AND_SO_ON)
            .collect();
        let said: Vec<&str> = said.lines().collect();
        let is_cut = shown.len() < step.says.len();
        assert!(
            said.len() == shown.len() || (is_cut && said.len() > shown.len()),
            "{}: {said:#?}",
            step.command
        );
        for (shown, said) in shown.into_iter().zip(said) {
            for (there, here) in ids(shown).zip(ids(said)) {
                self.here.insert(there.to_owned(), here.to_owned());
            }
            let (shown, said) = (timeless(&self.translated(shown)), timeless(said));
            match shown.strip_suffix(AND_SO_ON) {
                Some(first) => assert!(said.starts_with(first), "{}: {said}", step.command),
                None => assert_eq!(said, shown, "{}", step.command),
            }
        }
    }

    /// Runs something that goes on in a terminal of its own, until it has said its first lines.
    async fn start(&mut self, step: Step, first: usize) -> Vec<String> {
        let mut command = self.shell(&step.command);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        while said.len() < first {
            let line = soon(&step.command, lines.next_line()).await.unwrap();
            said.push(line.expect("it goes on"));
        }
        self.others.push((step, child, lines));
        said
    }

    async fn follow(&mut self, step: Step) {
        if step.command.starts_with("cargo install") {
            // The program under test is what that makes.
        } else if step.command == "relay up" {
            self.start_server(step).await;
        } else if step
            .command
            .starts_with("cargo run -q -p relay-examples --bin action")
        {
            self.offer_action().await;
        } else if step.command.starts_with("relay permission run") || step.is_chat() {
            self.ask(step).await;
        } else if step.command.starts_with("python3") {
            let said = self.start(step, 1).await;
            assert_eq!(said, ["attached"]);
        } else {
            let done = finish(&mut self.shell(&step.command)).await;
            assert_eq!(done.code, 0, "{}: {done:?}", step.command);
            self.compare(&step, &format!("{}{}", done.out, done.err));
            if step.decides() {
                self.look_at_asking().await;
            }
        }
    }

    /// Starts something that asks: both streams together, as a terminal shows them. Whoever decides needs its first lines.
    async fn ask(&mut self, step: Step) {
        let mut command = self.shell(&format!("{} 2>&1", step.command));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Running { child, lines };
        let mut said = Vec::new();
        let first = step.says_before_it_waits();
        while said.len() < first {
            said.push(running.line(&step.command).await.expect("it waits"));
        }
        for (shown, said) in step.says.iter().zip(&said) {
            for (there, here) in ids(shown).zip(ids(said)) {
                self.here.insert(there.to_owned(), here.to_owned());
            }
        }
        self.asking = Some((step, running, said));
        if first == 0 {
            self.look_at_asking().await;
        }
    }

    /// Waits for the end of what asked.
    async fn look_at_asking(&mut self) {
        let (step, mut running, mut said) = self.asking.take().expect("somebody asks");
        while let Some(line) = running.line(&step.command).await {
            said.push(line);
        }
        let status = soon("its end", running.child.wait()).await.unwrap();
        let is_denied = step
            .says
            .iter()
            .any(|line| line.starts_with("relay: denied"));
        let expected = if is_denied { 126 } else { 0 };
        assert_eq!(status.code(), Some(expected), "{said:?}");
        self.compare(&step, &said.join("\n"));
    }

    /// What the example does that is started there.
    async fn offer_action(&mut self) {
        let token = finish(&mut self.shell("relay token show --as bob"))
            .await
            .out;
        let url = &self.here["http://127.0.0.1:4000"];
        let offered = action_example::offer(url, token.trim()).await;
        self.offered = Some(offered.unwrap());
    }

    async fn start_server(&mut self, step: Step) {
        let shown = step.says.len();
        let said = self.start(step, shown).await;
        let url = said[1].trim_start_matches("url").trim().to_owned();
        // Another port, because that one may be in use.
        self.here.insert("http://127.0.0.1:4000".to_owned(), url);
        let (step, child, lines) = self.others.pop().unwrap();
        self.compare(&step, &said.join("\n"));
        self.others.push((step, child, lines));
    }

    /// Waits for what ends by itself in other terminals.
    async fn look_at_others(&mut self) {
        // The last first: the server is needed until the end.
        for (step, mut child, mut lines) in std::mem::take(&mut self.others).into_iter().rev() {
            if step.command == "relay up" {
                continue;
            }
            let mut said = vec![step.says[0].clone()];
            while let Some(line) = soon(&step.command, lines.next_line()).await.unwrap() {
                said.push(line);
            }
            assert!(soon("its end", child.wait()).await.unwrap().success());
            self.compare(&step, &said.join("\n"));
        }
    }
}

/// A command in another terminal.
struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// Starts it: both streams together, as a terminal shows them.
    #[cfg(target_os = "linux")]
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn line(&mut self, of: &str) -> Option<String> {
        soon(of, self.lines.next_line()).await.unwrap()
    }
}

/// Where the README is.
fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Text without what differs from run to run, also without the time of the day and the numbers of events before it.
fn timeless(text: &str) -> String {
    let is_clock = |word: &str| {
        let parts: Vec<&str> = word.split(':').collect();
        parts.len() == 3
            && parts
                .iter()
                .all(|part| part.len() == 2 && part.parse::<u8>().is_ok())
    };
    let text = masked(text);
    let words: Vec<&str> = text.split(' ').collect();
    if !words.iter().any(|word| is_clock(word)) {
        return text;
    }
    let words = words
        .into_iter()
        .filter(|word| word.parse::<u64>().is_err());
    let words = words.map(|word| if is_clock(word) { "CLOCK" } else { word });
    words.collect::<Vec<_>>().join(" ").trim_start().to_owned()
}

/// The ids in a text.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != '-')
        .filter(|word| word.len() == 36)
}

#[tokio::test]
async fn the_first_ten_minutes_are_as_they_are_written() {
    let mut reader = Reader::new();
    let steps = steps();
    assert!(steps.len() >= 8, "the chapter has moved");
    for step in steps {
        reader.follow(step).await;
    }
    reader.look_at_others().await;
}
