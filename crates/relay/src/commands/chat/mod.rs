//! `relay chat`: a conversation with a model of the server, in the terminal or in a pipe.
//!
//! It is a client of `/chat` like any other (docs/chat.md): the server remembers nothing, so the conversation is kept here
//! (`history.rs`) and sent again with each prompt. One prompt is a turn (`turn.rs`): its events are told (`telling.rs`), and what
//! the model wants to do is asked by key (`asking.rs`). The calls are the client library's.

mod asking;
mod history;
mod telling;
mod turn;

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use clap::Args;
use relay_protocol::permission::{PermissionRule, Permissions};
use relay_sdk::{Chats, NewChat};

use self::asking::Asker;
use self::history::History;
use self::turn::{Ending, Turn, no_default_model};
use crate::contact::Contact;
use crate::failure::{Exit, Failure, Outcome};
use crate::moment::parse_duration;
use crate::output::{Output, Table, one_line};
use crate::platform::{Keyboard, StopSignal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  relay chat                                             prompts are read from the terminal
  relay chat 'What is in this folder?' --model scripted/demo
  relay chat 'Run the tests' --allow 'bash:cargo test **' --allow read
  git diff | relay chat - --json                         one event a line
  relay chat 'Which tests fail?' --agent codex           a coding agent that is installed where the server runs
  relay chat --models

What the model wants to do is asked by key; the tools run where the server does. Without a terminal there is one prompt, and what \
--allow does not cover is denied. Ctrl-C cancels what runs, again it ends; Ctrl-D ends.

Exit codes: 0 the model has said all, 1 it could not, 126 a refusal ended the turn, 130 cancelled.";

#[derive(Args)]
pub(crate) struct ChatArguments {
    /// What to say first; - reads it from standard input [default: the terminal, or standard input]
    prompt: Option<String>,
    /// The model, such as openai/gpt-5 [default: the server's]
    #[arg(long)]
    model: Option<String>,
    /// A coding agent instead of a model, such as codex; it is started for each prompt
    #[arg(long, conflicts_with = "model")]
    agent: Option<String>,
    /// A rule for calls that need no question, such as 'bash:git status **'; any number of them
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Go on for so long on the server when the connection breaks, and come back
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    hold: Option<Duration>,
    /// List the models, and say nothing
    #[arg(long, conflicts_with_all = ["prompt", "model", "agent", "allow", "hold"])]
    models: bool,
}

pub(crate) async fn run(arguments: &ChatArguments, contact: &Contact, output: &Output) -> Outcome {
    let chats = contact.relay.chats();
    if arguments.models {
        return models(&chats, output).await;
    }
    let stop = StopSignal::listen()?;
    let has_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let keyboard = match has_terminal && !output.is_json() {
        true => Keyboard::open(),
        false => None,
    };
    let mut chat = Chat {
        arguments,
        chats,
        output,
        stop,
        history: History::default(),
        allowed: arguments.allow.clone(),
    };
    match keyboard {
        Some(keyboard) => chat.talk(Asker::new(keyboard, *output.style())).await,
        None => chat.ask_once().await,
    }
}

async fn models(chats: &Chats, output: &Output) -> Outcome {
    let found = chats.models().await?;
    for warning in &found.warnings {
        output.note(&format!("warning: {}", one_line(warning)));
    }
    output.show(&found, |style| {
        let mut table = Table::new(&["model", ""]);
        for name in &found.models {
            let is_default = found.default_model.as_ref() == Some(name);
            let note = if is_default { "default" } else { "" };
            table.row([one_line(name), note.to_owned()]);
        }
        table.text(style, "this server lists no models")
    })
}

/// A conversation.
struct Chat<'a> {
    arguments: &'a ChatArguments,
    chats: Chats,
    output: &'a Output,
    stop: StopSignal,
    history: History,
    /// The rules of `--allow`, and those that were allowed for always since.
    allowed: Vec<String>,
}

