//! `relay permission run`: a program that asks before it runs a command, and runs it at most once.
//!
//! Standard output is the command's own, so everything that this says goes to standard error. The command gets an
//! environment that was put together by name: of this workspace it has the token of its own agent and nothing else.

use std::io::Write as _;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use relay_harness::child::{ChildEnvironment, TOKEN_VARIABLE, Withheld};
use relay_protocol::ids::PermissionId;
use relay_protocol::permission::{
    AskPermission, ExecutionState, PermissionExecution, PermissionRecord, PermissionState,
    ToolParams,
};
use relay_sdk::{AgentClient, Decision, ErrorCode, Question};
use serde::Serialize;
use serde_json::Value;

use super::waits;
use crate::contact::Contact;
use crate::data::word_in_shell;
use crate::failure::{Exit, Failure, Outcome};
use crate::hints;
use crate::moment::parse_duration;
use crate::output::{Output, one_line, safe};
use crate::platform::{Passing, StopSignal};
use crate::words;

pub(super) const EXAMPLES: &str = "\
Examples:
  relay permission run --as ada -- git push origin main
  relay permission run --as ada --title 'publish the site' -- 'make site && rsync -a out/ web:'
  relay permission run --as ada --call-id deploy-42 -- ./deploy      once, however often this is started

One word is shell text, several are the words of one command. It waits as long as it takes; Ctrl-C withdraws the question. Once \
it is allowed the command runs by `sh -c`, and its exit code is this one's. With --call-id a second start \
asks nothing again: it waits on, runs what was allowed meanwhile, or says what became of it. Exit codes of its own: 123 it was \
started before and nobody can say how it ended, 124 nobody answered in time, 125 withdrawn, 126 denied.";

/// What the server is told of a command whose process is gone.
const WITHOUT_A_WORD: &str = "the process that had started it ended without saying how";

/// Before the number of a command's exit code, as the server is told of it.
const EXIT_CODE: &str = "exit code ";

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The command
    #[arg(required = true, last = true, value_name = "COMMAND")]
    words: Vec<String>,
    /// The tool that rules know it by
    #[arg(long, default_value = "bash")]
    tool: String,
    /// A line for those who decide
    #[arg(long)]
    title: Option<String>,
    /// Makes this call the same one however often it is started
    #[arg(long, value_name = "ID")]
    call_id: Option<String>,
    /// How long to wait for an answer [default: the server's permissions.expires_after_s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expires: Option<Duration>,
    /// A variable that the command gets beside the usual ones; any number of them
    #[arg(long = "env", value_name = "NAME")]
    variables: Vec<String>,
}

pub(super) async fn run(arguments: &RunArguments, contact: &Contact, output: &Output) -> Outcome {
    let stop = StopSignal::listen()?;
    let agent = asking(contact).await?;
    let question = agent.ask_permission(arguments.question()?).await?;
    let asked = Asked {
        question,
        output,
        is_named: arguments.call_id.is_some(),
    };
    let before = asked.question.record();
    if let Some(execution) = &before.execution {
        return asked.was_run(execution).await;
    }
    if waits(&before) {
        asked.say(&format!(
            "waiting until somebody allows {}\ndecide: {}",
            words::shell_text(output.error_style(), &arguments.command()),
            hints::command(&format!("permission approve {}", asked.question.id()))
        ));
        asked.tell(&before);
    }
    let decision = tokio::select! {
        decision = asked.question.wait() => decision?,
        () = stop.come() => return asked.withdraw().await,
    };
    let environment = arguments.environment(contact, output);
    asked.settle(decision, &environment).await
}

/// The agent that asks: whoever else has a credential decides, and does not ask.
async fn asking(contact: &Contact) -> Outcome<AgentClient> {
    let me = contact.relay.me().await?;
    if me.agent.is_none() {
        let message =
            "expected an agent that asks, found the credential of a workspace, which decides";
        return Err(Failure::new(Exit::Refused, "forbidden", message)
            .next("say with --as NAME which agent asks"));
    }
    Ok(contact.patient()?.reconnect(contact.token()).await?)
}

