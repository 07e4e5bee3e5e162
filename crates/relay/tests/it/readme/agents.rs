//! The README's two agents: both are real, their models are scripts, and what they and the commands say has to be what is
//! written there.

use std::ffi::OsString;

use relay_script::{Script, Server};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{AGENTS, README, Reader, Running, Step, steps_in};
use crate::agents_talk::agents::{Agent, Place, working};
use crate::agents_talk::pair::{calls_send, with_folder};
use crate::support::{finish, soon};

const QUESTION: &str = "Which port does the test server use?";
const ANSWER: &str = "It listens on port 4100.";

/// What codex says about a model that it does not know: a script.
const NOTICE: &str = "Warning: Model metadata for `scripted` not found.";

/// The stage: the models, one home for both agents, and the environment that they need.
struct Stage {
    reader: Reader,
    _models: [Server; 2],
    place: Place,
    variables: Vec<(&'static str, OsString)>,
}

impl Stage {
    async fn new(claude: &Agent, codex: &Agent) -> Self {
        let asks = json!([
            { "when": { "tools": false }, "reply": "A title" },
            { "when": { "user": "Ask @codex" }, "reply": ["I ask codex.", calls_send("@codex", QUESTION, None)] },
            { "when": { "user": ANSWER }, "reply": "The test server listens on port 4100." },
            { "when": { "result": "" }, "reply": "I have asked codex, and go on when it answers." },
        ]);
        let answers = json!([
            { "when": { "tools": false }, "reply": "A title" },
            { "when": { "user": QUESTION }, "reply": ["I know that.", calls_send("@claude", ANSWER, None)] },
            { "when": { "result": "" }, "reply": "Answered." },
        ]);
        let models = [model(asks).await, model(answers).await];
        let place = Place::new();
        let mut variables: Vec<(&'static str, OsString)> = Vec::new();
        for (agent, model) in [claude, codex].into_iter().zip(&models) {
            let launch = agent.launch(&place, &model.url());
            let folder = launch.program.parent().unwrap();
            let more = launch.environment.into_iter();
            variables.extend(more.map(|(name, value)| match name {
                "PATH" => (name, with_folder(folder, &value)),
                name => (name, value),
            }));
        }
        let path = OsString::from(crate::support::search_path());
        let folder = std::env::split_paths(&path).next().unwrap();
        for (name, value) in &mut variables {
            if *name == "PATH" {
                *value = with_folder(&folder, value);
            }
        }
        Self {
            reader: Reader::new(),
            _models: models,
            place,
            variables,
        }
    }

    /// A command of the README, where both agents are installed.
    fn shell(&self, command: &str) -> Command {
        let mut shell = self.reader.shell(command);
        shell
            .current_dir(self.place.work())
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .env("RELAY_DATA", self.reader.setup.data());
        shell
    }

    /// Starts an agent. What the catalogue does not name of its environment, somebody would have in a file.
    fn start(&self, step: &Step) -> Running {
        let names = self
            .variables
            .iter()
            .map(|(name, _)| format!(" --env {name}"));
        let command = format!("{}{}", step.command, names.collect::<String>());
        Running::start(&mut self.shell(&command))
    }

    /// Runs a step to its end, and compares.
    async fn follow(&mut self, step: &Step) {
        let done = finish(&mut self.shell(&step.command)).await;
        assert_eq!(done.code, 0, "{}: {done:?}", step.command);
        self.reader
            .compare(step, &format!("{}{}", done.out, done.err));
    }
}

async fn model(turns: Value) -> Server {
    let script = json!({ "turns": turns, "otherwise": "Fine." });
    let script = Script::from_value(script).unwrap();
    Server::start(script).await.unwrap()
}

/// Reads what an agent's terminal shows until a line begins like this.
async fn until(running: &mut Running, said: &mut Vec<String>, begins: &str) {
    loop {
        let line = running.line(begins).await.expect("it goes on");
        if line.is_empty() || line.starts_with(NOTICE) {
            continue;
        }
        said.push(line);
        if said.last().unwrap().starts_with(begins) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_talk_as_it_is_written() {
    let (Some(claude), Some(codex)) = (working("claude"), working("codex")) else {
        return;
    };
    let (_, story) = README.split_once(AGENTS.0).unwrap();
    let (story, _) = story.split_once(AGENTS.1).unwrap();
    let mut steps = steps_in(story).into_iter();
    let mut next = |begins: &str| {
        let step = steps.next().unwrap();
        assert!(step.command.starts_with(begins), "{}", step.command);
        step
    };
    let mut stage = Stage::new(claude, codex).await;
    let mut setup = std::mem::replace(&mut stage.reader.setup, crate::support::Setup::new());
    let server = setup.start().await;
    stage.reader.setup = setup;
    let work = stage.place.work().canonicalize().unwrap();
    let here = &mut stage.reader.here;
    here.insert("/srv/site".to_owned(), work.display().to_string());

    stage.follow(&next("relay acp detect")).await;
    let codex_runs = next("relay run codex");
    let mut codex = stage.start(&codex_runs);
    let mut codex_said = Vec::new();
    until(&mut codex, &mut codex_said, "is idle").await;
    let claude_runs = next("relay run claude");
    let mut claude = stage.start(&claude_runs);
    let mut claude_said = Vec::new();
    until(&mut claude, &mut claude_said, "decide: ").await;
    let first = next("relay permission approve");
    let approved = finish(&mut stage.shell(&first.command)).await;
    until(&mut claude, &mut claude_said, "is idle").await;
    until(&mut codex, &mut codex_said, "decide: ").await;
    let second = next("relay permission approve");
    let approved_too = finish(&mut stage.shell(&second.command)).await;
    until(&mut codex, &mut codex_said, "is idle").await;
    until(&mut claude, &mut claude_said, "The test server").await;
    until(&mut claude, &mut claude_said, "is idle").await;
    // Both have delivered by now what is listed.
    let both = "relay listen delivery.delivered --since 0 --count 2";
    soon("both deliveries", finish(&mut stage.shell(both))).await;

    stage.reader.compare(&codex_runs, &codex_said.join("\n"));
    stage.reader.compare(&claude_runs, &claude_said.join("\n"));
    stage.reader.compare(&first, &approved.out);
    stage.reader.compare(&second, &approved_too.out);
    stage.follow(&next("relay delivery list")).await;
    stage.follow(&next("relay delivery show")).await;
    stage.follow(&next("relay policy set")).await;
    assert!(steps.next().is_none(), "the story goes on");
    drop((claude, codex));
    server.kill().await;
}