impl Chat<'_> {
    /// Without a terminal: one prompt, and nobody who could be asked.
    async fn ask_once(&mut self) -> Outcome {
        let prompt = match self.arguments.prompt.as_deref() {
            None | Some("-") => from_stdin()?,
            Some(prompt) => prompt.to_owned(),
        };
        if prompt.trim().is_empty() {
            return Err(Failure::usage(
                "there is nothing to say: the prompt is empty",
            ));
        }
        match self.turn(&prompt, None).await? {
            Ending::Final => Ok(()),
            Ending::Cancelled => Err(Failure::interrupted("the chat was cancelled")),
            Ending::Stopped => {
                let message =
                    "the turn was ended by a refusal, or by a question that nobody answered";
                Err(Failure::new(Exit::Denied, "stopped", message))
            }
            Ending::Other(why) => Err(Failure::new(Exit::Failed, "failed", why)),
        }
    }

    /// In a terminal: prompt after prompt, until there is none.
    async fn talk(&mut self, mut asker: Asker) -> Outcome {
        let partner = self.partner().await?;
        self.output
            .hint(&format!("{partner}; Ctrl-C cancels what runs, Ctrl-D ends"));
        let mut prompt = match self.arguments.prompt.as_deref() {
            Some("-") => {
                return Err(Failure::usage(
                    "- reads from a pipe, and this is a terminal",
                ));
            }
            prompt => prompt.map(str::to_owned),
        };
        loop {
            let said = match prompt.take() {
                Some(said) => said,
                None => match self.next_prompt(&mut asker).await? {
                    Some(said) => said,
                    None => return Ok(()),
                },
            };
            if said.trim().is_empty() {
                continue;
            }
            match self.turn(&said, Some(&mut asker)).await? {
                Ending::Final => {}
                Ending::Cancelled => self.output.note("cancelled"),
                Ending::Stopped => self.output.note("stopped"),
                Ending::Other(why) => self.output.note(&format!("relay: {why}")),
            }
        }
    }

    /// Whom one talks to, so that nobody types a prompt for nobody.
    async fn partner(&self) -> Outcome<String> {
        let ChatArguments { agent, model, .. } = self.arguments;
        if let Some(named) = agent.as_ref().or(model.as_ref()) {
            return Ok(one_line(named));
        }
        let found = self.chats.models().await?;
        let default = found.default_model.as_deref();
        default.map(one_line).ok_or_else(no_default_model)
    }

    /// What is typed; nothing at the end.
    async fn next_prompt(&mut self, asker: &mut Asker) -> Outcome<Option<String>> {
        let mark = self.output.style().strong(">");
        self.output.write(&format!("{mark} "))?;
        tokio::select! {
            line = asker.line() => {
                if line.is_none() {
                    self.output.write("\n")?;
                }
                Ok(line)
            }
            _ = self.stop.next() => {
                // The shell's prompt is to stand on a line of its own.
                self.output.write("\n")?;
                Err(Failure::status(Exit::Interrupted as u8))
            }
        }
    }

    async fn turn(&mut self, prompt: &str, asker: Option<&mut Asker>) -> Outcome<Ending> {
        self.history.say(prompt);
        let new = self.new_chat();
        let turn = Turn::begin(&self.chats, &new, self.output);
        let mut turn = tokio::select! {
            turn = turn => turn?,
            _ = self.stop.next() => return Ok(Ending::Cancelled),
        };
        let ending = turn.run(asker, &mut self.history, &mut self.stop).await;
        self.allowed.extend(turn.granted());
        ending
    }

    /// The chat that a turn is.
    fn new_chat(&self) -> NewChat {
        let allowed = self.allowed.iter().cloned().map(PermissionRule::Short);
        NewChat {
            model: self.arguments.model.clone(),
            agent: self.arguments.agent.clone(),
            messages: self.history.messages().to_vec(),
            permissions: Some(Permissions {
                allowlist: Some(allowed.collect()),
                ..Permissions::default()
            }),
            hold: self.arguments.hold,
        }
    }
}

fn from_stdin() -> Outcome<String> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| {
        Failure::usage(format!(
            "standard input is not text that can be read: {error}"
        ))
    })?;
    Ok(text)
}