impl RunArguments {
    /// The shell text: as it was given, or made of words.
    fn command(&self) -> String {
        match &self.words[..] {
            [text] => text.clone(),
            words => {
                let words = words.iter().map(|word| word_in_shell(word));
                words.collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn question(&self) -> Outcome<AskPermission> {
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::new(Exit::Failed, "failed", format!("where is this? {error}"))
        })?;
        let expires = self
            .expires
            .map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        Ok(AskPermission {
            tool: self.tool.clone(),
            params: ToolParams::from_iter([("command".to_owned(), self.command().into())]),
            tool_call_id: self.call_id.clone(),
            title: self.title.clone(),
            expires_in_ms: expires,
            cwd: Some(cwd.to_string_lossy().into_owned()),
            ..AskPermission::default()
        })
    }

    fn environment(&self, contact: &Contact, output: &Output) -> ChildEnvironment {
        let own = [
            ("RELAY_URL", contact.url()),
            (TOKEN_VARIABLE, contact.token()),
        ];
        let environment = ChildEnvironment::for_agent(std::env::vars_os(), &self.variables, own);
        for withheld in environment.withheld() {
            let (name, why) = match withheld {
                Withheld::Credential(name) => (name, "it holds a credential"),
                Withheld::Own(name) => (name, "it is Relay's own"),
                Withheld::Malformed(name) => (name, "it can't be a variable"),
            };
            if self.variables.contains(name) {
                output.note(&format!("the command does not get {}: {why}", safe(name)));
            }
        }
        environment
    }
}

/// How a request stands, for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Standing {
    permission_id: PermissionId,
    state: PermissionState,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<ExecutionState>,
}

/// A question, and somebody who wants to know what becomes of it.
struct Asked<'a> {
    question: Question,
    output: &'a Output,
    /// Whether another process may ask the same.
    is_named: bool,
}

