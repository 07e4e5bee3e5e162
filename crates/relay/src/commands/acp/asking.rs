//! `relay acp ask`, `stream` and `json`: one question to an agent, which is started for it and stopped.
//!
//! Standard output is the answer, so everything else goes to standard error. Ctrl-C cancels the turn, and what was said so far
//! is printed; a second one ends the agent.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use relay_harness::acp::direct::{self, Answer, Budget, Conversation, JsonForm, Recorder, Setup};
use relay_harness::acp::event::{SessionEvent, StopReason};
use relay_harness::acp::host::HostOptions;
use serde::Serialize;
use serde_json::Value;

use super::deciding;
use super::replaying;
use super::telling::{Chatter, Quiet, Teller};
use crate::coding_agents::{StartAgent, directory, tell_warnings};
use crate::contact::GlobalArguments;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, one_line, safe};
use crate::platform::{StopSignal, Wish};

pub(super) const ASK_EXAMPLES: &str = "\
Examples:
  relay acp ask claude 'What is in this directory?'
  git diff | relay acp ask codex - --mode read-only
  relay acp ask claude 'Mend the test' --allow each --max-cost 0.50
  relay acp ask claude 'And why?' --resume 6f1c…
  relay acp ask claude hello --record hello.jsonl     and later --replay hello.jsonl, without the agent

What the agent wants to do is asked in the terminal; without one it may do nothing that it has to ask for, unless --allow each. The \
session goes on with --resume; `--json` prints its id.";

pub(super) const STREAM_EXAMPLES: &str = "\
Examples:
  relay acp stream claude 'Explain src/main.rs'
  relay acp stream codex 'Run the tests' --allow each --json      one event a line, the answer last";

pub(super) const JSON_EXAMPLES: &str = "\
Examples:
  relay acp json claude --schema person.json 'Who wrote the first compiler?'
  relay acp json codex --schema list.json - < question.txt

The answer is checked, and asked for again with what is wrong with it, --retries times at most.";

/// Who decides when the agent asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Allow {
    // No comments for users here: with them clap would show the long form of every help.
    Each,
    None,
}

#[derive(Args)]
pub(crate) struct AskArguments {
    /// The agent
    agent: String,
    /// What to ask; - reads it from standard input
    prompt: String,
    #[command(flatten)]
    how: HowArguments,
    /// Play an answer that --record has written, instead of starting the agent
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    replay: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct JsonArguments {
    /// The agent
    agent: String,
    /// What to ask; - reads it from standard input
    prompt: String,
    /// A file with a JSON Schema that the answer has to be valid against
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// How often to ask again for an answer that is not valid
    #[arg(long, value_name = "N", default_value_t = 2)]
    retries: u32,
    #[command(flatten)]
    how: HowArguments,
}

/// How an agent is to be used.
#[derive(Args)]
pub(super) struct HowArguments {
    /// A directory that it may read beside its own; any number of them
    #[arg(long = "add-dir", value_name = "DIR")]
    add_dirs: Vec<PathBuf>,
    /// The agent's mode [default: the one in which it asks before it acts, where that is known]
    #[arg(long)]
    mode: Option<String>,
    /// The model, as the agent calls it
    #[arg(long)]
    model: Option<String>,
    /// Cancel the turn when it has cost so many US dollars
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_cost: Option<f64>,
    /// Cancel the turn when it took so many tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// Whether it may do what it asks for: each time, or never [default: you are asked, in a terminal]
    #[arg(long, value_name = "WHAT")]
    allow: Option<Allow>,
    /// Go on with a session that the agent has stored
    #[arg(long, value_name = "SESSION", visible_alias = "load")]
    resume: Option<String>,
    /// Write down what happens, without secrets
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    start: StartAgent,
}

fn dollars(text: &str) -> Result<f64, String> {
    let read = text.trim_start_matches('$').parse::<f64>().ok();
    let read = read.filter(|cost| cost.is_finite() && *cost >= 0.0);
    read.ok_or_else(|| "expected US dollars, such as 0.50".to_owned())
}

pub(super) async fn ask(
    arguments: &AskArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let prompt = prompt(&arguments.prompt)?;
    let answer = match &arguments.replay {
        Some(file) => replaying::answer(file, &prompt)?,
        None => {
            let question = Question::new(&arguments.how, &arguments.agent, globals, output)?;
            question.put(&prompt, &mut Quiet, output).await?
        }
    };
    finish(&answer, output, |_| {
        output.show(&answer, |_| safe(&answer.text))
    })
}

pub(super) async fn stream(
    arguments: &AskArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let prompt = prompt(&arguments.prompt)?;
    let mut chatter = Chatter::new(output);
    let answer = match &arguments.replay {
        Some(file) => replaying::play(file, &prompt, &mut chatter)?,
        None => {
            let question = Question::new(&arguments.how, &arguments.agent, globals, output)?;
            question.put(&prompt, &mut chatter, output).await?
        }
    };
    chatter.end()?;
    finish(&answer, output, |answer| {
        #[derive(Serialize)]
        struct Last<'a> {
            answer: &'a Answer,
        }
        match output.is_json() {
            true => output.json_line(&Last { answer }),
            false => Ok(()),
        }
    })
}

pub(super) async fn json(
    arguments: &JsonArguments,
    globals: &GlobalArguments,
    output: &Output,
) -> Outcome {
    let prompt = prompt(&arguments.prompt)?;
    let mut form = form(&arguments.schema)?;
    form.retries = arguments.retries;
    let question = Question::new(&arguments.how, &arguments.agent, globals, output)?;
    let answer = question.put_json(&prompt, &form).await?;
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Shown<'a> {
        value: &'a Value,
        attempts: u32,
        answer: &'a Answer,
    }
    let shown = Shown {
        value: &answer.value,
        attempts: answer.attempts,
        answer: &answer.answer,
    };
    output.show(&shown, |_| {
        serde_json::to_string_pretty(&answer.value).unwrap_or_default()
    })
}