impl Asked<'_> {
    /// Says something to people.
    fn say(&self, text: &str) {
        self.output.note(text);
    }

    /// Says to programs how the request stands.
    fn tell(&self, record: &PermissionRecord) {
        if self.output.is_json() {
            let standing = Standing {
                permission_id: record.permission_id,
                state: record.state,
                execution: record.execution.as_ref().map(|execution| execution.state),
            };
            let line = serde_json::to_string(&standing).unwrap_or_default();
            // Where nobody reads it, nobody misses it.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    fn decided_by(&self) -> String {
        let outcome = self.question.record().outcome;
        outcome.map_or("somebody".to_owned(), |it| words::decided_by(&it))
    }

    /// Ctrl-C: the question is not needed any more.
    async fn withdraw(&self) -> Outcome {
        let reason = Some("whoever asked was stopped");
        match self.question.cancel(reason).await {
            Ok(_) => {}
            // Somebody was faster; what they allowed is not going to run.
            Err(error) if error.code() == Some(ErrorCode::PermissionResolved) => {
                let dropped = ExecutionState::Cancelled;
                self.question.finish(dropped, reason).await?;
            }
            Err(error) => return Err(error.into()),
        }
        let message = format!("stopped; the request {} is withdrawn", self.question.id());
        Err(Failure::interrupted(message))
    }

    async fn settle(&self, decision: Decision, environment: &ChildEnvironment) -> Outcome {
        let id = self.question.id();
        match decision {
            Decision::Approved { params, edited, .. } => {
                let edited = if edited { ", with another command" } else { "" };
                self.say(&format!("allowed by {}{edited}", self.decided_by()));
                self.execute(&params, environment).await
            }
            Decision::Denied { reason, stop, .. } => {
                let reason = reason.map(|reason| format!(": {}", one_line(&reason)));
                let message = format!(
                    "denied by {}{}",
                    self.decided_by(),
                    reason.unwrap_or_default()
                );
                let denied = Failure::new(Exit::Denied, "denied", message);
                Err(match stop {
                    true => denied.next("stop here: that was said, too"),
                    false => denied,
                })
            }
            Decision::Expired => Err(Failure::new(
                Exit::Expired,
                "expired",
                format!("nobody answered {id} in time; nothing was run"),
            )),
            Decision::Cancelled { reason } => {
                let reason = reason.map(|reason| format!(": {}", one_line(&reason)));
                let message = format!(
                    "the request {id} was withdrawn{}",
                    reason.unwrap_or_default()
                );
                Err(Failure::new(Exit::Withdrawn, "withdrawn", message))
            }
        }
    }

    /// Runs the command, once it is written down that it will.
    async fn execute(&self, params: &ToolParams, environment: &ChildEnvironment) -> Outcome {
        let Some(command) = params.get("command").and_then(Value::as_str) else {
            let message = "what was allowed has no command; nothing was run";
            self.question
                .finish(ExecutionState::Cancelled, Some(message))
                .await?;
            return Err(Failure::new(Exit::Failed, "failed", message));
        };
        match self.question.start(params).await {
            Ok(started) => self.tell(&started),
            Err(error) if error.code() == Some(ErrorCode::AlreadyStarted) => {
                let message = "another process has started it meanwhile; it is not run again";
                return Err(Failure::new(
                    Exit::OutcomeUnknown,
                    "already_started",
                    message,
                ));
            }
            Err(error) => return Err(error.into()),
        }
        let (state, error, status) = match spawned(command, environment).await {
            Ok(status) => ended(status),
            Err(error) => {
                let error = format!("sh could not be started: {error}");
                self.say(&error);
                (ExecutionState::Failed, Some(error), 127)
            }
        };
        match self.question.finish(state, error.as_deref()).await {
            Ok(record) => self.tell(&record),
            Err(error) => self.say(&format!(
                "it has run, and the server could not be told how it ended: {error}"
            )),
        }
        match status {
            0 => Ok(()),
            status => Err(Failure::status(status)),
        }
    }

    /// Somebody has started this call before: it is not run again.
    async fn was_run(&self, execution: &PermissionExecution) -> Outcome {
        let id = self.question.id();
        let error = execution.error.as_deref().unwrap_or_default();
        match execution.state {
            ExecutionState::Completed => {
                self.say(&format!("{id} has completed before; it is not run again"));
                self.tell(&self.question.record());
                Ok(())
            }
            ExecutionState::Failed => {
                let message = format!(
                    "{id} has failed before: {}; it is not run again",
                    one_line(error)
                );
                self.say(&message);
                self.tell(&self.question.record());
                let code = error
                    .strip_prefix(EXIT_CODE)
                    .and_then(|code| code.parse().ok());
                Err(Failure::status(code.unwrap_or(Exit::Failed as u8)))
            }
            ExecutionState::Cancelled => {
                let message = format!(
                    "{id} was given up before it was started: {}",
                    one_line(error)
                );
                Err(Failure::new(Exit::Withdrawn, "withdrawn", message))
            }
            ExecutionState::Started | ExecutionState::Unknown => {
                let unknown = ExecutionState::Unknown;
                self.question.finish(unknown, Some(WITHOUT_A_WORD)).await?;
                let message = format!(
                    "{id} was started before, and nobody can say how it ended; it is not run again"
                );
                let next = match self.is_named {
                    true => "look at what it has done; another --call-id asks anew",
                    false => "look at what it has done",
                };
                Err(Failure::new(Exit::OutcomeUnknown, "unknown", message).next(next))
            }
        }
    }
}

/// Runs shell text with this environment and the streams of this process. What is sent to this process goes to it.
async fn spawned(command: &str, environment: &ChildEnvironment) -> std::io::Result<ExitStatus> {
    // From here on: a signal that ended this process would leave the command without anybody who tells its end.
    let mut passing = Passing::listen()?;
    let mut child = tokio::process::Command::new("sh")
        .args(["-c", command])
        .env_clear()
        .envs(environment.iter())
        .spawn()?;
    let id = child.id();
    loop {
        tokio::select! {
            status = child.wait() => return status,
            () = passing.pass_on(id) => {}
        }
    }
}

/// How a command ended: for the server, and as the status that shells make of it.
fn ended(status: ExitStatus) -> (ExecutionState, Option<String>, u8) {
    let code = match status.code() {
        Some(0) => return (ExecutionState::Completed, None, 0),
        Some(code) => code,
        None => crate::platform::status_of_signal(status),
    };
    let error = format!("{EXIT_CODE}{code}");
    (
        ExecutionState::Failed,
        Some(error),
        u8::try_from(code).unwrap_or(1),
    )
}