/// Prints an answer, and says why it is not whole.
fn finish(answer: &Answer, output: &Output, print: impl FnOnce(&Answer) -> Outcome) -> Outcome {
    print(answer)?;
    if answer.dropped > 0 {
        output.note(&format!(
            "{} updates came too fast and are missing",
            answer.dropped
        ));
    }
    match &answer.stop_reason {
        StopReason::EndTurn => Ok(()),
        StopReason::Cancelled => Err(Failure::interrupted("the turn was cancelled")),
        reason => {
            let message = format!("the agent stopped: {}", one_line(reason.as_str()));
            Err(Failure::new(Exit::Failed, "stopped", message))
        }
    }
}

fn prompt(argument: &str) -> Outcome<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| {
        Failure::usage(format!(
            "standard input is not text that can be read: {error}"
        ))
    })?;
    Ok(text)
}

fn form(file: &std::path::Path) -> Outcome<JsonForm> {
    let shown = file.display();
    let text = std::fs::read(file).map_err(|error| {
        let message = format!("the schema {shown} can't be read: {error}");
        Failure::new(Exit::NotFound, "no_schema", message)
    })?;
    let schema = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("the schema {shown} is not JSON: {error}"))
            .next("it is a JSON Schema, such as {\"type\": \"object\", \"required\": [\"name\"]}")
    })?;
    Ok(JsonForm::new(schema)?)
}

/// A question that is about to be put.
struct Question {
    setup: Setup,
    record: Option<PathBuf>,
}

impl Question {
    fn new(
        how: &HowArguments,
        agent: &str,
        globals: &GlobalArguments,
        output: &Output,
    ) -> Outcome<Self> {
        let agent = how.start.config.find(agent, globals)?;
        let environment = how.start.environment(&agent, output);
        let cwd = how.start.directory()?;
        let more = how.add_dirs.iter().map(|path| directory(path));
        let setup = Setup {
            additional_directories: more.collect::<Outcome<_>>()?,
            model: how.model.clone(),
            mode: how.mode.clone(),
            load: how.resume.clone(),
            budget: Budget {
                cost_usd: how.max_cost,
                tokens: how.max_tokens,
            },
            host: HostOptions {
                decides: deciding::by(how.allow, output),
                on_warning: Some(tell_warnings(output)),
                ..HostOptions::default()
            },
            ..Setup::new(agent, environment, cwd)
        };
        Ok(Self {
            setup,
            record: how.record.clone(),
        })
    }

    /// Asks, and tells what happens.
    async fn put(self, prompt: &str, teller: &mut impl Teller, output: &Output) -> Outcome<Answer> {
        let mut stop = StopSignal::listen()?;
        let mut conversation = self.begin(&mut stop).await?;
        let answer = turn(&mut conversation, prompt, teller, &mut stop, output).await;
        conversation.close().await;
        answer
    }

    async fn put_json(self, prompt: &str, form: &JsonForm) -> Outcome<direct::JsonAnswer> {
        let mut stop = StopSignal::listen()?;
        let mut conversation = self.begin(&mut stop).await?;
        let answer = tokio::select! {
            answer = conversation.ask_json(prompt, form) => answer.map_err(Failure::from),
            _ = stop.next() => Err(Failure::interrupted("stopped; nothing was answered")),
        };
        conversation.close().await;
        answer
    }

    async fn begin(self, stop: &mut StopSignal) -> Outcome<Conversation> {
        // Before anything is started: whoever wants a record wants no answer without one.
        let record = self
            .record
            .as_deref()
            .map(std::fs::File::create)
            .transpose();
        let record = record.map_err(|error| {
            let file = self.record.unwrap_or_default();
            Failure::usage(format!("{} can't be written: {error}", file.display()))
        })?;
        let mut conversation = tokio::select! {
            conversation = direct::session(self.setup) => conversation?,
            _ = stop.next() => return Err(Failure::interrupted("stopped before it began")),
        };
        if let Some(file) = record {
            conversation.record(Recorder::new(file))?;
        }
        Ok(conversation)
    }
}

/// One turn. The first Ctrl-C cancels it, and then it is waited for; the second does not wait.
async fn turn(
    conversation: &mut Conversation,
    prompt: &str,
    teller: &mut impl Teller,
    stop: &mut StopSignal,
    output: &Output,
) -> Outcome<Answer> {
    let mut stream = conversation.stream([prompt]).await?;
    let session = stream.session().clone();
    let mut is_cancelled = false;
    let mut failed: Option<Failure> = None;
    loop {
        tokio::select! {
            event = stream.next() => match event {
                None => break,
                Some(Ok(event)) => tell(teller, &event, &mut failed),
                Some(Err(error)) => drop(failed.get_or_insert(error.into())),
            },
            wish = stop.next() => {
                if is_cancelled || wish == Wish::End {
                    return Err(Failure::interrupted("stopped; the agent was ended"));
                }
                session.cancel();
                is_cancelled = true;
                output.note("cancelling the turn; Ctrl-C again ends the agent");
            }
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(stream.finish().await?),
    }
}

/// Where nobody reads what is told, the turn still has its end.
fn tell(teller: &mut impl Teller, event: &SessionEvent, failed: &mut Option<Failure>) {
    if let Err(failure) = teller.tell(event) {
        failed.get_or_insert(failure);
    }
}
